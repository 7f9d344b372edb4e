#include "worker/network/local_channel.h"

#include <algorithm>
#include <utility>

// Why no wake-up is lost. A waker promises that its task begins another step after the call.
// - Arrival: each push into an empty queue calls the waker after the element is in. A receiver that
//   saw nothing (elements_ == 0, perhaps an old value) either looked before that push, then the
//   waker's call is still to come and the step after it finds the element; or after it had emptied
//   the queue itself, then the next push finds the queue empty and calls. A push into a queue that
//   is not empty needs no call: the receiver reads its own last write of elements_ or a newer one,
//   and so sees that it has not emptied the queue.
// - Credit: the same with queued_bytes_ and the edge from half of the window to less, which only a
//   pop can cross; a sender that saw no credit is above it. Pushes cross it only the other way and
//   are the sender's own. Half, because a sender roused by each batch that goes would push one and
//   sleep again, and a switch of threads costs as much as the rows of the batch.
// A call that turns out needless (the other side was quicker) is harmless. Wakers run outside the
// lock: they may take the locks of a scheduler.
namespace weir {

LocalChannel::LocalChannel(int64_t window_bytes)
    : window_bytes_(window_bytes), wake_below_bytes_(std::max<int64_t>(1, window_bytes / 2)) {}

void LocalChannel::Push(StreamElement element) {
  const int64_t bytes = CreditBytes(element);
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    was_empty = queue_.empty();
    queue_.push_back(std::move(element));
    queued_bytes_.fetch_add(bytes, std::memory_order_release);
    elements_.fetch_add(1, std::memory_order_release);
  }
  if (was_empty && arrival_waker_) arrival_waker_();
}

bool LocalChannel::HasCredit() const {
  return queued_bytes_.load(std::memory_order_acquire) < window_bytes_;
}

void LocalChannel::SetCreditWaker(std::function<void()> waker) { credit_waker_ = std::move(waker); }

StatusOr<bool> LocalChannel::TryPop(StreamElement* element) {
  if (!HasElement()) return false;
  StreamElement popped;
  bool credit_returned;
  {
    std::lock_guard lock(mutex_);
    popped = std::move(queue_.front());
    queue_.pop_front();
    const int64_t bytes = CreditBytes(popped);
    const int64_t before_bytes = queued_bytes_.fetch_sub(bytes, std::memory_order_release);
    elements_.fetch_sub(1, std::memory_order_release);
    credit_returned = before_bytes >= wake_below_bytes_ && before_bytes - bytes < wake_below_bytes_;
  }
  *element = std::move(popped);
  if (credit_returned && credit_waker_) credit_waker_();
  return true;
}

bool LocalChannel::HasElement() const { return elements_.load(std::memory_order_acquire) > 0; }

void LocalChannel::SetArrivalWaker(std::function<void()> waker) {
  arrival_waker_ = std::move(waker);
}

int64_t LocalChannel::queued_bytes() const { return queued_bytes_.load(std::memory_order_acquire); }

}  // namespace weir
