#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/threading/co.h"
#include "worker/state/state_backend.h"

namespace weir {

// Chunks of keyed state on their way from the task that fills them into their file. Whoever fills
// them looks at bytes() before it makes more; what a batch has had to save comes in any case, so
// that the most there can be is the state once. Thread: the task's, on both sides.
class ChunkStream {
 public:
  // So much is gathered for one write.
  static constexpr int64_t kWriteBytes = 256 << 10;

  // Filling.
  void Put(std::vector<KeyGroupState> chunks) {
    for (KeyGroupState& chunk : chunks) {
      const int64_t bytes = static_cast<int64_t>(chunk.bytes.size());
      bytes_ += bytes;
      waiting_bytes_ += bytes;
      waiting_.push_back(std::move(chunk));
    }
    if (!chunks.empty()) changed_.Notify();
  }
  // All are there.
  void Close() {
    closed_ = true;
    changed_.Notify();
  }
  // They are of no use any more.
  void Drop() {
    dropped_ = true;
    waiting_.clear();
    bytes_ -= std::exchange(waiting_bytes_, 0);
    changed_.Notify();
  }
  // Of chunks that are not written yet.
  int64_t bytes() const { return bytes_; }

  // Writing.
  bool closed() const { return closed_; }
  bool dropped() const { return dropped_; }
  int64_t waiting_bytes() const { return waiting_bytes_; }
  bool empty() const { return waiting_.empty(); }
  // REQUIRES (this and Take): not empty.
  int64_t next_bytes() const { return static_cast<int64_t>(waiting_.front().bytes.size()); }
  KeyGroupState Take() {
    KeyGroupState first = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= static_cast<int64_t>(first.bytes.size());
    return first;
  }
  void Written(int64_t bytes) {
    bytes_ -= bytes;
    changed_.Notify();
  }
  // Until the next call of any of the above.
  Async<bool> Changed() { return changed_.Wait(); }

 private:
  std::deque<KeyGroupState> waiting_;
  int64_t waiting_bytes_ = 0;
  int64_t bytes_ = 0;
  bool closed_ = false;
  bool dropped_ = false;
  CoSignal changed_;
};

}  // namespace weir
