#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {

// Where a leader is paused: at a kill point, or when an effect has been carried out and its answer
// is still to come.
struct Step {
  const char* name;
  bool counts;             // its checkpoint, if it is paused here and replaced
  const char* kill_point;  // or
  const char* operation;   // on …
  const char* place;       // "manifest", "checkpoint", "temporary", "entry", "term"
};

inline void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

inline constexpr Step kSteps[] = {
    {"before_manifest", false, "coordinator.before_manifest", "", ""},
    {"manifest_created", false, "", "create", "manifest"},
    {"manifest_synced", false, "", "sync", "manifest"},
    {"manifest_durable", false, "", "sync_directory", "checkpoint"},
    {"after_manifest", false, "coordinator.after_manifest", "", ""},
    {"entry_written", false, "", "create", "temporary"},
    {"entry_synced", false, "", "sync", "temporary"},
    {"entry_linked", true, "", "link", "entry"},
    {"entry_durable", true, "", "sync_directory", "term"},
    {"after_claim_sent", true, "coordinator.after_claim_sent", "", ""},
    {"temporary_removed", true, "", "remove", "temporary"},
    {"before_claim_answer", true, "coordinator.before_claim_answer", "", ""},
    {"before_notice", true, "coordinator.before_notice", "", ""},
};

// What a path is to the completion of a checkpoint; "": nothing.
inline std::string PlaceOf(const std::string& path, const std::string& to) {
  const std::string& named = to.empty() ? path : to;
  const std::string name = named.substr(named.rfind('/') + 1);
  const std::string parent = named.substr(0, named.rfind('/'));
  if (name == "_metadata") return "manifest";
  if (name.starts_with("chk-")) return "checkpoint";
  if (name.find(".tmp-") != std::string::npos && parent.find("/log/") != std::string::npos) {
    return "temporary";
  }
  if (parent.find("/log/") != std::string::npos) return "entry";
  if (parent.ends_with("/log")) return "term";
  return "";
}

// A leader that was paused.
struct Paused {
  std::string name;   // machine
  std::string title;  // process
  CheckpointId open;  // the checkpoint it was about to complete
  Generation generation;
};

class Takeover : public ::testing::Test {
 protected:
  explicit Takeover(std::map<std::string, std::string> options = {})
      : scenario_(Options(std::move(options))) {}

  static ScenarioOptions Options(std::map<std::string, std::string> job_options) {
    ScenarioOptions options;
    options.options = std::move(job_options);
    options.coordinators = 3;
    options.workers = 2;
    options.slots = 1;
    return options;
  }

  // From the next last ack on, whoever leads is paused at the step.
  void PauseLeaderAt(const Step& step) {
    Simulation& sim = scenario_.sim();
    const std::string leader = sim.leader_name();
    ASSERT_NE(leader, "");
    const size_t before = paused_.size();
    // Steps are those of one completion: they begin behind its last ack.
    auto acked = std::make_shared<bool>(false);
    sim.set_kill_point_hook([=, this](Process& process, std::string_view point) {
      if (process.name() != leader || paused_.size() > before) return;
      if (point == "coordinator.before_manifest") *acked = true;
      if (*acked && point == step.kill_point) PauseNow(process);
    });
    sim.storage().set_after([=, this](const Process& process, std::string_view operation,
                                      const std::string& path, const std::string& to) {
      if (process.name() == leader && *acked && paused_.size() == before &&
          operation == step.operation && PlaceOf(path, to) == step.place) {
        PauseNow(process);
      }
      return weir::Status();
    });
    ASSERT_TRUE(sim.Until([&] { return paused_.size() > before; })) << "never there";
    sim.set_kill_point_hook(nullptr);
    sim.storage().set_after(nullptr);
  }

  void PauseNow(const Process& process) {
    Simulation& sim = scenario_.sim();
    Paused paused;
    paused.name = process.name();
    paused.title = process.title();
    for (const Scenario::Call& call : scenario_.calls()) {
      if (call.method == "Trigger") paused.open = std::max(paused.open, call.checkpoint);
    }
    paused.generation = Generation(scenario_.LastStarted().first);
    paused_.push_back(paused);
    sim.Pause(process.name());
  }

  // Until somebody else leads and its first checkpoint has been triggered.
  void AwaitNextLeader() {
    Simulation& sim = scenario_.sim();
    const Generation generation = paused_.back().generation;
    ASSERT_TRUE(sim.Until([&] {
      const Scenario::Call& last = scenario_.calls().back();
      return last.method == "Trigger" && last.generation > generation;
    })) << "nobody took over";
  }

