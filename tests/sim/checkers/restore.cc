#include "tests/sim/checkers/restore.h"

#include "common/base/concat.h"
#include "common/storage/file_system.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

void RestoreChecker::OnStartOrdered(const StartTasksRequest& request) {
  const StartedEntry* started = facts_.newest_started();
  if (started != nullptr && request.generation < started->entry.generation) return;
  // Once a generation: afterwards it may complete checkpoints, and the order be repeated.
  if (request.generation == last_) return;
  last_ = request.generation;
  std::string problem = Check(request);
  if (!problem.empty()) {
    context_.violation(Concat("generation ", request.generation, " is started from checkpoint ",
                              request.restore.checkpoint, ": ", problem));
  }
}

std::string RestoreChecker::Check(const StartTasksRequest& request) const {
  const StartedEntry* started = facts_.newest_started();
  if (started == nullptr || started->entry.generation != request.generation) {
    return "there is no STARTED entry of it";
  }
  if (!started->pruned && !facts_.disk().IsDurable(started->path)) {
    return Concat(started->path, " is not durable yet");
  }
  const CompletedEntry* newest = facts_.newest_completed();
  const CheckpointId due = newest == nullptr ? CheckpointId(0) : newest->checkpoint;
  if (request.restore.checkpoint != due) {
    return Concat("the newest completed one is ", due);
  }
  if (newest != nullptr && newest->manifest && !(request.restore == *newest->manifest)) {
    return Concat("its manifest is not the one in ", newest->directory);
  }
  for (const CompletedEntry& entry : facts_.completed()) {
    for (size_t index : entry.listed) {
      const ListedPart& part = facts_.parts()[index];
      if (part.is_staged() ? !facts_.IsPublished(part)
                           : !facts_.disk().IsDurable(part.final_path)) {
        return Concat(part.pending_path, ", which checkpoint ", entry.checkpoint,
                      " lists, is not visible for good yet");
      }
    }
  }
  std::set<std::string> listed;
  for (const CompletedEntry& entry : facts_.completed()) {
    for (size_t index : entry.listed) listed.insert(facts_.parts()[index].final_path);
  }
  for (const std::string& directory : context_.world.outputs) {
    for (const std::string& name : facts_.disk().Names(directory)) {
      const std::string path = JoinPath(directory, name);
      if (!name.starts_with('.') && !listed.contains(path)) {
        return Concat(path, " is visible, and no completed checkpoint lists it");
      }
    }
  }
  return "";
}

}  // namespace weir::sim
