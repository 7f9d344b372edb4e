#include "tests/support/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

class MemoryFileSystem::Disk {
 public:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Node {
    bool is_directory = false;
    std::string bytes, durable_bytes;
    uint64_t version = 0;  // of a file
    std::map<std::string, NodePtr> names, durable_names;
  };

  Disk() { root_->is_directory = true; }

  uint64_t NextVersion() { return ++versions_; }

  // nullptr when there is none. "." and ".." do not occur.
  NodePtr Find(std::string_view path) const {
    NodePtr node = root_;
    for (std::string_view name : Split(path)) {
      if (!node->is_directory) return nullptr;
      auto it = node->names.find(std::string(name));
      if (it == node->names.end()) return nullptr;
      node = it->second;
    }
    return node;
  }
  NodePtr FindDirectory(std::string_view path) const {
    NodePtr node = Find(path);
    return node != nullptr && node->is_directory ? node : nullptr;
  }
  static std::string NameOf(std::string_view path) {
    std::vector<std::string_view> names = Split(path);
    return names.empty() ? "" : std::string(names.back());
  }
  NodePtr MakeDirectories(std::string_view path) {
    NodePtr node = root_;
    for (std::string_view name : Split(path)) {
      NodePtr& next = node->names[std::string(name)];
      if (next == nullptr) {
        next = std::make_shared<Node>();
        next->is_directory = true;
      }
      node->durable_names[std::string(name)] = next;
      node = next;
      WEIR_CHECK(node->is_directory);
    }
    return node;
  }
  void Crash() { Crash(*root_); }
  void AddFiles(const std::string& path, const Node& node, std::vector<std::string>* files) const {
    for (const auto& [name, child] : node.names) {
      std::string child_path = JoinPath(path, name);
      if (child->is_directory) {
        AddFiles(child_path, *child, files);
      } else {
        files->push_back(child_path);
      }
    }
  }

 private:
  static std::vector<std::string_view> Split(std::string_view path) {
    WEIR_CHECK_MESSAGE(path.starts_with('/'), "paths are absolute");
    std::vector<std::string_view> names;
    while (!path.empty()) {
      size_t slash = std::min(path.find('/'), path.size());
      if (slash > 0) names.push_back(path.substr(0, slash));
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return names;
  }
  void Crash(Node& node) {
    node.bytes = node.durable_bytes;
    node.names = node.durable_names;
    for (auto& [name, child] : node.names) Crash(*child);
  }

  NodePtr root_ = std::make_shared<Node>();
  uint64_t versions_ = 0;
};

namespace {

Status Failed(int error_number, std::string_view what, std::string_view path) {
  return ErrnoError(error_number, Concat("cannot ", what, " ", path));
}

}  // namespace

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
  Disk::NodePtr directory = disk_->MakeDirectories(ParentPath(path));
  auto node = std::make_shared<Disk::Node>();
  node->bytes = node->durable_bytes = std::move(bytes);
  node->version = disk_->NextVersion();
  std::string name = Disk::NameOf(path);
  directory->names[name] = directory->durable_names[name] = std::move(node);
}

void MemoryFileSystem::Delete(const std::string& path) {
  Disk::NodePtr parent = disk_->FindDirectory(ParentPath(path));
  WEIR_CHECK(parent != nullptr && parent->names.erase(Disk::NameOf(path)) == 1);
  parent->durable_names.erase(Disk::NameOf(path));
}

void MemoryFileSystem::PutDirectory(const std::string& path) { disk_->MakeDirectories(path); }

std::string MemoryFileSystem::Bytes(const std::string& path) const {
  Disk::NodePtr node = disk_->Find(path);
  WEIR_CHECK_MESSAGE(node != nullptr && !node->is_directory, path);
  return node->bytes;
}

bool MemoryFileSystem::Exists(const std::string& path) const {
  return disk_->Find(path) != nullptr;
}

std::vector<std::string> MemoryFileSystem::Files(const std::string& path) const {
  std::vector<std::string> files;
  if (Disk::NodePtr node = disk_->FindDirectory(path)) disk_->AddFiles(path, *node, &files);
  std::sort(files.begin(), files.end());
  return files;
}

