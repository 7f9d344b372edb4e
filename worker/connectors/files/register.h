#pragma once

#include "common/operator/registry.h"

namespace weir {

// Adds the source type "files.source" and the sink type "files.sink".
void RegisterFilesConnector(Registry& registry);

}  // namespace weir
