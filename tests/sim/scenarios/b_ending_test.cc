// How jobs end: cancelled in every phase, with a last checkpoint that fails, with sources that end
// at different times; and generations that end because too many checkpoints failed.
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "common/checkpoint/manifest_codec.h"
#include "tests/sim/scenarios/b_common.h"

namespace weir::sim {
namespace {

using Fate = Network::Fate;
using Message = Network::Message;

// The manifest of a checkpoint, as long as it is there.
CheckpointManifest ManifestOf(const Scenario& scenario, CheckpointId checkpoint,
                              Generation generation) {
  const std::string path = Concat(scenario.sim().job_directory(), "/",
                                  CheckpointDirectoryName(checkpoint, generation), "/_metadata");
  StatusOr<CheckpointManifest> manifest =
      DecodeManifest(scenario.sim().storage().view().Bytes(path));
  EXPECT_TRUE(manifest.ok()) << path;
  return manifest.ok() ? *std::move(manifest) : CheckpointManifest();
}

std::string StateOf(const Scenario& scenario, std::string_view uid, int subtask) {
  std::optional<JobStatus> status = scenario.sim().Status();
  if (!status) return "";
  for (const VertexStatus& vertex : status->vertices) {
    if (vertex.uid == uid) return vertex.subtasks.at(subtask).state;
  }
  return "";
}

// --- Too many failures ---------------------------------------------------------------------------

// Given: two failures in a row are tolerated. When: two fail, one completes, and three fail: one
// expires, two are declined. Then: the generation ends with the third, not before, and the next one
// starts from the one that completed; the failures before it do not count any more.
TEST(TolerableFailures, AreCountedInARow) {
  ScenarioOptions options = SplitOptions();
  options.options = {{"checkpoint.tolerable_failures", "2"}, {"checkpoint.timeout", "500ms"}};
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  scenario.set_fate([](const Message& message) {
    Fate fate;
    if (message.method == "Trigger" && message.checkpoint == CheckpointId(5)) {
      fate.delay_us = 700'000;
    }
    return fate;
  });
  sim.storage().set_before(
      [](const Process&, std::string_view operation, const std::string& path, const std::string&) {
        if (operation != "create") return Status();
        for (int declined : {2, 3, 6, 7}) {
          if (path.find(Concat("/chk-", declined, ".1/per-key-0-")) != std::string::npos) {
            return UnavailableError("the disk is on fire");
          }
        }
        return Status();
      });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 4}));
  ASSERT_TRUE(sim.Until([&] { return scenario.Summary(CheckpointId(6)).state == "failed"; }));
  sim.RunFor(100'000);
  EXPECT_EQ(scenario.Started().size(), 1u);
  EXPECT_EQ(sim.Status()->state, JobState::kRunning) << "two failed";
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, uint64_t{4}));
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status && status->failure);
  EXPECT_TRUE(status->failure->message.starts_with(
      "3 checkpoints in a row failed (tolerated: 2); the last, 7: "))
      << status->failure->message;
  EXPECT_NE(status->failure->message.find("the disk is on fire"), std::string::npos);
  EXPECT_EQ(status->restarts, 1);
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 2u);
  EXPECT_EQ(scenario.Completed()[2], 8u);
}

// Given: no failure is tolerated, superseded ones and those that end with their generation are
// none. When: the first one fails. Then: the generation ends at once.
TEST(TolerableFailures, NoneIsTolerated) {
  ScenarioOptions options = SplitOptions();
  options.options = {{"checkpoint.tolerable_failures", "0"}, {"checkpoint.max_concurrent", "3"}};
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  sim.storage().set_slowness([](const Process&, std::string_view operation, const std::string& path,
                                const std::string&) -> int64_t {
    const bool late = operation == "create" && path.find("/chk-3.1/per-key-1-") != path.npos;
    return late ? 400'000 : 0;  // 4 completes first
  });
  sim.storage().set_before(
      [](const Process&, std::string_view operation, const std::string& path, const std::string&) {
        const bool declined =
            operation == "create" && path.find("/chk-7.1/per-key-0-") != std::string::npos;
        return declined ? UnavailableError("the disk is on fire") : Status();
      });
  ASSERT_TRUE(scenario.StartUntilCompleted(5));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4, 5, 6}));
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).failure_reason, "superseded by checkpoint 4");
  ASSERT_TRUE(sim.Until([&] { return scenario.Started().size() == 2; }, 1'000'000));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, uint64_t{6}));
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status && status->failure);
  EXPECT_TRUE(status->failure->message.starts_with(
      "1 checkpoint in a row failed (tolerated: 0); the last, 7: "))
      << status->failure->message;
  ExpectAllRows(scenario);
}

// --- Cancel --------------------------------------------------------------------------------------

