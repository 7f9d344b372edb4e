#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace weir {

struct FileInfo {
  std::string name;  // last component
  bool is_directory = false;
  int64_t size = 0;        // bytes
  bool is_regular = true;  // or a link to a regular file; neither a pipe, device nor socket
  // Of a regular file: another number when another file has the name, or this one was written to.
  // Within the grain of the file system's time, so that two writes may share one.
  uint64_t version = 0;
};

// Primitives of a file system as requests: each call returns at once and its outcome comes back as
// mail on the executor the implementation was made for. Calls in flight may be carried out in any
// order: whoever needs an order waits for the outcome. Nothing is durable before Sync of the file
// (its bytes) and SyncDirectory of its directory (its name). Errors are external and name the path.
//
// Every write names its bytes and place in full, so that repeating one is harmless. Paths are
// absolute. Thread: confined to the executor.
class FileSystem {
 public:
  using Done = std::function<void(Status)>;
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;

  // Long writes that begin at a multiple of it cost least: whole pages go from our memory to the
  // disk. The cache keeps none of them, so that who reads the file next reads the disk.
  static constexpr int64_t kPageBytes = 4096;

  virtual ~FileSystem() = default;

  // Up to `length` bytes from `offset`; fewer only at the end of the file.
  virtual void Read(std::string path, int64_t offset, int64_t length,
                    DoneWith<std::string> done) = 0;
  // The same. `storage`: a string of no use any more; its memory may be taken for the bytes, which
  // spares clearing and mapping new memory for each piece of a long file.
  virtual void ReadInto(std::string storage, std::string path, int64_t offset, int64_t length,
                        DoneWith<std::string> done) {
    (void)storage;
    Read(std::move(path), offset, length, std::move(done));
  }
  // A new file with these bytes; kAlreadyExists if the name is taken.
  virtual void Create(std::string path, std::string bytes, Done done) = 0;
  // Bytes at `offset` of an existing file (which grows as needed).
  virtual void WriteAt(std::string path, int64_t offset, std::string bytes, Done done) = 0;
  // The same of bytes that the caller keeps, to try again with them.
  virtual void CreateShared(std::string path, std::shared_ptr<const std::string> bytes, Done done) {
    Create(std::move(path), *bytes, std::move(done));
  }
  virtual void WriteSharedAt(std::string path, int64_t offset,
                             std::shared_ptr<const std::string> bytes, Done done) {
    WriteAt(std::move(path), offset, *bytes, std::move(done));
  }
  virtual void Truncate(std::string path, int64_t size, Done done) = 0;
  virtual void Sync(std::string path, Done done) = 0;
  virtual void SyncDirectory(std::string path, Done done) = 0;
  // A second name for a file, atomically; kAlreadyExists if the name is taken. Create-if-absent.
  virtual void Link(std::string from, std::string to, Done done) = 0;
  // Replaces `to` if it exists.
  virtual void Rename(std::string from, std::string to, Done done) = 0;
  // Names in a directory, sorted by name; kNotFound if there is none.
  virtual void List(std::string path, DoneWith<std::vector<FileInfo>> done) = 0;
  // size and kind; kNotFound if there is none.
  virtual void Stat(std::string path, DoneWith<FileInfo> done) = 0;
  // A file; kNotFound if there is none. Carried out also when the file system is gone before it
  // began, and behind a Create of that name that was asked for before: so who ends can still take
  // away what is its own.
  virtual void Remove(std::string path, Done done) = 0;
  // An empty directory.
  virtual void RemoveDirectory(std::string path, Done done) = 0;
  // One level; kAlreadyExists if the name is taken.
  virtual void MakeDirectory(std::string path, Done done) = 0;
};

// "a/b" of "a" and "b".
std::string JoinPath(std::string_view directory, std::string_view name);
// "/a/b" of "/a/b/c".
std::string ParentPath(std::string_view path);

}  // namespace weir
