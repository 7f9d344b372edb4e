// Goal: a task cuts its snapshots exactly at the barriers, publishes only what completed, ends its
// input once, and reports its first error. Method: one real Task with operators made here, local
// channels on both sides, an in-memory disk and a manual clock; every step is made by hand.

#include "worker/task/task.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/concat.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/checkpoint/snapshot_files.h"
#include "worker/network/local_channel.h"

namespace weir {
namespace {

// What the operators under test did, by name.
struct Trace {
  std::string inputs;  // of the batches that the operator got
  std::vector<std::string> calls;
  std::vector<int64_t> written;
  std::vector<SplitState> restored;
  int64_t source_rows = 0;
  int64_t source_next = 0;
  bool sink_ready = true;
  bool source_owns = false;  // the source has dead letters
  bool letters_ready = true;
  std::function<void(StatusOr<std::vector<Committable>>)> prepare_done;
  SinkContext* sink_context = nullptr;
  SourceContext* source_context = nullptr;
  std::optional<SinkProgress> progress;
};
Trace* trace = nullptr;

// What a source writes beside its rows.
class Letters : public CommittableOwner {
 public:
  bool Ready() const override { return trace->letters_ready; }
  void Prepare(CheckpointId n,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    trace->calls.push_back("letters: prepare " + std::to_string(n.value()) + " at " +
                           std::to_string(trace->source_next));
    Committable letter;
    letter.uid = "numbers";
    letter.checkpoint = n;
    letter.payload = "letters";
    done(std::vector<Committable>{letter});
  }
  void Publish(CheckpointId n, std::function<void(Status)> done) override {
    trace->calls.push_back("letters: publish " + std::to_string(n.value()));
    done(Status());
  }
  void OnAborted(CheckpointId n) override {
    trace->calls.push_back("letters: abort " + std::to_string(n.value()));
  }
};

class CountingSource : public Source {
 public:
  Status Open(SourceContext& context, const std::vector<SplitState>& restored) override {
    schema_ = context.output_schema();
    trace->source_context = &context;
    trace->restored = restored;
    for (const SplitState& state : restored) trace->source_next = std::stoll(state.position);
    return {};
  }
  StatusOr<PollResult> Poll(Output& output) override {
    if (trace->source_next >= trace->source_rows) return PollResult::kEnded;
    BatchBuilder builder(schema_);
    builder.column(0).AppendInt64(trace->source_next++);
    output.Emit(builder.Finish());
    return PollResult::kRows;
  }
  std::vector<SplitState> SnapshotPositions() override {
    return {{"only", std::to_string(trace->source_next)}};
  }
  CommittableOwner* committable_owner() override {
    return trace->source_owns ? &letters_ : nullptr;
  }

 private:
  Letters letters_;
  SchemaPtr schema_;
};

class RunningSum : public Operator {
 public:
  Status Open(OperatorContext& context) override {
    sum_ = context.value_state<int64_t>("sum");
    schema_ = context.output_schema();
    return {};
  }
  Status ProcessBatch(int input, const RecordBatch& batch, Output& output) override {
    trace->inputs += std::to_string(input);
    BatchBuilder builder(schema_);
    for (int64_t i = 0; i < batch.rows(); ++i) {
      if (batch.column(0).Int64(i) < 0) return OutOfRangeError("negative row");
      int64_t sum = sum_.get(i) + batch.column(0).Int64(i);
      sum_.set(i, sum);
      builder.column(0).AppendInt64(sum);
    }
    output.Emit(builder.Finish());
    return {};
  }
  Status OnEndOfInput(Output& output) override {
    BatchBuilder builder(schema_);
    builder.column(0).AppendInt64(1000);
    output.Emit(builder.Finish());
    return {};
  }

