#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "common/record/text_decoder.h"
#include "tests/unit/record/sample_batch.h"

namespace weir {

// What a whole text gave: rows as texts, and bad rows as "line: message".
struct ReadText {
  std::vector<std::string> rows;
  std::vector<std::string> bad_rows;
  std::vector<size_t> positions;  // where a reader stood after each Decode
  Status error;
};

// Reads `text` as a source would: `chunk` bytes more at a time, at most `rows_max` rows a call, in
// buffers that end right behind the padding.
inline ReadText ReadAll(TextDecoder* decoder, const SchemaPtr& schema, const std::string& text,
                        size_t chunk, int64_t rows_max = 1000) {
  ReadText result;
  BatchBuilder builder(schema);
  size_t at = 0;
  size_t have = 0;
  int64_t lines = 0;
  bool started = false;
  while (true) {
    const bool last = have == text.size();
    std::vector<char> buffer(have - at + kTextPadding, '"');
    if (have > at) std::memcpy(buffer.data(), text.data() + at, have - at);
    const std::string_view bytes(buffer.data(), have - at);
    if (!started) {
      StatusOr<std::optional<TextProgress>> start = decoder->Start(bytes, last);
      if (!start.ok()) {
        result.error = start.status();
        return result;
      }
      if (start->has_value()) {
        started = true;
        at += (*start)->bytes;
        lines += (*start)->lines;
        continue;
      }
    } else {
      DecodeLimits limits;
      limits.rows_max = rows_max;
      const DecodeResult decoded = decoder->Decode(bytes, last, limits, &builder);
      at += decoded.done.bytes;
      result.positions.push_back(at);
      if (!decoded.bad_row.ok()) {
        result.bad_rows.push_back(std::to_string(lines + decoded.before_bad_row.lines + 1) + ": " +
                                  decoded.bad_row.message());
      }
      lines += decoded.done.lines;
      if (!decoded.error.ok()) {
        result.error = decoded.error;
        break;
      }
      if (decoded.done.bytes > 0) continue;
      if (last) break;
    }
    have = std::min(text.size(), have + chunk);
  }
  const RecordBatch batch = builder.Finish();
  result.rows = ShowRows(batch);
  return result;
}

}  // namespace weir
