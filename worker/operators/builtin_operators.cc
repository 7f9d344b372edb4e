#include "worker/operators/builtin_operators.h"

#include <memory>

#include "worker/operators/aggregate_operator.h"
#include "worker/operators/filter_operator.h"
#include "worker/operators/pass_operator.h"
#include "worker/operators/project_operator.h"

namespace weir {

void RegisterBuiltinOperators(Registry& registry) {
  registry.AddOperator("aggregate", [] { return std::make_unique<AggregateOperator>(); });
  registry.AddOperator("filter", [] { return std::make_unique<FilterOperator>(); });
  registry.AddOperator("project", [] { return std::make_unique<ProjectOperator>(); });
  registry.AddOperator("rebalance", [] { return std::make_unique<PassOperator>("rebalance"); });
  registry.AddOperator("union", [] { return std::make_unique<PassOperator>("union"); });
}

}  // namespace weir
