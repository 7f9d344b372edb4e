#include "tests/support/memory_file_system.h"

#include <utility>

#include "common/base/check.h"

namespace weir {

MemoryFileSystem::MemoryFileSystem(Executor& executor, std::shared_ptr<Disk> disk)
    : executor_(executor),
      disk_(disk != nullptr ? std::move(disk) : std::make_shared<Disk>()),
      alive_(std::make_shared<int>()) {}

MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::Crash() {
  if (!killed()) alive_ = std::make_shared<int>();
  disk_->Crash();
}

void MemoryFileSystem::PutFile(const std::string& path, std::string bytes) {
  disk_->PutFile(path, std::move(bytes));
}

void MemoryFileSystem::Delete(const std::string& path) { disk_->Delete(path); }

void MemoryFileSystem::PutDirectory(const std::string& path) { disk_->PutDirectory(path); }

std::string MemoryFileSystem::Bytes(const std::string& path) const {
  const std::string* bytes = disk_->Bytes(path);
  WEIR_CHECK_MESSAGE(bytes != nullptr, path);
  return *bytes;
}

bool MemoryFileSystem::Exists(const std::string& path) const { return disk_->Exists(path); }

std::vector<std::string> MemoryFileSystem::Files(const std::string& path) const {
  return disk_->Files(path);
}

template <typename T>
void MemoryFileSystem::Submit(std::string_view operation, std::string path,
                              std::function<void(T)> done, std::function<T(Disk&)> action) {
  if (killed()) return;
  const bool held = hold_ && hold_(operation, path);
  auto carry_out = [this, alive = std::weak_ptr<int>(alive_), operation, path = std::move(path),
                    done = std::move(done), action = std::move(action)] {
    if (alive.expired()) return;
    ++operations_;
    // Copies: a hook may destroy this.
    std::shared_ptr<Disk> disk = disk_;
    Hook before = before_, after = after_;
    Status injected = before ? before(operation, path) : Status();
    if (alive.expired()) return;
    if (!injected.ok()) {
      done(T(injected));
      return;
    }
    T result = action(*disk);
    injected = after ? after(operation, path) : Status();
    if (alive.expired()) return;
    done(injected.ok() ? std::move(result) : T(injected));
  };
  if (held) {
    held_.push_back(std::move(carry_out));
  } else {
    executor_.Post(std::move(carry_out));
  }
}

void MemoryFileSystem::Release() {
  hold_ = nullptr;
  for (std::function<void()>& request : std::exchange(held_, {})) {
    executor_.Post(std::move(request));
  }
}

void MemoryFileSystem::Read(std::string path, int64_t offset, int64_t length,
                            DoneWith<std::string> done) {
  Submit<StatusOr<std::string>>("read", path, std::move(done), [path, offset, length](Disk& disk) {
    return disk.Read(path, offset, length);
  });
}

void MemoryFileSystem::Create(std::string path, std::string bytes, Done done) {
  Submit<Status>("create", path, std::move(done),
                 [path, bytes = std::move(bytes)](Disk& disk) { return disk.Create(path, bytes); });
}

void MemoryFileSystem::WriteAt(std::string path, int64_t offset, std::string bytes, Done done) {
  Submit<Status>("write", path, std::move(done),
                 [path, offset, bytes = std::move(bytes)](Disk& disk) {
                   return disk.WriteAt(path, offset, bytes);
                 });
}

void MemoryFileSystem::Truncate(std::string path, int64_t size, Done done) {
  Submit<Status>("truncate", path, std::move(done),
                 [path, size](Disk& disk) { return disk.Truncate(path, size); });
}

void MemoryFileSystem::Sync(std::string path, Done done) {
  Submit<Status>("sync", path, std::move(done), [path](Disk& disk) { return disk.Sync(path); });
}

void MemoryFileSystem::SyncDirectory(std::string path, Done done) {
  Submit<Status>("sync_directory", path, std::move(done),
                 [path](Disk& disk) { return disk.SyncDirectory(path); });
}

void MemoryFileSystem::Link(std::string from, std::string to, Done done) {
  Submit<Status>("link", from, std::move(done),
                 [from, to](Disk& disk) { return disk.Link(from, to); });
}

void MemoryFileSystem::Rename(std::string from, std::string to, Done done) {
  Submit<Status>("rename", from, std::move(done),
                 [from, to](Disk& disk) { return disk.Rename(from, to); });
}

void MemoryFileSystem::List(std::string path, DoneWith<std::vector<FileInfo>> done) {
  Submit<StatusOr<std::vector<FileInfo>>>("list", path, std::move(done),
                                          [path](Disk& disk) { return disk.List(path); });
}

void MemoryFileSystem::Stat(std::string path, DoneWith<FileInfo> done) {
  Submit<StatusOr<FileInfo>>("stat", path, std::move(done),
                             [path](Disk& disk) { return disk.Stat(path); });
}

void MemoryFileSystem::Remove(std::string path, Done done) {
  Submit<Status>("remove", path, std::move(done), [path](Disk& disk) { return disk.Remove(path); });
}

void MemoryFileSystem::RemoveDirectory(std::string path, Done done) {
  Submit<Status>("remove_directory", path, std::move(done),
                 [path](Disk& disk) { return disk.RemoveDirectory(path); });
}

void MemoryFileSystem::MakeDirectory(std::string path, Done done) {
  Submit<Status>("make_directory", path, std::move(done),
                 [path](Disk& disk) { return disk.MakeDirectory(path); });
}

}  // namespace weir
