#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/operator/operator.h"
#include "common/operator/sink.h"
#include "common/operator/source.h"
#include "tests/support/manual_executor.h"

namespace weir {

// What a connector under test is told about itself: plain members that the test sets.
// Thread: confined to the test.
class FakeSourceContext : public SourceContext {
 public:
  FakeSourceContext(ManualExecutor& executor, FileSystem& files, Config config, Schema schema,
                    int subtask, int parallelism)
      : executor_(executor),
        files_(files),
        config_(std::move(config)),
        schema_(std::make_shared<Schema>(std::move(schema))),
        subtask_(subtask),
        parallelism_(parallelism) {}

  const Config& config() const override { return config_; }
  const JobOptions& options() const override { return options_; }
  const JobId& job() const override { return job_; }
  const std::string& job_name() const override { return job_name_; }
  const std::string& uid() const override { return uid_; }
  Generation generation() const override { return generation_; }
  CheckpointId resumed_from() const override { return resumed_from_; }
  int subtask() const override { return subtask_; }
  int parallelism() const override { return parallelism_; }
  const SchemaPtr& output_schema() const override { return schema_; }
  FileSystem& files() override { return files_; }
  Timers& timers() override { return executor_; }
  Executor& executor() override { return executor_; }
  const Clock& clock() const override { return executor_.clock(); }
  const std::string& staging_directory() const override { return staging_directory_; }
  void Wake() override { woken_ = true; }
  void Fail(Status status) override { failed_ = status; }
  void CountDropped(int64_t rows) override { dropped_ += rows; }
  void SetWaiting(std::string_view part, std::string what) override {
    waiting_[std::string(part)] = std::move(what);
  }
  void CountLost(int64_t rows) override { lost_ += rows; }

  JobOptions options_;
  JobId job_{"0123456789abcdef0123456789abcdef"};
  std::string job_name_ = "job";
  std::string uid_ = "in";
  std::string staging_directory_ = "/job/staged";
  Generation generation_{1};
  CheckpointId resumed_from_;
  Status failed_;
  bool woken_ = false;
  int64_t dropped_ = 0;
  std::map<std::string, std::string> waiting_;  // by part
  int64_t lost_ = 0;

 private:
  ManualExecutor& executor_;
  FileSystem& files_;
  Config config_;
  SchemaPtr schema_;
  int subtask_;
  int parallelism_;
};

class FakeSinkContext : public SinkContext {
 public:
  FakeSinkContext(ManualExecutor& executor, FileSystem& files, Config config, Schema schema,
                  Generation generation)
      : executor_(executor),
        files_(files),
        config_(std::move(config)),
        schema_(std::make_shared<Schema>(std::move(schema))),
        generation_(generation) {}

  const Config& config() const override { return config_; }
  const JobOptions& options() const override { return options_; }
  const JobId& job() const override { return job_; }
  const std::string& job_name() const override { return job_name_; }
  const std::string& uid() const override { return uid_; }
  Generation generation() const override { return generation_; }
  CheckpointId resumed_from() const override { return resumed_from_; }
  CheckpointId restored_from() const override { return std::max(resumed_from_, started_from_); }
  int subtask() const override { return subtask_; }
  int parallelism() const override { return parallelism_; }
  const SchemaPtr& input_schema() const override { return schema_; }
  FileSystem& files() override { return files_; }
  Timers& timers() override { return executor_; }
  Executor& executor() override { return executor_; }
  const Clock& clock() const override { return executor_.clock(); }
  const std::string& staging_directory() const override { return staging_directory_; }
  void Wake() override { woken_ = true; }
  void Fail(Status status) override { failed_ = status; }
  void CountDropped(int64_t rows) override { dropped_ += rows; }
  void SetWaiting(std::string_view part, std::string what) override {
    waiting_[std::string(part)] = std::move(what);
  }
  void ConfirmCurrent(std::function<void(Status)> done) override {
    ++confirms_;
    executor_.Post([done = std::move(done), answer = confirm_answer_] { done(answer); });
  }

  JobOptions options_;
  JobId job_{"0123456789abcdef0123456789abcdef"};
  std::string job_name_ = "job";
  std::string uid_ = "out";
  std::string staging_directory_ = "/job/staged";
  Status confirm_answer_;
  int confirms_ = 0;
  CheckpointId resumed_from_;
  CheckpointId started_from_;  // of another job
  int subtask_ = 0;
  int parallelism_ = 1;
  bool woken_ = false;
  Status failed_;
  int64_t dropped_ = 0;
  std::map<std::string, std::string> waiting_;  // by part

 private:
  ManualExecutor& executor_;
  FileSystem& files_;
  Config config_;
  SchemaPtr schema_;
  Generation generation_;
};

class FakeCommitterContext : public CommitterContext {
 public:
  FakeCommitterContext(ManualExecutor& executor, FileSystem& files, Config config)
      : executor_(executor), files_(files), config_(std::move(config)) {}

  const Config& config() const override { return config_; }
  const JobId& job() const override { return job_; }
  const std::string& job_name() const override { return job_name_; }
  const std::string& uid() const override { return uid_; }
  FileSystem& files() override { return files_; }
  Timers& timers() override { return executor_; }
  Executor& executor() override { return executor_; }
  const std::string& staging_directory() const override { return staging_directory_; }
  const JobSuccessor* successor() const override { return successor_ ? &*successor_ : nullptr; }
  bool ends() const override { return ends_; }
  void ConfirmCurrent(std::function<void(Status)> done) override {
    ++confirms_;
    executor_.Post([done = std::move(done), answer = confirm_answer_] { done(answer); });
  }

  JobId job_{"0123456789abcdef0123456789abcdef"};
  std::string job_name_ = "job";
  std::string uid_ = "out";
  std::string staging_directory_ = "/job/staged";
  std::optional<JobSuccessor> successor_;
  bool ends_ = false;
  Status confirm_answer_;
  int confirms_ = 0;

 private:
  ManualExecutor& executor_;
  FileSystem& files_;
  Config config_;
};

// Keeps what is emitted.
class CollectingOutput : public Output {
 public:
  void Emit(RecordBatch batch) override {
    rows_ += batch.rows();
    batches_.push_back(std::move(batch));
  }
  int64_t rows() const { return rows_; }
  const std::vector<RecordBatch>& batches() const { return batches_; }
  // Column `column` (INT64) of all rows, in order.
  std::vector<int64_t> Int64s(int column) const {
    std::vector<int64_t> values;
    for (const RecordBatch& batch : batches_) {
      for (int64_t row = 0; row < batch.rows(); ++row) {
        values.push_back(batch.column(column).Int64(row));
      }
    }
    return values;
  }

 private:
  int64_t rows_ = 0;
  std::vector<RecordBatch> batches_;
};

}  // namespace weir
