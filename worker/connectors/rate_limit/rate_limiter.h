#pragma once

#include <cstdint>

#include "common/threading/co.h"
#include "common/threading/executor.h"

namespace weir {

// How many rows a source subtask may emit now, so that the flow is smooth: a step is what is due in
// 1 ms, at least one row: longer steps would be the greater part of the time that a row takes to
// the sink. Over time no row is lost to rounding; of a time in which nothing was taken
// (backpressure, no input) at most one second is caught up. Thread: confined to the task.
class RateLimiter {
 public:
  // The first row is due at `now_us`. REQUIRES: rows_per_second > 0.
  RateLimiter(double rows_per_second, int64_t now_us);

  // Rows that may be emitted now; 0 until a step is due.
  int64_t Due(int64_t now_us);
  // `rows` were emitted. May exceed what was due: the rest is waited for.
  void Take(int64_t rows) { due_ -= static_cast<double>(rows); }
  // How long the next row had been due at the last Due; the one behind it for row_micros() less.
  // Whatever kept the source from asking earlier counts.
  double NextAgeMicros() const { return (due_ - 1) / rows_per_us_; }
  double row_micros() const { return 1 / rows_per_us_; }
  // Until Due is above 0 again; at least 1.
  int64_t WaitMicros() const;

 private:
  const double rows_per_us_;
  const double step_;
  const double due_max_;
  double due_;
  int64_t now_us_;
};

// Awaits the passing of `delay_us`. The flow may be ended meanwhile.
Async<bool> Sleep(Timers& timers, int64_t delay_us);

}  // namespace weir
