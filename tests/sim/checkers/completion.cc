#include "tests/sim/checkers/completion.h"

#include "common/base/concat.h"
#include "common/storage/file_system.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

void CompletionChecker::OnStorage(const StorageEvent& event) {
  if (event.operation == "create" && event.path.ends_with("/_metadata")) {
    if (!manifests_.insert(event.path).second) {
      context_.violation(Concat(event.process, " made a second manifest ", event.path));
    }
    return;
  }
  if (const CompletedEntry* entry = facts_.new_completed()) {
    std::string problem = CheckCompleted(*entry);
    if (problem.empty()) problem = CheckParts(*entry);
    if (problem.empty()) problem = CheckDurable(*entry);
    if (!problem.empty()) {
      context_.violation(Concat(entry->path, " of ", event.process, " completes checkpoint ",
                                entry->checkpoint, " of generation ", entry->generation, ": ",
                                problem));
    }
  }
  if (const StartedEntry* entry = facts_.new_started()) {
    std::string problem = CheckStarted(*entry);
    if (!problem.empty()) {
      context_.violation(Concat(entry->path, " of ", event.process, " starts generation ",
                                entry->entry.generation, ": ", problem));
    }
  }
}

std::string CompletionChecker::CheckCompleted(const CompletedEntry& entry) const {
  if (!entry.problem.empty()) return entry.problem;
  if (facts_.finished()) return "the job is FINISHED";
  if (facts_.ended()) return "the job has ended";
  const StartedEntry* started = facts_.newest_started();
  if (started == nullptr) return "no generation has started";
  if (entry.term != started->term || entry.generation != started->entry.generation) {
    return Concat("generation ", started->entry.generation, " has started in term ", started->term);
  }
  if (facts_.IsSealed(entry.term)) return Concat("term ", entry.term, " is sealed");
  for (const CompletedEntry& other : facts_.completed()) {
    if (&other == &entry || other.checkpoint < entry.checkpoint) continue;
    return Concat("checkpoint ", other.checkpoint, " of generation ", other.generation,
                  " has completed before, by ", other.path);
  }
  return "";
}

// Nothing of another generation, but for rows that a completed checkpoint has listed already.
std::string CompletionChecker::CheckParts(const CompletedEntry& entry) const {
  const std::string own = Concat(CheckpointDirectoryName(entry.checkpoint, entry.generation), "/");
  for (const OperatorSnapshot& snapshot : entry.manifest->snapshots) {
    for (const StateHandle& handle : snapshot.handles) {
      if (!handle.path.starts_with(own)) {
        return Concat("state of ", snapshot.uid, " is that of another checkpoint: ", handle.path);
      }
    }
  }
  for (size_t index : entry.listed) {
    const ListedPart& part = facts_.parts()[index];
    if (part.sealed_at > entry.checkpoint) {
      return Concat(part.pending_path, " was sealed for the later checkpoint ", part.sealed_at);
    }
    if (part.generation != entry.generation && part.first_listed == entry.checkpoint) {
      return Concat(part.pending_path, " is of generation ", part.generation,
                    " and no checkpoint has listed it before");
    }
  }
  return "";
}

std::string CompletionChecker::CheckDurable(const CompletedEntry& entry) const {
  const MemoryDisk& disk = facts_.disk();
  std::string path = JoinPath(entry.directory, "_metadata");
  if (!disk.IsDurable(path)) return Concat(path, " is not durable");
  for (const OperatorSnapshot& snapshot : entry.manifest->snapshots) {
    for (const StateHandle& handle : snapshot.handles) {
      path = JoinPath(facts_.job_directory(), handle.path);
      if (!disk.IsDurable(path)) return Concat(path, " is not durable");
    }
  }
  for (size_t index : entry.listed) {
    const ListedPart& part = facts_.parts()[index];
    // One that got its name meanwhile was durable under the other.
    if (!part.pending_path.empty() && disk.Exists(part.pending_path) &&
        !disk.IsDurable(part.pending_path)) {
      return Concat(part.pending_path, " is not durable");
    }
  }
  return "";
}

std::string CompletionChecker::CheckStarted(const StartedEntry& entry) const {
  for (const StartedEntry& other : facts_.started()) {
    if (&other == &entry || other.entry.generation < entry.entry.generation) continue;
    return Concat("generation ", other.entry.generation, " has started before, by ", other.path);
  }
  const CompletedEntry* newest = facts_.newest_completed();
  const CheckpointId checkpoint = newest == nullptr ? CheckpointId(0) : newest->checkpoint;
  if (entry.entry.checkpoint != checkpoint) {
    return Concat("from checkpoint ", entry.entry.checkpoint, ", but the newest completed one is ",
                  checkpoint);
  }
  return "";
}

void CompletionChecker::OnPowerLoss() {
  std::erase_if(manifests_, [&](const std::string& path) { return !facts_.disk().Exists(path); });
}

}  // namespace weir::sim
