#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/operator/sink.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {

// One generation of one sink subtask, with its committer, in a process of its own: time and the
// disk are the test's, and a new process on the same disk takes over from one that died.
class SinkProcess {
 public:
  SinkProcess(std::unique_ptr<Sink> made_sink, std::unique_ptr<Committer> made_committer,
              const Config& config, const Schema& schema, uint64_t generation,
              std::shared_ptr<MemoryFileSystem::Disk> disk)
      : files(executor, std::move(disk)),
        context(executor, files, config, schema, Generation(generation)),
        committer_context(executor, files, config),
        sink(std::move(made_sink)),
        committer(std::move(made_committer)) {
    committer->Open(committer_context);
  }

  // Each returns no value when the process died meanwhile, or there is no answer in 20 s, which
  // fails the test where `answers`.
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
    executor.RunUntil([&] { return answer->has_value() || dead || files.killed(); }, 20'000'000);
    if (dead || files.killed()) return std::nullopt;
    EXPECT_TRUE(answer->has_value() || !answers) << "no answer";
    return *answer;
  }

  ManualExecutor executor;
  MemoryFileSystem files;
  FakeSinkContext context;
  FakeCommitterContext committer_context;
  std::unique_ptr<Sink> sink;
  std::unique_ptr<Committer> committer;
  bool answers = true;  // false: what it talks to may be away
  bool dead = false;    // what a test sets that kills the process in another way than by its disk
};

// Whether a process lived to answer; an answer that is an error fails the test.
template <typename Answer>
bool AnsweredOk(const std::optional<Answer>& answer) {
  if (!answer.has_value()) return false;
  if constexpr (requires { answer->status(); }) {
    EXPECT_TRUE(answer->ok()) << answer->status();
  } else {
    EXPECT_TRUE(answer->ok()) << *answer;
  }
  return answer->ok();
}

#define ASSERT_SAYS_OK(answer)                         \
  do {                                                 \
    auto answer_ = (answer);                           \
    ASSERT_TRUE(answer_.has_value());                  \
    ASSERT_TRUE(answer_->ok()) << answer_->ToString(); \
  } while (false)

}  // namespace weir
