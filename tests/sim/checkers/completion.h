#pragma once

#include <set>
#include <string>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// The rules of the completion log: a checkpoint has one manifest a generation and completes once;
// completed ids and started generations only grow; what completes is of the newest generation of
// the newest term, and nothing of an older one is part of it; its manifest and all that it
// names are there, durable before the entry is.
// Thread: confined to the simulation.
class CompletionChecker : public Checker {
 public:
  CompletionChecker(const CheckContext& context, Facts& facts) : context_(context), facts_(facts) {}

  std::string_view name() const override { return "completion"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;

 private:
  // "" when it is as it must be.
  std::string CheckCompleted(const CompletedEntry& entry) const;
  std::string CheckParts(const CompletedEntry& entry) const;
  std::string CheckDurable(const CompletedEntry& entry) const;
  std::string CheckStarted(const StartedEntry& entry) const;

  const CheckContext context_;
  Facts& facts_;
  std::set<std::string> manifests_;  // paths
};

}  // namespace weir::sim
