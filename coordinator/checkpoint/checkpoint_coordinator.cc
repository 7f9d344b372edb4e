#include "coordinator/checkpoint/checkpoint_coordinator.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

CheckpointCoordinator::CheckpointCoordinator(
    const JobOptions& options, std::vector<std::pair<CheckpointId, Generation>> completed)
    : options_(options), completed_(completed.begin(), completed.end()) {}

std::vector<CheckpointAction> CheckpointCoordinator::TakeActions() {
  return std::exchange(actions_, {});
}

std::optional<int64_t> CheckpointCoordinator::NextTriggerMicros() const {
  if (!live_ || !running_ || fail_asked_) return std::nullopt;
  if (pending_.size() >= static_cast<size_t>(std::max(1, options_.checkpoint_max_concurrent))) {
    return std::nullopt;
  }
  if (sources_ended_) {
    if (final_.value() > 0) return std::nullopt;
    return final_due_us_;
  }
  if (!options_.checkpoint_interval_us) return std::nullopt;
  return std::max(due_us_, pause_until_us_);
}

std::optional<int64_t> CheckpointCoordinator::NextWakeMicros() const {
  std::optional<int64_t> wake_us = NextTriggerMicros();
  for (const auto& [checkpoint, pending] : pending_) {
    if (pending.phase() != PendingCheckpoint::Phase::kCollecting) continue;
    const int64_t expires_us = pending.triggered().monotonic_us + options_.checkpoint_timeout_us;
    if (!wake_us || expires_us < *wake_us) wake_us = expires_us;
  }
  return wake_us;
}

CheckpointAction CheckpointCoordinator::MakeAction(CheckpointAction::Kind kind,
                                                   CheckpointId checkpoint) const {
  CheckpointAction action;
  action.kind = kind;
  action.checkpoint = checkpoint;
  action.generation = current_.generation;
  return action;
}

CheckpointSummary* CheckpointCoordinator::Summary(CheckpointId checkpoint) {
  const auto found =
      std::find_if(history_.rbegin(), history_.rend(),
                   [&](const CheckpointSummary& summary) { return summary.id == checkpoint; });
  return found == history_.rend() ? nullptr : &*found;
}

std::vector<CheckpointSummary> CheckpointCoordinator::History() const {
  return {history_.begin(), history_.end()};
}

bool CheckpointCoordinator::claim_in_flight() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& entry) {
    return entry.second.phase() == PendingCheckpoint::Phase::kClaiming;
  });
}

// --- Generations ---------------------------------------------------------------------------------

void CheckpointCoordinator::OnGenerationStarted(CheckpointedGeneration generation) {
  if (deposed_) return;
  WEIR_CHECK(!live_ && !claim_in_flight());
  current_ = std::move(generation);
  live_ = true;
  running_ = sources_ended_ = final_completed_ = finish_asked_ = fail_asked_ = false;
  failures_in_row_ = 0;
  final_ = to_publish_ = CheckpointId();
  publishers_.clear();
  published_.clear();
  next_ = std::max(next_, current_.first_usable);
  if (!completed_.empty()) {
    next_ = std::max(next_, CheckpointId(completed_.rbegin()->first.value() + 1));
  }
  first_ = next_;
}

void CheckpointCoordinator::OnAllRunning(Moment now) {
  if (!live_ || running_) return;
  running_ = true;
  due_us_ = now.monotonic_us + options_.checkpoint_interval_us.value_or(0);
  MaybeTrigger(now);
}

void CheckpointCoordinator::OnSourcesEnded(Moment now) {
  if (!live_ || sources_ended_) return;
  sources_ended_ = true;
  final_due_us_ = now.monotonic_us;
  MaybeTrigger(now);
}

