#pragma once

#include "common/operator/registry.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// Adds kafka.source, which reads by way of `consumers`, and kafka.sink, which publishes by way of
// `clients`; both outlive the registry's use.
void RegisterKafkaConnector(Registry& registry, KafkaConsumers& consumers, KafkaClients& clients);

}  // namespace weir
