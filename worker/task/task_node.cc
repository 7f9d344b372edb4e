#include "worker/task/task_node.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"

namespace weir {
namespace {

// Stands in for keyed state that could not be had, until the task fails.
class NoKeyedBytes : public KeyedBytes {
 public:
  bool Get(int64_t, std::string_view*) const override { return false; }
  void Set(int64_t, std::string_view) override {}
  void Clear(int64_t) override {}
};

}  // namespace

void Task::ChainOutput::Emit(RecordBatch batch) {
  if (batch.rows() == 0 || !task_.error_.ok()) return;
  Node& node = *task_.nodes_[node_];
  // The same bound within a chain as between workers: chaining must not decide what is an error.
  Status fits = CheckRowBytes(batch);
  if (!fits.ok()) {
    task_.error_ = std::move(fits);
    task_.error_uid_ = node.vertex.uid;
    return;
  }
  node.records_out.fetch_add(batch.rows(), std::memory_order_relaxed);
  auto shared = std::make_shared<const RecordBatch>(std::move(batch));
  if (node_ + 1 < task_.nodes_.size()) {
    node.bytes_out.fetch_add(shared->ByteSize(), std::memory_order_relaxed);
    task_.ProcessAt(node_ + 1, 0, shared);
  } else {
    task_.EmitToEdges(shared);
  }
}

const Config& Task::Context::config() const { return node_.vertex.config; }
const std::string& Task::Context::uid() const { return node_.vertex.uid; }
int Task::Context::subtask() const { return task_.description_.subtask; }
int Task::Context::parallelism() const { return node_.parallelism; }
const SchemaPtr& Task::Context::output_schema() const { return node_.output_schema; }
const JobOptions& Task::Context::options() const { return *task_.description_.options; }
FileSystem& Task::Context::files() { return *task_.files_; }
Timers& Task::Context::timers() { return *task_.environment_.timers; }
Executor& Task::Context::executor() { return task_; }
const Clock& Task::Context::clock() const { return *task_.environment_.clock; }
const std::string& Task::Context::staging_directory() const { return task_.staging_directory_; }

void Task::Context::Wake() {
  task_.source_ready_ = true;
  task_.environment_.wake();
}

int Task::Context::inputs() const { return static_cast<int>(node_.input_schemas.size()); }
const SchemaPtr& Task::Context::input_schema(int input) const { return node_.input_schemas[input]; }
const std::vector<int>& Task::Context::key_columns(int input) const {
  return node_.key_columns[input];
}

StateBackend& Task::Context::state() {
  WEIR_CHECK(node_.state != nullptr);
  return *node_.state;
}

void Task::Context::CountDropped(int64_t rows) {
  node_.dropped_rows.fetch_add(rows, std::memory_order_relaxed);
}

void Task::Context::SetWaiting(std::string_view part, std::string what) {
  node_.waiting.Set(part, std::move(what), clock().WallMicros());
}

void PublishedWaiting::Set(std::string_view part, std::string what, int64_t now_wall_us) {
  auto found = parts_.find(part);
  if (what.empty()) {
    if (found == parts_.end()) return;
    parts_.erase(found);
  } else if (found == parts_.end()) {
    parts_.emplace(part, Waiting{std::move(what), now_wall_us});
  } else {
    found->second.what = std::move(what);
  }
  Waiting all;
  for (const auto& [name, waiting] : parts_) {
    const bool first = all.what.empty();
    all.what += Concat(first ? "" : "; ", waiting.what);
    all.since_wall_us =
        first ? waiting.since_wall_us : std::min(all.since_wall_us, waiting.since_wall_us);
  }
  std::lock_guard lock(mutex_);
  shown_ = std::move(all);
}

void Task::Context::CountLost(int64_t rows) {
  node_.lost_rows.fetch_add(rows, std::memory_order_relaxed);
}

const JobId& Task::Context::job() const { return task_.description_.job; }
const std::string& Task::Context::job_name() const { return task_.description_.graph->name; }
Generation Task::Context::generation() const { return task_.description_.generation; }
CheckpointId Task::Context::resumed_from() const {
  const CheckpointManifest& restored = *task_.description_.restore;
  return restored.job == task_.description_.job ? restored.checkpoint : CheckpointId();
}
CheckpointId Task::Context::restored_from() const { return task_.description_.restore->checkpoint; }
const SchemaPtr& Task::Context::input_schema() const { return node_.input_schemas[0]; }
void Task::Context::ConfirmCurrent(std::function<void(Status)> done) {
  const uint64_t question = ++task_.last_question_;
  task_.confirming_[question] = std::move(done);
  const TaskDescription& description = task_.description_;
  task_.observer_.OnConfirmWanted(description.task, description.subtask, question);
}
void Task::Context::Fail(Status status) { task_.Fail(node_.vertex.uid, std::move(status)); }

Status Task::Context::TakeError() { return std::exchange(error_, Status()); }

StatusOr<KeyedBytes*> Task::Context::keyed_bytes(const std::string& name) {
  if (node_.state == nullptr) {
    return InvalidArgumentError(Concat("operator '", node_.vertex.uid, "' asks for keyed state '",
                                       name, "' but its inputs are not hash partitioned"));
  }
  return node_.state->BytesTable(name);
}

KeyedBytes* Task::Context::keyed_bytes_or_fail(const std::string& name) {
  static NoKeyedBytes none;
  StatusOr<KeyedBytes*> bytes = keyed_bytes(name);
  if (bytes.ok()) return *bytes;
  if (error_.ok()) error_ = bytes.status();
  return &none;
}

}  // namespace weir
