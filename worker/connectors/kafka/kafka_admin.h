#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/connectors/kafka/kafka_client.h"

// What the checks of a submitted job ask of a Kafka cluster.
namespace weir {

struct KafkaListedTopic {
  std::string name;
  int32_t partitions = 0;
  bool permitted = true;  // false: one of `wanted` that may not be seen, if it is there at all
};

// A cluster as one look sees it.
struct KafkaClusterView {
  std::vector<KafkaListedTopic> topics;  // all that may be seen, and wanted ones; sorted by name
  // transaction.max.timeout.ms of a broker; no value where that may not be read.
  std::optional<int64_t> transaction_timeout_us_max;
};

// Thread: thread-safe; answers are mail of `owner`, which outlives what it asked for.
class KafkaAdmin {
 public:
  virtual ~KafkaAdmin() = default;
  // User error: a property that librdkafka refuses, named. kUnavailable: no broker answered within
  // `timeout_us`; says what was the last that happened.
  virtual void Look(Executor& owner, KafkaCluster cluster, std::vector<std::string> wanted,
                    int64_t timeout_us, std::function<void(StatusOr<KafkaClusterView>)> done) = 0;
  // As KafkaTransactions::DescribeTopic.
  virtual void Describe(Executor& owner, KafkaCluster cluster, std::string topic,
                        int64_t timeout_us, std::function<void(StatusOr<KafkaTopic>)> done) = 0;
  // Whether rows of the topics may be read, and offsets committed to the group: commits one of a
  // partition that no topic has, which changes nothing. User error: what is not permitted.
  virtual void TryReading(Executor& owner, KafkaCluster cluster, std::string group,
                          std::vector<std::string> topics, int64_t timeout_us,
                          std::function<void(Status)> done) = 0;
  // Whether a transaction of the options' id may put rows into the topic and offsets at `place`:
  // tries one and aborts it, having written no row. It fences whoever has the id. User error: what
  // is not permitted, or a transaction timeout that the broker refuses.
  virtual void TryTransaction(Executor& owner, KafkaProducerOptions options, KafkaMarkerPlace place,
                              int64_t timeout_us, std::function<void(Status)> done) = 0;
};

}  // namespace weir
