#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/operator/source.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "worker/checkpoint/chunk_stream.h"

// The state files of checkpoints: how one operator subtask's snapshot becomes durable and how it is
// read back. Thread: confined to the file system's executor.
namespace weir {

// What a snapshot froze: positions, which do not change any more, and keyed state, which comes.
struct FrozenState {
  std::shared_ptr<ChunkStream> keyed;  // none without keyed state
  std::vector<SplitState> positions;   // of a source
  bool has_positions = false;          // a source without splits still says so
};

// Positions as file contents: uint32 count, then split and position, each with a uint32 length in
// front; little endian.
std::string EncodePositions(const std::vector<SplitState>& positions);
StatusOr<std::vector<SplitState>> DecodePositions(std::string_view bytes);

// Writes the files of one operator subtask into `checkpoint_directory` (a name below
// `job_directory`, which exists) and syncs them, but not the directory: whoever acknowledges does
// that once for all. Keyed state is written as it comes, and written ones are reported to its
// stream; kCancelled when that is dropped, after the writes in flight. Crash: leaves files that no
// manifest names.
Co<StatusOr<std::vector<StateHandle>>> WriteStateFiles(FileSystem& files, std::string job_directory,
                                                       std::string checkpoint_directory,
                                                       std::string uid, int subtask,
                                                       std::string unique, FrozenState state);

// The whole file behind a handle. A length or checksum that does not hold is kDataLoss, not worth
// a retry, and names the file.
Co<StatusOr<std::string>> ReadStateFile(FileSystem& files, std::string directory,
                                        StateHandle handle);

}  // namespace weir
