#include "common/base/clock.h"

#include <time.h>

namespace weir {
namespace {

int64_t Micros(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

int64_t SystemClock::WallMicros() const { return Micros(CLOCK_REALTIME); }
int64_t SystemClock::MonotonicMicros() const { return Micros(CLOCK_MONOTONIC); }

}  // namespace weir
