#include "tests/sim/checkers/consistent_cut.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/concat.h"
#include "tests/support/memory_disk.h"
#include "worker/checkpoint/snapshot_files.h"
#include "worker/connectors/files/files_source.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/state/state_format.h"

namespace weir::sim {
namespace {

using Kind = WorldVertex::Kind;

int64_t Int64At(std::string_view bytes, size_t offset) {
  int64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string Shown(const Fold::KeyState& state) {
  return Concat("count ", state.count, " total ",
                state.has_total ? Concat(state.total) : std::string("null"));
}

// The values of staged records as lines; "": done.
std::string StagedLines(std::string_view bytes, std::string* lines) {
  if (bytes.size() < kKafkaFileHeaderBytes) return "it is cut off";
  Status header = CheckKafkaFileHeader(bytes.substr(0, kKafkaFileHeaderBytes));
  if (!header.ok()) return header.message();
  KafkaBlockReader blocks(bytes.substr(kKafkaFileHeaderBytes));
  KafkaBlock block;
  while (true) {
    StatusOr<bool> more = blocks.Next(&block);
    if (!more.ok()) return more.status().message();
    if (!*more) break;
    KafkaRecordReader reader(block);
    for (KafkaRecordView record; reader.Next(&record);) {
      lines->append(record.value.value_or("null")).push_back('\n');
    }
    if (!reader.status().ok()) return reader.status().message();
  }
  return blocks.used() + kKafkaFileHeaderBytes == bytes.size() ? "" : "it is cut off";
}

}  // namespace

ConsistentCutChecker::ConsistentCutChecker(const CheckContext& context, Facts& facts)
    : context_(context), facts_(facts) {
  Rebuild();
}

// As after the last of cuts_.
void ConsistentCutChecker::Rebuild() {
  const Workload& workload = facts_.workload();
  fold_.emplace(workload);
  sealed_.assign(workload.vertices(), {});
  for (int v = 0; v < workload.vertices(); ++v) {
    if (workload.vertex(v).kind != Kind::kSink) continue;
    sealed_[v].assign(Workload::kBranches, std::vector<uint16_t>(workload.rows()));
  }
  for (const Cut& cut : cuts_) {
    for (size_t part : cut.parts) AddSealed(part);
  }
  if (cuts_.empty()) return;
  for (size_t file = 0; file < cuts_.back().rows.size(); ++file) {
    fold_->Advance(static_cast<int>(file), cuts_.back().rows[file]);
  }
}

void ConsistentCutChecker::OnStorage(const StorageEvent&) {
  const CompletedEntry* entry = facts_.new_completed();
  if (entry == nullptr || !entry->manifest) return;
  std::string problem = Check(*entry);
  if (!problem.empty()) {
    context_.violation(Concat("checkpoint ", entry->checkpoint, " of generation ",
                              entry->generation, ": ", problem));
  }
}

void ConsistentCutChecker::OnPowerLoss() {
  const size_t before = cuts_.size();
  while (!cuts_.empty() && facts_.FindCompleted(cuts_.back().checkpoint) == nullptr) {
    cuts_.pop_back();
  }
  if (cuts_.size() < before) Rebuild();
}

std::string ConsistentCutChecker::Check(const CompletedEntry& entry) {
  const CheckpointManifest& manifest = *entry.manifest;
  Cut cut;
  cut.checkpoint = entry.checkpoint;
  std::string problem = ReadPositions(manifest, &cut.rows);
  if (!problem.empty()) return problem;
  for (size_t file = 0; file < cut.rows.size(); ++file) {
    if (cut.rows[file] < fold_->rows(static_cast<int>(file))) {
      return Concat(context_.world.files[file].path, " is read up to row ", cut.rows[file],
                    ", and checkpoint ", cuts_.back().checkpoint, " had it up to row ",
                    fold_->rows(static_cast<int>(file)));
    }
  }
  for (size_t file = 0; file < cut.rows.size(); ++file) {
    fold_->Advance(static_cast<int>(file), cut.rows[file]);
  }
  problem = CheckCounters(manifest);
  for (int v = 0; v < facts_.workload().vertices() && problem.empty(); ++v) {
    if (facts_.workload().vertex(v).kind == Kind::kAggregate) problem = CheckAggregate(manifest, v);
  }
  if (problem.empty()) problem = CheckSealed(entry, &cut);
  if (!problem.empty()) return problem;
  cuts_.push_back(std::move(cut));
  return "";
}

std::string ConsistentCutChecker::ReadHandle(const StateHandle& handle,
                                             const std::string** bytes) const {
  const std::string path = JoinPath(facts_.job_directory(), handle.path);
  *bytes = facts_.disk().Bytes(path);
  if (*bytes == nullptr) return Concat("its state file ", path, " does not exist");
  if (static_cast<int64_t>((*bytes)->size()) != handle.length ||
      XXH3_64bits((*bytes)->data(), (*bytes)->size()) != handle.checksum) {
    return Concat("its state file ", path, " has ", (*bytes)->size(), " bytes, not the ",
                  handle.length, " with checksum ", handle.checksum);
  }
  return "";
}

std::string ConsistentCutChecker::ReadPositions(const CheckpointManifest& manifest,
                                                std::vector<int>* rows) const {
  rows->assign(context_.world.files.size(), -1);
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    const int vertex = facts_.workload().VertexOf(snapshot.uid);
    if (vertex < 0) return Concat("it has a snapshot of ", snapshot.uid, ", which is not there");
    if (facts_.workload().vertex(vertex).kind != Kind::kSource) continue;
    for (const StateHandle& handle : snapshot.handles) {
      if (handle.kind != StateKind::kPositions) continue;
      const std::string* bytes = nullptr;
      std::string problem = ReadHandle(handle, &bytes);
      if (!problem.empty()) return problem;
      StatusOr<std::vector<SplitState>> positions = DecodePositions(*bytes);
      if (!positions.ok()) return Concat(handle.path, ": ", positions.status().message());
      for (const SplitState& split : *positions) {
        const int file = facts_.workload().FileOf(split.split);
        if (file < 0 || context_.world.files[file].source != vertex) {
          return Concat(snapshot.uid, " has a position in ", split.split, ", which is not its");
        }
        if ((*rows)[file] >= 0) return Concat("two subtasks have a position in ", split.split);
        problem = RowsBefore(file, split.position, &(*rows)[file]);
        if (!problem.empty()) return problem;
      }
    }
  }
  for (size_t file = 0; file < rows->size(); ++file) {
    if ((*rows)[file] < 0) return Concat("no position in ", context_.world.files[file].path);
  }
  return "";
}

std::string ConsistentCutChecker::RowsBefore(int file, std::string_view text, int* rows) const {
  const WorldFile& in = context_.world.files[file];
  std::optional<FilePosition> position = DecodeFilePosition(text);
  if (!position) return Concat("the position in ", in.path, " is '", text, "'");
  const auto end = std::lower_bound(in.ends.begin(), in.ends.end(), position->offset);
  if (position->offset == in.head_bytes || position->offset == 0) {
    *rows = 0;
  } else if (end != in.ends.end() && *end == position->offset) {
    *rows = static_cast<int>(end - in.ends.begin()) + 1;
  } else {
    return Concat("the position in ", in.path, " is ", position->offset, ", which is within a row");
  }
  if (position->ended && *rows != static_cast<int>(in.ends.size())) {
    return Concat(in.path, " is said to be read to its end at row ", *rows, " of ", in.ends.size());
  }
  return "";
}

std::string ConsistentCutChecker::CheckCounters(const CheckpointManifest& manifest) const {
  const Workload& workload = facts_.workload();
  std::vector<int64_t> in(workload.vertices()), out(workload.vertices());
  std::vector<std::set<int>> subtasks(workload.vertices());
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    const int vertex = workload.VertexOf(snapshot.uid);
    in[vertex] += snapshot.records_in;
    out[vertex] += snapshot.records_out;
    if (!subtasks[vertex].insert(snapshot.subtask).second) {
      return Concat("two snapshots of ", snapshot.uid, " subtask ", snapshot.subtask);
    }
    if (snapshot.dropped_rows != 0 || snapshot.lost_rows != 0) {
      return Concat(snapshot.uid, " dropped ", snapshot.dropped_rows, " rows and lost ",
                    snapshot.lost_rows);
    }
  }
  for (int v = 0; v < workload.vertices(); ++v) {
    const WorldVertex& vertex = workload.vertex(v);
    if (static_cast<int>(subtasks[v].size()) != vertex.parallelism) {
      return Concat(subtasks[v].size(), " of ", vertex.parallelism, " subtasks of ", vertex.uid,
                    " have a snapshot");
    }
    if (vertex.kind != Kind::kSource && in[v] != fold_->in(v)) {
      return Concat(vertex.uid, " has taken ", in[v], " rows; before the positions of the sources ",
                    fold_->in(v), " come to it");
    }
    if (vertex.kind != Kind::kSink && out[v] != fold_->out(v)) {
      return Concat(vertex.uid, " has emitted ", out[v],
                    " rows; before the positions of the sources are ", fold_->out(v));
    }
  }
  return "";
}

