#include "worker/checkpoint/snapshot_files.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

constexpr size_t kPieceBytes = 4 << 20;

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

// Writes one new file in pieces and syncs it.
Co<StatusOr<StateHandle>> WriteStateFile(FileSystem& files, std::string job_directory,
                                         StateHandle handle, std::vector<std::string> contents) {
  std::string path = JoinPath(job_directory, handle.path);
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> checksum(XXH3_createState(),
                                                                           XXH3_freeState);
  XXH3_64bits_reset(checksum.get());
  bool created = false;
  std::string piece;
  for (size_t i = 0; i <= contents.size(); ++i) {
    bool last = i == contents.size();
    if (!last) {
      XXH3_64bits_update(checksum.get(), contents[i].data(), contents[i].size());
      piece += contents[i];
      contents[i] = std::string();
    }
    if (piece.size() < kPieceBytes && !last) continue;
    int64_t offset = handle.length;
    handle.length += static_cast<int64_t>(piece.size());
    Status written;
    if (!created) {
      written = co_await CreateFile(files, path, std::move(piece));
      created = true;
    } else if (!piece.empty()) {
      written = co_await WriteAt(files, path, offset, std::move(piece));
    }
    if (!written.ok()) co_return written;
    piece = std::string();
    KillPoint("snapshot.while_writing");
  }
  Status synced = co_await SyncFile(files, path);
  if (!synced.ok()) co_return synced;
  handle.checksum = XXH3_64bits_digest(checksum.get());
  co_return handle;
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
    StateHandle handle;
    handle.kind = StateKind::kPositions;
    handle.path = stem + "-positions";
    std::vector<std::string> contents;
    contents.push_back(EncodePositions(state.positions));
    StatusOr<StateHandle> written =
        co_await WriteStateFile(files, job_directory, std::move(handle), std::move(contents));
    if (!written.ok()) co_return written.status();
    handles.push_back(std::move(*written));
  }
  if (!state.keyed.empty()) {
    StateHandle handle;
    handle.kind = StateKind::kKeyed;
    handle.path = stem + "-keyed";
    int64_t offset = 0;
    std::vector<std::string> contents;
    for (KeyGroupState& chunk : state.keyed) {
      int64_t length = static_cast<int64_t>(chunk.bytes.size());
      handle.slices.push_back({chunk.key_group, offset, length});
      offset += length;
      contents.push_back(std::move(chunk.bytes));
    }
    StatusOr<StateHandle> written =
        co_await WriteStateFile(files, job_directory, std::move(handle), std::move(contents));
    if (!written.ok()) co_return written.status();
    handles.push_back(std::move(*written));
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
