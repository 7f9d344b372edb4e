#include "tests/support/manual_executor.h"

#include <algorithm>

#include "common/base/check.h"

namespace weir {

ManualExecutor::~ManualExecutor() {
  // What mail holds may post or cancel when it is destroyed.
  while (!mail_.empty()) {
    auto mail = std::exchange(mail_, {});
  }
  auto timers = std::exchange(timers_, {});
}

TimerId ManualExecutor::After(int64_t delay_us, std::function<void()> mail) {
  TimerId id = next_timer_++;
  int64_t due_us = clock_.MonotonicMicros() + std::max<int64_t>(delay_us, 0);
  timers_.emplace(std::pair(due_us, id), std::move(mail));
  due_us_.emplace(id, due_us);
  return id;
}

void ManualExecutor::Cancel(TimerId id) {
  auto it = due_us_.find(id);
  if (it == due_us_.end()) return;
  auto node = timers_.extract({it->second, id});
  due_us_.erase(it);
}

bool ManualExecutor::RunOne() {
  if (mail_.empty()) return false;
  std::function<void()> mail = std::move(mail_.front());
  mail_.pop_front();
  mail();
  return true;
}

bool ManualExecutor::RunDueTimer() {
  if (timers_.empty() || timers_.begin()->first.first > clock_.MonotonicMicros()) return false;
  auto node = timers_.extract(timers_.begin());
  due_us_.erase(node.key().second);
  node.mapped()();
  return true;
}

void ManualExecutor::RunAll(int64_t steps_max) {
  while (RunOne() || RunDueTimer()) {
    WEIR_CHECK_MESSAGE(--steps_max > 0, "mail or timers run in circles");
  }
}

void ManualExecutor::Advance(int64_t us) {
  RunAll();
  int64_t end_us = clock_.MonotonicMicros() + us;
  while (!timers_.empty() && timers_.begin()->first.first <= end_us) {
    AdvanceToNextTimer();
  }
  clock_.Advance(end_us - clock_.MonotonicMicros());
}

bool ManualExecutor::AdvanceToNextTimer() {
  RunAll();
  if (timers_.empty()) return false;
  clock_.Advance(timers_.begin()->first.first - clock_.MonotonicMicros());
  RunAll();
  return true;
}

bool ManualExecutor::RunUntil(const std::function<bool()>& condition, int64_t us_max) {
  int64_t end_us = clock_.MonotonicMicros() + us_max;
  while (!condition()) {
    if (RunOne() || RunDueTimer()) continue;
    if (timers_.empty() || timers_.begin()->first.first > end_us) return false;
    clock_.Advance(timers_.begin()->first.first - clock_.MonotonicMicros());
  }
  return true;
}

}  // namespace weir