 private:
  ValueState<int64_t> sum_;
  SchemaPtr schema_;
};

class TracingSink : public Sink {
 public:
  void Open(SinkContext& context, std::function<void(Status)> done) override {
    trace->sink_context = &context;
    done(Status());
  }
  Status Write(const RecordBatch& batch) override {
    for (int64_t i = 0; i < batch.rows(); ++i) trace->written.push_back(batch.column(0).Int64(i));
    return {};
  }
  bool Ready() const override { return trace->sink_ready; }
  void Prepare(CheckpointId n,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    trace->calls.push_back("prepare " + std::to_string(n.value()) + " rows " +
                           std::to_string(trace->written.size()));
    trace->prepare_done = std::move(done);
  }
  void Publish(CheckpointId n, std::function<void(Status)> done) override {
    trace->calls.push_back("publish " + std::to_string(n.value()));
    done(Status());
  }
  void OnAborted(CheckpointId n) override {
    trace->calls.push_back("abort " + std::to_string(n.value()));
  }
  std::optional<SinkProgress> progress() const override { return trace->progress; }
};

// A disk that takes no more requests for a while, as one that hangs.
class HeldFileSystem : public MemoryFileSystem {
 public:
  HeldFileSystem(Executor& executor, std::shared_ptr<Disk> disk, bool* held, int* creates)
      : MemoryFileSystem(executor, std::move(disk)), held_(held), creates_(creates) {}
  void Create(std::string path, std::string bytes, Done done) override {
    ++*creates_;
    waiting_.push_back([this, path, bytes, done] { MemoryFileSystem::Create(path, bytes, done); });
    if (!*held_) Go();
  }
  void Go() {
    for (auto& request : std::exchange(waiting_, {})) request();
  }

 private:
  bool* held_;
  int* creates_;
  std::vector<std::function<void()>> waiting_;
};

class TaskTest : public testing::Test, public TaskObserver {
 protected:
  static void SetUpTestSuite() {
    Registry::Global().AddSource("test.source", [] { return std::make_unique<CountingSource>(); });
    Registry::Global().AddOperator("test.sum", [] { return std::make_unique<RunningSum>(); });
    Registry::Global().AddSink("test.sink", {[] { return std::make_unique<TracingSink>(); },
                                             [] { return std::unique_ptr<Committer>(); }});
  }
  void SetUp() override {
    trace = &trace_;
    disk_files_.PutDirectory("/job");
    graph_ = std::make_shared<JobGraph>();
    plan_ = std::make_shared<ExecutionPlan>();
    restore_ = std::make_shared<CheckpointManifest>();
  }
  void TearDown() override {
    if (task_) task_->Shutdown();
  }

  void OnReport(TaskReport report) override { reports_.push_back(std::move(report)); }
  void OnAcknowledge(TaskAck ack) override { acks_.push_back(std::move(ack)); }
  void OnPublished(PublishReport report) override { published_.push_back(std::move(report)); }
  void OnConfirmWanted(int, int, uint64_t question) override { questions_.push_back(question); }

  static JobVertex Vertex(const std::string& uid, const std::string& type, bool emits) {
    JobVertex vertex;
    vertex.uid = uid;
    vertex.type = type;
    if (emits) vertex.output_schema = Schema({{"n", Type::kInt64}});
    return vertex;
  }
  // One task of these vertices; with `inputs` channels into it (keyed) and one out of it.
  void Make(std::vector<JobVertex> chain, int inputs, bool output) {
    graph_->vertices.push_back(Vertex("upstream", "test.source", true));
    ExecutionPlan::TaskVertex upstream;
    upstream.chain = {0};
    ExecutionPlan::TaskVertex task;
    for (JobVertex& vertex : chain) {
      task.chain.push_back(static_cast<int>(graph_->vertices.size()));
      graph_->vertices.push_back(std::move(vertex));
    }
    plan_->tasks = {upstream, task};
    std::vector<InputGate::Channel> in;
    if (inputs > 0) {
      ExecutionPlan::Edge edge;
      edge.from_task = 0;
      edge.to_task = 1;
      edge.partitioning = Partitioning::kHash;
      edge.schema = std::make_shared<const Schema>(Schema({{"n", Type::kInt64}}));
      edge.key_columns = {0};
      edge.partial_schema = partial_schema_;
      plan_->edges.push_back(edge);
      plan_->tasks[1].inputs = {0};
      for (int i = 0; i < inputs; ++i) {
        inputs_.push_back(std::make_unique<LocalChannel>(1 << 20));
        in.push_back({inputs_.back().get(), 0, false});
      }
    }
    std::vector<std::unique_ptr<EdgeOutput>> out;
    if (output) {
      output_ = std::make_unique<LocalChannel>(64);
      ExecutionPlan::Edge edge;
      edge.from_task = 1;
      edge.schema = std::make_shared<const Schema>(Schema({{"n", Type::kInt64}}));
      std::vector<ChannelSender*> senders = {output_.get()};
      if (gathers_rows_) {
        edge.partitioning = Partitioning::kHash;
        edge.key_columns = {0};
        other_output_ = std::make_unique<LocalChannel>(64);
        senders.push_back(other_output_.get());
      }
      out.push_back(std::make_unique<EdgeOutput>(edge, 128, JobOptions(), senders));
    }
    TaskDescription description;
    description.job = JobId("j");
    description.generation = Generation(2);
    description.job_directory = "/job";
    description.restore_directory = "/job";
    description.task = 1;
    description.graph = graph_;
    description.plan = plan_;
    description.options = std::make_shared<const JobOptions>();
    description.restore = restore_;
    TaskEnvironment environment;
    environment.make_files = [this](Executor& owner) {
      auto files = std::make_unique<HeldFileSystem>(owner, disk_files_.disk(), &held_, &creates_);
      files_ = files.get();
      return files;
    };
    environment.timers = std::make_unique<ManualExecutor>();
    environment.clock = &executor_.clock();
    environment.wake = [this] { ++wakes_; };
    environment.registry = &Registry::Global();
    environment.snapshot_pace = pace_;
    task_ = std::make_unique<Task>(std::move(description), std::move(environment), *this,
                                   std::move(in), std::move(out));
    task_->Post([this] { task_->Start(); });
  }
  // Steps until the task neither makes progress nor has mail that wakes it.
  StepResult Run() {
    StepResult result;
    for (int i = 0; i < 10'000; ++i) {
      int before = wakes_;
      result = task_->Step();
      if (result.kind != StepResult::Kind::kProgress && wakes_ == before) return result;
    }
    ADD_FAILURE() << "the task does not come to rest";
    return result;
  }
  static RecordBatchPtr Rows(std::vector<int64_t> values) {
    BatchBuilder builder(std::make_shared<const Schema>(Schema({{"n", Type::kInt64}})));
    for (int64_t value : values) builder.column(0).AppendInt64(value);
    return std::make_shared<const RecordBatch>(builder.Finish());
  }
  // Rows as numbers, "B<n>" barriers, "E" end of input.
  std::string Out() {
    std::string text;
    StreamElement element;
    while (*output_->TryPop(&element)) {
      if (auto* batch = std::get_if<RecordBatchPtr>(&element)) {
        for (int64_t i = 0; i < (*batch)->rows(); ++i) {
          text += std::to_string((*batch)->column(0).Int64(i)) + " ";
        }
      } else if (auto* barrier = std::get_if<Barrier>(&element)) {
        text += "B" + std::to_string(barrier->checkpoint.value()) + " ";
      } else {
        text += "E ";
      }
    }
    return text;
  }

