#pragma once

#include <functional>
#include <vector>

#include "worker/checkpoint/barrier_aligner.h"
#include "worker/network/channel.h"

namespace weir {

// All input channels of a task: takes elements in turn from those that are not blocked by an
// alignment. Thread: the task's.
class InputGate {
 public:
  struct Channel {
    ChannelReceiver* receiver = nullptr;
    int input = 0;  // input number at the head operator
    bool ended = false;
  };
  struct Taken {
    int channel = 0;
    StreamElement element;
  };

  explicit InputGate(std::vector<Channel> channels);

  // The next element of any channel that is not blocked; false when there is none now.
  StatusOr<bool> TryTake(Taken* taken);
  // Whether TryTake would find one.
  bool HasElement() const;
  // Remembers that the channel's rows have ended; true when that was the last one.
  bool MarkEnded(int channel);
  bool all_ended() const { return ended_ == static_cast<int>(channels_.size()); }
  int input_of(int channel) const { return channels_[channel].input; }
  BarrierAligner& aligner() { return aligner_; }
  void SetArrivalWaker(const std::function<void()>& waker);

 private:
  bool IsBlocked(size_t channel) const;

  std::vector<Channel> channels_;
  BarrierAligner aligner_;
  size_t next_ = 0;
  int ended_ = 0;
};

}  // namespace weir
