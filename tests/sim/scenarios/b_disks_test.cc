// Disks that are full, read-only or do not answer, at each step of a checkpoint; checkpoints that
// expire behind something that does not go on; manifests that nobody claims.
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "tests/sim/scenarios/b_common.h"

namespace weir::sim {
namespace {

using Fate = Network::Fate;
using Message = Network::Message;

// Checkpoint ids of whose directories a subtask made a file in.
class SnapshotsOf {
 public:
  SnapshotsOf(Scenario& scenario, std::string_view uid, int subtask) {
    scenario.sim().storage().set_after([this, name = Concat("/", uid, "-", subtask, "-")](
                                           const Process&, std::string_view operation,
                                           const std::string& path, const std::string&) {
      const size_t at = path.find("/chk-");
      if (operation == "create" && at != path.npos && path.find(name) != path.npos) {
        ids_.insert(std::strtoull(path.c_str() + at + 5, nullptr, 10));
      }
      return Status();
    });
  }
  const std::set<uint64_t>& ids() const { return ids_; }

 private:
  std::set<uint64_t> ids_;
};

// --- Expired ones in a queue ---------------------------------------------------------------------

ScenarioOptions ExpiringOptions() {
  ScenarioOptions options = SplitOptions();
  options.rows = 5000;
  options.heartbeat_timeout_us = 30'000'000;
  options.options = {{"checkpoint.timeout", "500ms"}};
  return options;
}

void ExpectExpired(const Scenario& scenario, uint64_t first, uint64_t last) {
  for (uint64_t id = first; id <= last; ++id) {
    EXPECT_EQ(scenario.Summary(CheckpointId(id)).failure_reason,
              "expired after 500ms: 1 of 3 subtasks have not acknowledged: per-key 1")
        << id;
  }
}

void ExpectGone(const Scenario& scenario, uint64_t first, uint64_t last) {
  for (uint64_t id = first; id <= last; ++id) {
    EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(id))) << id;
  }
}

