#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/operator/committable.h"

namespace weir {

// Part of a state file: a chunk of the state of one key group.
struct KeyGroupSlice {
  int key_group = 0;
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const KeyGroupSlice&) const = default;
};

enum class StateKind { kKeyed, kPositions };

// A durable file with state of one operator subtask. Path relative to the job's directory
// ("chk-17.6/per-carrier-0-1f3a…"). The checksum is XXH3-64 of all its bytes.
struct StateHandle {
  StateKind kind = StateKind::kKeyed;
  std::string path;
  int64_t length = 0;
  uint64_t checksum = 0;
  std::vector<KeyGroupSlice> slices;  // kKeyed only, in order of offsets; several a key group
  bool operator==(const StateHandle&) const = default;
};

// One operator subtask's part of a checkpoint.
struct OperatorSnapshot {
  std::string uid;
  int subtask = 0;
  std::vector<StateHandle> handles;
  std::vector<Committable> committables;
  // Rows taken, emitted, dropped and lost before the barrier, since the job began: a restart counts
  // on.
  int64_t records_in = 0;
  int64_t records_out = 0;
  int64_t dropped_rows = 0;
  int64_t lost_rows = 0;
  bool operator==(const OperatorSnapshot&) const = default;
};

// All a restart needs to know about a completed checkpoint. Immutable once written.
struct CheckpointManifest {
  JobId job;
  CheckpointId checkpoint;
  Generation generation;
  int64_t trigger_wall_us = 0;
  int64_t complete_wall_us = 0;  // when the manifest was made
  // Parallelism and max_parallelism of each operator at that time.
  struct OperatorInfo {
    std::string uid;
    int parallelism = 1;
    int max_parallelism = 128;
    bool operator==(const OperatorInfo&) const = default;
  };
  std::vector<OperatorInfo> operators;
  std::vector<OperatorSnapshot> snapshots;
  bool operator==(const CheckpointManifest&) const = default;

  int64_t StateBytes() const;
};

// In a job's directory: what its sinks sealed and have not published yet, where that is not kept at
// the output itself.
inline constexpr std::string_view kStagingName = "staged";

// "chk-17.6": directory of checkpoint 17 of generation 6.
std::string CheckpointDirectoryName(CheckpointId checkpoint, Generation generation);
// The reverse; false for any other name.
bool ParseCheckpointDirectoryName(std::string_view name, CheckpointId* checkpoint,
                                  Generation* generation);

// Times and sizes of one subtask in one checkpoint, for people. Microseconds.
struct SnapshotMetrics {
  std::string uid;
  int subtask = 0;
  int64_t barrier_wall_us = 0;  // first barrier seen
  int64_t alignment_us = 0;     // first to last barrier
  int64_t synchronous_us = 0;   // task stopped at the barrier
  int64_t asynchronous_us = 0;  // writing until durable
  int64_t longest_step_us = 0;  // of the task, from the barrier until it was durable
  int64_t bytes = 0;
  int64_t ack_wall_us = 0;  // set by the coordinator
};

}  // namespace weir
