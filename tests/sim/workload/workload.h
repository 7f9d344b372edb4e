#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/sim/world.h"

namespace weir::sim {

// What a world's job must make of its input, from the input alone: how often each row of it comes
// out of each vertex. Knows nothing of the code under test. Immutable; the world must outlive it.
class Workload {
 public:
  static constexpr int kBranches = 2;  // a row without a branch counts as of the first

  explicit Workload(const World& world);

  const World& world() const { return world_; }
  int vertices() const { return static_cast<int>(world_.vertices.size()); }
  int rows() const { return static_cast<int>(world_.table.size()); }
  const WorldVertex& vertex(int index) const { return world_.vertices[index]; }
  int VertexOf(std::string_view uid) const;  // -1: there is none
  // Index into World::table of the row of this id; -1: there is none.
  int RowOf(int64_t id) const;
  // Index into World::keys; -1: there is none.
  int KeyOf(std::string_view key) const;
  int FileOf(std::string_view path) const;  // -1: there is none

  // How often it goes into and comes out of a vertex (in either branch); of a sink: goes in.
  int in(int vertex, int row) const { return in_[vertex][row]; }
  int out(int vertex, int row, int branch) const { return out_[vertex][branch][row]; }
  int out(int vertex, int row) const { return out(vertex, row, 0) + out(vertex, row, 1); }
  // The value of a row as it comes out of a vertex.
  int64_t value(int vertex, int row, int branch) const {
    return world_.table[row].value * factors_[vertex][branch];
  }

 private:
  bool Passes(const WorldVertex& vertex, const WorldRow& row) const;

  const World& world_;
  std::unordered_map<std::string_view, int> vertices_, keys_, files_;
  std::vector<std::vector<uint16_t>> in_;                // by vertex, row
  std::vector<std::vector<std::vector<uint16_t>>> out_;  // by vertex, branch, row
  std::vector<std::vector<int64_t>> factors_;            // by vertex, branch
};

// The plain fold over a growing part of the input: what every vertex has seen when all of it, and
// nothing else, has gone through the job. Thread: confined to its owner.
class Fold {
 public:
  // Of one key of an aggregate.
  struct KeyState {
    int64_t count = 0;
    int64_t total = 0;
    bool has_total = false;
    bool operator==(const KeyState&) const = default;
  };

  explicit Fold(const Workload& workload);

  // The first `rows` rows of a file are in it. REQUIRES: not fewer than before.
  void Advance(int file, int rows);
  int rows(int file) const { return rows_[file]; }  // of it that are in
  bool Contains(int row) const;

  int64_t in(int vertex) const { return in_[vertex]; }
  int64_t out(int vertex) const { return out_[vertex]; }
  // Of an aggregate. `key`: index into World::keys, -1: null.
  const KeyState& key(int vertex, int key) const { return keys_[vertex][key + 1]; }

 private:
  const Workload& workload_;
  std::vector<int> rows_;
  std::vector<int64_t> in_, out_;            // by vertex
  std::vector<std::vector<KeyState>> keys_;  // by vertex, key + 1; empty: no aggregate
};

// A row of an output file.
struct OutputRow {
  int32_t row = 0;  // of World::table
  int8_t branch = 0;
  // Behind an aggregate.
  bool has_total = false;
  int64_t count = 0;
  int64_t total = 0;
};

struct OutputFile {
  std::vector<OutputRow> rows;
  std::string problem;  // "" when every row is one that may come out, with the right values
};

// Reads a file of sink `sink`, strictly: whole lines, the columns in order, each value that of the
// row of the input whose id it bears.
OutputFile ReadOutputFile(const Workload& workload, int sink, std::string_view bytes);

}  // namespace weir::sim
