// The same checkpoint is restored twice, with deaths in between and while its output is settled;
// and a first checkpoint that never completes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {
namespace {

using StartedList = std::vector<std::pair<uint64_t, uint64_t>>;

class Restore : public ::testing::Test {
 protected:
  static ScenarioOptions Options() {
    ScenarioOptions options;
    options.source_parallelism = 2;
    options.part_size_max = "1KiB";
    options.workers = 2;
    options.slots = 1;
    return options;
  }

  // Two checkpoints have completed, the third is open.
  void StartWithThirdOpen() {
    ASSERT_TRUE(scenario_->StartUntilCompleted(2));
    ASSERT_TRUE(
        scenario_->sim().Until([&] { return scenario_->Calls("Trigger", CheckpointId(3)) > 0; }));
  }

  // The next process that arrives at the point dies, and a new one takes its place at once. Until
  // the next generation has begun.
  void DieNextAt(std::string_view point) {
    Simulation& sim = scenario_->sim();
    const size_t started = scenario_->Started().size();
    std::string dead;
    sim.set_kill_point_hook([&](Process& process, std::string_view name) {
      if (name != point || !dead.empty()) return;
      dead = process.name();
      sim.Kill(dead);
    });
    ASSERT_TRUE(sim.Until([&] { return !dead.empty(); })) << point << ": never there";
    sim.set_kill_point_hook(nullptr);
    sim.StartMachine(dead);
    ASSERT_TRUE(sim.Until([&] { return scenario_->Started().size() > started; }));
  }

  // The next call of that method to that worker meets this fate.
  void FateOfNext(std::string_view method, Network::Fate fate) {
    scenario_->set_fate(
        [this, method, fate, done = false](const Network::Message& message) mutable {
          if (done || message.method != method) return Network::Fate();
          done = true;
          return fate;
        });
  }

  void ExpectEnd() {
    scenario_->sim().Finish();
    EXPECT_EQ(scenario_->sim().violation(), "");
    EXPECT_EQ(scenario_->VisibleIds(), scenario_->AllIds());
    EXPECT_EQ(scenario_->PendingFiles(), std::vector<std::string>());
  }

  std::unique_ptr<Scenario> scenario_ = std::make_unique<Scenario>(Options());
};

// Given: a worker died and checkpoint 2 is being restored. When: a task dies while it reads its
// state, and again in the next attempt. Then: 2 is restored a third time; what it had published
// before is as it was.
TEST_F(Restore, TwiceByDeathsOfWorkers) {
  StartWithThirdOpen();
  const std::map<std::string, std::string> visible = scenario_->VisibleFiles();
  DieNextAt("snapshot.while_writing");
  DieNextAt("task.while_restoring");
  DieNextAt("task.while_restoring");
  ASSERT_TRUE(scenario_->WaitForRunningAbove(Generation(3)));
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 2}, {3, 2}, {4, 2}}));
  EXPECT_EQ(scenario_->VisibleFiles(), visible);
  EXPECT_GE(scenario_->sim().probes().count(Probe::kRestored), 3);
  ExpectEnd();
  EXPECT_TRUE(IsSubset(visible, scenario_->VisibleFiles()));
}

// When: two coordinators in turn die just before they start the tasks. Then: the third does all of
// it again.
TEST_F(Restore, TwiceByDeathsOfCoordinators) {
  StartWithThirdOpen();
  const std::map<std::string, std::string> visible = scenario_->VisibleFiles();
  DieNextAt("snapshot.while_writing");
  DieNextAt("coordinator.during_restore");
  DieNextAt("coordinator.during_restore");
  ASSERT_TRUE(scenario_->WaitForRunningAbove(Generation(3)));
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 2}, {3, 2}, {4, 2}}));
  EXPECT_EQ(scenario_->VisibleFiles(), visible);
  ExpectEnd();
  EXPECT_TRUE(IsSubset(visible, scenario_->VisibleFiles()));
}

