// Inside one generation nothing is started and no channel connected twice: a start that is repeated
// after its task has failed, and channels that break.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {
namespace {

using StartedList = std::vector<std::pair<uint64_t, uint64_t>>;

class OneGeneration : public ::testing::Test {
 protected:
  static ScenarioOptions Options() {
    ScenarioOptions options;
    options.source_parallelism = 2;
    options.workers = 2;
    options.slots = 1;
    return options;
  }

  // The next file that a worker's sink makes fails, and with it its task.
  void FailATask() {
    Simulation& sim = scenario_.sim();
    sim.storage().set_before([this](const Process& process, std::string_view operation,
                                    const std::string& path, const std::string&) {
      if (!failed_.empty() || operation != "create" || !path.ends_with(".pending")) {
        return weir::Status();
      }
      failed_ = process.name();
      return UnavailableError("the disk is gone");
    });
    ASSERT_TRUE(sim.Until([&] { return !failed_.empty(); }));
    sim.storage().set_before(nullptr);
  }

  // Asks a worker to start a generation, as the leader would. The rest of the request is empty:
  // nothing of it may be looked at.
  weir::Status AskToStart(const std::string& worker, Generation generation) {
    Simulation& sim = scenario_.sim();
    std::unique_ptr<WorkerGateway> gateway =
        sim.network().MakeWorkerGateway(*sim.process(sim.leader_name()));
    StartTasksRequest request;
    request.job = sim.job();
    request.generation = generation;
    request.coordinator = CoordinatorNumber(1);
    std::optional<weir::Status> answer;
    gateway->StartTasks(worker + ".1:control", request,
                        [&](weir::Status status) { answer = std::move(status); });
    EXPECT_TRUE(sim.Until([&] { return answer.has_value(); }));
    return answer.value_or(InternalError("no answer"));
  }

  void ExpectEnd() {
    scenario_.sim().Finish();
    EXPECT_EQ(scenario_.sim().violation(), "");
    EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
  }

  Scenario scenario_{Options()};
  std::string failed_;  // the worker
};

// Given: a task of generation 1 has failed, generation 2 runs. When: the start of generation 1
// arrives once more, and that of generation 2. Then: the first is answered as ended, the other as
// running; nothing is started.
TEST_F(OneGeneration, StartIsRepeatedAfterATaskFailed) {
  Simulation& sim = scenario_.sim();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  FailATask();
  ASSERT_TRUE(scenario_.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}}));
  std::vector<std::string> made;
  sim.storage().set_after(
      [&](const Process&, std::string_view operation, const std::string& path, const std::string&) {
        if (operation == "create" && path.find("-g1-") != std::string::npos) made.push_back(path);
        return weir::Status();
      });
  for (const char* worker : {"worker-0", "worker-1"}) {
    const weir::Status stale = AskToStart(worker, Generation(1));
    EXPECT_EQ(stale.code(), StatusCode::kStale) << stale.message();
    const weir::Status running = AskToStart(worker, Generation(2));
    EXPECT_TRUE(running.ok()) << running.message();
  }
  sim.RunFor(1'000'000);
  sim.storage().set_after(nullptr);
  EXPECT_EQ(made, std::vector<std::string>()) << "rows of generation 1";
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
  EXPECT_EQ(scenario_.Started().size(), 2u);
}

// When: the network itself delivers the starts of generation 1 a second time, so late. Then: as if
// it had not.
class StartsTwice : public OneGeneration, public ::testing::WithParamInterface<int> {};

TEST_P(StartsTwice, AsIfOnce) {
  scenario_.set_fate([](const Network::Message& message) {
    Network::Fate fate;
    if (message.method == "StartTasks") fate.repeat_after_us = GetParam() * 1000;
    return fate;
  });
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  FailATask();
  ASSERT_TRUE(scenario_.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_.Calls("StartTasks"), 4) << "two generations on two workers";
  scenario_.sim().RunFor(2'000'000);
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}}));
  EXPECT_GE(scenario_.sim().newest_completed(), CheckpointId(5)) << "it goes on";
  ExpectEnd();
  EXPECT_EQ(scenario_.Started().size(), 2u);
}

// At once; while its task fails (the third checkpoint begins 0.6 s after the start); afterwards.
INSTANTIATE_TEST_SUITE_P(LaterMs, StartsTwice, ::testing::Values(0, 1, 600, 605, 610, 650, 1500));

