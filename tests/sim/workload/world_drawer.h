#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "tests/sim/world.h"

namespace weir::sim {

// Draws one world: graph, input, cluster, faults, in this order and from one generator, so that the
// seed decides all of it. Each kind of fault and each odd is drawn in two stages: whether it is on
// in this world at all, then how much of it: so that every fault also meets worlds that are calm
// otherwise. Lifetime: one world. Thread: confined to its owner.
class WorldDrawer {
 public:
  explicit WorldDrawer(uint64_t seed);
  World Draw();

 private:
  int64_t Between(int64_t low, int64_t high);
  bool Chance(double odds) { return random_.Fraction() < odds; }
  // Between low and high, every order of magnitude as likely.
  double Skewed(double low, double high);
  int64_t SkewedUs(int64_t low, int64_t high);
  template <size_t n>
  int64_t OneOf(const int64_t (&values)[n]) {
    return values[random_.Below(n)];
  }

  void DrawGraph();
  int AddVertex(WorldVertex vertex, std::string_view type, std::string config);
  // An edge from `from` into `to`; empty: the partitioning that is the default between them.
  void AddEdge(int from, int to, std::string_view partitioning, int input = 0);
  int AddSource();
  int AddFilter(int from);
  int AddDiamond(int from);
  int AddUnion(const std::vector<int>& inputs);
  int AddBroadcast(int from);
  int AddRebalance(int from);
  int AddAggregate(int from);
  void AddSink(int from, bool aggregated);
  int DrawParallelism();

  void DrawInput();
  void DrawFile(int source, int number, int64_t rows);
  void AppendRow(const WorldRow& row, bool csv, std::string_view line_end, std::string* out);

  void DrawOptions();
  void DrawCluster();
  void DrawFaults();
  void DrawOdds();
  // The broker of a world that has one, by a generator of its own: the others stay as they are.
  void DrawKafka();

  World world_;
  Random random_;
  Random kafka_random_;
  bool has_kafka_ = false;  // sinks publish to topics
  bool json_input_ = false;
  bool csv_header_ = true;
  bool wide_values_ = false;  // INT64, not INT32
  bool keep_text_ = true;     // in the output of an aggregate
  int64_t input_us_ = 0;      // how long reading the input takes at its rate
  int64_t interval_us_ = 0;   // of checkpoints
  int names_ = 0;             // makes uids unique
  struct Piece {              // of the JSON
    std::string vertex;       // up to its config
    std::string config;
  };
  std::vector<Piece> pieces_;
  std::string edges_;
};

}  // namespace weir::sim
