#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {

// Each subtask of a vertex on a machine of its own, and one machine to spare.
inline ScenarioOptions SplitOptions() {
  ScenarioOptions options;
  options.slots = 1;
  options.files = 1;
  return options;
}

// Counts how often each hidden file is renamed.
class Renames {
 public:
  explicit Renames(Scenario& scenario) {
    scenario.sim().storage().set_after([this](const Process&, std::string_view operation,
                                              const std::string& path, const std::string&) {
      if (operation == "rename" && path.ends_with(".pending")) ++by_path_[path];
      return Status();
    });
  }
  size_t files() const { return by_path_.size(); }
  int most() const {
    int most = 0;
    for (const auto& [path, count] : by_path_) most = std::max(most, count);
    return most;
  }

 private:
  std::map<std::string, int> by_path_;
};

// Names of the files that were made in the directories of a checkpoint.
class MadeFiles {
 public:
  MadeFiles(Scenario& scenario, CheckpointId checkpoint) {
    const std::string directory = Concat("/chk-", checkpoint, ".");
    scenario.sim().storage().set_after([this, directory](const Process&, std::string_view operation,
                                                         const std::string& path,
                                                         const std::string&) {
      if (operation == "create" && path.find(directory) != std::string::npos) {
        names_.push_back(path.substr(path.rfind('/') + 1));
      }
      return Status();
    });
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

inline int64_t FilesOf(const Scenario& scenario, CheckpointId checkpoint) {
  const auto files = scenario.VisibleFiles();
  return std::count_if(files.begin(), files.end(), [&](const auto& file) {
    return Scenario::CheckpointOf(file.first) == checkpoint;
  });
}

inline bool HasDirectoryOf(const Scenario& scenario, CheckpointId checkpoint) {
  const std::string prefix = Concat("chk-", checkpoint, ".");
  for (const std::string& name : scenario.CheckpointDirectories()) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

inline int64_t TriggeredAt(const Scenario& scenario, CheckpointId checkpoint) {
  for (const Scenario::Call& call : scenario.calls()) {
    if (call.method == "Trigger" && call.checkpoint == checkpoint) return call.at_us;
  }
  return -1;
}

inline void ExpectAllRows(Scenario& scenario) {
  scenario.sim().Finish();
  EXPECT_EQ(scenario.sim().violation(), "");
  EXPECT_EQ(scenario.VisibleIds(), scenario.AllIds());
  EXPECT_EQ(scenario.PendingFiles(), std::vector<std::string>());
}

}  // namespace weir::sim
