#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/checkpoint/barrier_aligner.h"
#include "worker/network/channel.h"

namespace weir {

// All input channels of a task: takes elements in turn from those that are not blocked by an
// alignment. Thread: the task's.
// Invariant: a channel that has an element has its bit in arrived_, or its arrival waker is still
// to be called (and then the task is stepped again). So a task with many channels looks only at
// those that something came into.
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
  // A bit for each channel. Wakers share it: they may be called when the gate is gone.
  using Bits = std::vector<std::atomic<uint64_t>>;

  bool IsBlocked(size_t channel) const;
  // The first channel of [begin, end) that has an element and is not blocked; end: none.
  size_t FindArrived(size_t begin, size_t end) const;

  std::vector<Channel> channels_;
  std::shared_ptr<Bits> arrived_;
  BarrierAligner aligner_;
  size_t next_ = 0;
  int ended_ = 0;
};

}  // namespace weir
