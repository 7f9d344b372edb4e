// One death, loss of power or pause behind every single effect on storage: of one checkpoint from
// its trigger to the next one's, and of one takeover from the leader's death to the start of tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <ostream>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {
namespace {

enum class What { kDies, kAllDie, kPowerIsLost, kIsPaused, kIsPausedShortly };

struct Fault {
  const char* name;
  What what;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class EveryEffect : public ::testing::TestWithParam<Fault> {
 protected:
  ScenarioOptions Options() const {
    ScenarioOptions options;
    options.part_size_max = "1KiB";
    options.rows = 1200;
    options.coordinators = 3;
    options.workers = pauses() ? 3 : 2;
    options.slots = 1;
    return options;
  }

  // Strikes behind the `number`th effect on the job's directory or its output of processes that
  // `counts`, from now on; false: `over` came first.
  bool Strike(Scenario& scenario, int number, const std::function<bool(const Process&)>& counts,
              const std::function<bool()>& over) {
    Simulation& sim = scenario.sim();
    int seen = 0;
    struck_.clear();
    effect_.clear();
    sim.storage().set_after([&](const Process& process, std::string_view operation,
                                const std::string& path, const std::string& to) {
      const bool ours = path.starts_with(sim.job_directory()) || path.starts_with("/out");
      if (!ours || !struck_.empty() || !counts(process) || ++seen < number) return weir::Status();
      struck_ = process.name();
      effect_ = Concat(process.title(), " ", operation, " ", path, " ", to);
      switch (GetParam().what) {
        case What::kDies:
          sim.Kill(struck_);
          break;
        case What::kAllDie:
          scenario.KillAll();
          break;
        case What::kPowerIsLost:
          scenario.KillAll();
          sim.PowerLoss();
          break;
        case What::kIsPaused:
        case What::kIsPausedShortly:
          sim.Pause(struck_);
          break;
      }
      return weir::Status();
    });
    EXPECT_TRUE(sim.Until([&] { return !struck_.empty() || over(); }));
    sim.storage().set_after(nullptr);
    return !struck_.empty();
  }

  bool pauses() const {
    return GetParam().what == What::kIsPaused || GetParam().what == What::kIsPausedShortly;
  }

  // Each generation starts from what had completed when its entry came to be.
  static void ExpectStartsFromNewest(const Scenario& scenario) {
    uint64_t newest = 0;
    for (const Simulation::Entry& entry : scenario.sim().entries()) {
      if (entry.entry.kind == LogEntry::Kind::kCompleted) {
        EXPECT_GT(entry.entry.checkpoint.value(), newest) << entry.path;
        newest = entry.entry.checkpoint.value();
      }
      if (entry.entry.kind == LogEntry::Kind::kStarted) {
        EXPECT_EQ(entry.entry.checkpoint.value(), newest) << entry.path;
      }
    }
  }

  static void ExpectEnd(Scenario& scenario, const std::map<std::string, std::string>& visible) {
    scenario.sim().Finish();
    EXPECT_EQ(scenario.sim().violation(), "");
    EXPECT_EQ(scenario.VisibleIds(), scenario.AllIds());
    EXPECT_TRUE(IsSubset(visible, scenario.VisibleFiles())) << "what was seen stays";
    ExpectStartsFromNewest(scenario);
  }

  std::string struck_;
  std::string effect_;
};

class OfACheckpoint : public EveryEffect {};

// Given: two checkpoints have completed and are published; the third begins. When: a process is
// struck behind an effect of its own. Then: the job goes on from 2 or, once its entry stands, from
// 3; all of the output is there once.
TEST_P(OfACheckpoint, IsSurvived) {
  int number = 1;
  int from[2] = {0, 0};
  for (;; ++number) {
    Scenario scenario(Options());
    Simulation& sim = scenario.sim();
    ASSERT_TRUE(scenario.StartUntilCompleted(2));
    ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(3)) > 0; }));
    const std::map<std::string, std::string> visible = scenario.VisibleFiles();
    const bool struck = Strike(
        scenario, number, [](const Process&) { return true; },
        [&] { return scenario.Calls("Trigger", CheckpointId(4)) > 0; });
    if (!struck) break;
    SCOPED_TRACE(Concat("effect ", number, ": ", effect_));
    if (!pauses()) scenario.StartAll();
    ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
    const uint64_t start = scenario.Started()[1].second;
    ASSERT_TRUE(start == 2 || start == 3) << start;
    ++from[start - 2];
    EXPECT_EQ(scenario.IsCompleted(CheckpointId(3)), start == 3);
    if (pauses()) {
      ASSERT_TRUE(scenario.WaitForCompletedAbove(CheckpointId(4)));
      sim.Continue(struck_);
      sim.RunFor(1'000'000);
      EXPECT_EQ(scenario.Started().size(), 2u) << "what goes on too late disturbs nobody";
    }
    ExpectEnd(scenario, visible);
    if (HasFailure()) return;
  }
  // Three state files, as many parts, manifest, entry, renames: each some effects, of which those
  // behind the entry are for 3.
  EXPECT_GT(number, 40);
  EXPECT_GT(from[0], 15);
  EXPECT_GT(from[1], 5);
}