// When: it runs again, rows flow, and everything dies before its first checkpoint has completed.
// Then: the same checkpoint is restored once more; the rows in between come out once.
TEST_F(Restore, TwiceWithRowsInBetween) {
  StartWithThirdOpen();
  Simulation& sim = scenario_->sim();
  const std::map<std::string, std::string> visible = scenario_->VisibleFiles();
  sim.Kill("worker-1");
  sim.StartMachine("worker-1");
  ASSERT_TRUE(scenario_->WaitForRunningAbove(Generation(1)));
  // Its first checkpoint is 4: at the last ack of that.
  bool dead = false;
  sim.set_kill_point_hook([&](Process&, std::string_view name) {
    if (dead || name != "coordinator.before_manifest") return;
    dead = true;
    EXPECT_FALSE(scenario_->PendingFiles().empty());
    scenario_->KillAll();
  });
  ASSERT_TRUE(sim.Until([&] { return dead; }));
  sim.set_kill_point_hook(nullptr);
  EXPECT_EQ(scenario_->Calls("Trigger", CheckpointId(4)), 2);
  scenario_->StartAll();
  ASSERT_TRUE(scenario_->WaitForRunningAbove(Generation(2)));
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 2}, {3, 2}}));
  EXPECT_EQ(scenario_->VisibleFiles(), visible);
  ExpectEnd();
  EXPECT_FALSE(scenario_->IsCompleted(CheckpointId(3)));
  EXPECT_FALSE(scenario_->IsCompleted(CheckpointId(4)));
}

struct SettlePoint {
  const char* name;
  const char* point;
};
void PrintTo(const SettlePoint& point, std::ostream* out) { *out << point.name; }

class KillInSettle : public Restore, public ::testing::WithParamInterface<SettlePoint> {};

// Given: checkpoint 3 has completed, a worker died before it had published anything of it. When:
// the worker that settles the output for it dies at the point, and so does the next. Then: settling
// begins once more; all files of 3 are there, each once, before anything starts.
TEST_P(KillInSettle, WorkerTwice) {
  StartWithThirdOpen();
  Simulation& sim = scenario_->sim();
  bool dead = false;
  sim.set_kill_point_hook([&](Process&, std::string_view name) {
    if (name != "sink.before_rename" || dead) return;
    dead = true;
    sim.Kill("worker-0");
    sim.Kill("worker-1");
  });
  ASSERT_TRUE(sim.Until([&] { return dead; }));
  sim.set_kill_point_hook(nullptr);
  ASSERT_TRUE(scenario_->IsCompleted(CheckpointId(3)));
  EXPECT_EQ(scenario_->HighestVisible(), CheckpointId(2));
  EXPECT_GT(scenario_->PendingFiles().size(), 2u) << "parts are small";
  sim.StartMachine("worker-0");
  sim.StartMachine("worker-1");
  DieNextAt(GetParam().point);
  DieNextAt(GetParam().point);
  ASSERT_TRUE(sim.Until([&] { return scenario_->Calls("StartTasks", CheckpointId(3)) > 0; }));
  EXPECT_EQ(scenario_->Calls("Settle"), 3);
  EXPECT_EQ(scenario_->LastStarted().second, 3u);
  EXPECT_EQ(scenario_->HighestVisible(), CheckpointId(3));
  EXPECT_EQ(scenario_->PendingFiles(), std::vector<std::string>());
  ExpectEnd();
}

INSTANTIATE_TEST_SUITE_P(Point, KillInSettle,
                         ::testing::Values(SettlePoint{"before_rename", "sink.before_rename"},
                                           SettlePoint{"between_renames", "sink.between_renames"},
                                           SettlePoint{"before_sync", "sink.before_sync"}),
                         [](const auto& info) { return std::string(info.param.name); });

class PauseInSettle : public KillInSettle {};

