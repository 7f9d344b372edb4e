#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "worker/connectors/kafka/kafka_admin.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/rdkafka_thread.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// Clusters by way of librdkafka. Each producer and each question has a client of librdkafka and a
// thread of its own, so that one that hangs holds up none. Lifetime: outlives what it makes; what
// calls are under way then may live on. Thread: thread-safe.
class RdkafkaClients : public KafkaClients, public KafkaConsumers, public KafkaAdmin {
 public:
  std::unique_ptr<KafkaTransactions> TransactionsFor(Executor& owner) override;
  StatusOr<std::unique_ptr<KafkaConsumer>> MakeConsumer(Executor& owner,
                                                        KafkaConsumerOptions options,
                                                        std::function<void()> wake) override;

  void Look(Executor& owner, KafkaCluster cluster, std::vector<std::string> wanted,
            int64_t timeout_us, std::function<void(StatusOr<KafkaClusterView>)> done) override;
  void Describe(Executor& owner, KafkaCluster cluster, std::string topic, int64_t timeout_us,
                std::function<void(StatusOr<KafkaTopic>)> done) override;
  void TryReading(Executor& owner, KafkaCluster cluster, std::string group,
                  std::vector<std::string> topics, int64_t timeout_us,
                  std::function<void(Status)> done) override;
  void TryTransaction(Executor& owner, KafkaProducerOptions options, KafkaMarkerPlace place,
                      int64_t timeout_us, std::function<void(Status)> done) override;

  // Waits for the clients whose owners dropped them, at most `wait_max`: whether all have ended.
  // Those that have not hang in a call and are let go; the process should then end without running
  // what is left of main.
  bool WaitForEnd(std::chrono::milliseconds wait_max) { return threads_.WaitForEnd(wait_max); }

 private:
  RdkafkaThreads threads_;
};

}  // namespace weir
