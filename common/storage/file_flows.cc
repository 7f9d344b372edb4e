#include "common/storage/file_flows.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"

namespace weir {
namespace {

constexpr int64_t kReadChunkBytes = 4 << 20;

// A complete and durable file under a name that nobody else uses. What an earlier attempt left
// under it is replaced: it may be cut short.
Co<Status> WriteTemporary(FileSystem& files, std::string path, std::string bytes) {
  Status status = co_await CreateFile(files, path, bytes);
  if (status.code() == StatusCode::kAlreadyExists) {
    status = co_await RemoveFile(files, path);
    if (!status.ok() && status.code() != StatusCode::kNotFound) co_return status;
    status = co_await CreateFile(files, path, std::move(bytes));
  }
  if (!status.ok()) co_return status;
  co_return co_await SyncFile(files, path);
}

}  // namespace

Async<StatusOr<std::string>> ReadAt(FileSystem& files, std::string path, int64_t offset,
                                    int64_t length, std::string storage) {
  return Async<StatusOr<std::string>>([&files, path = std::move(path), offset, length,
                                       storage = std::move(storage)](auto done) mutable {
    files.ReadInto(std::move(storage), std::move(path), offset, length, std::move(done));
  });
}

Async<Status> CreateFile(FileSystem& files, std::string path, std::string bytes) {
  return Async<Status>(
      [&files, path = std::move(path), bytes = std::move(bytes)](auto done) mutable {
        files.Create(std::move(path), std::move(bytes), std::move(done));
      });
}

Async<Status> WriteAt(FileSystem& files, std::string path, int64_t offset, std::string bytes) {
  return Async<Status>(
      [&files, path = std::move(path), offset, bytes = std::move(bytes)](auto done) mutable {
        files.WriteAt(std::move(path), offset, std::move(bytes), std::move(done));
      });
}

Async<Status> CreateFile(FileSystem& files, std::string path,
                         std::shared_ptr<const std::string> bytes) {
  return Async<Status>(
      [&files, path = std::move(path), bytes = std::move(bytes)](auto done) mutable {
        files.CreateShared(std::move(path), std::move(bytes), std::move(done));
      });
}

Async<Status> WriteAt(FileSystem& files, std::string path, int64_t offset,
                      std::shared_ptr<const std::string> bytes) {
  return Async<Status>(
      [&files, path = std::move(path), offset, bytes = std::move(bytes)](auto done) mutable {
        files.WriteSharedAt(std::move(path), offset, std::move(bytes), std::move(done));
      });
}

Async<Status> TruncateFile(FileSystem& files, std::string path, int64_t size) {
  return Async<Status>([&files, path = std::move(path), size](auto done) mutable {
    files.Truncate(std::move(path), size, std::move(done));
  });
}

Async<Status> SyncFile(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](auto done) mutable {
    files.Sync(std::move(path), std::move(done));
  });
}

Async<Status> SyncDirectory(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](auto done) mutable {
    files.SyncDirectory(std::move(path), std::move(done));
  });
}

Async<Status> SyncFileAndName(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](Async<Status>::Done done) {
    struct Both {
      int open = 2;
      Status status;
    };
    auto both = std::make_shared<Both>();
    auto answer = [both, done](Status status) {
      if (both->status.ok()) both->status = std::move(status);
      if (--both->open == 0) done(both->status);
    };
    files.Sync(path, answer);
    files.SyncDirectory(ParentPath(path), answer);
  });
}

Async<Status> LinkFile(FileSystem& files, std::string from, std::string to) {
  return Async<Status>([&files, from = std::move(from), to = std::move(to)](auto done) mutable {
    files.Link(std::move(from), std::move(to), std::move(done));
  });
}

Async<Status> RenameFile(FileSystem& files, std::string from, std::string to) {
  return Async<Status>([&files, from = std::move(from), to = std::move(to)](auto done) mutable {
    files.Rename(std::move(from), std::move(to), std::move(done));
  });
}

Async<StatusOr<std::vector<FileInfo>>> ListDirectory(FileSystem& files, std::string path) {
  return Async<StatusOr<std::vector<FileInfo>>>(
      [&files, path = std::move(path)](auto done) mutable {
        files.List(std::move(path), std::move(done));
      });
}

Async<StatusOr<FileInfo>> StatFile(FileSystem& files, std::string path) {
  return Async<StatusOr<FileInfo>>([&files, path = std::move(path)](auto done) mutable {
    files.Stat(std::move(path), std::move(done));
  });
}

Async<Status> RemoveFile(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](auto done) mutable {
    files.Remove(std::move(path), std::move(done));
  });
}

Async<Status> RemoveEmptyDirectory(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](auto done) mutable {
    files.RemoveDirectory(std::move(path), std::move(done));
  });
}

