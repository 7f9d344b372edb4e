#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/operator/source.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "worker/state/state_backend.h"

// The state files of checkpoints: how one operator subtask's snapshot becomes durable and how it is
// read back. Thread: confined to the file system's executor.
namespace weir {

// What a snapshot froze: nothing in it changes any more.
struct FrozenState {
  std::vector<KeyGroupState> keyed;   // by key group
  std::vector<SplitState> positions;  // of a source
  bool has_positions = false;         // a source without splits still says so
};

// Positions as file contents: uint32 count, then split and position, each with a uint32 length in
// front; little endian.
std::string EncodePositions(const std::vector<SplitState>& positions);
StatusOr<std::vector<SplitState>> DecodePositions(std::string_view bytes);

// Writes the files of one operator subtask into `checkpoint_directory` (a name below
// `job_directory`, which exists) and syncs them, but not the directory: whoever acknowledges does
// that once for all. Crash: leaves files that no manifest names.
Co<StatusOr<std::vector<StateHandle>>> WriteStateFiles(FileSystem& files, std::string job_directory,
                                                       std::string checkpoint_directory,
                                                       std::string uid, int subtask,
                                                       std::string unique, FrozenState state);

// The whole file behind a handle. A length or checksum that does not hold is kDataLoss, not worth
// a retry, and names the file.
Co<StatusOr<std::string>> ReadStateFile(FileSystem& files, std::string directory,
                                        StateHandle handle);

}  // namespace weir
