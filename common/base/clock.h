#pragma once

#include <cstdint>

namespace weir {

// Where time comes from; nobody else asks the machine. Thread: thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since the Unix epoch, UTC; may jump. For what people read.
  virtual int64_t WallMicros() const = 0;
  // Microseconds since some start; never goes back. For intervals and timeouts.
  virtual int64_t MonotonicMicros() const = 0;
};

class SystemClock : public Clock {
 public:
  int64_t WallMicros() const override;
  int64_t MonotonicMicros() const override;
};

// For tests: stands still until moved.
class ManualClock : public Clock {
 public:
  int64_t WallMicros() const override { return wall_us_; }
  int64_t MonotonicMicros() const override { return monotonic_us_; }
  void Advance(int64_t us) {
    wall_us_ += us;
    monotonic_us_ += us;
  }

 private:
  int64_t wall_us_ = 1'700'000'000'000'000;
  int64_t monotonic_us_ = 1'000'000;
};

}  // namespace weir