template <typename T>
void MemoryFileSystem::Submit(std::string_view operation, std::string path,
                              std::function<void(T)> done, std::function<T(Disk&)> action) {
  if (killed()) return;
  executor_.Post([this, alive = std::weak_ptr<int>(alive_), operation, path = std::move(path),
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
  });
}

void MemoryFileSystem::Read(std::string path, int64_t offset, int64_t length,
                            DoneWith<std::string> done) {
  Submit<StatusOr<std::string>>(
      "read", path, std::move(done), [path, offset, length](Disk& disk) -> StatusOr<std::string> {
        Disk::NodePtr node = disk.Find(path);
        if (node == nullptr) return Failed(ENOENT, "read", path);
        if (node->is_directory) return Failed(EISDIR, "read", path);
        int64_t size = static_cast<int64_t>(node->bytes.size());
        return node->bytes.substr(static_cast<size_t>(std::min(offset, size)),
                                  static_cast<size_t>(length));
      });
}

void MemoryFileSystem::Create(std::string path, std::string bytes, Done done) {
  Submit<Status>("create", path, std::move(done),
                 [path, bytes = std::move(bytes)](Disk& disk) -> Status {
                   Disk::NodePtr directory = disk.FindDirectory(ParentPath(path));
                   if (directory == nullptr) return Failed(ENOENT, "create", path);
                   Disk::NodePtr& node = directory->names[Disk::NameOf(path)];
                   if (node != nullptr) return Failed(EEXIST, "create", path);
                   node = std::make_shared<Disk::Node>();
                   node->bytes = bytes;
                   node->version = disk.NextVersion();
                   return {};
                 });
}

void MemoryFileSystem::WriteAt(std::string path, int64_t offset, std::string bytes, Done done) {
  Submit<Status>("write", path, std::move(done),
                 [path, offset, bytes = std::move(bytes)](Disk& disk) -> Status {
                   Disk::NodePtr node = disk.Find(path);
                   if (node == nullptr) return Failed(ENOENT, "write", path);
                   if (node->is_directory) return Failed(EISDIR, "write", path);
                   size_t begin = static_cast<size_t>(offset);
                   size_t end = begin + bytes.size();
                   if (!bytes.empty() && node->bytes.size() < end) node->bytes.resize(end);
                   std::copy(bytes.begin(), bytes.end(), node->bytes.begin() + offset);
                   node->version = disk.NextVersion();
                   return {};
                 });
}

void MemoryFileSystem::Truncate(std::string path, int64_t size, Done done) {
  Submit<Status>("truncate", path, std::move(done), [path, size](Disk& disk) -> Status {
    Disk::NodePtr node = disk.Find(path);
    if (node == nullptr) return Failed(ENOENT, "truncate", path);
    if (node->is_directory) return Failed(EISDIR, "truncate", path);
    node->bytes.resize(static_cast<size_t>(size));
    node->version = disk.NextVersion();
    return {};
  });
}

void MemoryFileSystem::Sync(std::string path, Done done) {
  Submit<Status>("sync", path, std::move(done), [path](Disk& disk) -> Status {
    Disk::NodePtr node = disk.Find(path);
    if (node == nullptr) return Failed(ENOENT, "sync", path);
    node->durable_bytes = node->bytes;
    return {};
  });
}

void MemoryFileSystem::SyncDirectory(std::string path, Done done) {
  Submit<Status>("sync_directory", path, std::move(done), [path](Disk& disk) -> Status {
    Disk::NodePtr node = disk.Find(path);
    if (node == nullptr) return Failed(ENOENT, "sync directory", path);
    if (!node->is_directory) return Failed(ENOTDIR, "sync directory", path);
    node->durable_names = node->names;
    return {};
  });
}

void MemoryFileSystem::Link(std::string from, std::string to, Done done) {
  Submit<Status>("link", from, std::move(done), [from, to](Disk& disk) -> Status {
    std::string both = Concat(from, " to ", to);
    Disk::NodePtr node = disk.Find(from);
    Disk::NodePtr directory = disk.FindDirectory(ParentPath(to));
    if (node == nullptr || directory == nullptr) return Failed(ENOENT, "link", both);
    if (node->is_directory) return Failed(EPERM, "link", both);
    Disk::NodePtr& target = directory->names[Disk::NameOf(to)];
    if (target != nullptr) return Failed(EEXIST, "link", both);
    target = node;
    return {};
  });
}