enum class Phase {
  kNoSlots,      // nothing has ever run
  kBeforeFirst,  // tasks run, no checkpoint was triggered
  kPending,      // 3 has been triggered, acks are missing
  kClaim,        // the claim of 3 is on its way
  kUnpublished,  // 3 has completed, nobody was told
};

struct CancelCase {
  const char* name;
  Phase phase;
  uint64_t newest;  // completed in the end; 0: none
};

void PrintTo(const CancelCase& one, std::ostream* out) { *out << one.name; }

enum class Cancelled { kDeletes, kKeeps, kLeaderDies };

class Cancel : public ::testing::TestWithParam<std::tuple<CancelCase, Cancelled>> {};

// Given: a job in the phase. When: it is cancelled; in some, the leader dies as soon as its intent
// to do so stands. Then: it is CANCELED, by the next leader if need be; exactly the rows of the
// checkpoints that completed are visible, nothing hidden is left, and of the checkpoints only the
// newest, where it is to be kept.
TEST_P(Cancel, InAPhase) {
  const auto [one, how] = GetParam();
  const Phase phase = one.phase;
  ScenarioOptions options = SplitOptions();
  if (phase == Phase::kNoSlots) options.workers = 1;
  if (how == Cancelled::kKeeps) options.options = {{"checkpoint.on_cancel", "keep"}};
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    fate.lose_request = message.checkpoint == CheckpointId(3) &&
                        ((message.method == "Acknowledge" && phase == Phase::kPending) ||
                         (message.method == "NotifyCompleted" && phase == Phase::kUnpublished));
    return fate;
  });
  bool claims = false;
  sim.storage().set_slowness([&](const Process&, std::string_view operation, const std::string&,
                                 const std::string& to) -> int64_t {
    const bool third = phase == Phase::kClaim && operation == "link" && !claims &&
                       to.find("/log/") != to.npos && sim.newest_completed() == CheckpointId(2);
    if (!third) return 0;
    claims = true;
    return 300'000;
  });
  std::map<CheckpointId, int64_t> rows = {{CheckpointId(0), 0}};  // before each completed one
  std::string cancelled_by;
  sim.storage().set_after([&](const Process& process, std::string_view operation,
                              const std::string&, const std::string& to) {
    if (operation != "link" || to.find("/log/") == to.npos) return Status();
    const LogEntry& entry = sim.entries().back().entry;
    if (entry.kind == LogEntry::Kind::kCompleted) {
      for (const OperatorSnapshot& part :
           ManifestOf(scenario, entry.checkpoint, entry.generation).snapshots) {
        if (part.uid == "out") rows[entry.checkpoint] += part.records_in;
      }
    }
    if (entry.kind == LogEntry::Kind::kCancelling) {
      cancelled_by = process.name();
      if (how == Cancelled::kLeaderDies) sim.Kill(process.name());
    }
    return Status();
  });
  sim.Start();
  ASSERT_TRUE(sim.Until([&] {
    switch (phase) {
      case Phase::kNoSlots:
        return sim.Status() && sim.Status()->waiting_for == "2 slots, 1 free";
      case Phase::kBeforeFirst:
        return sim.Status() && sim.Status()->state == JobState::kRunning;
      case Phase::kPending:
        return scenario.Calls("Acknowledge", CheckpointId(3)) >= 2;
      case Phase::kClaim:
        return claims;
      case Phase::kUnpublished:
        return sim.newest_completed() == CheckpointId(3);
    }
    return false;
  }));
  EXPECT_EQ(sim.newest_completed().value(), phase == Phase::kClaim ? one.newest - 1 : one.newest);

  std::optional<Status> answer;
  sim.leader()->Cancel(sim.job().value(), false, [&](StatusOr<std::vector<std::string>> left) {
    answer = left.status();
    if (!left.ok()) return;
    EXPECT_EQ(*left, std::vector<std::string>());
    EXPECT_EQ(sim.Count(LogEntry::Kind::kCancelling), 1) << "the intent stands";
  });
  ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kCanceled) == 1; }, 20'000'000));
  if (how == Cancelled::kLeaderDies) {
    EXPECT_NE(sim.leader_name(), cancelled_by);
  } else {
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->ok()) << answer->message();
  }
  EXPECT_EQ(sim.Count(LogEntry::Kind::kCancelling), 1);
  std::vector<int64_t> expected = scenario.AllIds();
  ASSERT_GT(static_cast<int64_t>(expected.size()), rows.at(CheckpointId(one.newest)));
  EXPECT_EQ(rows.at(CheckpointId(one.newest)) > 0, one.newest > 0);
  expected.resize(rows.at(CheckpointId(one.newest)));
  EXPECT_EQ(scenario.VisibleIds(), expected) << "settled before the end is written";
  EXPECT_EQ(scenario.PendingFiles(), std::vector<std::string>());

  sim.RunFor(10'000'000);
  EXPECT_EQ(sim.newest_completed(), CheckpointId(one.newest));
  EXPECT_EQ(scenario.VisibleIds(), expected);
  EXPECT_EQ(scenario.PendingFiles(), std::vector<std::string>());
  std::vector<std::string> kept;
  if (how == Cancelled::kKeeps && one.newest > 0) kept = {Concat("chk-", one.newest, ".1")};
  EXPECT_EQ(scenario.CheckpointDirectories(), kept);
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, JobState::kCanceled);
  EXPECT_EQ(status->retained_checkpoint,
            kept.empty() ? "" : Concat(sim.job_directory(), "/", kept.front()));
  EXPECT_EQ(sim.entries().back().entry.kind, LogEntry::Kind::kCanceled);
  EXPECT_LE(scenario.Started().size(), how == Cancelled::kLeaderDies ? 2u : 1u);
  EXPECT_EQ(scenario.Calls("StartTasks"), phase == Phase::kNoSlots ? 0 : 2) << "none starts again";
  EXPECT_EQ(sim.violation(), "");
}