  Trace trace_;
  ManualExecutor executor_;
  MemoryFileSystem disk_files_{executor_};
  std::shared_ptr<JobGraph> graph_;
  std::shared_ptr<ExecutionPlan> plan_;
  std::shared_ptr<CheckpointManifest> restore_;
  std::vector<std::unique_ptr<LocalChannel>> inputs_;
  std::unique_ptr<LocalChannel> output_;
  bool gathers_rows_ = false;  // the output is partitioned over output_ and other_output_
  std::unique_ptr<LocalChannel> other_output_;
  std::vector<TaskReport> reports_;
  std::vector<TaskAck> acks_;
  std::vector<PublishReport> published_;
  std::vector<uint64_t> questions_;
  SnapshotPace pace_;
  int wakes_ = 0;
  SchemaPtr partial_schema_;  // of what else comes into the task
  bool held_ = false;
  int creates_ = 0;  // files asked for
  HeldFileSystem* files_ = nullptr;
  std::unique_ptr<Task> task_;
};

TEST_F(TaskTest, TheCutLiesExactlyAtTheBarriersOfAllChannels) {
  disk_files_.PutDirectory("/job/chk-5.2");
  Make({Vertex("sum", "test.sum", true)}, 2, true);
  EXPECT_EQ(Run().kind, StepResult::Kind::kIdle);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].state, TaskState::kRunning);
  inputs_[0]->Push(Rows({1}));
  inputs_[0]->Push(Barrier{CheckpointId(5), 0});
  inputs_[0]->Push(Rows({1}));
  inputs_[1]->Push(Rows({2}));
  Run();
  EXPECT_EQ(Out(), "1 2 ");  // the row behind barrier 5 waits
  inputs_[1]->Push(Rows({2}));
  inputs_[1]->Push(Barrier{CheckpointId(5), 0});
  Run();
  EXPECT_EQ(Out(), "4 B5 2 ");
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_TRUE(acks_[0].error.ok()) << acks_[0].error;
  ASSERT_EQ(acks_[0].snapshots.size(), 1u);

