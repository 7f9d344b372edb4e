#include "tests/sim/checkers/commits.h"

#include <xxhash.h>

#include "common/base/concat.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {
namespace {

uint64_t HashOf(const std::string& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

void CommitsChecker::OnStorage(const StorageEvent& event) {
  if (facts_.new_finished()) {
    for (const CompletedEntry& entry : facts_.completed()) {
      for (size_t index : entry.listed) {
        const ListedPart& part = facts_.parts()[index];
        if (part.is_staged() || facts_.disk().IsDurable(part.final_path)) continue;
        context_.violation(Concat("the job is FINISHED, but ", part.final_path,
                                  ", which checkpoint ", entry.checkpoint,
                                  " lists, is not visible for good"));
        return;
      }
    }
  }
  const std::string_view operation = event.operation;
  if (operation == "read" || operation == "list" || operation == "stat" || operation == "sync") {
    return;
  }
  if (operation == "rename" || operation == "link") {
    OnNamed(event);
    return;
  }
  if (operation == "sync_directory") {
    for (auto& [path, file] : finals_) {
      if (path.size() > event.path.size() && path[event.path.size()] == '/' &&
          path.starts_with(event.path)) {
        file.durable = true;
      }
    }
    return;
  }
  const OutputPath place = facts_.Locate(event.path);
  if (place.sink < 0) return;
  if (place.is_final()) {
    context_.violation(Concat(event.process, " did ", operation, " on the visible ", event.path));
    return;
  }
  if (!place.is_pending()) return;
  if (const ListedPart* part = facts_.FindPart(event.path)) {
    context_.violation(Concat(event.process, " did ", operation, " on ", event.path,
                              ", which completed checkpoint ", part->first_listed, " lists"));
  }
}

void CommitsChecker::OnNamed(const StorageEvent& event) {
  const OutputPath from = facts_.Locate(event.path);
  const OutputPath to = facts_.Locate(event.to);
  if (from.sink < 0 && to.sink < 0) return;
  if (event.operation == "rename" && from.is_final()) {
    context_.violation(
        Concat(event.process, " renamed the visible ", event.path, " to ", event.to));
    return;
  }
  if (!to.is_final()) {
    if (const ListedPart* part = facts_.FindPart(event.path)) {
      context_.violation(Concat(event.process, " renamed ", event.path, ", which checkpoint ",
                                part->first_listed, " lists, to ", event.to));
    }
    return;
  }
  if (finals_.contains(event.to)) {
    context_.violation(
        Concat(event.process, " replaced the visible ", event.to, " by ", event.path));
    return;
  }
  const ListedPart* part = facts_.FindPart(event.path);
  if (part == nullptr) {
    context_.violation(Concat(event.process, " made ", event.path, " visible as ", event.to,
                              ", but no completed checkpoint lists it"));
    return;
  }
  if (part->final_path != event.to) {
    context_.violation(Concat(event.process, " made ", event.path, " visible as ", event.to,
                              ", but checkpoint ", part->first_listed, " names it ",
                              part->final_path));
    return;
  }
  const CompletedEntry* lists = facts_.FindCompleted(part->first_listed);
  if (lists != nullptr && !facts_.IsDurable(*lists)) {
    context_.violation(Concat(event.process, " made ", event.path, " visible as ", event.to,
                              ", but ", lists->path, ", which completes checkpoint ",
                              lists->checkpoint, ", is not durable yet"));
    return;
  }
  const std::string* bytes = facts_.disk().Bytes(event.to);
  if (bytes == nullptr || static_cast<int64_t>(bytes->size()) != part->length) {
    context_.violation(Concat(event.to, " has ", bytes == nullptr ? 0 : bytes->size(),
                              " bytes, but checkpoint ", part->first_listed, " lists ",
                              part->length));
    return;
  }
  finals_[event.to] = {HashOf(*bytes), false};
}

void CommitsChecker::CheckUnchanged(const std::string& path, const Final& file) {
  const std::string* bytes = facts_.disk().Bytes(path);
  if (bytes == nullptr) {
    context_.violation(Concat("the visible ", path, " is gone"));
  } else if (HashOf(*bytes) != file.hash) {
    context_.violation(
        Concat("the visible ", path, " has changed: it has ", bytes->size(), " bytes now"));
  }
}

void CommitsChecker::OnPowerLoss() {
  for (auto it = finals_.begin(); it != finals_.end();) {
    if (!it->second.durable && facts_.disk().Bytes(it->first) == nullptr) {
      it = finals_.erase(it);
      continue;
    }
    CheckUnchanged(it->first, it->second);
    it->second.durable = true;
    ++it;
  }
  for (const CompletedEntry& entry : facts_.completed()) {
    for (size_t index : entry.listed) {
      const ListedPart& part = facts_.parts()[index];
      if (part.is_staged() && (part.pending_path.empty() || facts_.IsPublished(part))) continue;
      if (!part.is_staged() && facts_.disk().Exists(part.final_path)) continue;
      if (facts_.disk().Exists(part.pending_path)) continue;
      context_.violation(Concat("a power loss took ", part.pending_path, ", which checkpoint ",
                                entry.checkpoint, " lists"));
      return;
    }
  }
}

void CommitsChecker::AtEnd() {
  for (const auto& [path, file] : finals_) CheckUnchanged(path, file);
}

}  // namespace weir::sim
