#pragma once

#include <cstdint>

namespace weir {

// How a task that goes on writes down the keyed state of a snapshot, in bytes of memory that the
// state takes.
struct SnapshotPace {
  int64_t at_once_bytes = 512 << 10;  // state up to this size is written down at the barrier
  int64_t step_bytes = 2 << 20;       // after each step
  int64_t ahead_bytes_max =
      16 << 20;  // more than one write; above it the snapshot waits for storage
};

}  // namespace weir
