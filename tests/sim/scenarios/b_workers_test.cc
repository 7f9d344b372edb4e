// Workers that are lost, or wake up too late, around an acknowledgement.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/sim/scenarios/b_common.h"

namespace weir::sim {
namespace {

using Fate = Network::Fate;
using Message = Network::Message;

ScenarioOptions Options() {
  ScenarioOptions options = SplitOptions();
  options.rows = 3000;
  return options;
}

// Given: the key of all rows of an interval belongs to one of two sink subtasks, so that checkpoint
// 5 lists nothing of the other. When: the worker of one of them dies right after 5 completed. Then:
// rows become visible again within three intervals from the restart.
class EmptyInterval : public ::testing::TestWithParam<bool> {};

TEST_P(EmptyInterval, OnOneOfTwoSinksBeforeACrash) {
  ScenarioOptions options = Options();
  // Rows 300 to 699, of the intervals 0.6 s to 1.4 s, all have one key.
  options.key_of = [](int64_t number) { return number >= 300 && number < 700 ? 0 : number; };
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(5));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(5)) > 0; }, 20'000));
  EXPECT_EQ(FilesOf(scenario, CheckpointId(2)), 2);
  ASSERT_EQ(FilesOf(scenario, CheckpointId(5)), 1) << "the other sink had nothing";
  int empty = -1;
  for (int subtask = 0; subtask < 2; ++subtask) {
    if (!scenario.VisibleFiles().contains(Concat("/out/out/sim-out-", subtask, "-5-0.jsonl"))) {
      empty = subtask;
    }
  }
  const int dies = GetParam() ? empty : 1 - empty;
  const auto visible = scenario.VisibleFiles();
  sim.Kill(scenario.WorkerOf("per-key", dies));
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, uint64_t{5}));
  EXPECT_EQ(scenario.VisibleFiles(), visible);
  ASSERT_TRUE(sim.Until([&] { return scenario.HighestVisible() > CheckpointId(5); }, 600'000))
      << "three intervals";
  EXPECT_EQ(FilesOf(scenario, scenario.HighestVisible()), 1) << "the key is still the same";
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Dies, EmptyInterval, ::testing::Bool(), [](const auto& info) {
  return info.param ? "TheOneThatHadNothing" : "TheOneThatHadRows";
});

// Given: a worker's ack for checkpoint 3 is lost, and the worker is paused before it can repeat it.
// When: it wakes up long after it was given up and its tasks run elsewhere, with that ack still to
// be sent. Then: the ack is stale; 3 never completes, nothing the worker sealed becomes visible,
// its hidden files are removed and its tasks make no more.
TEST(Zombie, WakesUpWithAcksToSend) {
  ScenarioOptions options = Options();
  options.rows = 6000;
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  std::string zombie;
  bool lost = false;
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    // The orders to end do not reach it, nor does what would be answered so.
    fate.lose_request = (message.method == "EndTasks" && message.to.starts_with(zombie + ".")) ||
                        (message.method == "ReportTasks" && message.from.name() == zombie);
    if (message.method == "Acknowledge" && message.from.name() == zombie && !lost) {
      fate.lose_request = lost = true;
      EXPECT_EQ(message.checkpoint, CheckpointId(3));
    }
    return fate;
  });
  int64_t made_by_zombie = 0;  // hidden files of generation 1
  sim.storage().set_after([&](const Process& process, std::string_view operation,
                              const std::string& path, const std::string&) {
    if (operation == "create" && process.name() == zombie && path.ends_with(".pending") &&
        path.find("-g1-") != std::string::npos) {
      ++made_by_zombie;
    }
    return Status();
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(2)) == 2; }));
  zombie = scenario.WorkerOf("per-key", 1);
  ASSERT_TRUE(sim.Until([&] { return lost; }));
  sim.Pause(zombie);
  const int64_t acks = scenario.Calls("Acknowledge");
  EXPECT_EQ(sim.newest_completed(), CheckpointId(2));
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1), 10'000'000));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, uint64_t{2}));
  EXPECT_NE(scenario.WorkerOf("per-key", 1), zombie);
  ASSERT_TRUE(scenario.WaitForCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  sim.RunFor(5'500'000);  // its calls have had no answer in time

  sim.Continue(zombie);
  ASSERT_TRUE(sim.Until(
      [&] {
        const Scenario::Call& last = scenario.calls().back();
        return last.method == "Acknowledge" && last.from == zombie;
      },
      6'000'000))
      << "it repeats its ack";
  EXPECT_GT(scenario.Calls("Acknowledge"), acks);
  EXPECT_EQ(scenario.calls().back().generation, Generation(1));
  EXPECT_EQ(scenario.calls().back().checkpoint, CheckpointId(3));
  sim.RunFor(2 * 200'000 + 50'000);  // it hears that it is stale, or told by its heartbeats
  const int64_t made = made_by_zombie;
  sim.RunFor(1'500'000);
  EXPECT_EQ(made_by_zombie, made) << "its tasks have ended";
  for (const std::string& name : scenario.PendingFiles()) {
    EXPECT_EQ(name.find("-g1-"), std::string::npos) << name << " is left";
  }
  EXPECT_EQ(scenario.Started().size(), 2u) << "the zombie disturbs nobody";
  ExpectAllRows(scenario);
  EXPECT_FALSE(scenario.IsCompleted(CheckpointId(3)));
}

