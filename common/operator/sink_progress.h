#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace weir {

// How far one sink subtask that publishes in steps has come, for people.
struct SinkProgress {
  int64_t staged_rows = 0;  // taken since the newest completed checkpoint
  int64_t staged_bytes = 0;
  // Not known to be there for readers: of completed checkpoints, or, where rows are sent as they
  // come, since the last one.
  int64_t publishing_rows = 0;
  int64_t publishing_bytes = 0;
  CheckpointId committed;         // all up to this one is there for readers; 0: nothing known to be
  int64_t committed_wall_us = 0;  // when that was done; 0: not by this subtask
  bool operator==(const SinkProgress&) const = default;
};

}  // namespace weir
