#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"
#include "worker/connectors/kafka/source/kafka_position.h"

namespace weir {

// Sees that a topic that is being read was deleted, made anew and filled beyond where its reader
// stands, of which the reader is told nothing: some rows it has read are read once more, from time
// to time, by a client of its own. Lifetime: what it is made with outlives it; destroying it ends a
// check under way. Thread: confined to `owner`.
class KnownRows {
 public:
  KnownRows(KafkaConsumers& consumers, Executor& owner, Timers& timers,
            KafkaConsumerOptions options);
  ~KnownRows();

  // `last`: the last row read of each partition. User error: another row stands where one of an
  // earlier call stood. What cannot be told now, or any more, is no error.
  Co<Status> Check(std::map<TopicPartition, KafkaRowMark> last);

 private:
  // The first row of the partition from `offset` on; no value: none is there (any more). Error: it
  // could not be found out.
  Co<StatusOr<std::optional<KafkaRowMark>>> FirstRow(TopicPartition partition, int64_t offset);

  KafkaConsumers& consumers_;
  Executor& owner_;
  Timers& timers_;
  const KafkaConsumerOptions options_;
  std::map<TopicPartition, KafkaRowMark> known_;
  std::unique_ptr<KafkaConsumer> consumer_;  // of the row that is being read
  CoSignal changed_;
  bool late_ = false;
  TimerId timer_ = 0;
};

}  // namespace weir
