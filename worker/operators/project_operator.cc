#include "worker/operators/project_operator.h"

#include <utility>

#include "common/base/concat.h"
#include "common/graph/builtin_configs.h"
#include "worker/operators/described_schema.h"

namespace weir {

StatusOr<Schema> ProjectOperator::OutputSchema(const Config& config,
                                               const std::vector<Schema>& inputs) {
  return DescribedSchema("project", config, inputs);
}

Status ProjectOperator::Open(OperatorContext& context) {
  uid_ = context.uid();
  schema_ = context.output_schema();
  const Schema& input = *context.input_schema(0);
  WEIR_ASSIGN_OR_RETURN(std::vector<ProjectColumn> columns, ParseProjectConfig(context.config()));
  for (ProjectColumn& column : columns) {
    Source source;
    if (column.expression.empty()) {
      WEIR_ASSIGN_OR_RETURN(source.column, input.Require(column.name));
    } else {
      WEIR_ASSIGN_OR_RETURN(source.expression, ParseExpression(column.expression, input));
    }
    source.name = std::move(column.name);
    sources_.push_back(std::move(source));
  }
  return {};
}

Status ProjectOperator::ProcessBatch(int, const RecordBatch& batch, Output& output) {
  std::vector<Column> columns;
  columns.reserve(sources_.size());
  for (const Source& source : sources_) {
    if (!source.expression.has_value()) {
      columns.push_back(batch.column(source.column));
      continue;
    }
    StatusOr<Column> column = source.expression->Evaluate(batch);
    if (!column.ok()) {
      return column.status().WithContext(
          Concat("column '", source.name, "' of project '", uid_, "'"));
    }
    columns.push_back(std::move(column).value());
  }
  output.Emit(RecordBatch(schema_, batch.rows(), std::move(columns)));
  return {};
}

}  // namespace weir