  // Restored from that snapshot the sums go on from 1 and 4.
  CheckpointManifest manifest;
  manifest.checkpoint = CheckpointId(5);
  manifest.snapshots = acks_[0].snapshots;
  *restore_ = manifest;
  task_->Shutdown();
  inputs_.clear();
  graph_->vertices.clear();
  plan_->edges.clear();
  Make({Vertex("sum", "test.sum", true)}, 1, true);
  inputs_[0]->Push(Rows({1, 2}));
  Run();
  EXPECT_EQ(Out(), "2 6 ");
}

TEST_F(TaskTest, PartialRowsHaveTheNextInputNumberAndCountAsTheRowsTheyStandFor) {
  partial_schema_ =
      std::make_shared<const Schema>(Schema({{"n", Type::kInt64}, {"rows", Type::kInt64}}, 1));
  Make({Vertex("sum", "test.sum", true)}, 1, true);
  BatchBuilder partials(partial_schema_);
  for (const int64_t n : {1, 2}) {
    partials.column(0).AppendInt64(n);
    partials.column(1).AppendInt64(n * 10);
  }
  inputs_[0]->Push(Rows({1, 1, 2}));
  inputs_[0]->Push(std::make_shared<const RecordBatch>(partials.Finish()));
  inputs_[0]->Push(Rows({2}));
  Run();
  EXPECT_EQ(Out(), "1 2 2 3 4 6 ");
  EXPECT_EQ(trace_.inputs, "010");
  EXPECT_EQ(task_->Metrics()[0].records_in, 3 + 10 + 20 + 1);
  EXPECT_EQ(task_->Metrics()[0].records_out, 6);
}

// State that is written down bit by bit while rows go on changing it.
class TaskSnapshotTest : public TaskTest {
 protected:
  static constexpr int kKeys = 30000;

  void SetUp() override {
    TaskTest::SetUp();
    pace_ = {0, 256, 1 << 20};
    for (int n = 5; n <= 7; ++n) disk_files_.PutDirectory(Concat("/job/chk-", n, ".2"));
    Make({Vertex("sum", "test.sum", true)}, 1, true);
    Run();
  }
  // A row of each key, all of which add up to as often as this was called; what came out.
  std::string AllKeys() {
    std::string out;
    for (int64_t key = 0; key < kKeys; key += 100) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < 100; ++i) rows.push_back(key + i);
      inputs_[0]->Push(Rows(rows));
      while (task_->Step().kind == StepResult::Kind::kProgress && inputs_[0]->queued_bytes() > 0) {
      }
      out += Out();
    }
    return out;
  }
  static std::string Sums(int64_t times) {
    std::string out;
    for (int64_t key = 0; key < kKeys; ++key) out += std::to_string(key * times) + " ";
    return out;
  }
  void TakeBarrier(int64_t n) {
    inputs_[0]->Push(Barrier{CheckpointId(static_cast<uint64_t>(n)), 0});
    task_->Step();
  }
  // The task restored from what it acknowledged has as many rows of each key behind it.
  void ExpectRestored(const TaskAck& ack, int64_t times) {
    ASSERT_TRUE(ack.error.ok()) << ack.error;
    restore_->checkpoint = ack.checkpoint;
    restore_->snapshots = ack.snapshots;
    pace_ = {};
    task_->Shutdown();
    inputs_.clear();
    graph_->vertices.clear();
    plan_->edges.clear();
    Make({Vertex("sum", "test.sum", true)}, 1, true);
    Run();
    EXPECT_EQ(AllKeys(), Sums(times + 1));
  }
};

TEST_F(TaskSnapshotTest, TheBarrierGoesOnAtOnceAndRowsBehindItAreNotInTheSnapshot) {
  EXPECT_EQ(AllKeys(), Sums(1));
  TakeBarrier(5);
  EXPECT_EQ(Out(), "B5 ");
  EXPECT_TRUE(acks_.empty());
  EXPECT_EQ(AllKeys(), Sums(2));
  Run();  // a task without rows goes on writing
  ASSERT_EQ(acks_.size(), 1u);
  ExpectRestored(acks_[0], 1);
}

TEST_F(TaskSnapshotTest, AnAbortedSnapshotIsDroppedAndTheNextIsWhole) {
  EXPECT_EQ(AllKeys(), Sums(1));
  TakeBarrier(5);
  task_->Step();
  task_->OnAborted(CheckpointId(5));
  Run();
  EXPECT_TRUE(acks_.empty());
  EXPECT_EQ(Out(), "B5 ");
  EXPECT_EQ(AllKeys(), Sums(2));
  TakeBarrier(6);
  task_->OnAborted(CheckpointId(5));  // once more
  EXPECT_EQ(Out(), "B6 ");
  EXPECT_EQ(AllKeys(), Sums(3));
  Run();
  ASSERT_EQ(acks_.size(), 1u);
  ExpectRestored(acks_[0], 2);
}

