#include "worker/checkpoint/barrier_aligner.h"

#include <algorithm>

#include "common/base/check.h"

namespace weir {

BarrierAligner::BarrierAligner(int channels) : blocked_(channels, false) {
  WEIR_CHECK(channels >= 1);
}

BarrierAligner::Decision BarrierAligner::OnBarrier(int channel, CheckpointId checkpoint) {
  WEIR_CHECK(channel >= 0 && channel < static_cast<int>(blocked_.size()));
  if (checkpoint <= passed_ || aborted_.count(checkpoint) > 0 || checkpoint < current_) {
    return Decision::kIgnore;
  }
  if (checkpoint > current_) {
    if (current_.value() != 0) passed_ = std::max(passed_, current_);
    Unblock();
    current_ = checkpoint;
  }
  // The same barrier twice on one channel cannot happen: the channel is blocked after the first.
  WEIR_CHECK(!blocked_[channel]);
  blocked_[channel] = true;
  ++blocked_count_;
  if (blocked_count_ < static_cast<int>(blocked_.size())) return Decision::kAlign;
  Unblock();
  passed_ = current_;
  current_ = CheckpointId();
  aborted_.erase(aborted_.begin(), aborted_.upper_bound(passed_));
  return Decision::kSnapshot;
}

void BarrierAligner::OnAbort(CheckpointId checkpoint) {
  if (checkpoint <= passed_) return;
  if (checkpoint == current_) {
    Unblock();
    passed_ = current_;
    current_ = CheckpointId();
    return;
  }
  aborted_.insert(checkpoint);
  if (aborted_.size() > kAbortedMax) aborted_.erase(aborted_.begin());
}

void BarrierAligner::Unblock() {
  std::fill(blocked_.begin(), blocked_.end(), false);
  blocked_count_ = 0;
}

}  // namespace weir