// Given: the connection to one of two operators brings nothing for 4 s, so that the barriers of
// expired checkpoints wait in it. When: it goes on. Then: only the current one is snapshotted; the
// files of the expired ones are gone by then.
TEST(Expired, WaitInAConnection) {
  Scenario scenario(ExpiringOptions());
  Simulation& sim = scenario.sim();
  SnapshotsOf blocked(scenario, "per-key", 1);
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  const std::string from = scenario.WorkerOf("in-0", 0);
  const std::string to = scenario.WorkerOf("per-key", 1);
  sim.network().Block(from, to);
  ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(10)) == 1; }));
  sim.RunFor(100'000);
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2}));
  ExpectExpired(scenario, 3, 9);
  ExpectGone(scenario, 3, 9);
  EXPECT_EQ(blocked.ids(), (std::set<uint64_t>{1, 2}));
  sim.network().Unblock(from, to);
  ASSERT_TRUE(scenario.WaitForCompleted(3, 400'000));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 10}));
  EXPECT_EQ(blocked.ids(), (std::set<uint64_t>{1, 2, 10}));
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// The same with the worker of that operator stopped: what it should have been told waits, too.
TEST(Expired, WaitBeforeAPausedWorker) {
  Scenario scenario(ExpiringOptions());
  Simulation& sim = scenario.sim();
  SnapshotsOf blocked(scenario, "per-key", 1);
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  const std::string worker = scenario.WorkerOf("per-key", 1);
  sim.Pause(worker);
  ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(8)) == 1; }));
  sim.RunFor(100'000);
  ExpectExpired(scenario, 3, 7);
  EXPECT_TRUE(HasDirectoryOf(scenario, CheckpointId(3))) << "its worker may still write there";
  sim.Continue(worker);
  ASSERT_TRUE(scenario.WaitForCompleted(3, 400'000));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 8}));
  EXPECT_EQ(blocked.ids(), (std::set<uint64_t>{1, 2, 8}));
  sim.RunFor(100'000);
  ExpectGone(scenario, 3, 7);
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// Given: for 3 s a sink cannot make its rows durable. When: it can again. Then: the acks of those
// that expired meanwhile are late, and the current one brings out all rows that were sealed.
TEST(Expired, WaitBehindABlockedSink) {
  Scenario scenario(ExpiringOptions());
  Simulation& sim = scenario.sim();
  std::string worker;
  int64_t until_us = 0;
  sim.storage().set_slowness([&](const Process& process, std::string_view operation,
                                 const std::string& path, const std::string&) -> int64_t {
    if (operation != "sync" || !path.ends_with(".pending") || process.name() != worker) return 0;
    return until_us - sim.scheduler().now_us();
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  worker = scenario.WorkerOf("per-key", 1);
  until_us = sim.scheduler().now_us() + 3'000'000;
  sim.RunFor(2'999'000);
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2));
  ASSERT_EQ(scenario.Calls("Trigger", CheckpointId(8)), 1);
  ExpectExpired(scenario, 3, 7);
  ASSERT_TRUE(scenario.WaitForCompleted(3, 400'000));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 8}));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(8)) == 2; }, 50'000));
  for (uint64_t id = 3; id <= 7; ++id) {
    EXPECT_EQ(FilesOf(scenario, CheckpointId(id)), 2) << "sealed for " << id;
  }
  sim.RunFor(100'000);
  ExpectGone(scenario, 3, 7);
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// --- A manifest without a claim ------------------------------------------------------------------

// Given: two checkpoints completed. When: the coordinator dies with the manifest of 3 written and
// not claimed, and its successor with that of the next. Then: neither ever completes, their numbers
// are not used again, and their files are gone before tasks start.
TEST(Manifest, WithoutAClaimCountsForNothing) {
  ScenarioOptions options = SplitOptions();
  options.rows = 4000;
  options.coordinators = 3;
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  std::vector<std::string> died;
  sim.set_kill_point_hook([&](Process& process, std::string_view point) {
    if (point != "coordinator.after_manifest" || sim.newest_completed() != CheckpointId(2)) return;
    if (died.size() == 2) return;
    died.push_back(process.name());
    sim.Kill(process.name());
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  for (uint64_t n = 3; n <= 4; ++n) {
    ASSERT_TRUE(sim.Until([&] { return died.size() == n - 2; }));
    EXPECT_TRUE(scenario.HasManifest(CheckpointId(n), Generation(n - 2)));
    ASSERT_TRUE(sim.Until([&] {
      const Scenario::Call& last = scenario.calls().back();
      return last.method == "StartTasks" && last.generation == Generation(n - 1);
    }));
    EXPECT_EQ(scenario.LastStarted(), std::make_pair(n - 1, uint64_t{2}));
    EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(n)));
    EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2));
  }
  EXPECT_NE(died[0], died[1]);
  ASSERT_TRUE(scenario.WaitForCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 5}));
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(3)), 1);
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(4)), 1);
  EXPECT_EQ(scenario.Started().size(), 3u);
}

// --- Disks ---------------------------------------------------------------------------------------

enum class Step { kTrigger, kSnapshot, kManifest, kClaim, kPublish };
enum class Disk { kFull, kReadOnly, kHanging };
constexpr const char* kSteps[] = {"Trigger", "Snapshot", "Manifest", "Claim", "Publish"};
constexpr const char* kDisks[] = {"Full", "ReadOnly", "Hanging"};

class Disks : public ::testing::TestWithParam<std::tuple<Step, Disk>> {
 protected:
  static ScenarioOptions Options() {
    ScenarioOptions options = SplitOptions();
    options.rows = 10000;
    options.options = {{"checkpoint.timeout", "3s"}};
    return options;
  }

  void SetDisk(bool on) {
    Storage& storage = scenario_.sim().storage();
    const Disk disk = std::get<1>(GetParam());
    if (disk == Disk::kFull) storage.set_full(on);
    if (disk == Disk::kReadOnly) storage.set_read_only(on);
    if (disk == Disk::kHanging) storage.set_hanging(on);
  }

  // Whether this is the primitive of checkpoint 3 at which it begins.
  bool IsAtStep(std::string_view operation, const std::string& path, const std::string& to) const {
    switch (std::get<0>(GetParam())) {
      case Step::kTrigger:
        return operation == "make_directory" && path.ends_with("/chk-3.1");
      case Step::kSnapshot:
        return operation == "create" && path.find("/chk-3.1/per-key-0-") != path.npos;
      case Step::kManifest:
        return operation == "create" && path.ends_with("/chk-3.1/_metadata");
      case Step::kClaim:
        return operation == "link" && to.find("/log/") != to.npos &&
               scenario_.HasManifest(CheckpointId(3), Generation(1));
      case Step::kPublish:
        return operation == "rename" && path.ends_with(".pending") &&
               scenario_.sim().newest_completed() == CheckpointId(3);
    }
    return false;
  }