void CheckpointCoordinator::OnGenerationEnded(const std::string& reason, Moment now) {
  if (!live_) return;
  live_ = false;
  running_ = false;
  std::vector<CheckpointId> aborted;
  for (const auto& [checkpoint, pending] : pending_) {
    if (pending.phase() != PendingCheckpoint::Phase::kClaiming) aborted.push_back(checkpoint);
  }
  for (CheckpointId checkpoint : aborted) Abort(checkpoint, reason, now);
  publishers_.clear();
  published_.clear();
}

// --- From trigger to completion ------------------------------------------------------------------

void CheckpointCoordinator::MaybeTrigger(Moment now) {
  const std::optional<int64_t> due_us = NextTriggerMicros();
  if (!due_us || now.monotonic_us < *due_us) return;
  const CheckpointId checkpoint = next_;
  next_ = CheckpointId(next_.value() + 1);
  due_us_ = now.monotonic_us + options_.checkpoint_interval_us.value_or(0);
  if (sources_ended_) final_ = checkpoint;

  CheckpointAction action = MakeAction(CheckpointAction::Kind::kTrigger, checkpoint);
  action.base = completed_.empty() ? CheckpointId() : completed_.rbegin()->first;
  action.trigger_wall_us = now.wall_us;
  pending_.try_emplace(checkpoint, checkpoint, current_.generation, action.base, current_.tasks,
                       now);
  actions_.push_back(std::move(action));

  CheckpointSummary summary;
  summary.id = checkpoint;
  summary.generation = current_.generation;
  summary.state = "in_progress";
  summary.trigger_wall_us = now.wall_us;
  history_.push_back(std::move(summary));
  if (history_.size() > kHistoryMax) history_.pop_front();
}

void CheckpointCoordinator::OnTick(Moment now) {
  std::vector<CheckpointId> expired;
  for (const auto& [checkpoint, pending] : pending_) {
    if (pending.phase() == PendingCheckpoint::Phase::kCollecting &&
        now.monotonic_us - pending.triggered().monotonic_us >= options_.checkpoint_timeout_us) {
      expired.push_back(checkpoint);
    }
  }
  for (CheckpointId checkpoint : expired) {
    Fail(checkpoint,
         Concat("expired after ", FormatDuration(options_.checkpoint_timeout_us), ": ",
                pending_.at(checkpoint).DescribeWaiting()),
         now);
  }
  MaybeTrigger(now);
}

AckOutcome CheckpointCoordinator::OnAck(Generation generation, TaskAck ack, Moment now,
                                        std::string* reason) {
  if (!live_ || generation != current_.generation) return AckOutcome::kStale;
  const CheckpointId checkpoint = ack.checkpoint;
  const auto found = pending_.find(checkpoint);
  if (found == pending_.end()) {
    return checkpoint >= first_ && checkpoint < next_ ? AckOutcome::kLate : AckOutcome::kUnknown;
  }
  PendingCheckpoint& pending = found->second;
  std::vector<SnapshotMetrics> metrics = std::move(ack.metrics);
  std::string why;
  const AckOutcome outcome = pending.Acknowledge(std::move(ack), &why);
  if (outcome == AckOutcome::kAccepted) {
    if (CheckpointSummary* summary = Summary(checkpoint)) {
      for (SnapshotMetrics& metric : metrics) {
        metric.ack_wall_us = now.wall_us;
        summary->subtasks.push_back(std::move(metric));
      }
      summary->size_bytes = pending.state_bytes();
    }
    if (pending.complete()) {
      pending.set_phase(PendingCheckpoint::Phase::kWritingManifest);
      CheckpointAction action = MakeAction(CheckpointAction::Kind::kWriteManifest, checkpoint);
      action.trigger_wall_us = pending.triggered().wall_us;
      action.snapshots = pending.TakeSnapshots();
      std::set<std::pair<std::string, int>>& publishers = publishers_of_[checkpoint];
      for (const OperatorSnapshot& snapshot : action.snapshots) {
        if (!snapshot.committables.empty()) publishers.emplace(snapshot.uid, snapshot.subtask);
      }
      actions_.push_back(std::move(action));
    }
  } else if (outcome == AckOutcome::kDeclined || outcome == AckOutcome::kRefused) {
    Fail(checkpoint, why, now);
    MaybeTrigger(now);
  }
  if (reason != nullptr) *reason += why;
  return outcome;
}

