// The crash table of docs/checkpoint_protocol.md, a test for each row: the process that a kill
// point belongs to dies at it, in the middle of the rows and with a checkpoint open; then
// everything dies there and what was not synced is lost. What lies on disk at that moment, and from
// which checkpoint the job goes on, must be what the table says.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {
namespace {

struct Row {
  const char* point;
  const char* who;          // dies: "worker", "coordinator"
  bool counts;              // n has completed when it is reached
  bool in_restore = false;  // reached only while a generation starts
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.point; }

constexpr Row kRows[] = {
    {"task.during_alignment", "worker", false},
    {"snapshot.while_writing", "worker", false},
    {"sink.before_prepare_sync", "worker", false},
    {"sink.after_prepare", "worker", false},
    {"task.after_prepare", "worker", false},
    {"coordinator.before_manifest", "coordinator", false},
    {"coordinator.after_manifest", "coordinator", false},
    {"coordinator.after_claim_sent", "coordinator", true},
    {"coordinator.before_claim_answer", "coordinator", true},
    {"coordinator.before_notice", "coordinator", true},
    {"sink.before_rename", "worker", true},
    {"sink.between_renames", "worker", true},
    {"sink.before_sync", "worker", true},
    {"coordinator.during_restore", "coordinator", true, true},
    {"task.while_restoring", "worker", true, true},
};

// What is there at the moment of death.
struct Moment {
  std::string process;
  Generation generation;   // that runs, or starts
  CheckpointId open;       // n
  CheckpointId newest;     // newest completed
  size_t state_files = 0;  // of n
  bool manifest = false;   // of n
  std::vector<std::string> pending;
  std::map<std::string, std::string> visible;
};

class CrashTable : public ::testing::TestWithParam<Row> {
 protected:
  // Two source subtasks, so that each aggregate has something to align; small parts, so that a
  // commit renames several files; no worker to spare, so that a generation starts when all know the
  // coordinator and have been told to end the older one.
  static ScenarioOptions Options() {
    ScenarioOptions options;
    options.source_parallelism = 2;
    options.part_size_max = "1KiB";
    options.workers = 2;
    options.slots = 1;
    return options;
  }

  Moment Look(Process& process) const {
    Simulation& sim = scenario_.sim();
    Moment moment;
    moment.process = process.name();
    moment.newest = sim.newest_completed();
    moment.generation = Generation(scenario_.LastStarted().first);
    for (const Scenario::Call& call : scenario_.calls()) {
      if (call.method == "Trigger") moment.open = std::max(moment.open, call.checkpoint);
    }
    moment.manifest = scenario_.HasManifest(moment.open, moment.generation);
    moment.state_files =
        scenario_.CheckpointFiles(moment.open, moment.generation).size() - moment.manifest;
    moment.pending = scenario_.PendingFiles();
    moment.visible = scenario_.VisibleFiles();
    return moment;
  }

  // Runs until the first arrival at the point; there the process dies, or everything does.
  void DieAtPoint(bool power_loss) {
    Simulation& sim = scenario_.sim();
    const Row row = GetParam();
    ASSERT_TRUE(scenario_.StartUntilCompleted(2));
    ASSERT_TRUE(sim.Until([&] { return scenario_.Calls("Trigger", CheckpointId(3)) > 0; }));
    EXPECT_EQ(scenario_.HighestVisible(), CheckpointId(2));
    if (row.in_restore) {
      sim.Kill("worker-0");
      sim.StartMachine("worker-0");
    }
    sim.set_kill_point_hook([this, row, power_loss, &sim](Process& process, std::string_view name) {
      if (name != row.point || moment_) return;
      moment_ = Look(process);
      if (power_loss) {
        scenario_.KillAll();
        sim.PowerLoss();
      } else {
        sim.Kill(process.name());
        if (row.who == std::string_view("worker")) restart_ = process.name();
      }
    });
    ASSERT_TRUE(sim.Until([&] { return moment_.has_value(); })) << "never there";
    if (!restart_.empty()) sim.StartMachine(restart_);
    EXPECT_EQ(moment_->process.substr(0, moment_->process.find('-')), row.who);
    EXPECT_LT(scenario_.VisibleIds().size(), scenario_.AllIds().size());
  }

