#include "worker/operators/pass_operator.h"

#include "worker/operators/described_schema.h"

namespace weir {

StatusOr<Schema> PassOperator::OutputSchema(const Config& config,
                                            const std::vector<Schema>& inputs) {
  return DescribedSchema(type_, config, inputs);
}

Status PassOperator::ProcessBatch(int, const RecordBatch& batch, Output& output) {
  output.Emit(batch);
  return {};
}

}  // namespace weir
