#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/type_descriptor.h"
#include "common/operator/registry.h"
#include "worker/operators/keyed_operator_context.h"
#include "worker/state/state_backend.h"
#include "worker/task/task.h"

namespace weir {

// Rows that one operator of a chain emits: on to the next one, or into the task's edges.
class Task::ChainOutput : public Output {
 public:
  ChainOutput(Task& task, size_t node) : task_(task), node_(node) {}
  void Emit(RecordBatch batch) override;

 private:
  Task& task_;
  const size_t node_;
};

// What an operator, source or sink of a chain sees of its task.
class Task::Context : public KeyedOperatorContext, public SourceContext, public SinkContext {
 public:
  Context(Task& task, Node& node) : task_(task), node_(node) {}

  const Config& config() const override;
  const std::string& uid() const override;
  int subtask() const override;
  int parallelism() const override;
  const SchemaPtr& output_schema() const override;
  const JobOptions& options() const override;
  FileSystem& files() override;
  Timers& timers() override;
  Executor& executor() override;
  const Clock& clock() const override;
  const std::string& staging_directory() const override;
  void Wake() override;
  // OperatorContext
  int inputs() const override;
  const SchemaPtr& input_schema(int input) const override;
  const std::vector<int>& key_columns(int input) const override;
  StateBackend& state() override;
  // SourceContext
  void CountLost(int64_t rows) override;
  // SourceContext and SinkContext
  void SetWaiting(std::string_view part, std::string what) override;
  void CountDropped(int64_t rows) override;
  const JobId& job() const override;
  const std::string& job_name() const override;
  Generation generation() const override;
  CheckpointId resumed_from() const override;
  CheckpointId restored_from() const override;
  void Fail(Status status) override;
  // SinkContext
  const SchemaPtr& input_schema() const override;
  void ConfirmCurrent(std::function<void(Status)> done) override;

  // The error of a keyed_bytes_or_fail since the last call.
  Status TakeError();

 protected:
  StatusOr<KeyedBytes*> keyed_bytes(const std::string& name) override;
  KeyedBytes* keyed_bytes_or_fail(const std::string& name) override;

 private:
  Task& task_;
  Node& node_;
  Status error_;
};

// What a sink last told of itself. Thread: set by the task's, read from anywhere; numbers of one
// moment may be mixed with those of the next.
class PublishedProgress {
 public:
  void Set(const SinkProgress& progress) {
    staged_rows_.store(progress.staged_rows, std::memory_order_relaxed);
    staged_bytes_.store(progress.staged_bytes, std::memory_order_relaxed);
    publishing_rows_.store(progress.publishing_rows, std::memory_order_relaxed);
    publishing_bytes_.store(progress.publishing_bytes, std::memory_order_relaxed);
    committed_.store(progress.committed.value(), std::memory_order_relaxed);
    committed_wall_us_.store(progress.committed_wall_us, std::memory_order_relaxed);
    told_.store(true, std::memory_order_release);
  }
  std::optional<SinkProgress> Get() const {
    if (!told_.load(std::memory_order_acquire)) return std::nullopt;
    SinkProgress progress;
    progress.staged_rows = staged_rows_.load(std::memory_order_relaxed);
    progress.staged_bytes = staged_bytes_.load(std::memory_order_relaxed);
    progress.publishing_rows = publishing_rows_.load(std::memory_order_relaxed);
    progress.publishing_bytes = publishing_bytes_.load(std::memory_order_relaxed);
    progress.committed = CheckpointId(committed_.load(std::memory_order_relaxed));
    progress.committed_wall_us = committed_wall_us_.load(std::memory_order_relaxed);
    return progress;
  }

 private:
  std::atomic<bool> told_{false};
  std::atomic<int64_t> staged_rows_{0};
  std::atomic<int64_t> staged_bytes_{0};
  std::atomic<int64_t> publishing_rows_{0};
  std::atomic<int64_t> publishing_bytes_{0};
  std::atomic<uint64_t> committed_{0};
  std::atomic<int64_t> committed_wall_us_{0};
};

// What a source or sink waits for, and since when. Thread: set by the task's, read from anywhere.
class PublishedWaiting {
 public:
  struct Waiting {
    std::string what;
    int64_t since_wall_us = 0;
  };
  // Under a part's name the words may change, not the beginning.
  void Set(std::string_view part, std::string what, int64_t now_wall_us);
  Waiting Get() const {
    std::lock_guard lock(mutex_);
    return shown_;
  }

 private:
  std::map<std::string, Waiting, std::less<>> parts_;
  mutable std::mutex mutex_;
  Waiting shown_;  // guarded by mutex_
};

// One operator subtask of the chain with its state and counters. Thread: the task's; counters are
// read from anywhere.
class Task::Node {
 public:
  Node(Task& task, size_t index, const JobVertex& vertex, int parallelism, int max_parallelism)
      : vertex(vertex),
        parallelism(parallelism),
        max_parallelism(max_parallelism),
        context(task, *this),
        output(task, index) {}

  bool keyed() const { return state != nullptr; }
  // What of this node waits for checkpoints to complete; nullptr: nothing.
  CommittableOwner* committable_owner() const {
    if (sink != nullptr) return sink.get();
    return source != nullptr ? source->committable_owner() : nullptr;
  }

  const JobVertex& vertex;
  const int parallelism;
  const int max_parallelism;
  // Exactly one of the three once opened.
  std::unique_ptr<Operator> op;
  std::unique_ptr<Source> source;
  std::unique_ptr<Sink> sink;
  std::unique_ptr<StateBackend> state;  // when the inputs are keyed
  std::vector<SchemaPtr> input_schemas;
  std::vector<std::vector<int>> key_columns;  // by input
  SchemaPtr output_schema;
  Context context;
  ChainOutput output;

  std::atomic<int64_t> records_in{0};
  std::atomic<int64_t> records_out{0};
  std::atomic<int64_t> bytes_out{0};
  std::atomic<int64_t> dropped_rows{0};
  std::atomic<int64_t> lost_rows{0};
  PublishedProgress progress;  // of the sink
  PublishedWaiting waiting;    // of the source or sink
};

}  // namespace weir
