#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/storage/file_system.h"
#include "common/threading/executor.h"
#include "tests/support/memory_disk.h"

namespace weir {

// A file system in memory with the durability of a machine that may lose power: bytes count after
// Sync of the file, names after SyncDirectory of the directory. Requests are carried out one by one
// as mail of the executor, in order of asking. Thread: confined to the executor.
class MemoryFileSystem : public FileSystem {
 public:
  // The disk behind one or several file systems (a process that dies leaves it to the next one).
  using Disk = MemoryDisk;

  explicit MemoryFileSystem(Executor& executor, std::shared_ptr<Disk> disk = nullptr);
  ~MemoryFileSystem() override;  // requests in flight are dropped: not carried out

  const std::shared_ptr<Disk>& disk() const { return disk_; }

  // Asked before each primitive with its name ("create", "write", "sync", "rename", …) and path
  // (the source for link and rename). An error is answered in its place. The hook may destroy this
  // file system: a crash just before the operation.
  using Hook = std::function<Status(std::string_view operation, const std::string& path)>;
  void set_before(Hook hook) { before_ = std::move(hook); }
  // Asked after the primitive was carried out: an error makes its outcome one that the caller
  // cannot know. May destroy this file system: a crash just after the operation.
  void set_after(Hook hook) { after_ = std::move(hook); }
  // Primitives that it holds of wait, as on a disk that hangs, until Release; others overtake them.
  using Hold = std::function<bool(std::string_view operation, const std::string& path)>;
  void set_hold(Hold hold) { hold_ = std::move(hold); }
  // What was held goes on as if it were asked for now; nothing is held from here on.
  void Release();

  // Power loss: all that is not durable is gone from the disk; what is in flight is dropped.
  void Crash();
  // Death of the process: the disk stays as it is; nothing that is in flight or asked for later is
  // carried out or answered.
  void Kill() { alive_ = nullptr; }
  bool killed() const { return alive_ == nullptr; }

  // Directly and at once, for arranging and looking, durable. Parents are made as needed.
  void PutFile(const std::string& path, std::string bytes);
  void PutDirectory(const std::string& path);
  // A file, or a directory with all that is in it. Aborts when there is none.
  void Delete(const std::string& path);
  // Bytes of a file; aborts when there is none.
  std::string Bytes(const std::string& path) const;
  bool Exists(const std::string& path) const;
  // Paths of all files below `path`, sorted.
  std::vector<std::string> Files(const std::string& path = "/") const;
  int64_t operations() const { return operations_; }

  void Read(std::string path, int64_t offset, int64_t length, DoneWith<std::string> done) override;
  void Create(std::string path, std::string bytes, Done done) override;
  void WriteAt(std::string path, int64_t offset, std::string bytes, Done done) override;
  void Truncate(std::string path, int64_t size, Done done) override;
  void Sync(std::string path, Done done) override;
  void SyncDirectory(std::string path, Done done) override;
  void Link(std::string from, std::string to, Done done) override;
  void Rename(std::string from, std::string to, Done done) override;
  void List(std::string path, DoneWith<std::vector<FileInfo>> done) override;
  void Stat(std::string path, DoneWith<FileInfo> done) override;
  void Remove(std::string path, Done done) override;
  void RemoveDirectory(std::string path, Done done) override;
  void MakeDirectory(std::string path, Done done) override;

 private:
  template <typename T>
  void Submit(std::string_view operation, std::string path, std::function<void(T)> done,
              std::function<T(Disk&)> action);

  Executor& executor_;
  std::shared_ptr<Disk> disk_;
  std::shared_ptr<int> alive_;  // replaced by Crash, gone with Kill and with this
  Hook before_;
  Hook after_;
  Hold hold_;
  std::vector<std::function<void()>> held_;
  int64_t operations_ = 0;
};

}  // namespace weir
