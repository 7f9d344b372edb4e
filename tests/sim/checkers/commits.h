#pragma once

#include <map>
#include <string>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// Rows become visible only when a completed checkpoint lists them, under the name it gives, and as
// they were sealed; what is visible never changes nor vanishes; what is listed and not visible yet
// is never touched but for that. Thread: confined to the simulation.
class CommitsChecker : public Checker {
 public:
  CommitsChecker(const CheckContext& context, Facts& facts) : context_(context), facts_(facts) {}

  std::string_view name() const override { return "commits"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;
  void AtEnd() override;

 private:
  struct Final {
    uint64_t hash = 0;  // of its bytes
    bool durable = false;
  };

  void OnNamed(const StorageEvent& event);
  void CheckUnchanged(const std::string& path, const Final& file);

  const CheckContext context_;
  Facts& facts_;
  std::map<std::string, Final> finals_;
};

}  // namespace weir::sim