Async<Status> MakeDirectory(FileSystem& files, std::string path) {
  return Async<Status>([&files, path = std::move(path)](auto done) mutable {
    files.MakeDirectory(std::move(path), std::move(done));
  });
}

Co<StatusOr<std::string>> ReadWhole(FileSystem& files, std::string path, int64_t bytes_max) {
  std::string bytes;
  while (true) {
    int64_t size = static_cast<int64_t>(bytes.size());
    int64_t wanted = std::min(kReadChunkBytes, bytes_max - size + 1);
    StatusOr<std::string> chunk = co_await ReadAt(files, path, size, wanted);
    if (!chunk.ok()) co_return chunk.status();
    bool ended = static_cast<int64_t>(chunk->size()) < wanted;
    if (bytes.empty()) {
      bytes = *std::move(chunk);
    } else {
      bytes += *chunk;
    }
    if (static_cast<int64_t>(bytes.size()) > bytes_max) {
      co_return ResourceExhaustedError(
          Concat("cannot read ", path, ": larger than ", bytes_max, " bytes"));
    }
    if (ended) co_return bytes;
  }
}

Co<Status> MakeDirectories(FileSystem& files, std::string path) {
  // Missing directories, deepest first.
  std::vector<std::string> missing;
  std::string present = path;
  while (true) {
    StatusOr<FileInfo> info = co_await StatFile(files, present);
    if (info.ok()) {
      if (!info->is_directory) {
        co_return FailedPreconditionError(
            Concat("cannot create directory ", path, ": ", present, " is not a directory"));
      }
      break;
    }
    if (info.status().code() != StatusCode::kNotFound) co_return info.status();
    std::string parent = ParentPath(present);
    if (parent == present) co_return info.status();
    missing.push_back(std::exchange(present, std::move(parent)));
  }
  // Whoever made the present one may have died before it was durable. Where that may not be
  // asked for (no right to read the parent), it is somebody else's directory.
  Status status = co_await SyncDirectory(files, ParentPath(present));
  if (!status.ok() && status.code() != StatusCode::kFailedPrecondition) co_return status;
  while (!missing.empty()) {
    std::string next = std::move(missing.back());
    missing.pop_back();
    status = co_await MakeDirectory(files, next);
    if (status.code() == StatusCode::kAlreadyExists) {
      StatusOr<FileInfo> info = co_await StatFile(files, next);
      if (!info.ok()) co_return info.status();
      if (!info->is_directory) co_return status;
    } else if (!status.ok()) {
      co_return status;
    }
    status = co_await SyncDirectory(files, ParentPath(next));
    if (!status.ok()) co_return status;
  }
  co_return Status();
}

Co<Status> CreateDurably(FileSystem& files, std::string path, std::string bytes) {
  Status status = co_await CreateFile(files, path, std::move(bytes));
  if (!status.ok()) co_return status;
  co_return co_await SyncFileAndName(files, std::move(path));
}

Co<Status> ClaimFile(FileSystem& files, std::string path, std::string bytes, std::string unique) {
  std::string temporary = Concat(path, kTemporaryMark, unique);
  Status status = co_await WriteTemporary(files, temporary, std::move(bytes));
  if (status.code() == StatusCode::kAlreadyExists) {
    // Not the name that is claimed: somebody uses the unique one.
    co_return UnknownOutcomeError(status.message());
  }
  if (status.ok()) status = co_await LinkFile(files, temporary, path);
  if (status.ok()) status = co_await SyncDirectory(files, ParentPath(path));
  // The claim stands or not without the temporary name: a left one is only litter.
  (void)co_await RemoveFile(files, temporary);
  co_return status;
}

Co<Status> ReplaceDurably(FileSystem& files, std::string path, std::string bytes,
                          std::string unique) {
  std::string temporary = Concat(path, kTemporaryMark, unique);
  Status status = co_await WriteTemporary(files, temporary, std::move(bytes));
  if (status.ok()) status = co_await RenameFile(files, temporary, path);
  if (!status.ok()) {
    (void)co_await RemoveFile(files, temporary);
    co_return status;
  }
  co_return co_await SyncDirectory(files, ParentPath(path));
}

Co<Status> RemoveTree(FileSystem& files, std::string path) {
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, path);
  if (names.status().code() == StatusCode::kNotFound) co_return Status();
  if (!names.ok()) co_return names.status();
  for (const FileInfo& info : *names) {
    std::string child = JoinPath(path, info.name);
    Status status;
    if (info.is_directory) {
      status = co_await RemoveTree(files, child);
    } else {
      status = co_await RemoveFile(files, child);
    }
    if (!status.ok() && status.code() != StatusCode::kNotFound) co_return status;
  }
  Status status = co_await RemoveEmptyDirectory(files, path);
  if (status.code() == StatusCode::kNotFound) co_return Status();
  co_return status;
}

}  // namespace weir
