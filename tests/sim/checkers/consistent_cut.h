#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

// Each completed checkpoint is one exact position across the whole job: what aggregates hold, what
// every vertex has counted and what sinks have sealed is what the plain fold makes of exactly the
// rows before the positions of its sources. Reads the files that its manifest names.
// Thread: confined to the simulation.
class ConsistentCutChecker : public Checker {
 public:
  ConsistentCutChecker(const CheckContext& context, Facts& facts);

  std::string_view name() const override { return "consistent cut"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;

 private:
  // A checkpoint that was found consistent.
  struct Cut {
    CheckpointId checkpoint;
    std::vector<int> rows;      // of each file
    std::vector<size_t> parts;  // first listed by it, into Facts::parts()
  };

  // Each says what is wrong; "": nothing.
  std::string Check(const CompletedEntry& entry);
  std::string ReadPositions(const CheckpointManifest& manifest, std::vector<int>* rows) const;
  std::string RowsBefore(int file, std::string_view position, int* rows) const;
  std::string CheckCounters(const CheckpointManifest& manifest) const;
  std::string CheckAggregate(const CheckpointManifest& manifest, int vertex) const;
  std::string CheckSealed(const CompletedEntry& entry, Cut* cut);
  std::string ReadHandle(const StateHandle& handle, const std::string** bytes) const;
  std::string AddSealed(size_t part);
  std::string AddStaged(size_t part);
  void Rebuild();

  const CheckContext context_;
  Facts& facts_;
  std::optional<Fold> fold_;
  std::vector<std::vector<std::vector<uint16_t>>> sealed_;  // by vertex, branch, row: times
  std::vector<Cut> cuts_;
  std::map<size_t, OutputFile> staged_;  // by index into Facts::parts()
};

}  // namespace weir::sim