  // All that the leader says to be wrong.
  void Look(std::set<std::string>* seen) const {
    std::optional<JobStatus> status = scenario_.sim().Status();
    if (status && !status->waiting_for.empty()) seen->insert(status->waiting_for);
    for (const CheckpointSummary& summary : scenario_.sim().Checkpoints()) {
      if (summary.state == "failed") seen->insert(summary.failure_reason);
    }
  }

  // What it must say, among other things; "": it cannot know.
  static std::string Reason(Step step, Disk disk) {
    if (step == Step::kPublish && disk == Disk::kHanging) return " to publish checkpoint 3";
    if (disk == Disk::kFull) return "No space left on device";
    if (disk == Disk::kReadOnly) return "Read-only file system";
    // What hangs at the coordinator itself its thread pool tells, which is not simulated.
    if (step == Step::kManifest || step == Step::kClaim) return "";
    return "expired after 3s: 3 of 3 subtasks have not acknowledged";
  }

  Scenario scenario_{Options()};
};

// Given: two checkpoints completed. When: the disk is like this for 12 s from that step of 3 on.
// Then: the reason is to be seen within 10 s; what was visible stays, nothing of 3 becomes visible
// before it is well again; then the job goes on by itself: 3 completes if its manifest or its claim
// hung, or its claim was refused, and has failed if anything before was refused.
TEST_P(Disks, DuringAStep) {
  const auto [step, disk] = GetParam();
  Simulation& sim = scenario_.sim();
  bool reached = false;
  sim.storage().set_slowness([&](const Process&, std::string_view operation,
                                 const std::string& path, const std::string& to) -> int64_t {
    if (reached || !IsAtStep(operation, path, to)) return 0;
    reached = true;
    SetDisk(true);
    return 0;
  });
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return reached; }));
  const auto visible = scenario_.VisibleFiles();
  const bool completed = step == Step::kPublish;
  EXPECT_EQ(sim.newest_completed(), CheckpointId(completed ? 3 : 2));

  std::set<std::string> seen;
  const std::string reason = Reason(step, disk);
  for (int look = 0; look < 100; ++look) {
    sim.RunFor(100'000);
    Look(&seen);
  }
  EXPECT_TRUE(reason.empty() || std::any_of(seen.begin(), seen.end(),
                                            [&](const std::string& text) {
                                              return text.find(reason) != std::string::npos;
                                            }))
      << ::testing::PrintToString(seen);
  sim.RunFor(2'000'000);
  EXPECT_EQ(scenario_.VisibleFiles(), visible);
  EXPECT_EQ(sim.newest_completed(), CheckpointId(completed ? 3 : 2));

  SetDisk(false);
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(sim.newest_completed(), 15'000'000));
  const bool goes_on = step == Step::kPublish || step == Step::kClaim ||
                       (step == Step::kManifest && disk == Disk::kHanging);
  // Where it left no directory behind, another leader's generation may use the number.
  const bool number_is_free =
      disk == Disk::kHanging && (step == Step::kTrigger || step == Step::kSnapshot);
  if (!number_is_free) {
    EXPECT_EQ(scenario_.IsCompleted(CheckpointId(3)), goes_on);
    EXPECT_EQ(scenario_.Completed()[2] == 3, goes_on);
  }
  const CheckpointId newest = sim.newest_completed();
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(newest.value() + 2), 5'000'000));
  EXPECT_LE(scenario_.CheckpointDirectories().size(), 3u)
      << "what could not be removed meanwhile: "
      << ::testing::PrintToString(scenario_.CheckpointDirectories());
  EXPECT_TRUE(sim.Until([&] { return scenario_.HighestVisible() > newest; }, 6'000'000))
      << "publishing is tried again every 5 s at least";
  ExpectAllRows(scenario_);
  EXPECT_TRUE(IsSubset(visible, scenario_.VisibleFiles()));
}

std::string NameOfDisks(const ::testing::TestParamInfo<std::tuple<Step, Disk>>& info) {
  return Concat(kDisks[static_cast<int>(std::get<1>(info.param))], "At",
                kSteps[static_cast<int>(std::get<0>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    Disk, Disks,
    ::testing::Combine(::testing::Values(Step::kTrigger, Step::kSnapshot, Step::kManifest,
                                         Step::kClaim, Step::kPublish),
                       ::testing::Values(Disk::kFull, Disk::kReadOnly, Disk::kHanging)),
    NameOfDisks);

}  // namespace
}  // namespace weir::sim