// Given: the same, with a worker to spare. When: the worker that settles is paused at the point for
// so long that another one does it, and goes on while the next generation writes its rows. Then: it
// finds all done, and takes nothing away.
TEST_P(PauseInSettle, AnotherWorkerSettles) {
  ScenarioOptions options = Options();
  options.workers = 3;
  scenario_.reset();
  scenario_ = std::make_unique<Scenario>(options);
  StartWithThirdOpen();
  Simulation& sim = scenario_->sim();
  std::string paused;
  bool dead = false;
  sim.set_kill_point_hook([&](Process& process, std::string_view name) {
    if (!dead && name == "sink.before_rename") {
      dead = true;
      for (const char* worker : {"worker-0", "worker-1", "worker-2"}) sim.Kill(worker);
    } else if (paused.empty() && dead && name == GetParam().point) {
      paused = process.name();
      sim.Pause(paused);
    }
  });
  ASSERT_TRUE(sim.Until([&] { return dead; }));
  ASSERT_TRUE(scenario_->IsCompleted(CheckpointId(3)));
  for (const char* worker : {"worker-0", "worker-1", "worker-2"}) sim.StartMachine(worker);
  ASSERT_TRUE(sim.Until([&] { return !paused.empty(); }));
  ASSERT_TRUE(scenario_->WaitForCompletedAbove(CheckpointId(4)));
  const StartedList started = scenario_->Started();
  EXPECT_EQ(started.back().second, 3u);
  const std::map<std::string, std::string> visible = scenario_->VisibleFiles();
  const int64_t of_three = std::count_if(visible.begin(), visible.end(), [](const auto& file) {
    return Scenario::CheckpointOf(file.first) == CheckpointId(3);
  });
  EXPECT_GT(of_three, 2) << "parts are small";
  sim.Continue(paused);
  sim.RunFor(1'000'000);
  EXPECT_EQ(scenario_->Started(), started);
  EXPECT_TRUE(IsSubset(visible, scenario_->VisibleFiles()));
  ExpectEnd();
}

INSTANTIATE_TEST_SUITE_P(Point, PauseInSettle,
                         ::testing::Values(SettlePoint{"before_rename", "sink.before_rename"},
                                           SettlePoint{"between_renames", "sink.between_renames"},
                                           SettlePoint{"before_sync", "sink.before_sync"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Given: the same. When: the coordinator dies with the settling under way, which its worker goes on
// with. Then: the next one settles again and starts from 3.
TEST_F(Restore, CoordinatorDiesInSettle) {
  StartWithThirdOpen();
  Simulation& sim = scenario_->sim();
  DieNextAt("sink.before_rename");
  const std::string first = sim.leader_name();
  ASSERT_TRUE(sim.Until([&] { return scenario_->Calls("Settle") == 1; }));
  sim.Kill(first);
  sim.StartMachine(first);
  ASSERT_TRUE(sim.Until([&] { return scenario_->Calls("StartTasks", CheckpointId(3)) > 0; }));
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 3}, {3, 3}}));
  EXPECT_GE(scenario_->Calls("Settle"), 2);
  EXPECT_EQ(scenario_->HighestVisible(), CheckpointId(3));
  EXPECT_EQ(scenario_->PendingFiles(), std::vector<std::string>());
  ExpectEnd();
}

// Given: the same. When: the answer to the settling is lost; it is asked for once more. Then: that
// finds all done, and the job goes on.
TEST_F(Restore, SettleAnswerIsLost) {
  StartWithThirdOpen();
  Simulation& sim = scenario_->sim();
  DieNextAt("sink.before_rename");
  Network::Fate lost;
  lost.lose_reply = true;
  FateOfNext("Settle", lost);
  ASSERT_TRUE(sim.Until([&] { return scenario_->Calls("StartTasks", CheckpointId(3)) > 0; }));
  EXPECT_EQ(scenario_->Calls("Settle"), 2);
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 3}}));
  EXPECT_EQ(scenario_->HighestVisible(), CheckpointId(3));
  ExpectEnd();
}

