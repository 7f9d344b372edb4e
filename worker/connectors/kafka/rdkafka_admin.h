#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/connectors/kafka/kafka_admin.h"
#include "worker/connectors/kafka/kafka_client.h"

// Questions to a cluster, each by a client of librdkafka made for it. They block, up to
// `timeout_ms` and a little more; errors are those of KafkaTransactions and KafkaAdmin.
namespace weir {

StatusOr<std::optional<KafkaMarker>> ReadRdkafkaMarker(const KafkaCluster& cluster,
                                                       const KafkaMarkerPlace& place,
                                                       int timeout_ms);
StatusOr<KafkaTopic> DescribeRdkafkaTopic(const KafkaCluster& cluster, const std::string& topic,
                                          int timeout_ms);
StatusOr<KafkaClusterView> LookAtRdkafkaCluster(const KafkaCluster& cluster, int timeout_ms);

}  // namespace weir
