#include "worker/connectors/kafka/source/kafka_position.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/base/concat.h"
#include "common/base/consume_text.h"
#include "common/graph/topic_pattern.h"

namespace weir {

KafkaRowMark MarkOf(const KafkaMessage& message) {
  // Null, empty and which of the two has the bytes all make a difference.
  uint64_t hash = XXH3_64bits_withSeed(message.key.data(), message.key.size(),
                                       message.has_key() ? message.key.size() + 1 : 0);
  hash += message.has_value() ? 1 : 0;
  hash = XXH3_64bits_withSeed(message.value.data(), message.value.size(), hash);
  return {message.offset, message.timestamp_ms, hash};
}

std::string EncodeKafkaPosition(const KafkaPosition& position) {
  std::string text = Concat(position.offset);
  if (position.row.has_value()) {
    text += Concat(" row ", position.row->offset, ' ', position.row->timestamp_ms, ' ',
                   HexText(position.row->hash));
  }
  if (position.to.has_value()) text += Concat(" to ", *position.to);
  if (position.ended) text += " end";
  return text;
}

std::optional<KafkaPosition> DecodeKafkaPosition(std::string_view text) {
  // Brokers take any, also from before 1970.
  constexpr int64_t kTimestampMin = std::numeric_limits<int64_t>::min();
  KafkaPosition position;
  if (!ConsumeNumber(&text, &position.offset)) return std::nullopt;
  if (Consume(&text, " row ")) {
    KafkaRowMark& row = position.row.emplace();
    if (!ConsumeNumber(&text, &row.offset) || !Consume(&text, " ") ||
        !ConsumeNumber(&text, &row.timestamp_ms, kTimestampMin) || !Consume(&text, " ") ||
        !ConsumeHex(&text, &row.hash) || row.offset >= position.offset) {
      return std::nullopt;
    }
  }
  if (Consume(&text, " to ")) {
    if (!ConsumeNumber(&text, &position.to.emplace())) return std::nullopt;
  }
  position.ended = Consume(&text, " end");
  if (!text.empty()) return std::nullopt;
  return position;
}

std::optional<TopicPartition> ParseTopicPartition(std::string_view text) {
  const size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || !IsTopicName(text.substr(0, slash))) return std::nullopt;
  TopicPartition partition;
  partition.topic = text.substr(0, slash);
  text.remove_prefix(slash + 1);
  if (!ConsumeNumber(&text, &partition.partition) || !text.empty()) return std::nullopt;
  return partition;
}

int OwnerOf(const TopicPartition& partition, int parallelism) {
  const uint64_t hash = XXH3_64bits(partition.topic.data(), partition.topic.size());
  const uint64_t count = static_cast<uint64_t>(parallelism);
  return static_cast<int>((hash % count + static_cast<uint64_t>(partition.partition) % count) %
                          count);
}

bool KafkaPendingStart::Holds(const TopicPartition& partition) const {
  for (const Subtask& subtask : subtasks) {
    if (OwnerOf(partition, subtask.parallelism) != subtask.number) return false;
  }
  return true;
}

bool KafkaPendingStart::NarrowTo(const Subtask& subtask) {
  if (std::find(subtasks.begin(), subtasks.end(), subtask) == subtasks.end()) {
    subtasks.push_back(subtask);
  }
  // OwnerOf leaves the remainder of one sum, and two remainders of a number are equal by each
  // common divisor.
  for (const Subtask& one : subtasks) {
    for (const Subtask& other : subtasks) {
      if ((one.number - other.number) % std::gcd(one.parallelism, other.parallelism) != 0) {
        return false;
      }
    }
  }
  return true;
}

std::string ToString(const KafkaPendingStart& pending) {
  std::string text = "start";
  for (const KafkaPendingStart::Subtask& subtask : pending.subtasks) {
    text += Concat(text.size() > 5 ? ", " : " ", subtask.number, " of ", subtask.parallelism);
  }
  return text;
}

std::optional<KafkaPendingStart> ParsePendingStart(std::string_view split) {
  KafkaPendingStart pending;
  if (!Consume(&split, "start ")) return std::nullopt;
  do {
    KafkaPendingStart::Subtask& subtask = pending.subtasks.emplace_back();
    if (!ConsumeNumber(&split, &subtask.number) || !Consume(&split, " of ") ||
        !ConsumeNumber(&split, &subtask.parallelism, 1) || subtask.number >= subtask.parallelism) {
      return std::nullopt;
    }
  } while (Consume(&split, ", "));
  if (!split.empty()) return std::nullopt;
  return pending;
}

}  // namespace weir