// Given: the same. When: the settling request arrives a second time, while the next generation
// writes its rows. Then: it takes nothing of theirs away.
TEST_F(Restore, SettleArrivesAgainLater) {
  StartWithThirdOpen();
  DieNextAt("sink.before_rename");
  Network::Fate twice;
  twice.repeat_after_us = 400'000;
  FateOfNext("Settle", twice);
  ASSERT_TRUE(scenario_->WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_->Calls("Settle"), 1);
  ASSERT_TRUE(scenario_->WaitForCompletedAbove(CheckpointId(6)));
  EXPECT_EQ(scenario_->Started(), (StartedList{{1, 0}, {2, 3}})) << "nothing was missing";
  ExpectEnd();
}

class FirstCheckpoint : public ::testing::TestWithParam<bool> {
 protected:
  static ScenarioOptions Options() {
    ScenarioOptions options;  // one source task and two of aggregate and sink
    options.workers = 2;
    options.slots = 1;
    return options;
  }
  Scenario scenario_{Options()};
};

// Given: the first checkpoint ever, acknowledged by one of three subtasks. When: everything dies.
// Then: it counts for nothing: no entry, no manifest, nothing visible; the job starts from the
// beginning and its number is not used again.
TEST_P(FirstCheckpoint, AckedByOneOfThree) {
  Simulation& sim = scenario_.sim();
  // An ack of each task in a message of its own, of which one gets through.
  int acks = 0;
  int64_t acked_us = 0;
  scenario_.set_fate([&](const Network::Message& message) {
    Network::Fate fate;
    if (message.method == "Acknowledge") {
      fate.lose_request = acks++ > 0;
      if (acks == 1) acked_us = sim.scheduler().now_us();
    }
    return fate;
  });
  sim.Start();
  ASSERT_TRUE(sim.Until([&] { return acks >= 2 && sim.scheduler().now_us() > acked_us + 50'000; }));
  std::vector<CheckpointSummary> checkpoints = sim.Checkpoints();
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].state, "in_progress");
  const int64_t acked =
      std::count_if(checkpoints[0].subtasks.begin(), checkpoints[0].subtasks.end(),
                    [](const SnapshotMetrics& metrics) { return metrics.ack_wall_us > 0; });
  EXPECT_GE(acked, 1);
  EXPECT_LT(acked, 5) << "source, two aggregates, two sinks";
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-1.1"});
  EXPECT_FALSE(scenario_.CheckpointFiles(CheckpointId(1), Generation(1)).empty());
  EXPECT_FALSE(scenario_.PendingFiles().empty());

  scenario_.KillAll();
  if (GetParam()) sim.PowerLoss();
  scenario_.set_fate(nullptr);
  EXPECT_EQ(scenario_.Completed(), std::vector<uint64_t>());
  scenario_.StartAll();
  ASSERT_TRUE(sim.Until([&] {
    return scenario_.calls().back().method == "StartTasks" &&
           scenario_.calls().back().generation == Generation(2);
  }));
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 0}}));
  EXPECT_EQ(scenario_.calls().back().checkpoint, CheckpointId(0));
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>());
  EXPECT_EQ(scenario_.VisibleIds(), std::vector<int64_t>());
  EXPECT_EQ(scenario_.PendingFiles(), std::vector<std::string>());
  ASSERT_TRUE(scenario_.WaitForCompleted(1));
  EXPECT_EQ(scenario_.Completed(), std::vector<uint64_t>{2});

  sim.Finish();
  EXPECT_EQ(sim.violation(), "");
  EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
}

INSTANTIATE_TEST_SUITE_P(ThenAll, FirstCheckpoint, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "PowerIsLost" : "Die");
});

}  // namespace
}  // namespace weir::sim
