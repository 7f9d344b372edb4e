#include "common/storage/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <any>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/concat.h"

namespace weir {
namespace {

// Below it a sync is cheap and one request to the disk does; what is longer is begun with the
// write, so that the sync at the end of a long file waits for its last piece only.
constexpr size_t kLongWriteBytes = 256 << 10;
// What the disk takes from memory of ours in one request.
constexpr size_t kDirectBytesMax = 512 << 10;

// An open descriptor. Thread: confined to its owner.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0) {
    do {
      fd_ = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (fd_ < 0 && errno == EINTR);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // False with errno when the file system reports a late error.
  bool Close() { return ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }

 private:
  int fd_;
};

Status Failed(const char* what, const std::string& path) {
  return ErrnoError(errno, Concat("cannot ", what, " ", path));
}

// Writes whole pages past the page cache; how many bytes. The rest, also all of it where the file
// system or the disk does not take them, is for others to write. Whole pages of a file that is
// synced soon gain nothing in the cache, and on virtual machines a copy into pages that nobody has
// touched for long takes longer than to make the rows that they hold.
size_t WritePages(Descriptor& file, int64_t offset, const std::string& bytes) {
  constexpr size_t kPage = static_cast<size_t>(FileSystem::kPageBytes);
  if (offset % FileSystem::kPageBytes != 0 || bytes.size() < kLongWriteBytes) return 0;
  // The disk wants aligned memory, which a string is not. It stays with the pool's thread.
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  thread_local const std::unique_ptr<char, Free> pages(
      static_cast<char*>(std::aligned_alloc(kPage, kDirectBytesMax)));
  if (pages == nullptr || ::fcntl(file.get(), F_SETFL, O_DIRECT) != 0) return 0;
  size_t written = 0;
  while (written % kPage == 0 && bytes.size() - written >= kPage) {
    const size_t size = std::min(kDirectBytesMax, (bytes.size() - written) / kPage * kPage);
    std::memcpy(pages.get(), bytes.data() + written, size);
    ssize_t n;
    do {
      n = ::pwrite(file.get(), pages.get(), size, offset + static_cast<int64_t>(written));
    } while (n < 0 && errno == EINTR);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  (void)::fcntl(file.get(), F_SETFL, 0);
  return written;
}

Status WriteAll(Descriptor& file, int64_t offset, const std::string& bytes, const char* what,
                const std::string& path) {
  size_t written = WritePages(file, offset, bytes);
  const size_t buffered = bytes.size() - written;
  while (written < bytes.size()) {
    ssize_t n = ::pwrite(file.get(), bytes.data() + written, bytes.size() - written,
                         offset + static_cast<int64_t>(written));
    if (n < 0) {
      if (errno == EINTR) continue;
      return Failed(what, path);
    }
    written += static_cast<size_t>(n);
  }
  // A hint: where it is not taken, the sync does it all.
  if (buffered >= kLongWriteBytes) {
    (void)::sync_file_range(file.get(), offset, static_cast<off64_t>(bytes.size()),
                            SYNC_FILE_RANGE_WRITE);
  }
  if (!file.Close()) return Failed(what, path);
  return {};
}

StatusOr<std::string> ReadFile(std::string bytes, const std::string& path, int64_t offset,
                               int64_t length) {
  Descriptor file(path, O_RDONLY);
  struct stat info;
  if (!file.ok() || ::fstat(file.get(), &info) != 0) return Failed("read", path);
  // The size spares clearing a large buffer for a small file; a device or pipe has none.
  if (S_ISREG(info.st_mode)) {
    length = std::min(length, std::max<int64_t>(info.st_size - offset, 0));
  }
  // Readers of texts append padding: there is room for it.
  constexpr size_t kRoom = 64;
  bytes.reserve(static_cast<size_t>(length) + kRoom);
  bytes.resize(static_cast<size_t>(length));
  size_t size = 0;
  while (size < bytes.size()) {
    ssize_t n = ::pread(file.get(), bytes.data() + size, bytes.size() - size,
                        offset + static_cast<int64_t>(size));
    if (n < 0) {
      if (errno == EINTR) continue;
      return Failed("read", path);
    }
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

Status SyncPath(const std::string& path, int flags, const char* what) {
  Descriptor file(path, O_RDONLY | flags);
  if (!file.ok() || ::fsync(file.get()) != 0 || !file.Close()) return Failed(what, path);
  return {};
}

uint64_t VersionOf(const struct stat& info) {
  uint64_t version = static_cast<uint64_t>(info.st_ino);
  for (int64_t part : {static_cast<int64_t>(info.st_dev), int64_t{info.st_mtim.tv_sec},
                       int64_t{info.st_mtim.tv_nsec}}) {
    version = (version ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15;
    version ^= version >> 32;
  }
  return version;
}

StatusOr<std::vector<FileInfo>> ListNames(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return Failed("list", path);
  std::vector<FileInfo> names;
  Status status;
  while (true) {
    errno = 0;
    dirent* entry = ::readdir(directory);
    if (entry == nullptr) {
      if (errno != 0) status = Failed("list", path);
      break;
    }
    FileInfo info{.name = entry->d_name};
    if (info.name == "." || info.name == "..") continue;
    struct stat own, target;
    if (::fstatat(::dirfd(directory), entry->d_name, &own, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      status = Failed("list", JoinPath(path, info.name));
      break;
    }
    info.is_directory = S_ISDIR(own.st_mode);
    info.is_regular = S_ISREG(own.st_mode);
    if (info.is_regular) {
      info.size = own.st_size;
      info.version = VersionOf(own);
    } else if (S_ISLNK(own.st_mode) &&
               ::fstatat(::dirfd(directory), entry->d_name, &target, 0) == 0 &&
               S_ISREG(target.st_mode)) {
      info.is_regular = true;
      info.size = target.st_size;
      info.version = VersionOf(target);
    }
    names.push_back(std::move(info));
  }
  ::closedir(directory);
  if (!status.ok()) return status;
  std::sort(names.begin(), names.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  return names;
}

}  // namespace

// A file that a pool thread is to make, or makes: when it is over, what was asked of its name
// meanwhile is posted, never to be dropped. Thread: thread-safe.
class PosixFileSystem::Creation {
 public:
  explicit Creation(IoPool& pool) : pool_(pool) {}
  ~Creation() {
    for (auto& [job, what] : behind_) pool_.Post(std::move(job), std::move(what), true);
  }

  void PostBehind(std::function<void()> job, std::string what) {
    std::lock_guard lock(mutex_);
    behind_.emplace_back(std::move(job), std::move(what));
  }

 private:
  IoPool& pool_;
  std::mutex mutex_;
  std::vector<std::pair<std::function<void()>, std::string>> behind_;  // guarded by mutex_
};

struct PosixFileSystem::Requests {
  uint64_t next = 1;
  std::map<uint64_t, std::any> callbacks;  // std::function<void(T)> of the request's T
  std::map<std::string, std::weak_ptr<Creation>> creations;  // by path; held by the jobs

  // Unless a later one of that path has taken its place.
  void Forget(const std::string& path, const std::weak_ptr<Creation>& creation) {
    auto it = creations.find(path);
    if (it == creations.end()) return;
    if (!it->second.owner_before(creation) && !creation.owner_before(it->second)) {
      creations.erase(it);
    }
  }
};

// Thread: thread-safe.
class PosixFileSystem::Answers {
 public:
  explicit Answers(Executor& owner) : owner_(&owner) {}

  // Dropped once closed.
  void Post(std::function<void()> mail) {
    std::lock_guard lock(mutex_);
    if (owner_ != nullptr) owner_->Post(std::move(mail));
  }
  // When this returns no pool thread is inside the owner's Post, and none will be.
  void Close() {
    std::lock_guard lock(mutex_);
    owner_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Executor* owner_;  // guarded by mutex_
};

PosixFileSystem::PosixFileSystem(Executor& owner, IoPool& pool)
    : pool_(pool),
      answers_(std::make_shared<Answers>(owner)),
      requests_(std::make_shared<Requests>()) {}

PosixFileSystem::~PosixFileSystem() {
  answers_->Close();
  // A callback's end may destroy what asks for more: nothing is asked for any more.
  std::map<uint64_t, std::any> callbacks = std::move(requests_->callbacks);
  requests_.reset();
}

template <typename T>
void PosixFileSystem::Submit(std::string what, std::function<void(T)> done, std::function<T()> job,
                             bool if_gone, const std::shared_ptr<Creation>& behind) {
  if (requests_ == nullptr) return;
  uint64_t number = requests_->next++;
  requests_->callbacks.emplace(number, std::move(done));
  auto carry_out = [answers = answers_, number, job = std::move(job), if_gone,
                    requests = std::weak_ptr<Requests>(requests_)]() mutable {
    if (requests.expired() && !if_gone) return;
    answers->Post([number, requests = std::move(requests), result = job()]() mutable {
      std::shared_ptr<Requests> live = requests.lock();
      if (live == nullptr) return;
      auto it = live->callbacks.find(number);
      if (it == live->callbacks.end()) return;
      auto callback = std::any_cast<std::function<void(T)>>(std::move(it->second));
      live->callbacks.erase(it);
      live.reset();
      callback(std::move(result));
    });
  };
  if (behind != nullptr) {
    behind->PostBehind(std::move(carry_out), std::move(what));
  } else {
    pool_.Post(std::move(carry_out), std::move(what), if_gone);
  }
}

void PosixFileSystem::Read(std::string path, int64_t offset, int64_t length,
                           DoneWith<std::string> done) {
  ReadInto({}, std::move(path), offset, length, std::move(done));
}

void PosixFileSystem::ReadInto(std::string storage, std::string path, int64_t offset,
                               int64_t length, DoneWith<std::string> done) {
  Submit<StatusOr<std::string>>(Concat("read ", path), std::move(done),
                                [storage = std::move(storage), path, offset, length]() mutable {
                                  return ReadFile(std::move(storage), path, offset, length);
                                });
}

void PosixFileSystem::Create(std::string path, std::string bytes, Done done) {
  CreateShared(std::move(path), std::make_shared<const std::string>(std::move(bytes)),
               std::move(done));
}

void PosixFileSystem::CreateShared(std::string path, std::shared_ptr<const std::string> bytes,
                                   Done done) {
  if (requests_ == nullptr) return;
  auto creation = std::make_shared<Creation>(pool_);
  std::weak_ptr<Creation>& newest = requests_->creations[path];
  newest = creation;
  auto made = [path, done = std::move(done), own = newest,
               requests = std::weak_ptr<Requests>(requests_)](Status status) {
    if (auto live = requests.lock()) live->Forget(path, own);
    done(std::move(status));
  };
  Submit<Status>(Concat("create ", path), std::move(made),
                 [path, bytes = std::move(bytes), creation = std::move(creation)]() -> Status {
                   Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
                   if (!file.ok()) return Failed("create", path);
                   Status status = WriteAll(file, 0, *bytes, "create", path);
                   // Half a file would make the next try find its name taken.
                   if (!status.ok()) ::unlink(path.c_str());
                   return status;
                 });
}

void PosixFileSystem::WriteAt(std::string path, int64_t offset, std::string bytes, Done done) {
  WriteSharedAt(std::move(path), offset, std::make_shared<const std::string>(std::move(bytes)),
                std::move(done));
}

void PosixFileSystem::WriteSharedAt(std::string path, int64_t offset,
                                    std::shared_ptr<const std::string> bytes, Done done) {
  Submit<Status>(Concat("write ", path), std::move(done),
                 [path, offset, bytes = std::move(bytes)]() -> Status {
                   Descriptor file(path, O_WRONLY);
                   if (!file.ok()) return Failed("write", path);
                   return WriteAll(file, offset, *bytes, "write", path);
                 });
}

void PosixFileSystem::Truncate(std::string path, int64_t size, Done done) {
  Submit<Status>(Concat("truncate ", path), std::move(done), [path, size]() -> Status {
    if (::truncate(path.c_str(), size) != 0) return Failed("truncate", path);
    return {};
  });
}

void PosixFileSystem::Sync(std::string path, Done done) {
  Submit<Status>(Concat("sync ", path), std::move(done),
                 [path] { return SyncPath(path, 0, "sync"); });
}

void PosixFileSystem::SyncDirectory(std::string path, Done done) {
  Submit<Status>(Concat("sync directory ", path), std::move(done),
                 [path] { return SyncPath(path, O_DIRECTORY, "sync directory"); });
}

void PosixFileSystem::Link(std::string from, std::string to, Done done) {
  Submit<Status>(Concat("link ", from), std::move(done), [from, to = std::move(to)]() -> Status {
    if (::link(from.c_str(), to.c_str()) != 0) return Failed("link", Concat(from, " to ", to));
    return {};
  });
}

void PosixFileSystem::Rename(std::string from, std::string to, Done done) {
  Submit<Status>(Concat("rename ", from), std::move(done), [from, to = std::move(to)]() -> Status {
    if (::rename(from.c_str(), to.c_str()) != 0) return Failed("rename", Concat(from, " to ", to));
    return {};
  });
}

void PosixFileSystem::List(std::string path, DoneWith<std::vector<FileInfo>> done) {
  Submit<StatusOr<std::vector<FileInfo>>>(Concat("list ", path), std::move(done),
                                          [path] { return ListNames(path); });
}

void PosixFileSystem::Stat(std::string path, DoneWith<FileInfo> done) {
  Submit<StatusOr<FileInfo>>(
      Concat("stat ", path), std::move(done), [path]() -> StatusOr<FileInfo> {
        struct stat info;
        if (::stat(path.c_str(), &info) != 0) return Failed("stat", path);
        bool is_directory = S_ISDIR(info.st_mode);
        return FileInfo{.name = path.substr(path.rfind('/') + 1),
                        .is_directory = is_directory,
                        .size = is_directory ? 0 : info.st_size,
                        .is_regular = S_ISREG(info.st_mode),
                        .version = S_ISREG(info.st_mode) ? VersionOf(info) : 0};
      });
}

void PosixFileSystem::Remove(std::string path, Done done) {
  if (requests_ == nullptr) return;
  auto unlink = [path]() -> Status {
    if (::unlink(path.c_str()) != 0) return Failed("remove", path);
    return {};
  };
  const auto creation = requests_->creations.find(path);
  const bool made = creation == requests_->creations.end();
  Submit<Status>(Concat("remove ", path), std::move(done), std::move(unlink), true,
                 made ? nullptr : creation->second.lock());
}

void PosixFileSystem::RemoveDirectory(std::string path, Done done) {
  Submit<Status>(Concat("remove directory ", path), std::move(done), [path]() -> Status {
    if (::rmdir(path.c_str()) != 0) return Failed("remove directory", path);
    return {};
  });
}

void PosixFileSystem::MakeDirectory(std::string path, Done done) {
  Submit<Status>(Concat("create directory ", path), std::move(done), [path]() -> Status {
    if (::mkdir(path.c_str(), 0755) != 0) return Failed("create directory", path);
    return {};
  });
}

}  // namespace weir