std::string NameOfCancel(const ::testing::TestParamInfo<std::tuple<CancelCase, Cancelled>>& info) {
  static constexpr const char* kHow[] = {"Deletes", "Keeps", "LeaderDies"};
  return Concat(std::get<0>(info.param).name, kHow[static_cast<int>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    When, Cancel,
    ::testing::Combine(::testing::Values(CancelCase{"NoSlots", Phase::kNoSlots, 0},
                                         CancelCase{"BeforeTheFirst", Phase::kBeforeFirst, 0},
                                         CancelCase{"OnePending", Phase::kPending, 2},
                                         CancelCase{"ClaimOnItsWay", Phase::kClaim, 3},
                                         CancelCase{"Unpublished", Phase::kUnpublished, 3}),
                       ::testing::Values(Cancelled::kDeletes, Cancelled::kKeeps,
                                         Cancelled::kLeaderDies)),
    NameOfCancel);

// --- The last checkpoint -------------------------------------------------------------------------

// Only the last checkpoint, when all rows have been read.
ScenarioOptions LastOnly() {
  ScenarioOptions options = SplitOptions();
  options.rows = 200;
  options.interval = "off";
  options.options = {{"checkpoint.timeout", "500ms"}};
  return options;
}

// Given: a bounded job. When: its last checkpoint is declined, and the one after that. Then: it is
// triggered again 100 ms later each time; nothing is visible and the job not FINISHED before one
// has completed.
TEST(LastCheckpoint, IsTriggeredAgainWhenDeclined) {
  Scenario scenario(LastOnly());
  Simulation& sim = scenario.sim();
  sim.storage().set_before([](const Process&, std::string_view operation, const std::string& path,
                              const std::string&) {
    const bool declined = operation == "create" && path.find("per-key-0-") != std::string::npos &&
                          path.find("/chk-3.") == std::string::npos;
    return declined ? UnavailableError("the disk is on fire") : Status();
  });
  sim.Start();
  ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(3)) == 1; }));
  EXPECT_EQ(StateOf(scenario, "in-0", 0), "ended_input");
  EXPECT_EQ(scenario.Completed(), std::vector<uint64_t>());
  EXPECT_EQ(scenario.VisibleIds(), std::vector<int64_t>());
  EXPECT_EQ(sim.Status()->state, JobState::kRunning);
  for (uint64_t id = 2; id <= 3; ++id) {
    const CheckpointSummary before = scenario.Summary(CheckpointId(id - 1));
    EXPECT_EQ(before.state, "failed");
    EXPECT_EQ(scenario.Summary(CheckpointId(id)).trigger_wall_us -
                  (before.trigger_wall_us + before.duration_us),
              100'000);
  }
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Completed(), std::vector<uint64_t>{3});
  EXPECT_EQ(FilesOf(scenario, CheckpointId(1)), 2) << "sealed for 1, published with 3";
}

// The same when it expires: the order to begin it is late.
TEST(LastCheckpoint, IsTriggeredAgainWhenExpired) {
  Scenario scenario(LastOnly());
  scenario.set_fate([](const Message& message) {
    Fate fate;
    if (message.method == "Trigger" && message.checkpoint == CheckpointId(1)) {
      fate.delay_us = 700'000;
    }
    return fate;
  });
  scenario.sim().Start();
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Completed(), std::vector<uint64_t>{2});
  EXPECT_EQ(scenario.Summary(CheckpointId(1)).state, "failed");
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// Given: the last checkpoint is under way. When: a worker dies with it. Then: the next generation
// reads all rows again and has a last checkpoint of its own.
TEST(LastCheckpoint, DiesWithItsGeneration) {
  Scenario scenario(LastOnly());
  Simulation& sim = scenario.sim();
  sim.Start();
  ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(1)) == 1; }));
  sim.Kill(scenario.WorkerOf("per-key", 1));
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario.LastStarted(), std::make_pair(uint64_t{2}, uint64_t{0}));
  EXPECT_EQ(scenario.VisibleIds(), std::vector<int64_t>());
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Completed(), std::vector<uint64_t>{2});
}