INSTANTIATE_TEST_SUITE_P(Process, OfACheckpoint,
                         ::testing::Values(Fault{"Dies", What::kDies},
                                           Fault{"AndAllOthersDie", What::kAllDie},
                                           Fault{"LosesPower", What::kPowerIsLost},
                                           Fault{"IsPaused", What::kIsPaused}),
                         [](const auto& info) { return std::string(info.param.name); });

class OfATakeover : public EveryEffect {};

// Given: the leader is dead, checkpoint 3 was open. When: its successor is struck behind an effect
// of its own, before it has told workers to start; a paused one goes on when a third has completed
// a checkpoint, or shortly after that has begun to seal. Then: the third begins again from 2; the
// paused one makes no entry more, and ends no generation of the third.
TEST_P(OfATakeover, IsSurvived) {
  int number = 1;
  for (;; ++number) {
    Scenario scenario(Options());
    Simulation& sim = scenario.sim();
    ASSERT_TRUE(scenario.StartUntilCompleted(2));
    ASSERT_TRUE(sim.Until([&] { return scenario.Calls("Trigger", CheckpointId(3)) > 0; }));
    const std::map<std::string, std::string> visible = scenario.VisibleFiles();
    const std::string first = sim.leader_name();
    sim.Kill(first);
    const size_t calls = scenario.calls().size();
    const bool struck = Strike(
        scenario, number,
        [&](const Process& process) { return process.name().starts_with("coordinator"); },
        [&] {
          return std::any_of(
              scenario.calls().begin() + static_cast<int64_t>(calls), scenario.calls().end(),
              [](const Scenario::Call& call) { return call.method == "StartTasks"; });
        });
    if (!struck) break;
    SCOPED_TRACE(Concat("effect ", number, ": ", effect_));
    const uint64_t before = scenario.LastStarted().first;
    if (!pauses()) scenario.StartAll();
    const Process* paused = sim.process(struck_);
    if (GetParam().what == What::kIsPausedShortly) {
      const int64_t sealed = sim.Count(LogEntry::Kind::kSealed);
      ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kSealed) > sealed; }));
      sim.RunFor(sim.scheduler().Between(0, 5'000));
      sim.Continue(struck_);
    }
    ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(before)));
    EXPECT_EQ(scenario.LastStarted().second, 2u) << "checkpoint 3 was not complete";
    if (pauses()) {
      ASSERT_TRUE(scenario.WaitForCompletedAbove(CheckpointId(3)));
      const size_t entries = sim.entries().size();
      const size_t started = scenario.Started().size();
      sim.Continue(struck_);
      sim.RunFor(2'000'000);  // it looks who leads once a second
      for (size_t i = entries; i < sim.entries().size(); ++i) {
        EXPECT_NE(sim.entries()[i].process, paused->title()) << sim.entries()[i].path;
      }
      EXPECT_FALSE(sim.coordinator(struck_)->leading());
      EXPECT_EQ(scenario.Started().size(), started) << "the generation of the third runs on";
    }
    ExpectEnd(scenario, visible);
    for (const Simulation::Entry& entry : sim.entries()) {
      if (entry.entry.kind == LogEntry::Kind::kCompleted) {
        EXPECT_EQ(entry.entry.generation.value() > 1, entry.entry.checkpoint.value() > 2)
            << "the number 3 is free again once its directory is gone, of another generation";
      }
    }
    if (HasFailure()) return;
  }
  // Seal, read, entry of its own, output settled, directories swept.
  EXPECT_GT(number, 30);
}

INSTANTIATE_TEST_SUITE_P(Successor, OfATakeover,
                         ::testing::Values(Fault{"Dies", What::kDies},
                                           Fault{"AndAllOthersDie", What::kAllDie},
                                           Fault{"LosesPower", What::kPowerIsLost},
                                           Fault{"IsPaused", What::kIsPaused},
                                           Fault{"IsPausedUntilSealed", What::kIsPausedShortly}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weir::sim
