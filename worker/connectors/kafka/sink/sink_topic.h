#pragma once

#include <string>

#include "common/base/status.h"
#include "common/graph/kafka_configs.h"
#include "common/threading/co.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/answer_watch.h"

// What whoever writes to the topic of a kafka.sink needs to know of it: the sink and its committer.
namespace weir {

Async<StatusOr<KafkaTopic>> DescribeTopic(KafkaTransactions& transactions,
                                          const KafkaCluster& cluster, const std::string& topic);
Async<StatusOr<KafkaTopic>> DescribeTopic(KafkaTransactions& transactions,
                                          const KafkaSinkConfig& config);
// `watch` says so while no broker answers.
Co<StatusOr<KafkaTopic>> DescribeTopic(AnswerWatch& watch, KafkaTransactions& transactions,
                                       const KafkaCluster& cluster, const std::string& topic);

// What the topic takes, for whoever is told that it refused something: "it takes messages of up to
// …".
std::string LimitsOf(const KafkaTopic& topic);

// `transactional_id`: "" of a producer without transactions.
KafkaProducerOptions MakeProducerOptions(const KafkaSinkConfig& config, const KafkaTopic& topic,
                                         std::string transactional_id);

}  // namespace weir
