#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/storage/file_system.h"
#include "common/threading/co.h"

// The primitives of FileSystem as steps of a flow, and the flows every writer of durable files
// shares. Thread: confined to the file system's executor; `files` must outlive the flow.
namespace weir {

Async<StatusOr<std::string>> ReadAt(FileSystem& files, std::string path, int64_t offset,
                                    int64_t length, std::string storage = {});
Async<Status> CreateFile(FileSystem& files, std::string path, std::string bytes);
Async<Status> WriteAt(FileSystem& files, std::string path, int64_t offset, std::string bytes);
Async<Status> CreateFile(FileSystem& files, std::string path,
                         std::shared_ptr<const std::string> bytes);
Async<Status> WriteAt(FileSystem& files, std::string path, int64_t offset,
                      std::shared_ptr<const std::string> bytes);
Async<Status> TruncateFile(FileSystem& files, std::string path, int64_t size);
Async<Status> SyncFile(FileSystem& files, std::string path);
Async<Status> SyncDirectory(FileSystem& files, std::string path);
// Sync of a file and SyncDirectory of where it lies, both under way at once: the two often wait for
// one and the same write of the disk. Answers when both have.
Async<Status> SyncFileAndName(FileSystem& files, std::string path);
Async<Status> LinkFile(FileSystem& files, std::string from, std::string to);
Async<Status> RenameFile(FileSystem& files, std::string from, std::string to);
Async<StatusOr<std::vector<FileInfo>>> ListDirectory(FileSystem& files, std::string path);
Async<StatusOr<FileInfo>> StatFile(FileSystem& files, std::string path);
Async<Status> RemoveFile(FileSystem& files, std::string path);
Async<Status> RemoveEmptyDirectory(FileSystem& files, std::string path);
Async<Status> MakeDirectory(FileSystem& files, std::string path);

// The whole file. Larger than `bytes_max`: kResourceExhausted.
Co<StatusOr<std::string>> ReadWhole(FileSystem& files, std::string path,
                                    int64_t bytes_max = int64_t{1} << 30);
// The directory and all missing parents, each made durable in its parent.
Co<Status> MakeDirectories(FileSystem& files, std::string path);
// A new file, durable under its name when OK is returned: Create, SyncFileAndName.
Co<Status> CreateDurably(FileSystem& files, std::string path, std::string bytes);
// The name of a temporary file is `<path>.tmp-<unique>`.
inline constexpr std::string_view kTemporaryMark = ".tmp-";
// Create-if-absent of complete contents: a temporary file, Sync, Link to `path`, SyncDirectory,
// Remove of the temporary. kAlreadyExists if the name is taken (then the other's contents are
// there, not necessarily durable). Any other error: unknown outcome.
Co<Status> ClaimFile(FileSystem& files, std::string path, std::string bytes, std::string unique);
// Replaces `path` by complete contents: temporary, Sync, Rename, SyncDirectory.
Co<Status> ReplaceDurably(FileSystem& files, std::string path, std::string bytes,
                          std::string unique);
// The directory with everything below it. Nothing there: OK.
Co<Status> RemoveTree(FileSystem& files, std::string path);

}  // namespace weir
