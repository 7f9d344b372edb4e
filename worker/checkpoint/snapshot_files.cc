#include "worker/checkpoint/snapshot_files.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

// Larger chunks are written as they are.
constexpr int64_t kCopyBytesMax = 64 << 10;
constexpr int kWritesMax = 4;  // of a file at a time

void AppendUint32(uint32_t value, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

bool TakeUint32(std::string_view* bytes, uint32_t* value) {
  if (bytes->size() < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; ++i) {
    *value |= uint32_t{static_cast<uint8_t>((*bytes)[i])} << (8 * i);
  }
  bytes->remove_prefix(4);
  return true;
}

bool TakeText(std::string_view* bytes, std::string* text) {
  uint32_t length = 0;
  if (!TakeUint32(bytes, &length) || bytes->size() < length) return false;
  text->assign(bytes->substr(0, length));
  bytes->remove_prefix(length);
  return true;
}

// A state file being written: where it ends and what its bytes make so far.
class StateFile {
 public:
  StateFile(const std::string& job_directory, StateKind kind, std::string path)
      : path_(JoinPath(job_directory, path)), checksum_(XXH3_createState(), XXH3_freeState) {
    handle_.kind = kind;
    handle_.path = std::move(path);
    XXH3_64bits_reset(checksum_.get());
  }

  const std::string& path() const { return path_; }
  int64_t length() const { return handle_.length; }
  // These bytes follow.
  void Append(std::string_view bytes) {
    XXH3_64bits_update(checksum_.get(), bytes.data(), bytes.size());
    handle_.length += static_cast<int64_t>(bytes.size());
  }
  void AppendSlice(int key_group, int64_t bytes) {
    handle_.slices.push_back({key_group, handle_.length, bytes});
  }
  StateHandle Finish() {
    handle_.checksum = XXH3_64bits_digest(checksum_.get());
    return std::move(handle_);
  }

 private:
  const std::string path_;
  StateHandle handle_;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> checksum_;
};

Co<StatusOr<StateHandle>> WritePositions(FileSystem& files, std::string job_directory,
                                         std::string path, std::vector<SplitState> positions) {
  StateFile file(job_directory, StateKind::kPositions, std::move(path));
  std::string bytes = EncodePositions(positions);
  file.Append(bytes);
  Status status = co_await CreateFile(files, file.path(), std::move(bytes));
  if (!status.ok()) co_return status;
  KillPoint("snapshot.while_writing");
  status = co_await SyncFile(files, file.path());
  if (!status.ok()) co_return status;
  co_return file.Finish();
}

// What is waiting, up to a piece. Large chunks are not copied.
std::string TakePiece(ChunkStream& keyed, StateFile* file) {
  std::string piece;
  while (!keyed.empty() && static_cast<int64_t>(piece.size()) < ChunkStream::kWriteBytes) {
    if (!piece.empty() && keyed.next_bytes() >= kCopyBytesMax) break;
    KeyGroupState chunk = keyed.Take();
    file->AppendSlice(chunk.key_group, static_cast<int64_t>(chunk.bytes.size()));
    file->Append(chunk.bytes);
    if (piece.empty()) {
      piece = std::move(chunk.bytes);
    } else {
      piece += chunk.bytes;
    }
  }
  return piece;
}

// Writes of one file that are under way.
struct Writes {
  int count = 0;
  Status error;  // the first
};

// No handle when there is no chunk.
Co<StatusOr<std::optional<StateHandle>>> WriteKeyed(FileSystem& files, std::string job_directory,
                                                    std::string path,
                                                    std::shared_ptr<ChunkStream> keyed) {
  StateFile file(job_directory, StateKind::kKeyed, std::move(path));
  auto writes = std::make_shared<Writes>();
  while (writes->error.ok() && !keyed->dropped()) {
    const bool whole = keyed->closed() || keyed->waiting_bytes() >= ChunkStream::kWriteBytes;
    if (!whole || writes->count >= kWritesMax) {
      co_await keyed->Changed();
      continue;
    }
    if (keyed->empty()) break;
    const int64_t offset = file.length();
    std::string piece = TakePiece(*keyed, &file);
    const int64_t bytes = static_cast<int64_t>(piece.size());
    if (offset == 0) {
      writes->error = co_await CreateFile(files, file.path(), std::move(piece));
      keyed->Written(bytes);
    } else {
      ++writes->count;
      files.WriteAt(file.path(), offset, std::move(piece), [keyed, writes, bytes](Status status) {
        --writes->count;
        if (writes->error.ok()) writes->error = std::move(status);
        keyed->Written(bytes);
      });
    }
    KillPoint("snapshot.while_writing");
  }
  while (writes->count > 0) co_await keyed->Changed();
  if (!writes->error.ok()) co_return writes->error;
  if (keyed->dropped()) co_return CancelledError("the snapshot is of no use any more");
  if (file.length() == 0) co_return std::optional<StateHandle>();
  Status synced = co_await SyncFile(files, file.path());
  if (!synced.ok()) co_return synced;
  co_return std::optional<StateHandle>(file.Finish());
}

}  // namespace

