#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/fake_kafka.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/kafka/sink/kafka_committer.h"
#include "worker/connectors/kafka/sink/kafka_sink.h"

// kafka.sink and its committer in a process of their own, for tests with a cluster in memory.
namespace weir {

inline const std::string kJob = "0123456789abcdef0123456789abcdef";
inline const std::string kIdentity = kJob + "-out-0";

inline Schema IdSchema() { return Schema({{"value", Type::kString}}); }

inline RecordBatch Rows(int64_t begin, int64_t end) {
  BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
  for (int64_t id = begin; id < end; ++id) builder.column(0).AppendText(Concat(id));
  return builder.Finish();
}

inline Config SinkConfig() {
  return Config{{"brokers", "b:1"}, {"topic", "out"}, {"format", "raw"}};
}

inline std::vector<int64_t> Ids(const FakeKafka& kafka) {
  std::vector<int64_t> ids;
  for (const auto& partition : kafka.Visible()) {
    for (const FakeKafka::Row& row : partition) ids.push_back(std::stoll(*row.value));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// One generation of one sink subtask in a process of its own.
class Process {
 public:
  Process(FakeKafka& kafka, uint64_t generation,
          std::shared_ptr<MemoryFileSystem::Disk> disk = nullptr, Config config = SinkConfig())
      : clients(kafka),
        files(executor, std::move(disk)),
        context(executor, files, config, IdSchema(), Generation(generation)),
        committer_context(executor, files, config),
        sink(std::make_unique<KafkaSink>(clients)),
        committer(std::make_unique<KafkaCommitter>(clients)) {
    committer->Open(committer_context);
  }

  // Each returns no value when the process died meanwhile or there is no answer in 20 s.
  std::optional<Status> Open() {
    return Wait<Status>([&](auto done) { sink->Open(context, done); });
  }
  std::optional<StatusOr<std::vector<Committable>>> Prepare(uint64_t checkpoint) {
    return Wait<StatusOr<std::vector<Committable>>>(
        [&](auto done) { sink->Prepare(CheckpointId(checkpoint), done); });
  }
  std::optional<Status> Publish(uint64_t checkpoint) {
    return Wait<Status>([&](auto done) { sink->Publish(CheckpointId(checkpoint), done); });
  }
  std::optional<Status> Commit(std::vector<Committable> committables) {
    return Wait<Status>([&](auto done) { committer->Commit(committables, done); });
  }
  std::optional<Status> AbortOthers(uint64_t generation, std::vector<Committable> listed) {
    return Wait<Status>(
        [&](auto done) { committer->AbortOthers(Generation(generation), listed, done); });
  }
  template <typename T>
  std::optional<T> Wait(std::function<void(std::function<void(T)>)> start) {
    auto answer = std::make_shared<std::optional<T>>();
    start([answer](T value) { answer->emplace(std::move(value)); });
    executor.RunUntil(
        [&] { return answer->has_value() || dead || files.killed() || !context.failed_.ok(); },
        20'000'000);
    if (dead || files.killed()) return std::nullopt;
    return *answer;
  }

  ManualExecutor executor;
  FakeKafkaClients clients;
  MemoryFileSystem files;
  FakeSinkContext context;
  FakeCommitterContext committer_context;
  std::unique_ptr<KafkaSink> sink;
  std::unique_ptr<KafkaCommitter> committer;
  bool dead = false;
};

#define ASSERT_SAYS_OK(answer)                         \
  do {                                                 \
    auto answer_ = (answer);                           \
    ASSERT_TRUE(answer_.has_value());                  \
    ASSERT_TRUE(answer_->ok()) << answer_->ToString(); \
  } while (false)

}  // namespace weir