// What has come when the loss of a worker is noticed that acknowledged checkpoint 3.
enum class Moment {
  kAcksMissing,   // its own ack, not the last one
  kLastAckAfter,  // the news of its death come before its ack, the last one
  kManifest,      // all acks; the manifest is being written
  kClaim,         // all acks; the claim is on its way
};

struct Loss {
  const char* name;
  Moment moment;
  bool completes;  // 3
};

void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.name; }

class LostWorker : public ::testing::TestWithParam<Loss> {};

// Given: checkpoint 3 is under way. When: one of its workers dies at the moment. Then: 3 completes
// if its claim was on the way, else never, and its number is not used again; the job goes on from
// the newest completed, with the dead worker's rows published by another if 3 completed.
TEST_P(LostWorker, AroundItsAck) {
  const Loss loss = GetParam();
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  std::string dies;
  bool acked = false;
  int64_t dead_us = 0;
  auto kill = [&] {
    sim.Kill(dies);
    dead_us = sim.scheduler().now_us();
  };
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method != "Acknowledge" || message.checkpoint != CheckpointId(3)) return fate;
    const bool own = message.from.name() == dies;
    if (loss.moment == Moment::kAcksMissing) {
      // The others' are 100 ms late; it dies 20 ms after its own was sent.
      if (!own) fate.delay_us = 100'000;
      if (own) sim.scheduler().After(20'000, kill);
    } else {
      if (own && !acked) fate.delay_us = 50'000;  // the last one
      if (own && !acked && loss.moment == Moment::kLastAckAfter) {
        sim.scheduler().After(40'000, kill);
      }
    }
    acked = acked || own;
    return fate;
  });
  sim.storage().set_slowness([&](const Process&, std::string_view operation,
                                 const std::string& path, const std::string& to) -> int64_t {
    const bool manifest = loss.moment == Moment::kManifest && operation == "create" &&
                          path.ends_with("/chk-3.1/_metadata");
    const bool claim = loss.moment == Moment::kClaim && operation == "link" && dead_us == 0 &&
                       to.find("/log/") != std::string::npos && acked;
    if (!manifest && !claim) return 0;
    sim.scheduler().After(0, kill);
    return 100'000;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(2)) == 2; }));
  dies = scenario.WorkerOf("per-key", 1);
  ASSERT_NE(dies, scenario.WorkerOf("per-key", 0));
  ASSERT_TRUE(sim.Until([&] { return dead_us > 0; }));
  EXPECT_TRUE(acked);
  EXPECT_EQ(sim.newest_completed(), CheckpointId(2));
  const auto visible = scenario.VisibleFiles();

  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, loss.completes ? 3u : uint64_t{2}));
  EXPECT_EQ(scenario.IsCompleted(CheckpointId(3)), loss.completes);
  EXPECT_EQ(FilesOf(scenario, CheckpointId(3)), loss.completes ? 2 : 0);
  EXPECT_TRUE(IsSubset(visible, scenario.VisibleFiles()));
  sim.RunFor(100'000);  // the manifest is written or not
  EXPECT_EQ(HasDirectoryOf(scenario, CheckpointId(3)), loss.completes);
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status && status->failure);
  EXPECT_TRUE(
      status->failure->message.starts_with(Concat("worker ", dies, " (", dies, ") is lost")))
      << status->failure->message;
  if (!loss.completes) {
    EXPECT_EQ(scenario.Summary(CheckpointId(3)).state, "failed");
  }
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.IsCompleted(CheckpointId(3)), loss.completes);
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(3)), 1);
  EXPECT_EQ(scenario.Started().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Moment, LostWorker,
                         ::testing::Values(Loss{"BeforeTheLastAck", Moment::kAcksMissing, false},
                                           Loss{"JustBeforeItsLastAck", Moment::kLastAckAfter,
                                                false},
                                           Loss{"WithTheManifest", Moment::kManifest, false},
                                           Loss{"WithTheClaim", Moment::kClaim, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weir::sim
