#include "coordinator/checkpoint/pending_checkpoint.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/checkpoint/manifest.h"

namespace weir {
namespace {

constexpr int kWaitingNamedMax = 5;

}  // namespace

std::string_view ToString(AckOutcome outcome) {
  switch (outcome) {
    case AckOutcome::kAccepted:
      return "accepted";
    case AckOutcome::kDuplicate:
      return "duplicate";
    case AckOutcome::kDeclined:
      return "declined";
    case AckOutcome::kLate:
      return "late";
    case AckOutcome::kStale:
      return "stale";
    case AckOutcome::kUnknown:
      return "unknown";
    case AckOutcome::kUnexpected:
      return "unexpected";
    case AckOutcome::kRefused:
      return "refused";
  }
  return "";
}

PendingCheckpoint::PendingCheckpoint(CheckpointId checkpoint, Generation generation,
                                     CheckpointId base, std::vector<CheckpointedTask> tasks,
                                     Moment triggered)
    : checkpoint_(checkpoint),
      generation_(generation),
      base_(base),
      tasks_(std::move(tasks)),
      triggered_(triggered),
      snapshots_(tasks_.size()) {
  for (size_t task = 0; task < tasks_.size(); ++task) {
    snapshots_[task].resize(static_cast<size_t>(tasks_[task].parallelism));
    for (int subtask = 0; subtask < tasks_[task].parallelism; ++subtask) {
      waiting_.emplace(static_cast<int>(task), subtask);
    }
  }
  subtasks_ = waiting_.size();
}

AckOutcome PendingCheckpoint::Acknowledge(TaskAck ack, std::string* reason) {
  if (ack.task < 0 || ack.task >= static_cast<int>(tasks_.size()) || ack.subtask < 0 ||
      ack.subtask >= tasks_[static_cast<size_t>(ack.task)].parallelism) {
    *reason = Concat("task ", ack.task, " subtask ", ack.subtask, " does not exist");
    return AckOutcome::kUnexpected;
  }
  const auto waiting = waiting_.find({ack.task, ack.subtask});
  if (waiting == waiting_.end()) return AckOutcome::kDuplicate;
  if (!ack.error.ok()) {
    const CheckpointedTask& task = tasks_[static_cast<size_t>(ack.task)];
    *reason = Concat(task.uids.empty() ? std::string() : task.uids.front(), " subtask ",
                     ack.subtask, " could not take its snapshot: ", ack.error.message());
    return AckOutcome::kDeclined;
  }
  if (std::string objection = Objection(ack); !objection.empty()) {
    *reason = std::move(objection);
    return AckOutcome::kRefused;
  }
  waiting_.erase(waiting);
  if (waiting_.size() == 1 && PlantedBug("early_manifest")) waiting_.clear();
  for (const OperatorSnapshot& snapshot : ack.snapshots) {
    for (const StateHandle& handle : snapshot.handles) state_bytes_ += handle.length;
  }
  snapshots_[static_cast<size_t>(ack.task)][static_cast<size_t>(ack.subtask)] =
      std::move(ack.snapshots);
  return AckOutcome::kAccepted;
}

std::string PendingCheckpoint::Objection(const TaskAck& ack) const {
  const CheckpointedTask& task = tasks_[static_cast<size_t>(ack.task)];
  if (ack.snapshots.size() != task.uids.size()) {
    return Concat("task ", ack.task, " subtask ", ack.subtask, " acknowledged ",
                  ack.snapshots.size(), " operators, it has ", task.uids.size());
  }
  const std::string directory = CheckpointDirectoryName(checkpoint_, generation_) + "/";
  std::multiset<std::string_view> missing(task.uids.begin(), task.uids.end());
  for (const OperatorSnapshot& snapshot : ack.snapshots) {
    const auto uid = missing.find(snapshot.uid);
    if (uid == missing.end() || snapshot.subtask != ack.subtask) {
      return Concat("task ", ack.task, " subtask ", ack.subtask, " acknowledged operator ",
                    snapshot.uid, " ", snapshot.subtask, ", which is not a part of it");
    }
    missing.erase(uid);
    for (const StateHandle& handle : snapshot.handles) {
      const std::string_view path = handle.path;
      const std::string_view name =
          path.substr(0, directory.size()) == directory ? path.substr(directory.size()) : "";
      if (name.empty() || name == "." || name == ".." || name == "_metadata" ||
          name.find('/') != std::string_view::npos || handle.length < 0) {
        return Concat(snapshot.uid, " ", snapshot.subtask, " names file ", handle.path, " of ",
                      handle.length, " bytes, which is none of its own in ", directory);
      }
    }
  }
  return "";
}

std::string PendingCheckpoint::DescribeWaiting() const {
  std::string text = Concat(waiting_.size(), " of ", subtasks_, " subtasks have not acknowledged");
  int named = 0;
  for (const auto& [task, subtask] : waiting_) {
    if (named == kWaitingNamedMax) return text + ", …";
    const std::vector<std::string>& uids = tasks_[static_cast<size_t>(task)].uids;
    text +=
        Concat(named == 0 ? ": " : ", ", uids.empty() ? std::string() : uids.front(), " ", subtask);
    ++named;
  }
  return text;
}

std::vector<OperatorSnapshot> PendingCheckpoint::TakeSnapshots() {
  WEIR_CHECK(complete());
  std::vector<OperatorSnapshot> result;
  for (auto& task : snapshots_) {
    for (auto& subtask : task) {
      std::move(subtask.begin(), subtask.end(), std::back_inserter(result));
    }
  }
  snapshots_.clear();
  return result;
}

}  // namespace weir
