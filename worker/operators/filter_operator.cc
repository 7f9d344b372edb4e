#include "worker/operators/filter_operator.h"

#include <utility>

#include "common/base/concat.h"
#include "worker/operators/described_schema.h"

namespace weir {

StatusOr<Schema> FilterOperator::OutputSchema(const Config& config,
                                              const std::vector<Schema>& inputs) {
  return DescribedSchema("filter", config, inputs);
}

Status FilterOperator::Open(OperatorContext& context) {
  uid_ = context.uid();
  const Schema& input = *context.input_schema(0);
  WEIR_RETURN_IF_ERROR(OutputSchema(context.config(), {input}).status());
  WEIR_ASSIGN_OR_RETURN(const std::string text, context.config().Text("expression"));
  WEIR_ASSIGN_OR_RETURN(predicate_, ParseExpression(text, input));
  return {};
}

Status FilterOperator::ProcessBatch(int, const RecordBatch& batch, Output& output) {
  StatusOr<std::vector<int32_t>> rows = FilterRows(batch, *predicate_);
  if (!rows.ok()) return rows.status().WithContext(Concat("filter '", uid_, "'"));
  if (static_cast<int64_t>(rows->size()) == batch.rows()) {
    output.Emit(batch);
  } else if (!rows->empty()) {
    output.Emit(batch.Select(*rows));
  }
  return {};
}

}  // namespace weir
