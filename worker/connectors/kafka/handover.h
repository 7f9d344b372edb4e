#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace weir {

// Blocks that go round between a thread that fills them and one that reads them, so that the reader
// pays neither for filling nor for emptying. There are never more than `blocks_max`, and none is
// filled while others hold `bytes_max`, so a reader that stands still holds up the filler. The
// filler does not wait: it stops, and whoever is told so has it run again. REQUIRES of Block:
// Clear(), which empties it, and bytes(), which only that and filling it change. Lifetime: destroys
// what it holds. Thread: as the members say.
template <typename Block>
class Handover {
 public:
  Handover(size_t blocks_max, size_t bytes_max) : blocks_max_(blocks_max), bytes_max_(bytes_max) {}

  // ---- when nobody else uses it any more
  void Clear() {
    std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Block>& block : full_) block->Clear();
    for (const std::unique_ptr<Block>& block : used_) block->Clear();
  }

  // ---- any thread
  // There is more to fill from. True: the filler has stopped, run it.
  bool Ask() {
    std::lock_guard lock(mutex_);
    more_ = true;
    return Start();
  }

  // ---- the filler
  // An empty block to fill; nullptr: none now, stop.
  std::unique_ptr<Block> TakeEmpty() {
    std::unique_ptr<Block> block;
    {
      std::lock_guard lock(mutex_);
      more_ = false;
      if (bytes_ < bytes_max_ && !used_.empty()) {
        block = std::move(used_.back());
        used_.pop_back();
      } else if (bytes_ < bytes_max_ && blocks_ < blocks_max_) {
        ++blocks_;
        return std::make_unique<Block>();
      } else {
        starved_ = true;
        running_ = false;
        return nullptr;
      }
    }
    block->Clear();
    return block;
  }
  // True: the reader waits, wake it.
  bool PutFull(std::unique_ptr<Block> block) {
    std::lock_guard lock(mutex_);
    bytes_ += block->bytes();
    full_.push_back(std::move(block));
    return std::exchange(waiting_, false);
  }
  // There was nothing to fill it with. False: nor is there now, stop.
  bool PutEmpty(std::unique_ptr<Block> block) {
    std::vector<std::unique_ptr<Block>> used;
    {
      std::lock_guard lock(mutex_);
      used.swap(used_);
    }
    for (const std::unique_ptr<Block>& other : used) other->Clear();
    used.push_back(std::move(block));
    std::lock_guard lock(mutex_);
    // What has come back meanwhile is not left full.
    const bool go_on = more_ || !used_.empty();
    for (std::unique_ptr<Block>& other : used) used_.push_back(std::move(other));
    running_ = go_on;
    return go_on;
  }

  // ---- the reader
  // The oldest full block; nullptr: none, and PutFull says when there is one.
  std::unique_ptr<Block> TakeFull() {
    std::lock_guard lock(mutex_);
    if (full_.empty()) {
      waiting_ = true;
      return nullptr;
    }
    std::unique_ptr<Block> block = std::move(full_.front());
    full_.erase(full_.begin());
    return block;
  }
  // True: the filler has stopped for want of it, run it.
  bool GiveBack(std::unique_ptr<Block> block) {
    std::unique_lock lock(mutex_);
    bytes_ -= block->bytes();
    if (!running_ && !starved_) {
      // Not worth waking it.
      lock.unlock();
      block->Clear();
      lock.lock();
    }
    used_.push_back(std::move(block));
    return starved_ && Start();
  }

 private:
  // REQUIRES: the mutex is held.
  bool Start() {
    starved_ = false;
    return !std::exchange(running_, true);
  }

  const size_t blocks_max_;
  const size_t bytes_max_;
  std::mutex mutex_;
  // All guarded by mutex_:
  std::vector<std::unique_ptr<Block>> full_;  // the oldest first
  std::vector<std::unique_ptr<Block>> used_;  // to be cleared
  size_t blocks_ = 0;                         // that there are
  size_t bytes_ = 0;                          // of full_ and what the reader has
  bool running_ = false;                      // the filler, or somebody was told to run it
  bool starved_ = false;                      // it has stopped since too much was out
  bool more_ = false;                         // asked since the filler last took a block
  bool waiting_ = false;                      // the reader
};

}  // namespace weir
