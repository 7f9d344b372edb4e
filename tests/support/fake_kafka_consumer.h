#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// The logs of a cluster as consumers see them, and what the test makes go wrong with them. Offsets
// without a row are those of control or aborted records, or of rows that compaction took.
// Thread: confined to the test.
class FakeKafkaCluster : public KafkaConsumers {
 public:
  struct Row {
    std::optional<std::string> value;
    std::optional<std::string> key;
    int64_t timestamp_ms = 0;
    std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  };
  struct Log {
    int64_t low = 0;
    int64_t end = 0;  // last stable offset
    std::map<int64_t, Row> rows;
  };

  // Appends a row to a log; its timestamp is 1000 more than the offset.
  void Add(const std::string& topic, int32_t partition, std::optional<std::string> value) {
    Log& log = MakeLog(topic, partition);
    Row row;
    row.value = std::move(value);
    row.timestamp_ms = 1000 + log.end;
    log.rows[log.end++] = std::move(row);
    NotifyAll();
  }
  // Offsets that no row has.
  void AddGap(const std::string& topic, int32_t partition, int64_t offsets = 1) {
    MakeLog(topic, partition).end += offsets;
    NotifyAll();
  }
  // A log, and those of smaller numbers in its topic.
  Log& MakeLog(const std::string& topic, int32_t partition) {
    std::vector<Log>& logs = topics_[topic];
    if (logs.size() <= static_cast<size_t>(partition)) {
      logs.resize(static_cast<size_t>(partition) + 1);
    }
    return logs[static_cast<size_t>(partition)];
  }
  // Deletes the rows in front of `offset`.
  void DeleteUpTo(const std::string& topic, int32_t partition, int64_t offset) {
    Log& log = MakeLog(topic, partition);
    log.low = offset;
    log.rows.erase(log.rows.begin(), log.rows.lower_bound(offset));
  }
  void DeleteTopic(const std::string& topic) { topics_.erase(topic); }
  // What consumers are told beside rows.
  void Tell(KafkaEvent event) {
    for (Consumer* consumer : consumers_) consumer->events_.push_back(event);
    NotifyAll();
  }

  // Every question is answered so while it is an error.
  Status answer_;
  std::map<TopicPartition, int64_t> committed_;
  int64_t commits_ = 0;
  // Rows that one Poll finds at most.
  size_t poll_rows_max_ = 1000;
  KafkaConsumerOptions options_;  // of the last consumer

  StatusOr<std::unique_ptr<KafkaConsumer>> MakeConsumer(Executor& owner,
                                                        KafkaConsumerOptions options,
                                                        std::function<void()> wake) override {
    options_ = std::move(options);
    return std::unique_ptr<KafkaConsumer>(
        std::make_unique<Consumer>(*this, owner, std::move(wake)));
  }

 private:
  class Consumer : public KafkaConsumer {
   public:
    Consumer(FakeKafkaCluster& cluster, Executor& owner, std::function<void()> wake)
        : cluster_(cluster), owner_(owner), wake_(std::move(wake)) {
      cluster_.consumers_.push_back(this);
    }
    ~Consumer() override { std::erase(cluster_.consumers_, this); }

