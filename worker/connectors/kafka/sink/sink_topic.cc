#include "worker/connectors/kafka/sink/sink_topic.h"

#include <utility>

#include "common/base/concat.h"

namespace weir {

Async<StatusOr<KafkaTopic>> DescribeTopic(KafkaTransactions& transactions,
                                          const KafkaCluster& cluster, const std::string& topic) {
  return Async<StatusOr<KafkaTopic>>(
      [&transactions, cluster, topic](Async<StatusOr<KafkaTopic>>::Done done) {
        transactions.DescribeTopic(cluster, topic, std::move(done));
      });
}

Async<StatusOr<KafkaTopic>> DescribeTopic(KafkaTransactions& transactions,
                                          const KafkaSinkConfig& config) {
  return DescribeTopic(transactions, {config.brokers, config.properties}, config.topic);
}

Co<StatusOr<KafkaTopic>> DescribeTopic(AnswerWatch& watch, KafkaTransactions& transactions,
                                       const KafkaCluster& cluster, const std::string& topic) {
  watch.Begin(Concat("describe topic '", topic, "'"));
  StatusOr<KafkaTopic> described = co_await DescribeTopic(transactions, cluster, topic);
  watch.End(described.status());
  co_return described;
}

std::string LimitsOf(const KafkaTopic& topic) {
  std::string limits =
      Concat("it takes messages of up to ", topic.message_bytes_max, " bytes (max.message.bytes)");
  if (topic.timestamp_ahead_ms_max < INT64_MAX) {
    limits += Concat(", timestamps up to ", topic.timestamp_ahead_ms_max,
                     " ms ahead of its clock (message.timestamp.after.max.ms)");
  }
  if (topic.timestamp_behind_ms_max < INT64_MAX) {
    limits += Concat(", and up to ", topic.timestamp_behind_ms_max,
                     " ms behind it (message.timestamp.before.max.ms)");
  }
  if (topic.compacted) limits += ", and none without key (cleanup.policy)";
  return limits;
}

KafkaProducerOptions MakeProducerOptions(const KafkaSinkConfig& config, const KafkaTopic& topic,
                                         std::string transactional_id) {
  return {.cluster = {config.brokers, config.properties},
          .topic = config.topic,
          .partitions = topic.partitions,
          .transactional_id = std::move(transactional_id),
          .transaction_timeout_us = config.transaction_timeout_us,
          .message_bytes_max = topic.message_bytes_max};
}

}  // namespace weir
