#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/record/record_batch.h"
#include "common/record/text_decoder.h"

// CSV of RFC 4180 in UTF-8: fields split by commas, quoted or not, lines that end with LF or CRLF.
// An empty field is null, a quoted empty one the empty text. In a quoted field commas, line ends
// and doubled quotes are text. Where a quote stands that may not, or one is never closed, or no row
// ends within kTextRowBytesMax bytes, the first line is a bad row, and the next one begins behind
// it: a quote that is too many takes no good rows with it. An empty line is a row of one field.
namespace weir {

struct CsvOptions {
  // The first line names the fields, and the schema picks from them by name, in any order. Without
  // it, field i of each line is column i of the schema.
  bool header = true;
};

std::unique_ptr<TextDecoder> MakeCsvDecoder(SchemaPtr schema, const CsvOptions& options);

// All the fields that the header of a file names, each a STRING. As TextDecoder::Start: nullopt
// when more bytes are needed. User error: no header, or a name that is empty or doubled.
StatusOr<std::optional<Schema>> ReadCsvSchema(std::string_view bytes, bool last);

// The line that names the columns of `schema`, and a line per row, columns in schema order, ends
// with LF. Append to `out`, and to `row_ends` where each row ends in it, behind its LF.
void AppendCsvHeader(const Schema& schema, std::string* out);
void AppendCsvRows(const RecordBatch& batch, std::string* out,
                   std::vector<size_t>* row_ends = nullptr);

}  // namespace weir
