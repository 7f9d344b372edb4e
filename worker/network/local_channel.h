#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>

#include "worker/network/channel.h"

namespace weir {

// Both ends of a channel between two tasks of one worker: batches change hands by reference count,
// nothing is serialised. Must outlive both tasks. Thread: one sender thread, one receiver thread.
// Invariants: elements_ and queued_bytes_ change only under mutex_, together with queue_, and are
// read without it for a quick look. No wake-up is lost (see local_channel.cc).
class LocalChannel : public ChannelSender, public ChannelReceiver {
 public:
  explicit LocalChannel(int64_t window_bytes);

  void Push(StreamElement element) override;
  bool HasCredit() const override;
  void SetCreditWaker(std::function<void()> waker) override;

  StatusOr<bool> TryPop(StreamElement* element) override;
  bool HasElement() const override;
  void SetArrivalWaker(std::function<void()> waker) override;
  int64_t queued_bytes() const override;

 private:
  const int64_t window_bytes_;
  const int64_t wake_below_bytes_;  // a pop that leaves less wakes the sender
  std::function<void()> credit_waker_;
  std::function<void()> arrival_waker_;
  mutable std::mutex mutex_;
  std::deque<StreamElement> queue_;       // guarded by mutex_
  std::atomic<int64_t> queued_bytes_{0};  // CreditBytes of queue_
  std::atomic<int64_t> elements_{0};
};

}  // namespace weir
