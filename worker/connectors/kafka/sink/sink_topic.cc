#include "worker/connectors/kafka/sink/sink_topic.h"

#include <utility>

namespace weir {

Async<StatusOr<KafkaTopic>> DescribeTopic(KafkaTransactions& transactions,
                                          const KafkaSinkConfig& config) {
  return Async<StatusOr<KafkaTopic>>([&transactions,
                                      &config](Async<StatusOr<KafkaTopic>>::Done done) {
    transactions.DescribeTopic({config.brokers, config.properties}, config.topic, std::move(done));
  });
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
