#pragma once

#include <string>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// No file that a retained manifest names is ever removed; when the job has ended, nothing is left
// that no manifest names. Thread: confined to the simulation.
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
};

}  // namespace weir::sim