std::string EncodePositions(const std::vector<SplitState>& positions) {
  std::string out;
  AppendUint32(static_cast<uint32_t>(positions.size()), &out);
  for (const SplitState& state : positions) {
    AppendUint32(static_cast<uint32_t>(state.split.size()), &out);
    out += state.split;
    AppendUint32(static_cast<uint32_t>(state.position.size()), &out);
    out += state.position;
  }
  return out;
}

StatusOr<std::vector<SplitState>> DecodePositions(std::string_view bytes) {
  uint32_t count = 0;
  if (!TakeUint32(&bytes, &count)) return DataLossError("source positions are cut short");
  std::vector<SplitState> positions;
  for (uint32_t i = 0; i < count; ++i) {
    SplitState state;
    if (!TakeText(&bytes, &state.split) || !TakeText(&bytes, &state.position)) {
      return DataLossError(Concat("source positions end after ", i, " of ", count, " splits"));
    }
    positions.push_back(std::move(state));
  }
  if (!bytes.empty()) {
    return DataLossError(Concat("source positions have ", bytes.size(), " bytes too many"));
  }
  return positions;
}

Co<StatusOr<std::vector<StateHandle>>> WriteStateFiles(FileSystem& files, std::string job_directory,
                                                       std::string checkpoint_directory,
                                                       std::string uid, int subtask,
                                                       std::string unique, FrozenState state) {
  std::vector<StateHandle> handles;
  std::string stem = Concat(checkpoint_directory, "/", uid, "-", subtask, "-", unique);
  if (state.has_positions) {
    StatusOr<StateHandle> written = co_await WritePositions(
        files, job_directory, stem + "-positions", std::move(state.positions));
    if (!written.ok()) co_return written.status();
    handles.push_back(std::move(*written));
  }
  if (state.keyed != nullptr) {
    StatusOr<std::optional<StateHandle>> written =
        co_await WriteKeyed(files, job_directory, stem + "-keyed", std::move(state.keyed));
    if (!written.ok()) co_return written.status();
    if (written->has_value()) handles.push_back(std::move(**written));
  }
  co_return handles;
}

Co<StatusOr<std::string>> ReadStateFile(FileSystem& files, std::string directory,
                                        StateHandle handle) {
  std::string path = JoinPath(directory, handle.path);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(std::clamp<int64_t>(handle.length, 0, int64_t{1} << 34)));
  while (static_cast<int64_t>(bytes.size()) < handle.length) {
    int64_t left = handle.length - static_cast<int64_t>(bytes.size());
    StatusOr<std::string> piece = co_await ReadAt(files, path, static_cast<int64_t>(bytes.size()),
                                                  std::min<int64_t>(left, 8 << 20));
    if (!piece.ok()) {
      Status error = piece.status().WithContext("state file of the checkpoint");
      co_return error.code() == StatusCode::kNotFound ? error.WithRetry(false) : error;
    }
    if (piece->empty()) break;
    bytes += *piece;
  }
  if (static_cast<int64_t>(bytes.size()) != handle.length) {
    co_return DataLossError(Concat("state file ", path, " has ", bytes.size(), " bytes, its ",
                                   "checkpoint says ", handle.length))
        .WithRetry(false);
  }
  uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  if (checksum != handle.checksum) {
    co_return DataLossError(Concat("state file ", path, " is damaged: checksum ", checksum,
                                   ", its checkpoint says ", handle.checksum))
        .WithRetry(false);
  }
  co_return bytes;
}

}  // namespace weir
