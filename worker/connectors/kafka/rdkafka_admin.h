#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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
StatusOr<KafkaClusterView> LookAtRdkafkaCluster(const KafkaCluster& cluster,
                                                const std::vector<std::string>& wanted,
                                                int timeout_ms);
// Answers once, and returns when the client has been destroyed, which may take longer.
void TryRdkafkaReading(const KafkaCluster& cluster, const std::string& group,
                       const std::vector<std::string>& topics, int timeout_ms,
                       const std::function<void(Status)>& answer);

}  // namespace weir
