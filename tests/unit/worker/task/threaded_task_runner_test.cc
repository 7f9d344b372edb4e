// Goal: tasks on several threads pass rows on without a lost wake-up and end when told. Method: a
// chain of two tasks over a tiny channel, many rows, real threads (also under ThreadSanitizer).

#include "worker/task/threaded_task_runner.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "common/threading/event_loop.h"
#include "tests/support/memory_file_system.h"
#include "worker/network/local_channel.h"
#include "worker/task/task.h"

namespace weir {
namespace {

constexpr int64_t kRows = 200'000;

class Numbers : public Source {
 public:
  Status Open(SourceContext& context, const std::vector<SplitState>&) override {
    schema_ = context.output_schema();
    return {};
  }
  StatusOr<PollResult> Poll(Output& output) override {
    if (next_ >= kRows) return PollResult::kEnded;
    BatchBuilder builder(schema_);
    for (int i = 0; i < 100; ++i) builder.column(0).AppendInt64(next_++);
    output.Emit(builder.Finish());
    return PollResult::kRows;
  }
  std::vector<SplitState> SnapshotPositions() override { return {}; }

 private:
  SchemaPtr schema_;
  int64_t next_ = 0;
};

std::atomic<int64_t> sum{0};

class Summing : public Sink {
 public:
  void Open(SinkContext&, std::function<void(Status)> done) override { done(Status()); }
  Status Write(const RecordBatch& batch) override {
    for (int64_t i = 0; i < batch.rows(); ++i) sum += batch.column(0).Int64(i);
    return {};
  }
  void Prepare(CheckpointId,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    done(std::vector<Committable>{});
  }
  void Publish(CheckpointId, std::function<void(Status)> done) override { done(Status()); }
};

class Ended : public TaskObserver {
 public:
  void OnReport(TaskReport report) override {
    if (report.state != TaskState::kEndedInput) return;
    std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }
  void OnAcknowledge(TaskAck) override {}
  void OnPublished(PublishReport) override {}
  void OnConfirmWanted(int, int, uint64_t) override {}
  void WaitFor(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
  }
  void Count() {
    std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int ended_ = 0;
};

TEST(ThreadedTaskRunner, RowsFlowThroughTasksOnDifferentThreadsToTheEnd) {
  Registry::Global().AddSource("test.numbers", [] { return std::make_unique<Numbers>(); });
  Registry::Global().AddSink("test.summing", {[] { return std::make_unique<Summing>(); },
                                              [] { return std::unique_ptr<Committer>(); }});
  auto graph = std::make_shared<JobGraph>();
  graph->vertices.resize(2);
  graph->vertices[0].uid = "numbers";
  graph->vertices[0].type = "test.numbers";
  graph->vertices[0].output_schema = Schema({{"n", Type::kInt64}});
  graph->vertices[1].uid = "out";
  graph->vertices[1].type = "test.summing";
  auto plan = std::make_shared<ExecutionPlan>();
  plan->tasks.resize(2);
  plan->tasks[0].chain = {0};
  plan->tasks[0].outputs = {0};
  plan->tasks[1].chain = {1};
  plan->tasks[1].inputs = {0};
  plan->edges.resize(1);
  plan->edges[0].to_task = 1;
  plan->edges[0].schema = std::make_shared<const Schema>(Schema({{"n", Type::kInt64}}));
  LocalChannel channel(512);
  SystemClock clock;
  Ended observer;
  ThreadedTaskRunner runner(2);
  runner.Start();
  std::vector<uint64_t> seats;
  std::vector<std::shared_ptr<Task>> tasks;
  auto make = [&](int index, std::vector<InputGate::Channel> inputs,
                  std::vector<std::unique_ptr<EdgeOutput>> outputs) {
    TaskDescription description;
    description.task = index;
    description.graph = graph;
    description.plan = plan;
    description.options = std::make_shared<const JobOptions>();
    description.restore = std::make_shared<const CheckpointManifest>();
    TaskRunner::Seat seat = runner.MakeSeat();
    TaskEnvironment environment;
    environment.make_files = [](Executor& owner) {
      return std::make_unique<MemoryFileSystem>(owner);
    };
    environment.timers = std::move(seat.timers);
    environment.clock = &clock;
    environment.wake = seat.wake;
    environment.registry = &Registry::Global();
    auto task = std::make_shared<Task>(std::move(description), std::move(environment), observer,
                                       std::move(inputs), std::move(outputs));
    Task* raw = task.get();
    task->Post([raw] { raw->Start(); });
    seats.push_back(seat.id);
    tasks.push_back(task);
  };
  std::vector<std::unique_ptr<EdgeOutput>> outputs;
  outputs.push_back(std::make_unique<EdgeOutput>(plan->edges[0], 128, JobOptions(),
                                                 std::vector<ChannelSender*>{&channel}));
  make(0, {}, std::move(outputs));
  make(1, {{&channel, 0, false}}, {});
  for (size_t i = 0; i < seats.size(); ++i) runner.Add(seats[i], std::move(tasks[i]));
  observer.WaitFor(2);
  EXPECT_EQ(sum.load(), kRows * (kRows - 1) / 2);
  for (uint64_t seat : seats) runner.Remove(seat, [&] { observer.Count(); });
  observer.WaitFor(4);
  runner.Stop();
}

}  // namespace
}  // namespace weir
