#pragma once

#include <map>
#include <string>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// No file that a retained manifest names is ever removed; when the job has ended, nothing is left
// that no manifest names. One thing is excused, for nobody is left who knows of it: a hidden file
// that a worker made which slept through the end of the job and died as soon as it woke.
// Thread: confined to the simulation.
class FilesChecker : public Checker {
 public:
  FilesChecker(const CheckContext& context, Facts& facts) : context_(context), facts_(facts) {}

  std::string_view name() const override { return "files"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;
  void AtEnd() override;

 private:
  bool IsRetained(const CompletedEntry& entry) const;

  const CheckContext context_;
  Facts& facts_;
  // Hidden files that came after the end of the job, and who made them.
  std::map<std::string, std::string> late_;
};

}  // namespace weir::sim
