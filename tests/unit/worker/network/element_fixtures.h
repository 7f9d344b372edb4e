#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/record/batch_builder.h"
#include "common/record/stream_element.h"
#include "tests/support/gate.h"

// What the tests of channels send, and how their two sides wait for each other.
namespace weir::network_test {

inline SchemaPtr NumberAndText() {
  static const SchemaPtr schema = std::make_shared<const Schema>(
      std::vector<Field>{{"number", Type::kInt64}, {"text", Type::kString}});
  return schema;
}

// One row: (number, text).
inline RecordBatchPtr Row(int64_t number, std::string_view text = "") {
  BatchBuilder builder(NumberAndText());
  builder.column(0).AppendInt64(number);
  builder.column(1).AppendText(text);
  return std::make_shared<const RecordBatch>(builder.Finish());
}

inline int64_t NumberOf(const StreamElement& element) {
  return std::get<RecordBatchPtr>(element)->column(0).Int64(0);
}

inline std::string TextOf(const StreamElement& element) {
  return std::string(std::get<RecordBatchPtr>(element)->column(1).Text(0));
}

}  // namespace weir::network_test
