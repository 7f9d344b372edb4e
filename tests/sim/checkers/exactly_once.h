#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/facts.h"

namespace weir::sim {

struct KafkaModelRecord;

// Output shows every row that the plain fold over the input makes, with its values, and shows none
// twice at any time. Behind an aggregate of every row: the counts of a key are 1 … n, each once,
// and from one to the next the sum grows by the value of the row that bears it.
// Thread: confined to the simulation.
class ExactlyOnceChecker : public Checker {
 public:
  ExactlyOnceChecker(const CheckContext& context, Facts& facts);

  std::string_view name() const override { return "exactly once"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;
  void AtEnd() override;
  // Values of records that became visible in the topic of a sink.
  void AddRecords(int sink, const std::vector<const KafkaModelRecord*>& records);

 private:
  // What is visible of one sink.
  struct Visible {
    std::vector<std::vector<uint16_t>> times;  // by branch, row
    // Behind an aggregate: the row that bears a count of a key, by key + 1 and count.
    std::vector<std::unordered_map<int64_t, OutputRow>> counts;
  };

  void Clear();
  void Add(int sink, const std::string& path);
  void AddRows(int sink, const std::string& where, const OutputFile& file);
  void CheckCounts(int sink);
  std::string Describe(const OutputRow& row) const;
  std::string KeyText(int key) const;

  const CheckContext context_;
  Facts& facts_;
  std::map<int, Visible> visible_;  // by sink
};

}  // namespace weir::sim
