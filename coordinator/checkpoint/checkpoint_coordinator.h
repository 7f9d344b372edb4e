#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/control/messages.h"
#include "common/graph/job_options.h"
#include "coordinator/checkpoint/pending_checkpoint.h"

namespace weir {

// What the coordinator of checkpoints asks for.
struct CheckpointAction {
  enum class Kind {
    // Have all workers that run sources inject barrier `checkpoint`, base `base`.
    kTrigger,
    // Make the manifest of `snapshots` durable: OnManifestWritten or OnManifestFailed.
    kWriteManifest,
    // Claim COMPLETED for it in the completion log: OnCompletionClaimed or OnDeposed, nothing else.
    kClaimCompletion,
    // It completed: tell all workers, retrying. Not asked for when the generation has ended.
    kNotifyCompleted,
    // It never completes: tell all workers, retrying; its directory may be deleted (once a manifest
    // that was being written has answered). Also of generations that have just ended.
    kAbort,
    // A completed one that is no longer retained: its files and log entries may be deleted.
    kDrop,
    // More failures in a row than the job tolerates: end the generation with `reason`.
    kFailGeneration,
    // All sources ended, the final checkpoint completed and all it lists is published: tell the
    // tasks to finish.
    kFinish,
  };
  Kind kind = Kind::kTrigger;
  CheckpointId checkpoint;  // all but kFailGeneration
  Generation generation;
  CheckpointId base;                        // kTrigger
  int64_t trigger_wall_us = 0;              // kTrigger, kWriteManifest
  std::vector<OperatorSnapshot> snapshots;  // kWriteManifest
  std::string reason;                       // kAbort, kFailGeneration
};

// A generation as its checkpoints see it.
struct CheckpointedGeneration {
  Generation generation;
  std::vector<CheckpointedTask> tasks;  // as in the execution plan, uids for vertices
  // First checkpoint id it may use: above any in the log, any chk-* directory, the restored one
  // and every sink's marker.
  CheckpointId first_usable{1};
};

// Decides when one job's checkpoints are triggered, collects their acknowledgements and completes,
// aborts and drops them (design.md, section 5). Lives as long as one leader leads the job, across
// its generations. Pure: facts in by the On… functions, actions out by TakeActions. Thread:
// confined to coord-loop. Invariants: completed ids only grow; one claim in flight; a checkpoint
// whose claim was asked for stays until OnCompletionClaimed or OnDeposed; after OnDeposed no action
// is made.
class CheckpointCoordinator {
 public:
  // `completed`: those that completed before and are still retained, any order; the highest is the
  // one that the next generation restores, if it restores one of this job.
  CheckpointCoordinator(const JobOptions& options,
                        std::vector<std::pair<CheckpointId, Generation>> completed);

  // Everything asked for since the last call, in order.
  std::vector<CheckpointAction> TakeActions();
  // When OnTick wants to be called; absent: not before another fact.
  std::optional<int64_t> NextWakeMicros() const;

  // Generations. One at a time: OnGenerationStarted REQUIRES that the one before has ended and no
  // claim is in flight.
  void OnGenerationStarted(CheckpointedGeneration generation);
  // Every subtask runs (those that ended their input included).
  void OnAllRunning(Moment now);
  // All sources of the job have ended: periodic checkpoints stop, the final one is triggered.
  void OnSourcesEnded(Moment now);
  // Aborts all pending ones but one whose claim is in flight. A repetition changes nothing.
  void OnGenerationEnded(const std::string& reason, Moment now);

  void OnTick(Moment now);
  // The reason of kDeclined, kUnexpected and kRefused is added to `*reason` unless that is null.
  AckOutcome OnAck(Generation generation, TaskAck ack, Moment now, std::string* reason = nullptr);
  // These four change nothing for a checkpoint that is no longer pending in that step.
  // Its directory could not be made, or not be made durable.
  void OnTriggerFailed(CheckpointId checkpoint, const Status& error, Moment now);
  void OnManifestWritten(CheckpointId checkpoint, Moment now);
  void OnManifestFailed(CheckpointId checkpoint, const Status& error, Moment now);
  void OnCompletionClaimed(CheckpointId checkpoint, Moment now);
  // The leader has been deposed: nothing pending counts any more.
  void OnDeposed();
  // Stale and repeated ones change nothing.
  void OnPublished(Generation generation, const PublishReport& report);

  // What people and the job master ask.
  bool claim_in_flight() const;
  const std::optional<CheckpointSummary>& last_completed() const { return last_completed_; }
  // Set as long as checkpoints fail: since the last one that completed, of whatever generation.
  const std::optional<FailingCheckpoints>& failing() const { return failing_; }
  int64_t completed_count() const { return completed_count_; }  // by this leader
  // Retained completed ones, ascending; the last is the newest.
  const std::map<CheckpointId, Generation>& completed() const { return completed_; }
  // The last kHistoryMax checkpoints, oldest first, those in progress included.
  std::vector<CheckpointSummary> History() const;
  // Sink subtasks (uid, subtask) that have not yet published what the newest completed checkpoint
  // of this generation lists, sorted.
  std::vector<std::pair<std::string, int>> Unpublished() const;
  // The final checkpoint completed (it may not be published yet).
  bool final_completed() const { return final_completed_; }

  static constexpr size_t kHistoryMax = 100;
  // An aborted final checkpoint is triggered again after this pause.
  static constexpr int64_t kFinalRetryPauseUs = 100'000;

 private:
  // When the next one may be triggered; absent: not before another fact.
  std::optional<int64_t> NextTriggerMicros() const;
  void MaybeTrigger(Moment now);
  void MaybeClaim();
  void MaybeDrop();
  void MaybeFinish();
  void Complete(CheckpointId checkpoint, Moment now);
  void Abort(CheckpointId checkpoint, const std::string& reason, Moment now);
  // Abort for a reason that counts against tolerable_failures.
  void Fail(CheckpointId checkpoint, const std::string& reason, Moment now);
  CheckpointSummary* Summary(CheckpointId checkpoint);
  CheckpointAction MakeAction(CheckpointAction::Kind kind, CheckpointId checkpoint) const;

  const JobOptions options_;
  std::vector<CheckpointAction> actions_;
  bool deposed_ = false;

  // The generation.
  CheckpointedGeneration current_;
  bool live_ = false;  // started and not ended
  bool running_ = false;
  bool sources_ended_ = false;
  bool final_completed_ = false;
  bool finish_asked_ = false;
  bool fail_asked_ = false;
  int failures_in_row_ = 0;
  CheckpointId first_;          // lowest id of this generation
  CheckpointId final_;          // pending or completed final one; 0: none
  int64_t due_us_ = 0;          // the interval says: not before
  int64_t pause_until_us_ = 0;  // min_pause says: not before
  int64_t final_due_us_ = 0;
  // Sink subtasks that have to publish, and what they have published.
  std::set<std::pair<std::string, int>> publishers_;
  std::map<std::pair<std::string, int>, CheckpointId> published_;
  CheckpointId to_publish_;  // newest completed of this generation

  CheckpointId next_{1};
  std::map<CheckpointId, PendingCheckpoint> pending_;
  // Who has committables in each checkpoint from its manifest on.
  std::map<CheckpointId, std::set<std::pair<std::string, int>>> publishers_of_;
  std::map<CheckpointId, Generation> completed_;  // retained, and waiting to be dropped
  std::deque<CheckpointSummary> history_;
  std::optional<CheckpointSummary> last_completed_;
  std::optional<FailingCheckpoints> failing_;
  int64_t completed_count_ = 0;
};

}  // namespace weir
