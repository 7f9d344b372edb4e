#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/record/record_batch.h"
#include "common/record/text_decoder.h"

// JSON lines in UTF-8: one object a line. A missing field and one that is null are null; fields
// that the schema does not name are skipped, yet the line must be valid JSON as a whole. Of a
// doubled field the first counts. Blank lines are no rows. Values nest up to 1000 deep.
namespace weir {

std::unique_ptr<TextDecoder> MakeJsonDecoder(SchemaPtr schema);

// A line per row, columns in schema order, each ends with LF. Appends to `out`, and to `row_ends`
// where each row ends in it, behind its LF.
void AppendJsonRows(const RecordBatch& batch, std::string* out,
                    std::vector<size_t>* row_ends = nullptr);

}  // namespace weir