// --- Sources that end ----------------------------------------------------------------------------

// Given: two sources of 100 and 2500 rows. When: the first has ended, 0.2 s after the start. Then:
// checkpoints go on through its task, with its 100 rows in each, and so do they after a crash,
// when it ends again without a row.
TEST(EndOfInput, OfOneSourceLongBeforeTheOther) {
  ScenarioOptions options = SplitOptions();
  options.sources = 2;
  options.rows_of = {100, 2500};
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  sim.Start();
  ASSERT_TRUE(sim.Until([&] { return StateOf(scenario, "in-0", 0) == "ended_input"; }));
  EXPECT_LT(sim.scheduler().now_us(), 1'000'000);
  EXPECT_EQ(StateOf(scenario, "in-1", 0), "running");
  const size_t before = scenario.Completed().size();
  ASSERT_TRUE(scenario.WaitForCompleted(static_cast<int64_t>(before) + 5, 1'200'000));

  auto expect_first_source = [&](Generation generation) {
    const CheckpointManifest manifest = ManifestOf(scenario, sim.newest_completed(), generation);
    int parts = 0;
    for (const OperatorSnapshot& part : manifest.snapshots) {
      if (part.uid != "in-0") continue;
      ++parts;
      EXPECT_EQ(part.records_out, 100);
      EXPECT_EQ(part.handles.size(), 1u) << "where it ended";
    }
    EXPECT_EQ(parts, 1);
  };
  expect_first_source(Generation(1));
  sim.Kill(scenario.WorkerOf("in-0", 0));
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  const CheckpointId restored(scenario.LastStarted().second);
  EXPECT_EQ(restored.value(), before + 5);
  EXPECT_EQ(scenario.HighestVisible(), restored);
  ASSERT_TRUE(sim.Until([&] { return StateOf(scenario, "in-0", 0) == "ended_input"; }, 100'000))
      << "at once";
  ASSERT_TRUE(scenario.WaitForCompletedAbove(restored, 600'000));
  expect_first_source(Generation(2));
  const std::vector<int64_t> visible = scenario.VisibleIds();
  EXPECT_EQ(
      std::count_if(visible.begin(), visible.end(), [](int64_t id) { return id < 2'000'000; }),
      100);
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.AllIds().size(), 2600u);
}

// Given: a source subtask that has nothing to read. When: the other reads for 4 s. Then: it ends at
// once and checkpoints go through both.
TEST(EndOfInput, OfASubtaskWithoutSplits) {
  ScenarioOptions options = SplitOptions();
  options.source_parallelism = 2;
  Scenario scenario(options);
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 3}));
  std::set<std::string> states = {StateOf(scenario, "in-0", 0), StateOf(scenario, "in-0", 1)};
  EXPECT_EQ(states, (std::set<std::string>{"ended_input", "running"}));
  ExpectAllRows(scenario);
  EXPECT_GE(scenario.Completed().size(), 19u) << "4 s at 200 ms";
}

// Given: a checkpoint every 10 ms, three at a time, on slow and unequal ways. When: two sources end
// in the middle of them, at another place with each seed. Then: each time all rows come out once,
// and the last checkpoint was triggered after both had ended.
TEST(EndOfInput, BetweenBarriers) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ScenarioOptions options = SplitOptions();
    options.seed = seed;
    options.sources = 2;
    options.rows_of = {40, 40 + static_cast<int64_t>(seed)};
    options.interval = "10ms";
    options.options = {{"checkpoint.max_concurrent", "3"}};
    options.channel_us_max = 8'000;
    options.rpc_us_max = 8'000;
    Scenario scenario(options);
    Simulation& sim = scenario.sim();
    sim.Start();
    ASSERT_TRUE(sim.Until([&] {
      return StateOf(scenario, "in-0", 0) == "ended_input" &&
             StateOf(scenario, "in-1", 0) == "ended_input";
    })) << "seed "
        << seed;
    const int64_t ended_us = sim.scheduler().now_us();
    ExpectAllRows(scenario);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    EXPECT_GE(scenario.Completed().size(), 3u) << "seed " << seed;
    EXPECT_GE(TriggeredAt(scenario, CheckpointId(scenario.Completed().back())), ended_us);
    EXPECT_EQ(scenario.Started().size(), 1u);
  }
}

}  // namespace
}  // namespace weir::sim