TEST_F(TaskSnapshotTest, ABarrierBehindAnUnfinishedSnapshotFinishesIt) {
  EXPECT_EQ(AllKeys(), Sums(1));
  TakeBarrier(5);
  EXPECT_EQ(Out(), "B5 ");
  inputs_[0]->Push(Rows({1}));
  task_->Step();
  EXPECT_EQ(Out(), "2 ");
  TakeBarrier(6);
  Run();
  ASSERT_EQ(acks_.size(), 2u);
  EXPECT_EQ(acks_[1].checkpoint, CheckpointId(6));
  EXPECT_TRUE(acks_[1].error.ok());
  ExpectRestored(acks_[0], 1);
}

TEST_F(TaskSnapshotTest, ASlowDiskHoldsUpTheSnapshotNotTheTask) {
  pace_.ahead_bytes_max = 1;
  task_->Shutdown();
  inputs_.clear();
  graph_->vertices.clear();
  plan_->edges.clear();
  Make({Vertex("sum", "test.sum", true)}, 1, true);
  Run();
  EXPECT_EQ(AllKeys(), Sums(1));
  held_ = true;
  TakeBarrier(5);
  EXPECT_EQ(Run().kind, StepResult::Kind::kIdle);
  EXPECT_EQ(creates_, 1);
  EXPECT_EQ(Out(), "B5 ");
  EXPECT_EQ(AllKeys(), Sums(2));
  EXPECT_TRUE(acks_.empty());
  held_ = false;
  files_->Go();
  Run();
  ASSERT_EQ(acks_.size(), 1u);
  ExpectRestored(acks_[0], 1);
}

TEST_F(TaskSnapshotTest, ATaskMayEndWhileItsSnapshotIsWrittenDown) {
  EXPECT_EQ(AllKeys(), Sums(1));
  TakeBarrier(5);
  task_->Step();
  task_->Shutdown();
  EXPECT_TRUE(acks_.empty());
}

TEST_F(TaskTest, AFailedSnapshotWriteDeclinesTheCheckpointAndTheTaskGoesOn) {
  Make({Vertex("sum", "test.sum", true)}, 1, true);  // no directory chk-1.2
  Run();
  inputs_[0]->Push(Rows({3}));
  inputs_[0]->Push(Barrier{CheckpointId(1), 0});
  inputs_[0]->Push(Rows({3}));
  Run();
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_FALSE(acks_[0].error.ok());
  EXPECT_EQ(Out(), "3 B1 6 ");
}

TEST_F(TaskTest, ASourceInjectsBarriersInGrowingOrderAndEndsItsInputOnce) {
  disk_files_.PutDirectory("/job/chk-2.2");
  disk_files_.PutDirectory("/job/chk-4.2");
  trace_.source_rows = 3;
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  for (int i = 0; i < 2; ++i) task_->Step();  // the first step starts and reads
  task_->Trigger(Barrier{CheckpointId(2), 0});
  task_->Trigger(Barrier{CheckpointId(2), 0});
  task_->Trigger(Barrier{CheckpointId(1), 0});
  EXPECT_EQ(Run().reason, BlockingReason::kFinishing);
  task_->OnAborted(CheckpointId(3));
  task_->Trigger(Barrier{CheckpointId(3), 0});
  task_->Trigger(Barrier{CheckpointId(4), 0});
  Run();
  EXPECT_EQ(Out(), "0 1 B2 2 E B4 ");
  ASSERT_EQ(acks_.size(), 2u);
  EXPECT_EQ(DecodePositions(disk_files_.Bytes("/job/" + acks_[0].snapshots[0].handles[0].path))
                ->at(0)
                .position,
            "2");
  int ended = 0;
  for (const TaskReport& report : reports_) ended += report.state == TaskState::kEndedInput;
  EXPECT_EQ(ended, 1);
}

