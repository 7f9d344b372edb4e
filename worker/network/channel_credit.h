#pragma once

#include <atomic>
#include <cstdint>

namespace weir {

// The sender's account of one channel: bytes it may still send. Starts with the window, may be
// overdrawn by Take. Thread: one thread takes, another one gives.
class SenderCredit {
 public:
  enum class Given {
    kCounted,   // it changed nothing for the sender
    kPositive,  // there was no credit, now there is: wake the sender
    kRefused,   // more than was ever taken: the peer miscounts
  };

  explicit SenderCredit(int64_t window_bytes)
      : window_bytes_(window_bytes), left_bytes_(window_bytes) {}

  void Take(int64_t bytes) { left_bytes_.fetch_sub(bytes, std::memory_order_acq_rel); }
  Given Give(int64_t bytes);
  bool HasCredit() const { return left_bytes_.load(std::memory_order_acquire) > 0; }
  int64_t left_bytes() const { return left_bytes_.load(std::memory_order_acquire); }

 private:
  const int64_t window_bytes_;
  std::atomic<int64_t> left_bytes_;
};

// The receiver's account of one channel: what was popped and not yet given back. Credit goes back
// in portions of at least a quarter of the window, so that small elements do not cost a reply each.
// That cannot starve the sender: while it has no credit, more than three quarters of the window
// wait at the receiver or are under way, and popping those returns credit. Thread: confined to its
// owner.
class ReceiverCredit {
 public:
  explicit ReceiverCredit(int64_t window_bytes) : portion_bytes_(window_bytes / 4) {}

  // An element of that many bytes was popped; what to give back now, 0 for nothing yet.
  int64_t Pop(int64_t bytes);
  int64_t owed_bytes() const { return owed_bytes_; }

 private:
  const int64_t portion_bytes_;
  int64_t owed_bytes_ = 0;
};

}  // namespace weir
