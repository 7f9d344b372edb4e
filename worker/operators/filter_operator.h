#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/expression/expression.h"
#include "common/operator/operator.h"

namespace weir {

// `filter`: passes on the rows for which an expression is true (neither false nor null). A batch of
// which all rows stay is passed on as it is. Thread: the task's.
class FilterOperator final : public Operator {
 public:
  StatusOr<Schema> OutputSchema(const Config& config, const std::vector<Schema>& inputs) override;
  Status Open(OperatorContext& context) override;
  Status ProcessBatch(int input, const RecordBatch& batch, Output& output) override;

 private:
  std::string uid_;
  std::optional<Expression> predicate_;
};

}  // namespace weir