  // The column "on disk".
  void ExpectOnDisk() const {
    const Row row = GetParam();
    const std::string_view point = row.point;
    if (row.in_restore) {
      EXPECT_EQ(moment_->pending, std::vector<std::string>()) << "the output was settled before";
      return;
    }
    EXPECT_EQ(moment_->open, CheckpointId(3)) << "a checkpoint is open";
    if (point != "sink.before_sync") {
      EXPECT_FALSE(moment_->pending.empty()) << "rows flow";
    }
    EXPECT_EQ(moment_->newest,
              row.counts ? moment_->open : CheckpointId(moment_->open.value() - 1));
    if (point == "coordinator.before_manifest") {
      // Two positions, two keyed states.
      EXPECT_EQ(moment_->state_files, 4u);
    }
    if (point == "snapshot.while_writing") {
      EXPECT_GE(moment_->state_files, 1u);
    }
    EXPECT_EQ(moment_->manifest, row.counts || point == "coordinator.after_manifest");
    const int64_t published = std::count_if(
        moment_->visible.begin(), moment_->visible.end(),
        [this](const auto& file) { return Scenario::CheckpointOf(file.first) == moment_->open; });
    if (point == "sink.between_renames" || point == "sink.before_sync") {
      EXPECT_GE(published, 1);
    } else if (point != "sink.before_rename") {
      // The other sink may be ahead of the one that is about to rename its first file.
      EXPECT_EQ(published, 0) << "nothing of n is visible yet";
    }
  }

  // The column "what recovery does": the next generation starts from the checkpoint, having
  // published what that lists and removed all the rest.
  void ExpectRecovery() const {
    Simulation& sim = scenario_.sim();
    const Row row = GetParam();
    const CheckpointId from = moment_->newest;
    ASSERT_TRUE(sim.Until([&] {
      if (scenario_.calls().empty()) return false;
      const Scenario::Call& last = scenario_.calls().back();
      return last.method == "StartTasks" && last.generation > moment_->generation;
    })) << "no new generation";
    EXPECT_EQ(scenario_.LastStarted(),
              std::make_pair(moment_->generation.value() + 1, from.value()));
    EXPECT_EQ(scenario_.calls().back().checkpoint, from);
    EXPECT_EQ(scenario_.HighestVisible(), from);
    EXPECT_EQ(scenario_.PendingFiles(), std::vector<std::string>());
    EXPECT_EQ(scenario_.CheckpointDirectories().size(), 1u) << "only what it starts from is kept";
    EXPECT_TRUE(scenario_.CheckpointDirectories().front().starts_with(Concat("chk-", from, ".")));
    EXPECT_EQ(sim.newest_completed(), from);
    if (!row.in_restore && !row.counts) {
      EXPECT_FALSE(scenario_.IsCompleted(moment_->open)) << "n does not count";
    }
    sim.Finish();
    EXPECT_EQ(sim.violation(), "");
    EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
    EXPECT_EQ(scenario_.PendingFiles(), std::vector<std::string>());
    if (!row.counts) {
      EXPECT_FALSE(scenario_.IsCompleted(moment_->open)) << "its number is gone";
    }
  }

  Scenario scenario_{Options()};
  std::optional<Moment> moment_;
  std::string restart_;
};

// Given: two checkpoints have completed, rows flow, the next checkpoint is open. When: the process
// dies at the point. Then: the row of the table.
TEST_P(CrashTable, ProcessDies) {
  DieAtPoint(false);
  if (HasFatalFailure()) return;
  ExpectOnDisk();
  ExpectRecovery();
  EXPECT_TRUE(IsSubset(moment_->visible, scenario_.VisibleFiles())) << "what was seen stays";
}

// The same, and all processes and whatever was not synced go with it.
TEST_P(CrashTable, PowerIsLost) {
  DieAtPoint(true);
  if (HasFatalFailure()) return;
  ExpectOnDisk();
  scenario_.StartAll();
  ExpectRecovery();
  for (const auto& [path, bytes] : moment_->visible) {
    // Names that n had just given may be lost; its rows then come back under the same names.
    EXPECT_TRUE(scenario_.VisibleFiles().contains(path)) << path;
    EXPECT_EQ(scenario_.VisibleFiles()[path], bytes) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Row, CrashTable, ::testing::ValuesIn(kRows), [](const auto& info) {
  std::string name = info.param.point;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace weir::sim
