#include "tests/sim/checkers/files.h"

#include <xxhash.h>

#include <algorithm>

#include "common/base/concat.h"
#include "common/storage/file_system.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

// The newest `retained`; those that completed later count when a power loss would leave them.
bool FilesChecker::IsRetained(const CompletedEntry& entry) const {
  if (facts_.ended()) return false;
  const auto newer = std::count_if(
      facts_.completed().begin(), facts_.completed().end(), [&](const CompletedEntry& other) {
        return other.checkpoint > entry.checkpoint && facts_.IsDurable(other);
      });
  return newer < context_.world.retained;
}

void FilesChecker::OnStorage(const StorageEvent& event) {
  const std::string_view operation = event.operation;
  if (operation == "create" && facts_.ended()) late_[event.path] = event.process;
  if (operation != "remove" && operation != "rename" && operation != "write" &&
      operation != "truncate") {
    return;
  }
  const std::string& path = event.path;
  if (facts_.job_directory().empty() || !path.starts_with(facts_.job_directory())) return;
  for (const CompletedEntry& entry : facts_.completed()) {
    if (!path.starts_with(entry.directory) || path.size() <= entry.directory.size() ||
        path[entry.directory.size()] != '/' || !entry.manifest || !IsRetained(entry)) {
      continue;
    }
    const std::string relative = path.substr(facts_.job_directory().size() + 1);
    bool named = path == JoinPath(entry.directory, "_metadata");
    for (const OperatorSnapshot& snapshot : entry.manifest->snapshots) {
      for (const StateHandle& handle : snapshot.handles) named = named || handle.path == relative;
    }
    if (named) {
      context_.violation(Concat(event.process, " did ", operation, " on ", path,
                                ", which the retained checkpoint ", entry.checkpoint, " needs"));
    }
  }
}

void FilesChecker::OnPowerLoss() {
  for (const CompletedEntry& entry : facts_.completed()) {
    if (!entry.manifest || !IsRetained(entry)) continue;
    const std::string path = JoinPath(entry.directory, "_metadata");
    const std::string* bytes = facts_.disk().Bytes(path);
    if (bytes == nullptr || XXH3_64bits(bytes->data(), bytes->size()) != entry.checksum) {
      context_.violation(
          Concat("a power loss took ", path, ", of the retained checkpoint ", entry.checkpoint));
      return;
    }
    for (const OperatorSnapshot& snapshot : entry.manifest->snapshots) {
      for (const StateHandle& handle : snapshot.handles) {
        bytes = facts_.disk().Bytes(JoinPath(facts_.job_directory(), handle.path));
        if (bytes != nullptr && XXH3_64bits(bytes->data(), bytes->size()) == handle.checksum) {
          continue;
        }
        context_.violation(Concat("a power loss took ", handle.path,
                                  ", of the retained checkpoint ", entry.checkpoint));
        return;
      }
    }
  }
}

void FilesChecker::AtEnd() {
  // Its checkpoints are deleted when a job is FINISHED.
  for (const std::string& name : facts_.disk().Names(facts_.job_directory())) {
    // What was staged in is gone; the directory itself stays.
    const bool staged =
        name == "staged" && !facts_.disk().Names(JoinPath(facts_.job_directory(), name)).empty();
    if (name.starts_with("chk-") || staged || name == "shared" || name == "restored") {
      context_.violation(
          Concat(facts_.job_directory(), "/", name, " is left although the job has ended"));
      return;
    }
  }
  for (const std::string& directory : context_.world.outputs) {
    for (const std::string& name : facts_.disk().Names(directory)) {
      auto late = late_.find(JoinPath(directory, name));
      if (late != late_.end() && !context_.lives(late->second)) continue;
      if (name.starts_with('.') && name != ".weir-sink") {
        context_.violation(Concat(directory, "/", name, " is left although the job has ended"));
        return;
      }
    }
  }
}

}  // namespace weir::sim
