#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/control/messages.h"

namespace weir {

// One task of a generation and the operators chained in it, head first.
struct CheckpointedTask {
  int parallelism = 1;
  std::vector<std::string> uids;
};

// The same moment on both clocks: monotonic for decisions, wall time for what people read.
struct Moment {
  int64_t monotonic_us = 0;
  int64_t wall_us = 0;
};

// What became of an acknowledgement. None but kRefused and kUnexpected is anybody's fault.
enum class AckOutcome {
  kAccepted,
  kDuplicate,   // this subtask has acknowledged this checkpoint already
  kDeclined,    // the task reports that it could not take its snapshot: the checkpoint is aborted
  kLate,        // its checkpoint has ended, completed or not
  kStale,       // of another generation
  kUnknown,     // of a checkpoint that this generation never triggered
  kUnexpected,  // of a task or subtask that does not exist
  kRefused,     // names files it must not, or not the task's operators: the checkpoint is aborted
};
std::string_view ToString(AckOutcome outcome);

// Tracks one checkpoint from trigger to the claim of its completion. Thread: confined to
// coord-loop. Invariant: acknowledged and waiting subtasks partition those that ran at trigger
// time.
class PendingCheckpoint {
 public:
  enum class Phase {
    kCollecting,       // waits for acknowledgements
    kWritingManifest,  // has all of them
    kReady,            // manifest durable, another checkpoint's claim is in flight
    kClaiming,         // from here on neither aborted nor passed over
  };

  PendingCheckpoint(CheckpointId checkpoint, Generation generation, CheckpointId base,
                    std::vector<CheckpointedTask> tasks, Moment triggered);

  CheckpointId checkpoint() const { return checkpoint_; }
  Generation generation() const { return generation_; }
  CheckpointId base() const { return base_; }
  Moment triggered() const { return triggered_; }
  Phase phase() const { return phase_; }
  void set_phase(Phase phase) { phase_ = phase; }

  // kAccepted, kDuplicate, kDeclined, kUnexpected or kRefused; the last three say why in `reason`.
  // An accepted ack's snapshots are kept.
  AckOutcome Acknowledge(TaskAck ack, std::string* reason);
  bool complete() const { return waiting_.empty(); }
  int64_t state_bytes() const { return state_bytes_; }
  // "2 of 8 subtasks have not acknowledged: out 1, per-carrier 0", naming at most a few.
  std::string DescribeWaiting() const;
  // All snapshots, by task, subtask, position in the chain. REQUIRES: complete(). Once.
  std::vector<OperatorSnapshot> TakeSnapshots();

 private:
  // "" or why the ack's snapshots cannot be taken.
  std::string Objection(const TaskAck& ack) const;

  const CheckpointId checkpoint_;
  const Generation generation_;
  const CheckpointId base_;
  const std::vector<CheckpointedTask> tasks_;
  const Moment triggered_;
  Phase phase_ = Phase::kCollecting;
  std::set<std::pair<int, int>> waiting_;  // (task, subtask)
  size_t subtasks_ = 0;
  std::vector<std::vector<std::vector<OperatorSnapshot>>> snapshots_;  // [task][subtask]
  int64_t state_bytes_ = 0;
};

}  // namespace weir
