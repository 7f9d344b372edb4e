#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/kafka_configs.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"

// What reading asks of a Kafka cluster, in domain types: librdkafka is behind it, or the simulator.
// Committed rows only, ever.
namespace weir {

// A row of a partition; its bytes are the consumer's.
struct KafkaMessage {
  int32_t tag = 0;  // of the partition, as given to Assign
  int64_t offset = 0;
  int64_t timestamp_ms = -1;  // since the Unix epoch; -1: none
  std::string_view key;       // data() is nullptr: null
  std::string_view value;     // data() is nullptr: null
  const void* native = nullptr;
  bool has_key() const { return key.data() != nullptr; }
  bool has_value() const { return value.data() != nullptr; }
};

inline constexpr int64_t kMicrosOfMilli = 1000;
// What a TIMESTAMP can hold. Brokers take more: from a producer that gives nanoseconds, say.
inline constexpr int64_t kTimestampMsMax = std::numeric_limits<int64_t>::max() / kMicrosOfMilli;

struct KafkaMessageHeader {
  std::string_view name;
  std::string_view value;  // data() is nullptr: null
};

// What is to be known beside rows.
struct KafkaEvent {
  enum class Kind {
    // Nothing more is there to read of partition `tag` for now: the next row has at least `offset`.
    // Rows of an open transaction, and those behind them, are not there.
    kPartitionEnd,
    // Partition `tag` has no row at the offset to read, nor will it get one: nothing more comes of
    // it until it is assigned anew.
    kOutOfRange,
    // A topic or partition that is read is not known to the cluster (any more).
    kUnknownPartition,
    // Reading cannot go on: `status` says why, and whether it may help to begin again.
    kFailed,
    // No broker answers; reading goes on by itself when one is back.
    kBrokersAway,
    // A broker does not answer: perhaps none does.
    kBrokerLost,
  };
  Kind kind = Kind::kPartitionEnd;
  int32_t tag = -1;  // -1: of no partition alone
  int64_t offset = 0;
  Status status;
};

// What one Poll found. The end of a partition and an offset out of range come behind the rows that
// the batch has of it; kUnknownPartition came somewhere between its rows.
struct KafkaBatch {
  std::vector<KafkaMessage> rows;
  std::vector<KafkaEvent> events;
  bool empty() const { return rows.empty() && events.empty(); }
  void clear() {
    rows.clear();
    events.clear();
  }
};

struct KafkaTopicView {
  std::string name;
  int32_t partitions = 0;
  // kNotFound: the cluster knows no such topic. Others: it may not be read, or no leader is known.
  Status status;
};

// Of a partition: the first offset that is kept, and the one that reading comes to (the last stable
// offset).
struct KafkaOffsets {
  int64_t low = 0;
  int64_t end = 0;
};

struct KafkaAssignment {
  TopicPartition partition;
  int64_t offset = 0;  // of the first row to read
  int32_t tag = 0;     // by which its rows are known
};

struct KafkaConsumerOptions {
  KafkaCluster cluster;
  std::string group;
  bool reads_much = true;  // else a row or two: little is fetched ahead
};

// Reads partitions that it is told, without a part in the group. Questions return at once and are
// answered as mail; kUnavailable: may be asked again. Nothing is answered and nobody woken after
// destruction. Thread: confined to its executor.
class KafkaConsumer {
 public:
  template <typename T>
  using Done = std::function<void(T)>;

  virtual ~KafkaConsumer() = default;

  // Replaces `batch` by up to `rows_max` rows and what else came, without waiting. What it holds
  // stays valid until the next Poll. When it is empty, `wake` is called once there is more.
  virtual void Poll(size_t rows_max, KafkaBatch* batch) = 0;
  // Of a message of the last batch; replaces `headers`.
  virtual void Headers(const KafkaMessage& message,
                       std::vector<KafkaMessageHeader>* headers) const = 0;

  // Begins to read partitions, also ones that are being read already: then at another offset. Rows
  // that a Poll finds after the answer are of the new assignment.
  virtual void Assign(std::vector<KafkaAssignment> assignments, Done<Status> done) = 0;
  // Ends reading them.
  virtual void Drop(std::vector<TopicPartition> partitions, Done<Status> done) = 0;

  // One of each name asked for; all of the cluster if none is.
  virtual void ListTopics(std::vector<std::string> names,
                          Done<StatusOr<std::vector<KafkaTopicView>>> done) = 0;
  // In the order asked for, as all that follow.
  virtual void ListOffsets(std::vector<TopicPartition> partitions,
                           Done<StatusOr<std::vector<KafkaOffsets>>> done) = 0;
  // Of the first row with this timestamp or a later one; no value: there is none.
  virtual void FindOffsets(std::vector<TopicPartition> partitions, int64_t timestamp_ms,
                           Done<StatusOr<std::vector<std::optional<int64_t>>>> done) = 0;
  // Of the group; no value: none was ever committed, or it has expired.
  virtual void CommittedOffsets(std::vector<TopicPartition> partitions,
                                Done<StatusOr<std::vector<std::optional<int64_t>>>> done) = 0;
  // Next offsets to read, for others to see.
  virtual void CommitOffsets(std::vector<std::pair<TopicPartition, int64_t>> offsets,
                             Done<Status> done) = 0;
};

// Lifetime: outlives all that it makes. Thread: thread-safe.
class KafkaConsumers {
 public:
  virtual ~KafkaConsumers() = default;
  // `wake` is mail of `owner`. User error: a property that librdkafka refuses, named.
  virtual StatusOr<std::unique_ptr<KafkaConsumer>> MakeConsumer(Executor& owner,
                                                                KafkaConsumerOptions options,
                                                                std::function<void()> wake) = 0;
};

}  // namespace weir
