#pragma once

#include "common/operator/registry.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// Adds kafka.source, which reads by way of `consumers`; they outlive the registry's use.
void RegisterKafkaConnector(Registry& registry, KafkaConsumers& consumers);

}  // namespace weir
