#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/kafka_configs.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

// What kafka.source puts into checkpoints.
namespace weir {

// A row by which a partition is known again: a topic that was made anew has another one there.
struct KafkaRowMark {
  int64_t offset = 0;
  int64_t timestamp_ms = -1;
  uint64_t hash = 0;  // of key and value
  bool operator==(const KafkaRowMark&) const = default;
};
KafkaRowMark MarkOf(const KafkaMessage& message);

// How far one partition is read. As text "<offset>[ row <offset> <timestamp> <hash>][ to
// <offset>][ end]": the next offset to read, the last row in front of it (its hash as 16 hex
// digits), the offset in front of which a bounded read ends, and whether it has.
struct KafkaPosition {
  int64_t offset = 0;
  std::optional<KafkaRowMark> row;
  std::optional<int64_t> to;
  bool ended = false;
  bool operator==(const KafkaPosition&) const = default;
};
std::string EncodeKafkaPosition(const KafkaPosition& position);
std::optional<KafkaPosition> DecodeKafkaPosition(std::string_view text);

// "flights/3" as a partition; no value: it is none.
std::optional<TopicPartition> ParseTopicPartition(std::string_view text);

// The subtask that reads a partition.
int OwnerOf(const TopicPartition& partition, int parallelism);

// Which partitions no subtask has looked for yet, written in place of positions while that is so:
// else they would pass for partitions that were made later, and be read from their beginning. They
// are those that belong to each of these subtasks at its parallelism; several when a job was
// rescaled before it found them. The split "start 2 of 4, 0 of 3".
struct KafkaPendingStart {
  struct Subtask {
    int number = 0;
    int parallelism = 1;
    bool operator==(const Subtask&) const = default;
  };
  std::vector<Subtask> subtasks;
  bool Holds(const TopicPartition& partition) const;
  // Leaves those that belong to `subtask` too; false: none can.
  bool NarrowTo(const Subtask& subtask);
  bool operator==(const KafkaPendingStart&) const = default;
};
std::string ToString(const KafkaPendingStart& pending);
std::optional<KafkaPendingStart> ParsePendingStart(std::string_view split);

// Written by a subtask that has nothing else to write: without any split a restored job would pass
// for a new one, and topics that were made since begin where the config says, not at their
// beginning.
inline constexpr std::string_view kStartedSplit = "started";

}  // namespace weir
