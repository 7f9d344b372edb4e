#pragma once

#include "common/operator/registry.h"

namespace weir {

// Adds filter, project, aggregate, union and rebalance, whose configs common/graph describes.
void RegisterBuiltinOperators(Registry& registry);

}  // namespace weir
