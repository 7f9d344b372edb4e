#include "common/operator/operator.h"

namespace weir {

StatusOr<Schema> Operator::OutputSchema(const Config&, const std::vector<Schema>& inputs) {
  if (inputs.empty()) return InvalidArgumentError("the operator has no input");
  return inputs[0];
}

Status Operator::Open(OperatorContext&) { return {}; }

Status Operator::OnEndOfInput(Output&) { return {}; }

Status Operator::Close() { return {}; }

}  // namespace weir