// Given: a worker has died, the other one has ended generation 1, and generation 2 waits for slots.
// When: the start of generation 1 arrives there once more. Then: it is answered as ended; no task
// of it is started, although nothing of the job runs there.
TEST_F(OneGeneration, StartIsRepeatedWhileTheNextWaits) {
  Simulation& sim = scenario_.sim();
  int64_t repeated_us = 0;
  scenario_.set_fate([&](const Network::Message& message) {
    Network::Fate fate;
    if (message.method == "StartTasks" && message.generation == Generation(1)) {
      fate.repeat_after_us = 2'000'000;
      repeated_us = sim.scheduler().now_us() + fate.repeat_after_us;
    }
    return fate;
  });
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  sim.Kill("worker-1");
  sim.RunFor(500'000);
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}}));
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->state, JobState::kRestarting);
  EXPECT_EQ(status->waiting_for, "2 slots, 1 free");
  ASSERT_GT(repeated_us, sim.scheduler().now_us());
  const size_t before = scenario_.calls().size();
  const weir::Status stale = AskToStart("worker-0", Generation(1));
  EXPECT_EQ(stale.code(), StatusCode::kStale) << stale.message();
  sim.RunFor(2'000'000);
  EXPECT_GT(sim.scheduler().now_us(), repeated_us);
  for (size_t i = before; i < scenario_.calls().size(); ++i) {
    EXPECT_NE(scenario_.calls()[i].method, "ReportTasks") << "nothing runs";
  }
  EXPECT_EQ(scenario_.Started().size(), 2u);
  sim.StartMachine("worker-1");
  ASSERT_TRUE(scenario_.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
}

struct BreakPoint {
  const char* name;
  const char* point;  // the connection breaks when a process is there
  bool counts;        // the checkpoint that is open then
};
void PrintTo(const BreakPoint& point, std::ostream* out) { *out << point.name; }

class ChannelBreaks : public OneGeneration, public ::testing::WithParamInterface<BreakPoint> {};

// Given: rows flow and checkpoint 3 is open. When: a data connection between two workers that both
// live breaks. Then: it is not made again: the generation ends, the next one starts from the newest
// completed checkpoint. A completion that has been asked for counts all the same.
TEST_P(ChannelBreaks, TheGenerationEnds) {
  Simulation& sim = scenario_.sim();
  const BreakPoint when = GetParam();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return scenario_.Calls("Trigger", CheckpointId(3)) > 0; }));
  bool broken = false;
  sim.set_kill_point_hook([&](Process&, std::string_view name) {
    if (!broken && name == when.point) broken = sim.fabric().BreakOne();
  });
  ASSERT_TRUE(sim.Until([&] { return broken; }));
  sim.set_kill_point_hook(nullptr);
  ASSERT_TRUE(scenario_.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, when.counts ? uint64_t{3} : 2}}));
  EXPECT_EQ(scenario_.IsCompleted(CheckpointId(3)), when.counts);
  EXPECT_EQ(scenario_.Calls("StartTasks"), 4) << "two generations on two workers";
  for (const std::string& name : scenario_.PendingFiles()) {
    EXPECT_NE(name.find("-g2-"), std::string::npos) << name;
  }
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(3)));
  for (const Simulation::Entry& entry : sim.entries()) {
    if (entry.entry.kind == LogEntry::Kind::kCompleted) {
      EXPECT_EQ(entry.entry.generation,
                Generation(entry.entry.checkpoint > CheckpointId(3) ? 2 : 1));
    }
  }
  ExpectEnd();
  EXPECT_EQ(scenario_.Started().size(), 2u) << "once was enough";
}

INSTANTIATE_TEST_SUITE_P(
    When, ChannelBreaks,
    ::testing::Values(BreakPoint{"in_alignment", "task.during_alignment", false},
                      BreakPoint{"in_snapshot", "snapshot.while_writing", false},
                      BreakPoint{"before_ack", "task.after_prepare", false},
                      BreakPoint{"claim_sent", "coordinator.after_claim_sent", true},
                      BreakPoint{"claim_answered", "coordinator.before_notice", true},
                      BreakPoint{"in_commit", "sink.before_rename", true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weir::sim