std::string ConsistentCutChecker::CheckAggregate(const CheckpointManifest& manifest,
                                                 int vertex) const {
  const Workload& workload = facts_.workload();
  const std::string& uid = workload.vertex(vertex).uid;
  int max_parallelism = 0;
  for (const CheckpointManifest::OperatorInfo& info : manifest.operators) {
    if (info.uid == uid) max_parallelism = info.max_parallelism;
  }
  std::vector<bool> seen(workload.world().keys.size() + 1);
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    if (snapshot.uid != uid) continue;
    for (const StateHandle& handle : snapshot.handles) {
      const std::string* bytes = nullptr;
      std::string problem = ReadHandle(handle, &bytes);
      if (!problem.empty()) return problem;
      for (const KeyGroupSlice& slice : handle.slices) {
        StatusOr<StateChunkReader> chunk = StateChunkReader::Open(
            slice.key_group, max_parallelism,
            std::string_view(*bytes).substr(static_cast<size_t>(slice.offset),
                                            static_cast<size_t>(slice.length)));
        if (!chunk.ok()) return Concat(handle.path, ": ", chunk.status().message());
        std::string_view key_bytes, value;
        while (chunk->NextEntry(&key_bytes, &value)) {
          // 0x00 is null; else 0x01, a length of four bytes, the text. Flags, count, sum.
          int key = -1;
          if (key_bytes != std::string_view("\0", 1)) {
            if (key_bytes.size() >= 5) key = workload.KeyOf(key_bytes.substr(5));
            if (key < 0) return Concat(uid, " holds a key that is in no input");
          }
          if (value.size() != 24) return Concat(handle.path, ": a value of ", value.size());
          const Fold::KeyState held{Int64At(value, 8), Int64At(value, 16), (value[0] & 1) != 0};
          const Fold::KeyState& due = fold_->key(vertex, key);
          const std::string shown =
              key < 0 ? std::string("null") : Concat("'", workload.world().keys[key], "'");
          if (seen[key + 1]) return Concat(uid, " holds key ", shown, " twice");
          seen[key + 1] = true;
          if (!(held == due)) {
            return Concat(uid, " holds ", Shown(held), " for key ", shown, "; the rows before ",
                          "the positions of the sources make ", Shown(due));
          }
        }
      }
    }
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    const Fold::KeyState& due = fold_->key(vertex, static_cast<int>(i) - 1);
    if (!seen[i] && due.count > 0) {
      return Concat(uid, " holds nothing for key ",
                    i == 0 ? std::string("null") : Concat("'", workload.world().keys[i - 1], "'"),
                    "; the rows before the positions of the sources make ", Shown(due));
    }
  }
  return "";
}

