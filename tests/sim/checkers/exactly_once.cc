#include "tests/sim/checkers/exactly_once.h"

#include "common/base/concat.h"
#include "common/storage/file_system.h"
#include "tests/sim/kafka/kafka_broker.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

using Kind = WorldVertex::Kind;

ExactlyOnceChecker::ExactlyOnceChecker(const CheckContext& context, Facts& facts)
    : context_(context), facts_(facts) {
  Clear();
}

void ExactlyOnceChecker::Clear() {
  const Workload& workload = facts_.workload();
  for (int v = 0; v < workload.vertices(); ++v) {
    if (workload.vertex(v).kind != Kind::kSink) continue;
    Visible& visible = visible_[v];
    visible.times.assign(Workload::kBranches, std::vector<uint16_t>(workload.rows()));
    visible.counts.clear();
    if (workload.vertex(workload.vertex(v).inputs[0].from).kind == Kind::kAggregate) {
      visible.counts.resize(workload.world().keys.size() + 1);
    }
  }
}

std::string ExactlyOnceChecker::KeyText(int key) const {
  return key < 0 ? "null" : Concat("'", facts_.workload().world().keys[key], "'");
}

std::string ExactlyOnceChecker::Describe(const OutputRow& row) const {
  const World& world = facts_.workload().world();
  return Concat("row ", world.table[row.row].id,
                world.branches ? (row.branch == 0 ? " of branch a" : " of branch b") : "");
}

void ExactlyOnceChecker::OnStorage(const StorageEvent& event) {
  if (event.operation != "rename" && event.operation != "link") return;
  OutputPath place = facts_.Locate(event.to);
  if (place.is_final()) Add(place.sink, event.to);
}

void ExactlyOnceChecker::Add(int sink, const std::string& path) {
  const std::string* bytes = facts_.disk().Bytes(path);
  if (bytes != nullptr) AddRows(sink, path, facts_.Read(sink, *bytes));
}

void ExactlyOnceChecker::AddRecords(int sink, const std::vector<const KafkaModelRecord*>& records) {
  std::string lines;
  for (const KafkaModelRecord* record : records) lines += record->value.value_or("null") + "\n";
  AddRows(sink, Concat("topic ", facts_.workload().vertex(sink).topic),
          ReadOutputFile(facts_.workload(), sink, lines));
}

void ExactlyOnceChecker::AddRows(int sink, const std::string& path, const OutputFile& file) {
  const Workload& workload = facts_.workload();
  if (!file.problem.empty()) {
    context_.violation(Concat(path, ": ", file.problem));
    return;
  }
  Visible& visible = visible_[sink];
  for (const OutputRow& row : file.rows) {
    uint16_t& times = visible.times[row.branch][row.row];
    ++times;
    if (times > workload.out(sink, row.row, row.branch)) {
      context_.violation(Concat(path, ": ", Describe(row), " is visible ", times, " times, not ",
                                workload.out(sink, row.row, row.branch)));
      return;
    }
    if (visible.counts.empty()) continue;
    const int key = workload.world().table[row.row].key;
    auto [it, is_new] = visible.counts[key + 1].emplace(row.count, row);
    if (!is_new) {
      context_.violation(Concat(path, ": key ", KeyText(key), " has count ", row.count, " at ",
                                Describe(row), " and at ", Describe(it->second)));
      return;
    }
  }
}

// Names may have been lost that were not synced: what is there counts.
void ExactlyOnceChecker::OnPowerLoss() {
  Clear();
  for (auto& [sink, visible] : visible_) {
    const std::string& topic = facts_.workload().vertex(sink).topic;
    for (int32_t partition = 0; !topic.empty() && partition < context_.kafka->partitions(topic);
         ++partition) {
      AddRecords(sink, context_.kafka->ReadCommitted(topic, partition));
    }
    if (!topic.empty()) continue;
    const std::string& directory = facts_.workload().vertex(sink).directory;
    for (const std::string& name : facts_.disk().Names(directory)) {
      if (!name.starts_with('.')) Add(sink, JoinPath(directory, name));
    }
  }
}

void ExactlyOnceChecker::AtEnd() {
  OnPowerLoss();
  const Workload& workload = facts_.workload();
  for (auto& [sink, visible] : visible_) {
    int64_t missing = 0;
    std::string first;
    for (int branch = 0; branch < Workload::kBranches; ++branch) {
      for (int row = 0; row < workload.rows(); ++row) {
        const int due = workload.out(sink, row, branch);
        if (visible.times[branch][row] >= due) continue;
        OutputRow shown;
        shown.row = row;
        shown.branch = static_cast<int8_t>(branch);
        if (missing++ == 0) {
          first =
              Concat(Describe(shown), " (", visible.times[branch][row], " times, not ", due, ")");
        }
      }
    }
    if (missing > 0) {
      context_.violation(Concat("sink ", workload.vertex(sink).uid, " misses ", missing,
                                " rows at the end, the first is ", first));
      return;
    }
    CheckCounts(sink);
  }
}

void ExactlyOnceChecker::CheckCounts(int sink) {
  const Workload& workload = facts_.workload();
  const std::vector<std::unordered_map<int64_t, OutputRow>>& counts = visible_[sink].counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int key = static_cast<int>(i) - 1;
    OutputRow before;
    for (int64_t count = 1; count <= static_cast<int64_t>(counts[i].size()); ++count) {
      auto it = counts[i].find(count);
      if (it == counts[i].end()) {
        context_.violation(Concat("sink ", workload.vertex(sink).uid, ": key ", KeyText(key),
                                  " has ", counts[i].size(), " rows, and none with count ", count));
        return;
      }
      const OutputRow& row = it->second;
      const WorldRow& in = workload.world().table[row.row];
      const int64_t grown = in.has_value ? workload.value(sink, row.row, row.branch) : 0;
      if (row.has_total != (before.has_total || in.has_value) ||
          row.total != before.total + grown) {
        context_.violation(Concat("sink ", workload.vertex(sink).uid, ": key ", KeyText(key),
                                  " has total ", row.has_total ? Concat(row.total) : "null",
                                  " at count ", count, ", ", Describe(row), " of value ", grown,
                                  ", after ", before.has_total ? Concat(before.total) : "null"));
        return;
      }
      before = row;
    }
  }
}

}  // namespace weir::sim
