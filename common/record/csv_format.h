#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/record/record_batch.h"
#include "common/record/text_decoder.h"

// CSV of RFC 4180 in UTF-8: fields split by commas, quoted or not, lines that end with LF or CRLF.
// An empty field is null, a quoted empty one the empty text. In a quoted field commas, line ends
// and doubled quotes are text. Wherever a quote stands that may not, the row is bad and ends with
// its line; a row whose quote never closes is bad and ends with the file.
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
// with LF. Append to `out`.
void AppendCsvHeader(const Schema& schema, std::string* out);
void AppendCsvRows(const RecordBatch& batch, std::string* out);

}  // namespace weir
