#include "tests/sim/checkers/facts.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "common/base/concat.h"
#include "tests/sim/kafka/kafka_broker.h"
#include "worker/connectors/files/file_names.h"
#include "worker/connectors/kafka/kafka_marker.h"
#include "worker/connectors/kafka/sink/kafka_stage.h"

namespace weir::sim {
namespace {

bool ParseNumber(std::string_view text, uint64_t* number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "<job directory>/log/<term>/<number>".
bool ParseEntryPath(std::string_view path, std::string_view* job_directory, uint64_t* term,
                    uint64_t* number) {
  const size_t last = path.rfind('/');
  if (last == std::string_view::npos || !ParseNumber(path.substr(last + 1), number)) return false;
  path = path.substr(0, last);
  const size_t middle = path.rfind('/');
  if (middle == std::string_view::npos || !ParseNumber(path.substr(middle + 1), term)) return false;
  path = path.substr(0, middle);
  if (!path.ends_with("/log")) return false;
  *job_directory = path.substr(0, path.size() - 4);
  return true;
}

template <typename Entry>
void Prune(const std::string& path, std::vector<Entry>* entries) {
  for (Entry& entry : *entries) {
    if (entry.path == path) entry.pruned = true;
  }
}

}  // namespace

Facts::Facts(const CheckContext& context) : context_(context), workload_(context.world) {}

void Facts::OnStorage(const StorageEvent& event) {
  new_completed_ = nullptr;
  new_started_ = nullptr;
  new_finished_ = false;
  const bool link = event.operation == "link";
  if (!link && event.operation != "remove") return;
  std::string_view directory;
  uint64_t term = 0;
  uint64_t number = 0;
  if (!ParseEntryPath(link ? event.to : event.path, &directory, &term, &number)) return;
  if (job_directory_.empty()) job_directory_ = directory;
  if (directory != job_directory_) return;
  if (link) {
    OnEntry(event, term, number);
  } else {
    Prune(event.path, &completed_);
    Prune(event.path, &started_);
  }
}

void Facts::OnEntry(const StorageEvent& event, uint64_t term, uint64_t number) {
  const std::string* bytes = disk().Bytes(event.to);
  StatusOr<LogEntry> entry = DecodeLogEntry(bytes == nullptr ? "" : *bytes);
  if (!entry.ok()) {
    context_.violation(Concat("log entry ", event.to, " of ", event.process,
                              " cannot be read: ", entry.status().message()));
    return;
  }
  switch (entry->kind) {
    case LogEntry::Kind::kSealed:
      sealed_.emplace(term, event.to);
      break;
    case LogEntry::Kind::kStarted:
      started_.push_back({.path = event.to,
                          .term = term,
                          .number = number,
                          .entry = *std::move(entry),
                          .pruned = false});
      new_started_ = &started_.back();
      break;
    case LogEntry::Kind::kCompleted: {
      CompletedEntry completed;
      completed.path = event.to;
      completed.term = term;
      completed.number = number;
      completed.checkpoint = entry->checkpoint;
      completed.generation = entry->generation;
      completed.checksum = entry->manifest_checksum;
      LoadManifest(&completed);
      completed_.push_back(std::move(completed));
      new_completed_ = &completed_.back();
      break;
    }
    case LogEntry::Kind::kFinished:
      finished_path_ = event.to;
      new_finished_ = true;
      break;
    case LogEntry::Kind::kCanceled:
    case LogEntry::Kind::kFailed:
      given_up_path_ = event.to;
      break;
    default:
      break;
  }
}

void Facts::LoadManifest(CompletedEntry* entry) {
  entry->directory =
      JoinPath(job_directory_, CheckpointDirectoryName(entry->checkpoint, entry->generation));
  const std::string path = JoinPath(entry->directory, "_metadata");
  const std::string* bytes = disk().Bytes(path);
  if (bytes == nullptr) {
    entry->problem = Concat(path, " does not exist");
    return;
  }
  if (XXH3_64bits(bytes->data(), bytes->size()) != entry->checksum) {
    entry->problem = Concat(path, " is not what the entry names: its checksum is ",
                            XXH3_64bits(bytes->data(), bytes->size()), ", not ", entry->checksum);
    return;
  }
  StatusOr<CheckpointManifest> manifest = DecodeManifest(*bytes);
  if (!manifest.ok()) {
    entry->problem = Concat(path, " cannot be read: ", manifest.status().message());
    return;
  }
  if (manifest->checkpoint != entry->checkpoint || manifest->generation != entry->generation) {
    entry->problem = Concat(path, " is the manifest of checkpoint ", manifest->checkpoint,
                            " of generation ", manifest->generation);
    return;
  }
  for (const OperatorSnapshot& snapshot : manifest->snapshots) {
    for (const Committable& committable : snapshot.committables) {
      const int sink = workload_.VertexOf(committable.uid);
      if (sink >= 0 && !workload_.vertex(sink).topic.empty()) {
        StatusOr<SealedPart> stage = DecodeStage(committable);
        if (!stage.ok()) {
          entry->problem = Concat(path, ": ", stage.status().message());
          return;
        }
        const std::string key =
            Concat(committable.uid, "-", committable.subtask, "-", committable.checkpoint, "-",
                   committable.part, "-", committable.generation);
        auto [it, is_new] = part_of_.emplace(key, parts_.size());
        if (is_new) {
          ListedPart part;
          part.sink = sink;
          if (!stage->name.empty()) {
            part.pending_path = JoinPath(JoinPath(job_directory_, "staged"), stage->name);
          }
          part.length = stage->bytes;
          part.generation = committable.generation;
          part.sealed_at = committable.checkpoint;
          part.first_listed = entry->checkpoint;
          part.subtask = committable.subtask;
          part.index = committable.part;
          parts_.push_back(std::move(part));
        }
        entry->listed.push_back(it->second);
        continue;
      }
      StatusOr<FilePart> part = DecodeFilePart(committable.payload);
      if (sink < 0 || !part.ok()) {
        entry->problem = Concat(path, " lists rows that cannot be understood, of sink ",
                                committable.uid, ": ", part.status().message());
        return;
      }
      const std::string& output = workload_.vertex(sink).directory;
      std::string pending = JoinPath(output, part->pending_name);
      auto [it, is_new] = part_of_.emplace(pending, parts_.size());
      if (is_new) {
        parts_.push_back({.sink = sink,
                          .pending_path = std::move(pending),
                          .final_path = JoinPath(output, part->final_name),
                          .length = part->length,
                          .generation = committable.generation,
                          .sealed_at = committable.checkpoint,
                          .first_listed = entry->checkpoint});
      }
      entry->listed.push_back(it->second);
    }
  }
  entry->manifest = *std::move(manifest);
}

bool Facts::IsPublished(const ListedPart& part) const {
  const std::string& uid = workload_.vertex(part.sink).uid;
  const std::string group =
      Concat(job_directory_.substr(job_directory_.rfind('/') + 1), "-", uid, "-", part.subtask);
  context_.kafka->Advance(context_.now_us());
  const KafkaGroupOffset offset =
      context_.kafka->Decided(group, workload_.vertex(part.sink).topic, 0);
  StatusOr<KafkaMarker> marker = ParseMarker(offset.offset, offset.metadata);
  return marker.ok() &&
         std::pair(part.sealed_at, part.index) <= std::pair(marker->checkpoint, marker->part);
}

void Facts::OnPowerLoss() {
  new_completed_ = nullptr;
  new_started_ = nullptr;
  new_finished_ = false;
  auto gone = [&](const auto& entry) { return !entry.pruned && !disk().Exists(entry.path); };
  std::erase_if(started_, gone);
  std::erase_if(sealed_, [&](const auto& seal) { return !disk().Exists(seal.second); });
  if (finished() && !disk().Exists(finished_path_)) finished_path_.clear();
  if (!given_up_path_.empty() && !disk().Exists(given_up_path_)) given_up_path_.clear();
  if (std::erase_if(completed_, gone) == 0) return;
  // What only those listed is not listed any more.
  std::vector<bool> keep(parts_.size());
  for (const CompletedEntry& entry : completed_) {
    for (size_t part : entry.listed) keep[part] = true;
  }
  std::erase_if(part_of_, [&](const auto& part) { return !keep[part.second]; });
}

const CompletedEntry* Facts::newest_completed() const {
  auto it = std::max_element(
      completed_.begin(), completed_.end(),
      [](const CompletedEntry& a, const CompletedEntry& b) { return a.checkpoint < b.checkpoint; });
  return it == completed_.end() ? nullptr : &*it;
}

const CompletedEntry* Facts::FindCompleted(CheckpointId checkpoint) const {
  for (const CompletedEntry& entry : completed_) {
    if (entry.checkpoint == checkpoint) return &entry;
  }
  return nullptr;
}

const StartedEntry* Facts::newest_started() const {
  auto it = std::max_element(started_.begin(), started_.end(),
                             [](const StartedEntry& a, const StartedEntry& b) {
                               return std::pair(a.term, a.number) < std::pair(b.term, b.number);
                             });
  return it == started_.end() ? nullptr : &*it;
}

const ListedPart* Facts::FindPart(const std::string& pending_path) const {
  auto it = part_of_.find(pending_path);
  return it == part_of_.end() ? nullptr : &parts_[it->second];
}

OutputPath Facts::Locate(std::string_view path) const {
  constexpr std::string_view kOut = "/out/";
  OutputPath found;
  if (!path.starts_with(kOut)) return found;
  const size_t slash = path.rfind('/');
  if (slash < kOut.size()) return found;
  found.sink = workload_.VertexOf(path.substr(kOut.size(), slash - kOut.size()));
  found.name = path.substr(slash + 1);
  return found;
}

const OutputFile& Facts::Read(int sink, std::string_view bytes) {
  const uint64_t hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), sink);
  auto it = files_.find(hash);
  if (it == files_.end()) it = files_.emplace(hash, ReadOutputFile(workload_, sink, bytes)).first;
  return it->second;
}

}  // namespace weir::sim