// Given a source that owns committables, chained to a sink that does as well, then each is asked at
// the barrier, listed under its own operator, and published; an ack waits for both.
TEST_F(TaskTest, ASourceMayOwnCommittablesBesideTheSink) {
  disk_files_.PutDirectory("/job/chk-2.2");
  trace_.source_rows = 3;
  trace_.source_owns = true;
  Make({Vertex("numbers", "test.source", true), Vertex("out", "test.sink", false)}, 0, false);
  for (int i = 0; i < 2; ++i) task_->Step();
  task_->Trigger(Barrier{CheckpointId(2), 0});
  trace_.letters_ready = false;
  const StepResult blocked = Run();
  EXPECT_EQ(blocked.kind, StepResult::Kind::kBlocked);
  EXPECT_EQ(blocked.reason, BlockingReason::kDeadLetters);
  EXPECT_EQ(ToString(blocked.reason), "dead letters");
  EXPECT_EQ(trace_.source_next, 2);
  EXPECT_TRUE(acks_.empty());
  trace_.letters_ready = true;
  Committable rows;
  rows.uid = "out";
  trace_.prepare_done(std::vector<Committable>{rows});
  Run();
  ASSERT_EQ(acks_.size(), 1u);
  ASSERT_EQ(acks_[0].snapshots.size(), 2u);
  ASSERT_EQ(acks_[0].snapshots[0].committables.size(), 1u);
  EXPECT_EQ(acks_[0].snapshots[0].committables[0].payload, "letters");
  ASSERT_EQ(acks_[0].snapshots[1].committables.size(), 1u);
  EXPECT_EQ(acks_[0].snapshots[1].committables[0].uid, "out");
  task_->OnCompleted(CheckpointId(2));
  task_->OnAborted(CheckpointId(3));
  Run();
  EXPECT_EQ(trace_.calls, (std::vector<std::string>{"letters: prepare 2 at 2", "prepare 2 rows 2",
                                                    "letters: publish 2", "publish 2",
                                                    "letters: abort 3", "abort 3"}));
  ASSERT_EQ(published_.size(), 2u);
  EXPECT_EQ(published_[0].uid, "numbers");
  EXPECT_EQ(published_[1].uid, "out");
}

