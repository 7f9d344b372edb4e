#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "common/record/batch_builder.h"

namespace weir {

// Readable bytes that must follow those given to a TextDecoder, whatever they hold.
inline constexpr size_t kTextPadding = 64;
// Most bytes of a row of a text, its line end among them.
inline constexpr size_t kTextRowBytesMax = size_t{64} << 20;

// Bytes and line ends at the front of what a decoder was given that it is done with.
struct TextProgress {
  size_t bytes = 0;
  int64_t lines = 0;
  bool operator==(const TextProgress&) const = default;
};

// When Decode stops although there are more whole rows.
struct DecodeLimits {
  int64_t rows_max = std::numeric_limits<int64_t>::max();  // rows appended by this call
  // Of the builder, checked now and then: a few rows more may be appended.
  int64_t bytes_max = std::numeric_limits<int64_t>::max();
};

struct DecodeResult {
  // The next row begins at byte done.bytes of what was given. Everything up to there was appended,
  // skipped as a blank line, or is the bad row.
  TextProgress done;
  int64_t rows = 0;  // appended
  // OK: stopped at a limit, or no whole row is left. A user error: the last row in `done` does not
  // fit the schema; nothing of it was appended, and Decode may go on behind it.
  Status bad_row;
  // In front of the bad row, which is the bytes from there to done.bytes: its line in the file is
  // that many behind the line of bytes[0].
  TextProgress before_bad_row;
  // A user error: no line end is among the kTextRowBytesMax bytes behind `done`. Who wants to read
  // on does so behind the next line end, wherever that is.
  Status error;
};

// Turns the bytes of one file into rows of a schema. It keeps no bytes: who calls it gives the
// bytes from the first unread row on, again and longer when no whole row was among them. So the
// position of a reader is a byte offset, and it may go on from one with a new decoder.
// Thread: confined to its owner.
class TextDecoder {
 public:
  virtual ~TextDecoder() = default;

  // What stands before the first row: byte order mark, header line. `bytes` are the first of the
  // file, `last`: and all of it. nullopt: needs more of them. User error: the header does not fit
  // the schema. Must have succeeded once before Decode, also to go on in the middle of a file.
  virtual StatusOr<std::optional<TextProgress>> Start(std::string_view bytes, bool last) = 0;

  // Appends the rows at the front of `bytes` to `out`, whose schema is the decoder's. `last`: the
  // bytes end with the file, so that a row at their end needs no line end.
  // REQUIRES: kTextPadding bytes behind `bytes` are readable.
  virtual DecodeResult Decode(std::string_view bytes, bool last, const DecodeLimits& limits,
                              BatchBuilder* out) = 0;
};

}  // namespace weir
