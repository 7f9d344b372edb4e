#pragma once

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/expression/expression_node.h"

namespace weir::internal {

// The tree of ParseExpression (expression.h), typed and complete.
StatusOr<std::unique_ptr<ExpressionNode>> ParseExpressionTree(std::string_view text,
                                                              const Schema& schema);

}  // namespace weir::internal