    void Poll(size_t rows_max, KafkaBatch* batch) override {
      batch->clear();
      held_.clear();
      idle_ = false;
      if (assigning_ > 0) return;
      batch->events.swap(events_);
      rows_max = std::min(rows_max, cluster_.poll_rows_max_);
      for (auto& [partition, read] : reads_) Read(partition, &read, rows_max, batch);
      idle_ = batch->empty();
    }
    void Headers(const KafkaMessage& message,
                 std::vector<KafkaMessageHeader>* headers) const override {
      headers->clear();
      for (const auto& [name, value] : static_cast<const Row*>(message.native)->headers) {
        headers->push_back(
            {name, value.has_value() ? std::string_view(*value) : std::string_view(nullptr, 0)});
      }
    }
    void Assign(std::vector<KafkaAssignment> assignments, Done<Status> done) override {
      ++assigning_;
      Answer([this, assignments = std::move(assignments), done = std::move(done)] {
        --assigning_;
        if (cluster_.answer_.ok()) {
          for (const KafkaAssignment& assignment : assignments) {
            reads_[assignment.partition] = {.offset = assignment.offset, .tag = assignment.tag};
          }
        }
        done(cluster_.answer_);
        wake_();
      });
    }
    void Drop(std::vector<TopicPartition> partitions, Done<Status> done) override {
      Answer([this, partitions = std::move(partitions), done = std::move(done)] {
        for (const TopicPartition& partition : partitions) reads_.erase(partition);
        done(Status());
      });
    }
    void ListTopics(std::vector<std::string> names,
                    Done<StatusOr<std::vector<KafkaTopicView>>> done) override {
      std::vector<KafkaTopicView> views;
      if (names.empty()) {
        for (const auto& [name, logs] : cluster_.topics_) names.push_back(name);
      }
      for (const std::string& name : names) {
        KafkaTopicView& view = views.emplace_back();
        view.name = name;
        const auto at = cluster_.topics_.find(name);
        if (at == cluster_.topics_.end()) {
          view.status = NotFoundError("unknown topic");
        } else {
          view.partitions = static_cast<int32_t>(at->second.size());
        }
      }
      Reply<std::vector<KafkaTopicView>>(std::move(views), std::move(done));
    }
    void ListOffsets(std::vector<TopicPartition> partitions,
                     Done<StatusOr<std::vector<KafkaOffsets>>> done) override {
      std::vector<KafkaOffsets> offsets;
      for (const TopicPartition& partition : partitions) {
        const Log& log = cluster_.MakeLog(partition.topic, partition.partition);
        offsets.push_back({log.low, log.end});
      }
      Reply<std::vector<KafkaOffsets>>(std::move(offsets), std::move(done));
    }
    void FindOffsets(std::vector<TopicPartition> partitions, int64_t timestamp_ms,
                     Done<StatusOr<std::vector<std::optional<int64_t>>>> done) override {
      std::vector<std::optional<int64_t>> offsets;
      for (const TopicPartition& partition : partitions) {
        offsets.emplace_back();
        const Log& log = cluster_.MakeLog(partition.topic, partition.partition);
        if (timestamp_ms < 0) {  // no time: Kafka's -1 is the end, -2 the beginning
          if (timestamp_ms >= -2) offsets.back() = timestamp_ms == -1 ? log.end : log.low;
          continue;
        }
        for (const auto& [offset, row] : log.rows) {
          if (row.timestamp_ms < timestamp_ms) continue;
          offsets.back() = offset;
          break;
        }
      }
      Reply<std::vector<std::optional<int64_t>>>(std::move(offsets), std::move(done));
    }
    void CommittedOffsets(std::vector<TopicPartition> partitions,
                          Done<StatusOr<std::vector<std::optional<int64_t>>>> done) override {
      std::vector<std::optional<int64_t>> offsets;
      for (const TopicPartition& partition : partitions) {
        offsets.emplace_back();
        const auto at = cluster_.committed_.find(partition);
        if (at != cluster_.committed_.end()) offsets.back() = at->second;
      }
      Reply<std::vector<std::optional<int64_t>>>(std::move(offsets), std::move(done));
    }
    void CommitOffsets(std::vector<std::pair<TopicPartition, int64_t>> offsets,
                       Done<Status> done) override {
      ++cluster_.commits_;
      Answer([this, offsets = std::move(offsets), done = std::move(done)] {
        for (const auto& [partition, offset] : offsets) {
          if (cluster_.answer_.ok()) cluster_.committed_[partition] = offset;
        }
        done(cluster_.answer_);
      });
    }

   private:
    friend class FakeKafkaCluster;
    struct Reading {
      int64_t offset = 0;
      int32_t tag = 0;
      int64_t end_told = -1;
      bool stopped = false;  // told out of range
    };

    void Read(const TopicPartition& partition, Reading* read, size_t rows_max, KafkaBatch* batch) {
      if (read->stopped || !cluster_.answer_.ok()) return;
      const auto topic = cluster_.topics_.find(partition.topic);
      if (topic == cluster_.topics_.end()) return;
      const Log& log = topic->second[static_cast<size_t>(partition.partition)];
      if (read->offset < log.low || read->offset > log.end) {
        read->stopped = true;
        batch->events.push_back(
            {.kind = KafkaEvent::Kind::kOutOfRange, .tag = read->tag, .offset = 0, .status = {}});
        return;
      }
      auto at = log.rows.lower_bound(read->offset);
      for (; at != log.rows.end() && at->first < log.end && batch->rows.size() < rows_max; ++at) {
        const Row& row = *held_.insert(held_.end(), at->second);
        const auto view = [](const std::optional<std::string>& text) {
          return text.has_value() ? std::string_view(*text) : std::string_view(nullptr, 0);
        };
        batch->rows.push_back({.tag = read->tag,
                               .offset = at->first,
                               .timestamp_ms = row.timestamp_ms,
                               .key = view(row.key),
                               .value = view(row.value),
                               .native = &row});
        read->offset = at->first + 1;
      }
      if ((at == log.rows.end() || at->first >= log.end) && read->end_told != log.end) {
        read->offset = read->end_told = log.end;
        batch->events.push_back({.kind = KafkaEvent::Kind::kPartitionEnd,
                                 .tag = read->tag,
                                 .offset = log.end,
                                 .status = {}});
      }
    }
    template <typename T>
    void Reply(T value, Done<StatusOr<T>> done) {
      Answer([this, value = std::move(value), done = std::move(done)] {
        done(cluster_.answer_.ok() ? StatusOr<T>(value) : StatusOr<T>(cluster_.answer_));
      });
    }
    void Answer(std::function<void()> mail) {
      owner_.Post([alive = std::weak_ptr<int>(alive_), mail = std::move(mail)] {
        if (!alive.expired()) mail();
      });
    }

    FakeKafkaCluster& cluster_;
    Executor& owner_;
    const std::function<void()> wake_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    std::map<TopicPartition, Reading> reads_;
    std::vector<KafkaEvent> events_;
    std::deque<Row> held_;  // of the last batch
    int assigning_ = 0;
    bool idle_ = false;
  };

  void NotifyAll() {
    for (Consumer* consumer : consumers_) {
      if (!std::exchange(consumer->idle_, false)) continue;
      consumer->Answer([consumer] { consumer->wake_(); });
    }
  }

  std::map<std::string, std::vector<Log>> topics_;
  std::vector<Consumer*> consumers_;
};

}  // namespace weir