// What is listed now, and what was listed before and is visible by now.
std::string ConsistentCutChecker::CheckSealed(const CompletedEntry& entry, Cut* cut) {
  std::set<size_t> listed(entry.listed.begin(), entry.listed.end());
  std::set<size_t> known;
  for (const Cut& earlier : cuts_) known.insert(earlier.parts.begin(), earlier.parts.end());
  for (size_t index : known) {
    const ListedPart& part = facts_.parts()[index];
    const bool is_out = part.is_staged() ? !listed.contains(index) && facts_.IsPublished(part)
                                         : facts_.disk().IsDurable(part.final_path);
    if (!listed.contains(index) && !is_out) {
      return Concat(part.pending_path, ", which checkpoint ", part.first_listed,
                    " lists, is neither listed again nor visible for good");
    }
  }
  for (size_t index : listed) {
    if (known.contains(index)) continue;
    cut->parts.push_back(index);
    std::string problem = AddSealed(index);
    if (!problem.empty()) return problem;
  }
  const Workload& workload = facts_.workload();
  for (int v = 0; v < workload.vertices(); ++v) {
    for (size_t branch = 0; branch < sealed_[v].size(); ++branch) {
      for (int row = 0; row < workload.rows(); ++row) {
        const int times = sealed_[v][branch][row];
        const int due = fold_->Contains(row) ? workload.out(v, row, static_cast<int>(branch)) : 0;
        if (times == due) continue;
        return Concat("sink ", workload.vertex(v).uid, " has sealed row ",
                      workload.world().table[row].id, " ", times, " times, not ", due,
                      due == 0 ? ": it is behind the positions of the sources" : "");
      }
    }
  }
  return "";
}

// What is published is removed: its rows are remembered.
std::string ConsistentCutChecker::AddStaged(size_t index) {
  const ListedPart& part = facts_.parts()[index];
  if (part.pending_path.empty()) return "";
  auto it = staged_.find(index);
  if (it == staged_.end()) {
    const std::string* bytes = facts_.disk().Bytes(part.pending_path);
    if (bytes == nullptr) return Concat(part.pending_path, ", which it lists, does not exist");
    std::string lines;
    std::string problem = StagedLines(*bytes, &lines);
    OutputFile file = ReadOutputFile(facts_.workload(), part.sink, lines);
    if (problem.empty()) problem = file.problem;
    if (!problem.empty()) return Concat(part.pending_path, ": ", problem);
    it = staged_.emplace(index, std::move(file)).first;
  }
  for (const OutputRow& row : it->second.rows) ++sealed_[part.sink][row.branch][row.row];
  return "";
}

std::string ConsistentCutChecker::AddSealed(size_t index) {
  const ListedPart& part = facts_.parts()[index];
  if (part.is_staged()) return AddStaged(index);
  const std::string* bytes = facts_.disk().Bytes(part.pending_path);
  if (bytes == nullptr) bytes = facts_.disk().Bytes(part.final_path);
  if (bytes == nullptr) return Concat(part.pending_path, ", which it lists, does not exist");
  if (static_cast<int64_t>(bytes->size()) != part.length) {
    return Concat(part.pending_path, " has ", bytes->size(), " bytes; it lists ", part.length);
  }
  const OutputFile& file = facts_.Read(part.sink, *bytes);
  if (!file.problem.empty()) return Concat(part.pending_path, ": ", file.problem);
  for (const OutputRow& row : file.rows) ++sealed_[part.sink][row.branch][row.row];
  return "";
}

}  // namespace weir::sim
