#pragma once

#include <string>

#include "common/base/ids.h"

namespace weir {

// Rows sealed by one sink subtask that wait to be published: its identity in full, and what the
// sink's Committer needs (`payload`, the sink's own encoding). Settled by exactly one owner.
struct Committable {
  std::string uid;
  int subtask = 0;
  Generation generation;    // that sealed it
  CheckpointId checkpoint;  // at whose barrier it was sealed
  int part = 0;
  std::string payload;
  bool operator==(const Committable&) const = default;
};

}  // namespace weir
