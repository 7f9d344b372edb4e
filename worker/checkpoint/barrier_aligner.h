#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "common/base/ids.h"

namespace weir {

// Decides for one task with several input channels where the cut of a checkpoint lies (aligned):
// the channels that brought barrier n are blocked until all have, then the snapshot is taken.
// Pure: facts in, decisions out. Thread: confined to the task.
// Invariants: blocked channels are exactly those that brought the barrier of current(); checkpoints
// snapshotted only grow; an aborted checkpoint is never snapshotted, whichever came first.
class BarrierAligner {
 public:
  enum class Decision {
    kIgnore,    // late, aborted or older than the alignment under way: as if it had not come
    kAlign,     // the channel is blocked now; others are still to come
    kSnapshot,  // the last barrier came: nothing is blocked any more, take the snapshot now
  };

  // REQUIRES: channels >= 1.
  explicit BarrierAligner(int channels);

  // A barrier was taken from `channel`. A newer one than the alignment under way ends that: its
  // channels are unblocked and the new one is begun.
  Decision OnBarrier(int channel, CheckpointId checkpoint);
  // The checkpoint will never complete; may come before its barriers.
  void OnAbort(CheckpointId checkpoint);

  bool IsBlocked(int channel) const { return blocked_[channel]; }
  // The checkpoint being aligned; 0: none.
  CheckpointId current() const { return current_; }

 private:
  void Unblock();

  std::vector<bool> blocked_;
  int blocked_count_ = 0;
  CheckpointId current_;
  CheckpointId passed_;             // highest snapshotted, superseded or aborted in alignment
  std::set<CheckpointId> aborted_;  // above passed_, not seen yet; bounded by kAbortedMax
  static constexpr size_t kAbortedMax = 1024;
};

}  // namespace weir
