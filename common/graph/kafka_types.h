#pragma once

#include "common/graph/type_descriptor.h"

namespace weir {

TypeDescriptor KafkaSourceType();
TypeDescriptor KafkaSinkType();

}  // namespace weir
