#include "tests/sim/workload/workload.h"

#include "common/base/check.h"

namespace weir::sim {

using Kind = WorldVertex::Kind;

Workload::Workload(const World& world) : world_(world) {
  const size_t rows = world.table.size();
  for (size_t i = 0; i < world.keys.size(); ++i) keys_.emplace(world.keys[i], i);
  for (size_t i = 0; i < world.files.size(); ++i) files_.emplace(world.files[i].path, i);
  for (size_t v = 0; v < world.vertices.size(); ++v) {
    const WorldVertex& vertex = world.vertices[v];
    vertices_.emplace(vertex.uid, v);
    std::vector<std::vector<uint16_t>> out(kBranches, std::vector<uint16_t>(rows));
    std::vector<uint16_t> in(rows);
    std::vector<int64_t> factors(kBranches, 1);
    for (const WorldVertex::Input& input : vertex.inputs) {
      const uint16_t copies = static_cast<uint16_t>(input.broadcast ? vertex.parallelism : 1);
      for (int branch = 0; branch < kBranches; ++branch) {
        const std::vector<uint16_t>& from = out_[input.from][branch];
        for (size_t row = 0; row < rows; ++row) {
          const uint16_t times = static_cast<uint16_t>(from[row] * copies);
          if (times == 0) continue;
          in[row] = static_cast<uint16_t>(in[row] + times);
          if (!Passes(vertex, world.table[row])) continue;
          const int to = vertex.branch >= 0 ? vertex.branch : branch;
          out[to][row] = static_cast<uint16_t>(out[to][row] + times);
          factors[to] = factors_[input.from][branch] * vertex.factor;
        }
      }
    }
    if (vertex.kind == Kind::kSource) {
      for (size_t row = 0; row < rows; ++row) {
        out[0][row] = world.files[world.table[row].file].source == static_cast<int>(v);
      }
    }
    in_.push_back(std::move(in));
    out_.push_back(std::move(out));
    factors_.push_back(std::move(factors));
  }
}

bool Workload::Passes(const WorldVertex& vertex, const WorldRow& row) const {
  if (vertex.kind != Kind::kFilter) return true;
  if (vertex.modulus > 0) return row.id % vertex.modulus != vertex.rejected;
  return !row.has_value || row.value > vertex.above;
}

int Workload::VertexOf(std::string_view uid) const {
  auto it = vertices_.find(uid);
  return it == vertices_.end() ? -1 : it->second;
}

int Workload::RowOf(int64_t id) const {
  const int64_t file = id / 1'000'000 - 1;
  const int64_t index = id % 1'000'000;
  if (id < 0 || file < 0 || file >= static_cast<int64_t>(world_.files.size())) return -1;
  const WorldFile& in = world_.files[file];
  return index < static_cast<int64_t>(in.ends.size()) ? static_cast<int>(in.first_row + index) : -1;
}

int Workload::KeyOf(std::string_view key) const {
  auto it = keys_.find(key);
  return it == keys_.end() ? -1 : it->second;
}

int Workload::FileOf(std::string_view path) const {
  auto it = files_.find(path);
  return it == files_.end() ? -1 : it->second;
}

Fold::Fold(const Workload& workload)
    : workload_(workload),
      rows_(workload.world().files.size()),
      in_(workload.vertices()),
      out_(workload.vertices()),
      keys_(workload.vertices()) {
  for (int v = 0; v < workload.vertices(); ++v) {
    if (workload.vertex(v).kind == Kind::kAggregate) {
      keys_[v].resize(workload.world().keys.size() + 1);
    }
  }
}

void Fold::Advance(int file, int rows) {
  WEIR_CHECK(rows >= rows_[file]);
  const World& world = workload_.world();
  for (int i = rows_[file]; i < rows; ++i) {
    const int row = world.files[file].first_row + i;
    for (int v = 0; v < workload_.vertices(); ++v) {
      in_[v] += workload_.in(v, row);
      out_[v] += workload_.out(v, row);
      if (keys_[v].empty()) continue;
      KeyState& state = keys_[v][world.table[row].key + 1];
      for (int branch = 0; branch < Workload::kBranches; ++branch) {
        const int times = workload_.out(v, row, branch);
        state.count += times;
        if (times == 0 || !world.table[row].has_value) continue;
        state.total += times * workload_.value(v, row, branch);
        state.has_total = true;
      }
    }
  }
  rows_[file] = rows;
}

bool Fold::Contains(int row) const {
  const WorldRow& in = workload_.world().table[row];
  return row - workload_.world().files[in.file].first_row < rows_[in.file];
}

}  // namespace weir::sim
