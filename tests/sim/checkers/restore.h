#pragma once

#include <set>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// A generation starts from the newest completed checkpoint, with its manifest as it was written,
// and only when just that is visible which it covers: all of it, and nothing later. What a deposed
// coordinator orders for an older generation does not count: workers know better.
// Thread: confined to the simulation.
class RestoreChecker : public Checker {
 public:
  RestoreChecker(const CheckContext& context, Facts& facts) : context_(context), facts_(facts) {}

  std::string_view name() const override { return "restore"; }
  void OnStartOrdered(const StartTasksRequest& request) override;

 private:
  // "" when it is as it must be.
  std::string Check(const StartTasksRequest& request) const;

  const CheckContext context_;
  Facts& facts_;
  Generation last_;  // that was ordered to start
};

}  // namespace weir::sim
