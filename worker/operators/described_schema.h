#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/record/schema.h"

namespace weir {

// What the built-in type `type` emits, as its descriptor in common/graph says: CLI, coordinator and
// worker can never differ.
StatusOr<Schema> DescribedSchema(std::string_view type, const Config& config,
                                 const std::vector<Schema>& inputs);

}  // namespace weir
