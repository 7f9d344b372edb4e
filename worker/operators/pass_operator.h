#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/operator/operator.h"

namespace weir {

// `union` and `rebalance`: hands on the rows of all inputs as they come; what they are for, the
// edges into them do. Thread: the task's.
class PassOperator final : public Operator {
 public:
  explicit PassOperator(std::string type) : type_(std::move(type)) {}

  StatusOr<Schema> OutputSchema(const Config& config, const std::vector<Schema>& inputs) override;
  Status ProcessBatch(int input, const RecordBatch& batch, Output& output) override;

 private:
  const std::string type_;
};

}  // namespace weir