void CheckpointCoordinator::OnManifestWritten(CheckpointId checkpoint, Moment now) {
  const auto found = pending_.find(checkpoint);
  if (found == pending_.end() ||
      found->second.phase() != PendingCheckpoint::Phase::kWritingManifest) {
    return;
  }
  found->second.set_phase(PendingCheckpoint::Phase::kReady);
  MaybeClaim();
  MaybeTrigger(now);
}

void CheckpointCoordinator::OnTriggerFailed(CheckpointId checkpoint, const Status& error,
                                            Moment now) {
  const auto found = pending_.find(checkpoint);
  if (found == pending_.end() || found->second.phase() != PendingCheckpoint::Phase::kCollecting) {
    return;
  }
  Fail(checkpoint, Concat("cannot make its directory: ", error.message()), now);
  MaybeTrigger(now);
}

void CheckpointCoordinator::OnManifestFailed(CheckpointId checkpoint, const Status& error,
                                             Moment now) {
  const auto found = pending_.find(checkpoint);
  if (found == pending_.end() ||
      found->second.phase() != PendingCheckpoint::Phase::kWritingManifest) {
    return;
  }
  Fail(checkpoint, Concat("cannot write its manifest: ", error.message()), now);
  MaybeTrigger(now);
}

void CheckpointCoordinator::MaybeClaim() {
  if (claim_in_flight()) return;
  // The oldest first: a newer one would end it as superseded.
  for (auto& [checkpoint, pending] : pending_) {
    if (pending.phase() != PendingCheckpoint::Phase::kReady) continue;
    pending.set_phase(PendingCheckpoint::Phase::kClaiming);
    actions_.push_back(MakeAction(CheckpointAction::Kind::kClaimCompletion, checkpoint));
    return;
  }
}

void CheckpointCoordinator::OnCompletionClaimed(CheckpointId checkpoint, Moment now) {
  const auto found = pending_.find(checkpoint);
  if (found == pending_.end() || found->second.phase() != PendingCheckpoint::Phase::kClaiming) {
    return;
  }
  Complete(checkpoint, now);
  MaybeClaim();
  MaybeFinish();
  MaybeTrigger(now);
}

void CheckpointCoordinator::Complete(CheckpointId checkpoint, Moment now) {
  const PendingCheckpoint& pending = pending_.at(checkpoint);
  completed_.emplace(checkpoint, pending.generation());
  ++completed_count_;
  failures_in_row_ = 0;
  failing_.reset();
  pause_until_us_ = now.monotonic_us + options_.checkpoint_min_pause_us;
  if (CheckpointSummary* summary = Summary(checkpoint)) {
    summary->state = "completed";
    summary->complete_wall_us = now.wall_us;
    summary->duration_us = now.monotonic_us - pending.triggered().monotonic_us;
    last_completed_ = *summary;
  }
  if (live_) {
    actions_.push_back(MakeAction(CheckpointAction::Kind::kNotifyCompleted, checkpoint));
    to_publish_ = checkpoint;
    publishers_ = std::move(publishers_of_.at(checkpoint));
    if (checkpoint == final_) final_completed_ = true;
  }
  publishers_of_.erase(checkpoint);
  pending_.erase(checkpoint);
  while (!pending_.empty() && pending_.begin()->first < checkpoint) {
    Abort(pending_.begin()->first, Concat("superseded by checkpoint ", checkpoint), now);
  }
  MaybeDrop();
}

