#include "common/expression/expression.h"

#include <set>

#include "common/base/check.h"
#include "common/expression/expression_evaluator.h"
#include "common/expression/expression_node.h"
#include "common/expression/expression_parser.h"

namespace weir {
namespace {

void CollectColumns(const internal::ExpressionNode& node, std::set<int>* columns) {
  if (node.operation == internal::Operation::kColumn) columns->insert(node.column);
  for (const auto& operand : node.operands) CollectColumns(*operand, columns);
}

}  // namespace

Type Expression::type() const { return root_->type; }

std::vector<int> Expression::Columns() const {
  std::set<int> columns;
  CollectColumns(*root_, &columns);
  return {columns.begin(), columns.end()};
}

StatusOr<Column> Expression::Evaluate(const RecordBatch& batch) const {
  return internal::EvaluateExpressionTree(*root_, text_, batch);
}

StatusOr<Expression> ParseExpression(std::string_view text, const Schema& schema) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<internal::ExpressionNode> root,
                        internal::ParseExpressionTree(text, schema));
  return Expression(std::string(text), std::move(root));
}

StatusOr<std::vector<int32_t>> FilterRows(const RecordBatch& batch, const Expression& predicate) {
  WEIR_CHECK(predicate.type() == Type::kBool);
  WEIR_ASSIGN_OR_RETURN(Column column, predicate.Evaluate(batch));
  const int64_t row_count = batch.rows();
  std::vector<int32_t> rows(static_cast<size_t>(row_count));
  size_t count = 0;
  if (row_count > 0) {
    const uint8_t* values = column.values<uint8_t>();
    for (int64_t i = 0; i < row_count; ++i) {
      rows[count] = static_cast<int32_t>(i);
      count += values[i] != 0 && !column.IsNull(i) ? 1 : 0;
    }
  }
  rows.resize(count);
  return rows;
}

}  // namespace weir
