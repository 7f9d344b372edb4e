#include "worker/connectors/rate_limit/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

constexpr double kStepMicros = 1'000;
constexpr double kCatchUpMicros = 1'000'000;

}  // namespace

RateLimiter::RateLimiter(double rows_per_second, int64_t now_us)
    : rows_per_us_(rows_per_second / 1e6),
      step_(std::max(1.0, std::floor(rows_per_us_ * kStepMicros))),
      due_max_(std::max(step_, rows_per_us_ * kCatchUpMicros)),
      due_(1),
      now_us_(now_us) {}

int64_t RateLimiter::Due(int64_t now_us) {
  due_ = std::min(due_max_, due_ + static_cast<double>(now_us - now_us_) * rows_per_us_);
  now_us_ = now_us;
  if (due_ < step_) return 0;
  return static_cast<int64_t>(std::min(due_, 1e15));
}

int64_t RateLimiter::WaitMicros() const {
  double wait_us = std::ceil((step_ - due_) / rows_per_us_);
  return static_cast<int64_t>(std::clamp(wait_us, 1.0, 1e15));
}

Async<bool> Sleep(Timers& timers, int64_t delay_us) {
  return Async<bool>([&timers, delay_us](Async<bool>::Done done) {
    timers.After(delay_us, [done = std::move(done)] { done(true); });
  });
}

}  // namespace weir