void CheckpointCoordinator::Abort(CheckpointId checkpoint, const std::string& reason, Moment now) {
  const auto found = pending_.find(checkpoint);
  WEIR_CHECK(found != pending_.end() &&
             found->second.phase() != PendingCheckpoint::Phase::kClaiming);
  if (CheckpointSummary* summary = Summary(checkpoint)) {
    summary->state = "failed";
    summary->failure_reason = reason;
    summary->duration_us = now.monotonic_us - found->second.triggered().monotonic_us;
  }
  publishers_of_.erase(checkpoint);
  pending_.erase(found);
  pause_until_us_ = now.monotonic_us + options_.checkpoint_min_pause_us;
  if (checkpoint == final_) {
    final_ = CheckpointId();
    final_due_us_ = now.monotonic_us + kFinalRetryPauseUs;
  }
  CheckpointAction action = MakeAction(CheckpointAction::Kind::kAbort, checkpoint);
  action.reason = reason;
  actions_.push_back(std::move(action));
  MaybeDrop();
}

void CheckpointCoordinator::Fail(CheckpointId checkpoint, const std::string& reason, Moment now) {
  Abort(checkpoint, reason, now);
  ++failures_in_row_;
  if (!failing_) failing_.emplace().since_wall_us = now.wall_us;
  failing_->id = checkpoint;
  failing_->reason = reason;
  failing_->wall_us = now.wall_us;
  ++failing_->failures;
  if (fail_asked_ || !options_.checkpoint_tolerable_failures ||
      failures_in_row_ <= *options_.checkpoint_tolerable_failures) {
    return;
  }
  fail_asked_ = true;
  CheckpointAction action = MakeAction(CheckpointAction::Kind::kFailGeneration, CheckpointId());
  action.reason = Concat(failures_in_row_, failures_in_row_ == 1 ? " checkpoint" : " checkpoints",
                         " in a row failed (tolerated: ", *options_.checkpoint_tolerable_failures,
                         "); the last, ", checkpoint, ": ", reason);
  actions_.push_back(std::move(action));
}

void CheckpointCoordinator::MaybeDrop() {
  const size_t retained = static_cast<size_t>(std::max(1, options_.checkpoint_retained));
  while (completed_count_ > 0 && completed_.size() > retained) {
    const auto [oldest, generation] = *completed_.begin();
    for (const auto& [checkpoint, pending] : pending_) {
      if (pending.base() == oldest) return;
    }
    CheckpointAction action = MakeAction(CheckpointAction::Kind::kDrop, oldest);
    action.generation = generation;
    actions_.push_back(std::move(action));
    completed_.erase(oldest);
  }
}

void CheckpointCoordinator::OnDeposed() {
  deposed_ = true;
  live_ = false;
  running_ = false;
  for (const auto& [checkpoint, pending] : pending_) {
    if (CheckpointSummary* summary = Summary(checkpoint)) {
      summary->state = "failed";
      summary->failure_reason = "another coordinator leads the job";
    }
  }
  pending_.clear();
  publishers_of_.clear();
  publishers_.clear();
  published_.clear();
  actions_.clear();
}

// --- Publishing ----------------------------------------------------------------------------------

void CheckpointCoordinator::OnPublished(Generation generation, const PublishReport& report) {
  if (!live_ || generation != current_.generation) return;
  CheckpointId& published = published_[{report.uid, report.subtask}];
  published = std::max(published, report.checkpoint);
  MaybeFinish();
}

std::vector<std::pair<std::string, int>> CheckpointCoordinator::Unpublished() const {
  std::vector<std::pair<std::string, int>> result;
  for (const auto& publisher : publishers_) {
    const auto published = published_.find(publisher);
    if (published == published_.end() || published->second < to_publish_) {
      result.push_back(publisher);
    }
  }
  return result;
}

void CheckpointCoordinator::MaybeFinish() {
  if (!live_ || !final_completed_ || finish_asked_ || !Unpublished().empty()) return;
  finish_asked_ = true;
  actions_.push_back(MakeAction(CheckpointAction::Kind::kFinish, final_));
}

}  // namespace weir
