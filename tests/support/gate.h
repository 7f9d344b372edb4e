#pragma once

#include <condition_variable>
#include <mutex>

namespace weir {

// A sleeping thread: Wait returns after a Notify that came since the last Wait.
class Gate {
 public:
  void Notify() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    open_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace weir