// Given a source that gathers rows for its receivers, when the thread turns to other tasks, then
// what would be held back for more than batch.delay_max (5 ms) before its next turn is pushed now.
TEST_F(TaskTest, RowsAreNotHeldBackWhileOtherTasksHaveTheirTurn) {
  trace_.source_rows = 10;
  gathers_rows_ = true;
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  for (int i = 0; i < 3; ++i) task_->Step();
  const int64_t now_us = executor_.clock().MonotonicMicros();
  task_->Rest(now_us + 4'999);
  EXPECT_FALSE(output_->HasElement() || other_output_->HasElement());
  task_->Rest(now_us + 5'000);
  EXPECT_TRUE(output_->HasElement() || other_output_->HasElement());
}

TEST_F(TaskTest, OperatorsSpeakOnceMoreAtEndOfInput) {
  Make({Vertex("sum", "test.sum", true)}, 2, true);
  inputs_[0]->Push(Rows({1}));
  inputs_[0]->Push(EndOfInput{});
  Run();
  EXPECT_EQ(Out(), "1 ");
  inputs_[1]->Push(EndOfInput{});
  EXPECT_EQ(Run().reason, BlockingReason::kFinishing);
  EXPECT_EQ(Out(), "1000 E ");
  EXPECT_EQ(reports_.back().state, TaskState::kEndedInput);
}

TEST_F(TaskTest, TheAckWaitsUntilTheSinkHasSealedAndNothingIsPublishedBefore) {
  disk_files_.PutDirectory("/job/chk-1.2");
  Make({Vertex("out", "test.sink", false)}, 1, false);
  inputs_[0]->Push(Rows({1, 2}));
  inputs_[0]->Push(Barrier{CheckpointId(1), 0});
  inputs_[0]->Push(Rows({3}));
  Run();
  EXPECT_EQ(trace_.calls, std::vector<std::string>{"prepare 1 rows 2"});
  EXPECT_EQ(trace_.written.size(), 3u);
  EXPECT_TRUE(acks_.empty());
  Committable sealed;
  sealed.uid = "out";
  sealed.payload = "file";
  task_->Post([this, sealed] { trace_.prepare_done(std::vector<Committable>{sealed}); });
  Run();
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_EQ(acks_[0].snapshots[0].committables, std::vector<Committable>{sealed});
  task_->OnAborted(CheckpointId(0));
  task_->OnCompleted(CheckpointId(1));
  EXPECT_EQ(trace_.calls.back(), "publish 1");
  ASSERT_EQ(published_.size(), 1u);
  EXPECT_EQ(published_[0].checkpoint, CheckpointId(1));
}

TEST_F(TaskTest, ASinkThatCannotSealFailsTheTask) {
  disk_files_.PutDirectory("/job/chk-1.2");
  Make({Vertex("out", "test.sink", false)}, 1, false);
  inputs_[0]->Push(Barrier{CheckpointId(1), 0});
  Run();
  task_->Post([this] { trace_.prepare_done(ResourceExhaustedError("disk full")); });
  EXPECT_EQ(Run().kind, StepResult::Kind::kDone);
  EXPECT_TRUE(acks_.empty());
  EXPECT_EQ(reports_.back().state, TaskState::kFailed);
  EXPECT_EQ(reports_.back().uid, "out");
}

TEST_F(TaskTest, ASinkIsToldWhetherItsGenerationIsCurrentAsMailOfItsTask) {
  Make({Vertex("out", "test.sink", false)}, 1, false);
  Run();
  SinkContext& context = *trace_.sink_context;
  EXPECT_EQ(context.staging_directory(), "/job/staged");
  std::string answers;
  auto ask = [&](const std::string& name) {
    context.ConfirmCurrent([&answers, &context, name](const Status& status) {
      EXPECT_TRUE(context.executor().InOwnerThread());
      answers += Concat(name, status.ok() ? " ok " : " not ");
    });
  };
  context.executor().Post([&] {
    ask("first");
    ask("second");
  });
  Run();
  ASSERT_EQ(questions_.size(), 2u);
  EXPECT_EQ(answers, "");
  auto answer = [&](uint64_t question, const Status& status) {
    task_->Post([this, question, status] { task_->OnConfirmed(question, status); });
  };
  answer(questions_[1], StaleError("ended"));
  answer(questions_[0], Status());
  answer(questions_[0], Status());  // said again
  Run();
  EXPECT_EQ(answers, "second not first ok ");
}

TEST_F(TaskTest, WhatASinkTellsOfItselfIsInTheMetrics) {
  Make({Vertex("out", "test.sink", false)}, 1, false);
  Run();
  EXPECT_FALSE(task_->Metrics().at(0).sink.has_value());
  trace_.progress = SinkProgress{5, 50, 3, 30, CheckpointId(7), 1'700'000'000'000'000};
  inputs_[0]->Push(Rows({1}));
  Run();
  EXPECT_EQ(task_->Metrics().at(0).sink, trace_.progress);
  // The last word counts, also when the task comes to rest right after a row.
  trace_.progress->staged_rows = 6;
  inputs_[0]->Push(Rows({1}));
  Run();
  EXPECT_EQ(task_->Metrics().at(0).sink->staged_rows, 6);
}

TEST_F(TaskTest, RowsLostBeforeACheckpointAreCountedOnByWhoRestoresIt) {
  disk_files_.PutDirectory("/job/chk-5.2");
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  trace_.source_rows = 100;
  task_->Step();
  task_->Post([this] { trace_.source_context->CountLost(12); });
  task_->Post([this] { task_->Trigger(Barrier{CheckpointId(5), 0}); });
  for (int i = 0; i < 20; ++i) {
    task_->Step();
    Out();
  }
  EXPECT_EQ(task_->Metrics().at(0).lost_rows, 12);
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_EQ(acks_[0].snapshots.at(0).lost_rows, 12);
  restore_->checkpoint = CheckpointId(5);
  restore_->snapshots = acks_[0].snapshots;
  task_->Shutdown();
  graph_->vertices.clear();
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  Run();
  task_->Post([this] { trace_.source_context->CountLost(3); });
  Run();
  EXPECT_EQ(task_->Metrics().at(0).lost_rows, 15);
}

TEST_F(TaskTest, RowsThatASinkLeavesOutAreInTheMetricsAndTheSnapshot) {
  disk_files_.PutDirectory("/job/chk-1.2");
  Make({Vertex("out", "test.sink", false)}, 1, false);
  Run();
  task_->Post([this] { trace_.sink_context->CountDropped(4); });
  inputs_[0]->Push(Barrier{CheckpointId(1), 0});
  Run();
  task_->Post([this] { trace_.prepare_done(std::vector<Committable>()); });
  Run();
  EXPECT_EQ(task_->Metrics().at(0).dropped_rows, 4);
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_EQ(acks_[0].snapshots.at(0).dropped_rows, 4);
}

TEST_F(TaskTest, ASinkThatIsNotReadyHoldsTheTaskBackWithANamedReason) {
  Make({Vertex("out", "test.sink", false)}, 1, false);
  trace_.sink_ready = false;
  inputs_[0]->Push(Rows({1}));
  StepResult result = Run();
  EXPECT_EQ(result.kind, StepResult::Kind::kBlocked);
  EXPECT_EQ(result.reason, BlockingReason::kSink);
  EXPECT_TRUE(trace_.written.empty());
  trace_.sink_ready = true;
  Run();
  EXPECT_EQ(trace_.written.size(), 1u);
}

TEST_F(TaskTest, WithoutCreditNoFurtherElementIsTakenButBarriersOfASourceStillGoOut) {
  disk_files_.PutDirectory("/job/chk-1.2");
  trace_.source_rows = 1000;
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  StepResult result = Run();
  EXPECT_EQ(result.reason, BlockingReason::kCredit);
  int64_t emitted = trace_.source_next;
  EXPECT_LE(emitted, 10);  // the window is 64 bytes
  task_->Trigger(Barrier{CheckpointId(1), 0});
  Run();
  EXPECT_EQ(trace_.source_next, emitted);
  EXPECT_NE(Out().find("B1"), std::string::npos);
  Run();
  EXPECT_GT(trace_.source_next, emitted);
}

TEST_F(TaskTest, TheFirstErrorIsReportedWithItsOperatorAndEndsTheTask) {
  Make({Vertex("sum", "test.sum", true)}, 1, true);
  inputs_[0]->Push(Rows({1, -1}));
  inputs_[0]->Push(Rows({2}));
  EXPECT_EQ(Run().kind, StepResult::Kind::kDone);
  EXPECT_EQ(reports_.back().state, TaskState::kFailed);
  EXPECT_EQ(reports_.back().uid, "sum");
  EXPECT_EQ(reports_.back().error.message(), "negative row");
  EXPECT_EQ(Out(), "");
}

TEST_F(TaskTest, SnapshotsThatExpireWhileStorageHangsAreNotKeptAndNotWritten) {
  trace_.source_rows = 1'000'000;
  Make({Vertex("numbers", "test.source", true)}, 0, true);
  Run();
  for (int n = 1; n <= 5; ++n) disk_files_.PutDirectory(Concat("/job/chk-", n, ".2"));
  // When each checkpoint is aborted before its file could be written.
  held_ = true;
  for (uint64_t n = 1; n <= 5; ++n) {
    task_->Trigger(Barrier{CheckpointId(n), 0});
    Run();
    if (n < 5) task_->OnAborted(CheckpointId(n));
  }
  // Then only the first has asked for anything.
  EXPECT_EQ(creates_, 1);
  EXPECT_TRUE(acks_.empty());
  // When storage goes on, only the one that still counts follows.
  held_ = false;
  files_->Go();
  Run();
  EXPECT_EQ(creates_, 2);
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_EQ(acks_[0].checkpoint, CheckpointId(5));
  EXPECT_TRUE(acks_[0].error.ok()) << acks_[0].error;
  EXPECT_EQ(disk_files_.Files("/job/chk-3.2").size(), 0u);
  EXPECT_EQ(disk_files_.Files("/job/chk-5.2").size(), 1u);
}

TEST_F(TaskTest, TimeIsAccountedForAlsoWhileTheTaskRests) {
  // Given a task whose sink holds it back, and which nobody steps meanwhile.
  Make({Vertex("out", "test.sink", false)}, 1, false);
  trace_.sink_ready = false;
  inputs_[0]->Push(Rows({1}));
  ASSERT_EQ(Run().reason, BlockingReason::kSink);
  SubtaskMetrics before = task_->Metrics().at(0);
  executor_.Advance(7'000'000);
  SubtaskMetrics held = task_->Metrics().at(0);
  EXPECT_EQ(held.backpressured_us - before.backpressured_us, 7'000'000);
  EXPECT_EQ(held.busy_us, before.busy_us);
  EXPECT_EQ(held.idle_us, before.idle_us);
  // And one that has nothing to do.
  trace_.sink_ready = true;
  ASSERT_EQ(Run().kind, StepResult::Kind::kIdle);
  before = task_->Metrics().at(0);
  EXPECT_EQ(before.backpressured_us, held.backpressured_us);  // counted once
  executor_.Advance(3'000'000);
  SubtaskMetrics idle = task_->Metrics().at(0);
  EXPECT_EQ(idle.idle_us - before.idle_us, 3'000'000);
  EXPECT_EQ(idle.busy_us + idle.idle_us + idle.backpressured_us, 10'000'000);
}

TEST_F(TaskTest, KeyedStateWithoutAHashEdgeIsRefused) {
  Make({Vertex("numbers", "test.source", true), Vertex("sum", "test.sum", true)}, 0, true);
  Run();
  EXPECT_EQ(reports_.back().state, TaskState::kFailed);
  EXPECT_EQ(reports_.back().uid, "sum");
  EXPECT_NE(reports_.back().error.message().find("not hash partitioned"), std::string::npos);
}

}  // namespace
}  // namespace weir
