#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/threading/executor.h"

namespace weir {

// An Executor and Timers with a thread of its own: mail in order of posting, timers in order of
// due time; neither can starve the other. Thread: Post thread-safe; After and Cancel from the
// loop's thread, or before Start. Invariant: no mail runs before Start or after Stop has returned.
class EventLoop : public Executor, public Timers {
 public:
  // `name` is the thread's name, at most 15 characters.
  explicit EventLoop(std::string name);
  ~EventLoop() override;  // stops

  void Start();
  // Ends the thread after the mail being run; what is still queued is destroyed unrun. Not from the
  // loop's own thread.
  void Stop();

  void Post(std::function<void()> mail) override;
  bool InOwnerThread() const override;
  TimerId After(int64_t delay_us, std::function<void()> mail) override;
  void Cancel(TimerId id) override;

 private:
  void Run();

  const std::string name_;
  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> mail_;                               // guarded by mutex_
  std::atomic<bool> stopping_ = false;                                   // changed under mutex_
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;  // loop thread
  std::map<TimerId, int64_t> due_us_;                                    // loop thread
  TimerId next_timer_ = 1;
  std::atomic<std::thread::id> owner_{};  // set by the thread itself, before the first mail
  std::thread thread_;
};

}  // namespace weir