void MemoryFileSystem::Rename(std::string from, std::string to, Done done) {
  Submit<Status>("rename", from, std::move(done), [from, to](Disk& disk) -> Status {
    std::string both = Concat(from, " to ", to);
    Disk::NodePtr node = disk.Find(from);
    Disk::NodePtr source = disk.FindDirectory(ParentPath(from));
    Disk::NodePtr directory = disk.FindDirectory(ParentPath(to));
    if (node == nullptr || directory == nullptr) return Failed(ENOENT, "rename", both);
    if (Disk::NodePtr target = disk.Find(to)) {
      if (target == node) return {};  // two names of one file: POSIX leaves both
      if (target->is_directory != node->is_directory) {
        return Failed(target->is_directory ? EISDIR : ENOTDIR, "rename", both);
      }
      if (!target->names.empty()) return Failed(ENOTEMPTY, "rename", both);
    }
    source->names.erase(Disk::NameOf(from));
    directory->names[Disk::NameOf(to)] = node;
    return {};
  });
}

void MemoryFileSystem::List(std::string path, DoneWith<std::vector<FileInfo>> done) {
  Submit<StatusOr<std::vector<FileInfo>>>(
      "list", path, std::move(done), [path](Disk& disk) -> StatusOr<std::vector<FileInfo>> {
        Disk::NodePtr node = disk.Find(path);
        if (node == nullptr) return Failed(ENOENT, "list", path);
        if (!node->is_directory) return Failed(ENOTDIR, "list", path);
        std::vector<FileInfo> names;
        for (const auto& [name, child] : node->names) {
          names.push_back({.name = name,
                           .is_directory = child->is_directory,
                           .size = static_cast<int64_t>(child->bytes.size()),
                           .version = child->version});
        }
        return names;
      });
}

void MemoryFileSystem::Stat(std::string path, DoneWith<FileInfo> done) {
  Submit<StatusOr<FileInfo>>("stat", path, std::move(done),
                             [path](Disk& disk) -> StatusOr<FileInfo> {
                               Disk::NodePtr node = disk.Find(path);
                               if (node == nullptr) return Failed(ENOENT, "stat", path);
                               return FileInfo{.name = Disk::NameOf(path),
                                               .is_directory = node->is_directory,
                                               .size = static_cast<int64_t>(node->bytes.size()),
                                               .version = node->version};
                             });
}

void MemoryFileSystem::Remove(std::string path, Done done) {
  Submit<Status>("remove", path, std::move(done), [path](Disk& disk) -> Status {
    Disk::NodePtr node = disk.Find(path);
    if (node == nullptr) return Failed(ENOENT, "remove", path);
    if (node->is_directory) return Failed(EISDIR, "remove", path);
    disk.FindDirectory(ParentPath(path))->names.erase(Disk::NameOf(path));
    return {};
  });
}

void MemoryFileSystem::RemoveDirectory(std::string path, Done done) {
  Submit<Status>("remove_directory", path, std::move(done), [path](Disk& disk) -> Status {
    Disk::NodePtr node = disk.Find(path);
    if (node == nullptr) return Failed(ENOENT, "remove directory", path);
    if (!node->is_directory) return Failed(ENOTDIR, "remove directory", path);
    if (!node->names.empty()) return Failed(ENOTEMPTY, "remove directory", path);
    disk.FindDirectory(ParentPath(path))->names.erase(Disk::NameOf(path));
    return {};
  });
}

void MemoryFileSystem::MakeDirectory(std::string path, Done done) {
  Submit<Status>("make_directory", path, std::move(done), [path](Disk& disk) -> Status {
    Disk::NodePtr directory = disk.FindDirectory(ParentPath(path));
    if (directory == nullptr) return Failed(ENOENT, "create directory", path);
    Disk::NodePtr& node = directory->names[Disk::NameOf(path)];
    if (node != nullptr) return Failed(EEXIST, "create directory", path);
    node = std::make_shared<Disk::Node>();
    node->is_directory = true;
    return {};
  });
}

}  // namespace weir
