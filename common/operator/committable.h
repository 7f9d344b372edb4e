#pragma once

#include <string>

#include "common/base/ids.h"

namespace weir {

// What one subtask of a sink, or of a source with dead letters, sealed and what waits to be
// published: its identity in full, and what the Committer needs (`payload`, the connector's own
// encoding). Settled by exactly one owner.
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
