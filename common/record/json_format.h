#pragma once

#include <memory>
#include <string>

#include "common/record/record_batch.h"
#include "common/record/text_decoder.h"

// JSON lines in UTF-8: one object a line. A missing field and one that is null are null; fields
// that the schema does not name are skipped, yet the line must be valid JSON as a whole. Of a
// doubled field the first counts. Blank lines are no rows. Values nest up to 1000 deep.
namespace weir {

std::unique_ptr<TextDecoder> MakeJsonDecoder(SchemaPtr schema);

// A line per row, columns in schema order, each ends with LF. Appends to `out`.
void AppendJsonRows(const RecordBatch& batch, std::string* out);

}  // namespace weir
