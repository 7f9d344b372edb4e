#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "common/base/clock.h"
#include "common/threading/executor.h"

namespace weir {

// Mail and timers that run when the test says so, on the test's own thread. Time stands still
// until moved. Thread: confined to the test.
class ManualExecutor : public Executor, public Timers {
 public:
  ~ManualExecutor() override;

  void Post(std::function<void()> mail) override { mail_.push_back(std::move(mail)); }
  bool InOwnerThread() const override { return true; }
  TimerId After(int64_t delay_us, std::function<void()> mail) override;
  void Cancel(TimerId id) override;

  // Runs the oldest mail; false when there is none.
  bool RunOne();
  // Runs mail and timers that are due until nothing is left to run now. Aborts after
  // `steps_max` steps: something runs in circles.
  void RunAll(int64_t steps_max = 10'000'000);
  // Moves the clock by `us`, running what becomes due in order, each at its own time.
  void Advance(int64_t us);
  // Moves the clock to the next timer and runs; false when no timer is set.
  bool AdvanceToNextTimer();
  // RunAll and AdvanceToNextTimer until `condition` holds; false when nothing is left to run or
  // `us_max` of time have passed.
  bool RunUntil(const std::function<bool()>& condition, int64_t us_max = 3'600'000'000);

  const ManualClock& clock() const { return clock_; }
  size_t mail_size() const { return mail_.size(); }
  size_t timers_size() const { return timers_.size(); }

 private:
  bool RunDueTimer();

  ManualClock clock_;
  std::deque<std::function<void()>> mail_;
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  std::map<TimerId, int64_t> due_us_;
  TimerId next_timer_ = 1;
};

}  // namespace weir
