#pragma once

#include <memory>

#include "tests/sim/kafka/kafka_link.h"
#include "worker/connectors/kafka/kafka_client.h"

namespace weir::sim {

// The client of Kafka of all simulated processes, in the place of librdkafka: asks the broker over
// the link, again on a new connection where an answer does not come, and judges answers as
// librdkafka does. What is asked for belongs to the process whose event asks first.
// Lifetime: outlives all that it makes. Thread: confined to the simulation.
class SimKafkaClients : public KafkaClients {
 public:
  explicit SimKafkaClients(KafkaLink& link) : link_(link) {}

  std::unique_ptr<KafkaTransactions> TransactionsFor(Executor& owner) override;

  // Instances that were disturbed, and that were fenced.
  int64_t disturbed() const { return disturbed_; }
  int64_t fenced() const { return fenced_; }

 private:
  friend class SimKafkaProducer;
  KafkaLink& link_;
  int64_t disturbed_ = 0;
  int64_t fenced_ = 0;
};

}  // namespace weir::sim
