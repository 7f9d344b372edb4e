#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/expression/expression_node.h"
#include "common/record/record_batch.h"

namespace weir::internal {

// Expression::Evaluate (expression.h) of the tree that `text` was parsed to.
StatusOr<Column> EvaluateExpressionTree(const ExpressionNode& root, std::string_view text,
                                        const RecordBatch& batch);

}  // namespace weir::internal
