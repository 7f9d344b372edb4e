#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/expression/expression.h"
#include "common/operator/operator.h"

namespace weir {

// `project`: makes each row anew from columns and expressions. Columns that are passed on share the
// buffers of the input. Thread: the task's.
class ProjectOperator final : public Operator {
 public:
  StatusOr<Schema> OutputSchema(const Config& config, const std::vector<Schema>& inputs) override;
  Status Open(OperatorContext& context) override;
  Status ProcessBatch(int input, const RecordBatch& batch, Output& output) override;

 private:
  // One output column: an expression, or a column of the input.
  struct Source {
    std::string name;
    int column = -1;
    std::optional<Expression> expression;
  };

  std::string uid_;
  SchemaPtr schema_;
  std::vector<Source> sources_;
};

}  // namespace weir