  // The log of the present generation: it starts from the checkpoint exactly if that counts.
  void ExpectTakenOver(const Paused& paused, bool counts) {
    const uint64_t from = paused.open.value() - (counts ? 0 : 1);
    EXPECT_EQ(scenario_.IsCompleted(paused.open), counts);
    EXPECT_EQ(scenario_.LastStarted(), std::make_pair(paused.generation.value() + 1, from));
    EXPECT_EQ(scenario_.HighestVisible(), CheckpointId(from));
  }

  // It goes on, for longer than it takes to notice, and does nothing that counts: it may finish
  // what it had begun (dropping older checkpoints and their entries, its temporary file) and tell
  // workers about its own generation and older ones, which is stale to them or true for ever.
  void WakeAndExpectNothing(const Paused& paused) {
    Simulation& sim = scenario_.sim();
    const size_t entries = sim.entries().size();
    const size_t calls = scenario_.calls().size();
    std::string newest;                         // directory of the checkpoint that counts
    std::map<std::string, std::string> needed;  // the last entry of each term, by term
    for (const Simulation::Entry& entry : sim.entries()) {
      needed[entry.path.substr(0, entry.path.rfind('/'))] = entry.path;
      if (entry.entry.kind != LogEntry::Kind::kCompleted) continue;
      newest = CheckpointDirectoryName(entry.entry.checkpoint, entry.entry.generation);
      needed["newest"] = entry.path;
    }
    std::vector<std::string> changes;
    sim.storage().set_after([&](const Process& process, std::string_view operation,
                                const std::string& path, const std::string& to) {
      const bool prunes = operation == "remove" && PlaceOf(path, to) == "entry" &&
                          std::none_of(needed.begin(), needed.end(),
                                       [&](const auto& one) { return one.second == path; });
      if (process.title() == paused.title && !prunes &&
          !IsHarmless(operation, path, to, paused, newest)) {
        changes.push_back(Concat(operation, " ", path, " ", to));
      }
      return weir::Status();
    });
    sim.Continue(paused.name);
    sim.RunFor(1'000'000);
    sim.storage().set_after(nullptr);
    EXPECT_EQ(changes, std::vector<std::string>());
    EXPECT_FALSE(sim.coordinator(paused.name)->leading()) << "it has noticed";
    for (size_t i = entries; i < sim.entries().size(); ++i) {
      EXPECT_NE(sim.entries()[i].process, paused.title) << sim.entries()[i].path;
    }
    for (size_t i = calls; i < scenario_.calls().size(); ++i) {
      const Scenario::Call& call = scenario_.calls()[i];
      if (call.from != paused.name) continue;
      EXPECT_NE(call.method, "StartTasks");
      EXPECT_LE(call.generation, paused.generation) << call.method;
    }
  }

  bool IsHarmless(std::string_view operation, const std::string& path, const std::string& to,
                  const Paused& paused, const std::string& newest) const {
    if (operation == "read" || operation == "list" || operation == "stat" ||
        operation.starts_with("sync") || path.find(".tmp-") != std::string::npos) {
      return to.empty();
    }
    // Directories of checkpoints: of its own generation and not of the one that counts now.
    const size_t begin = path.find("/chk-");
    if (begin == std::string::npos) return false;
    const std::string name = path.substr(begin + 1, path.find('/', begin + 1) - begin - 1);
    CheckpointId checkpoint;
    Generation generation;
    if (!ParseCheckpointDirectoryName(name, &checkpoint, &generation)) return false;
    if (generation > paused.generation) return false;
    // The manifest, too, that it was about to write: nothing claims it.
    return operation == "make_directory" || operation == "create" ||
           (operation.starts_with("remove") && name != newest);
  }

  void ExpectEnd() {
    Simulation& sim = scenario_.sim();
    sim.Finish();
    EXPECT_EQ(sim.violation(), "");
    EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
    const std::vector<uint64_t> completed = scenario_.Completed();
    EXPECT_TRUE(std::is_sorted(completed.begin(), completed.end()));
    EXPECT_EQ(std::adjacent_find(completed.begin(), completed.end()), completed.end());
  }

  Scenario scenario_;
  std::vector<Paused> paused_;
};

}  // namespace weir::sim
