#include "tests/support/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

Status Failed(int error_number, std::string_view what, std::string_view path) {
  return ErrnoError(error_number, Concat("cannot ", what, " ", path));
}

Status FailedBoth(int error_number, std::string_view what, std::string_view from,
                  std::string_view to) {
  return ErrnoError(error_number, Concat("cannot ", what, " ", from, " to ", to));
}

// Takes the first name off a path; empty behind the last. "." and ".." do not occur.
std::string_view TakeName(std::string_view* path) {
  while (path->starts_with('/')) path->remove_prefix(1);
  size_t end = std::min(path->find('/'), path->size());
  std::string_view name = path->substr(0, end);
  path->remove_prefix(end);
  return name;
}

std::string_view WithoutTrailingSlashes(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

struct MemoryDisk::Node {
  // What a name stood for since the directory was synced.
  struct Change {
    uint64_t change;  // 0: what is durable
    NodePtr target;   // nullptr: no such name
  };

  bool is_directory = false;
  uint64_t version = 0;  // of a file: changes with its bytes
  // Files. Shared while they are equal; nullptr: empty.
  std::shared_ptr<std::string> bytes, durable;
  std::shared_ptr<std::string> failed;  // bytes whose sync has failed
  // Directories.
  std::map<std::string, NodePtr, std::less<>> names;
  std::map<std::string, std::vector<Change>, std::less<>> unsynced;

  std::string& OwnBytes() {
    if (bytes == nullptr) {
      bytes = std::make_shared<std::string>();
    } else if (bytes == durable || bytes == failed) {
      bytes = std::make_shared<std::string>(*bytes);
    }
    return *bytes;
  }
  std::string_view Text() const { return bytes == nullptr ? std::string_view() : *bytes; }
};

// A name and the directory it is or would be in.
struct MemoryDisk::Place {
  Node* directory = nullptr;  // nullptr: there is none
  std::string_view name;
  NodePtr node;  // nullptr: no such name
};

// How a power loss decides.
struct MemoryDisk::Loss {
  Random* random = nullptr;  // nullptr: all is lost
  uint64_t seed = 0;
  double odds_kept = 0;  // of a change of names
  bool any = false;

  // Both names of a rename get one answer.
  bool Keeps(uint64_t change) const {
    return random != nullptr && Random(seed ^ (change * 0x9e3779b97f4a7c15)).Fraction() < odds_kept;
  }
};

MemoryDisk::MemoryDisk() : root_(std::make_shared<Node>()) { root_->is_directory = true; }

MemoryDisk::~MemoryDisk() = default;

MemoryDisk::Node* MemoryDisk::Find(std::string_view path) const {
  WEIR_CHECK_MESSAGE(path.starts_with('/'), "paths are absolute");
  Node* node = root_.get();
  while (true) {
    std::string_view name = TakeName(&path);
    if (name.empty()) return node;
    auto it = node->names.find(name);
    if (it == node->names.end()) return nullptr;
    node = it->second.get();
  }
}

MemoryDisk::Node* MemoryDisk::FindDirectory(std::string_view path) const {
  Node* node = Find(path);
  return node != nullptr && node->is_directory ? node : nullptr;
}

MemoryDisk::Place MemoryDisk::FindPlace(std::string_view path) const {
  path = WithoutTrailingSlashes(path);
  size_t slash = path.rfind('/');
  WEIR_CHECK_MESSAGE(slash != std::string_view::npos, "paths are absolute and not the root");
  Place place;
  place.name = path.substr(slash + 1);
  place.directory = FindDirectory(slash == 0 ? std::string_view("/") : path.substr(0, slash));
  if (place.directory == nullptr) return place;
  auto it = place.directory->names.find(place.name);
  if (it != place.directory->names.end()) place.node = it->second;
  return place;
}

void MemoryDisk::SetName(Node* directory, std::string_view name, NodePtr target, uint64_t change) {
  auto it = directory->names.find(name);
  auto history = directory->unsynced.find(name);
  if (history == directory->unsynced.end()) {
    history = directory->unsynced.emplace(std::string(name), std::vector<Node::Change>()).first;
    history->second.push_back({0, it == directory->names.end() ? nullptr : it->second});
  }
  history->second.push_back({change, target});
  if (target == nullptr) {
    directory->names.erase(it);
  } else if (it == directory->names.end()) {
    directory->names.emplace(std::string(name), std::move(target));
  } else {
    it->second = std::move(target);
  }
}

StatusOr<std::string> MemoryDisk::Read(std::string_view path, int64_t offset,
                                       int64_t length) const {
  const Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "read", path);
  if (node->is_directory) return Failed(EISDIR, "read", path);
  std::string_view text = node->Text();
  return std::string(
      text.substr(std::min(static_cast<size_t>(offset), text.size()), static_cast<size_t>(length)));
}

Status MemoryDisk::Create(std::string_view path, std::string bytes) {
  Place place = FindPlace(path);
  if (place.directory == nullptr) return Failed(ENOENT, "create", path);
  if (place.node != nullptr) return Failed(EEXIST, "create", path);
  auto node = std::make_shared<Node>();
  node->bytes = std::make_shared<std::string>(std::move(bytes));
  node->version = ++versions_;
  SetName(place.directory, place.name, std::move(node), ++changes_);
  return {};
}

Status MemoryDisk::WriteAt(std::string_view path, int64_t offset, std::string_view bytes) {
  Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "write", path);
  if (node->is_directory) return Failed(EISDIR, "write", path);
  if (bytes.empty()) return {};
  node->version = ++versions_;
  std::string& text = node->OwnBytes();
  size_t begin = static_cast<size_t>(offset);
  if (text.size() < begin + bytes.size()) text.resize(begin + bytes.size());
  std::copy(bytes.begin(), bytes.end(), text.begin() + offset);
  return {};
}

Status MemoryDisk::Truncate(std::string_view path, int64_t size) {
  Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "truncate", path);
  if (node->is_directory) return Failed(EISDIR, "truncate", path);
  node->version = ++versions_;
  node->OwnBytes().resize(static_cast<size_t>(size));
  return {};
}

Status MemoryDisk::Sync(std::string_view path) {
  Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "sync", path);
  if (node->bytes == nullptr || node->bytes != node->failed) node->durable = node->bytes;
  return {};
}

Status MemoryDisk::SyncDirectory(std::string_view path) {
  Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "sync directory", path);
  if (!node->is_directory) return Failed(ENOTDIR, "sync directory", path);
  node->unsynced.clear();
  return {};
}

Status MemoryDisk::Link(std::string_view from, std::string_view to) {
  Place source = FindPlace(from);
  Place target = FindPlace(to);
  if (source.node == nullptr || target.directory == nullptr) {
    return FailedBoth(ENOENT, "link", from, to);
  }
  if (source.node->is_directory) return FailedBoth(EPERM, "link", from, to);
  if (target.node != nullptr) return FailedBoth(EEXIST, "link", from, to);
  SetName(target.directory, target.name, std::move(source.node), ++changes_);
  return {};
}

Status MemoryDisk::Rename(std::string_view from, std::string_view to) {
  Place source = FindPlace(from);
  Place target = FindPlace(to);
  if (source.node == nullptr || target.directory == nullptr) {
    return FailedBoth(ENOENT, "rename", from, to);
  }
  if (target.node != nullptr) {
    if (target.node == source.node) return {};  // two names of one file: POSIX leaves both
    if (target.node->is_directory != source.node->is_directory) {
      return FailedBoth(target.node->is_directory ? EISDIR : ENOTDIR, "rename", from, to);
    }
    if (!target.node->names.empty()) return FailedBoth(ENOTEMPTY, "rename", from, to);
  }
  ++changes_;
  SetName(source.directory, source.name, nullptr, changes_);
  SetName(target.directory, target.name, std::move(source.node), changes_);
  return {};
}

StatusOr<std::vector<FileInfo>> MemoryDisk::List(std::string_view path) const {
  const Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "list", path);
  if (!node->is_directory) return Failed(ENOTDIR, "list", path);
  std::vector<FileInfo> names;
  names.reserve(node->names.size());
  for (const auto& [name, child] : node->names) {
    names.push_back({.name = name,
                     .is_directory = child->is_directory,
                     .size = static_cast<int64_t>(child->Text().size()),
                     .version = child->version});
  }
  return names;
}

StatusOr<FileInfo> MemoryDisk::Stat(std::string_view path) const {
  const Node* node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "stat", path);
  std::string_view trimmed = WithoutTrailingSlashes(path);
  return FileInfo{.name = std::string(trimmed.substr(trimmed.rfind('/') + 1)),
                  .is_directory = node->is_directory,
                  .size = static_cast<int64_t>(node->Text().size()),
                  .version = node->version};
}

Status MemoryDisk::Remove(std::string_view path) {
  Place place = FindPlace(path);
  if (place.node == nullptr) return Failed(ENOENT, "remove", path);
  if (place.node->is_directory) return Failed(EISDIR, "remove", path);
  SetName(place.directory, place.name, nullptr, ++changes_);
  return {};
}

Status MemoryDisk::RemoveDirectory(std::string_view path) {
  Place place = FindPlace(path);
  if (place.node == nullptr) return Failed(ENOENT, "remove directory", path);
  if (!place.node->is_directory) return Failed(ENOTDIR, "remove directory", path);
  if (!place.node->names.empty()) return Failed(ENOTEMPTY, "remove directory", path);
  SetName(place.directory, place.name, nullptr, ++changes_);
  return {};
}

Status MemoryDisk::MakeDirectory(std::string_view path) {
  Place place = FindPlace(path);
  if (place.directory == nullptr) return Failed(ENOENT, "create directory", path);
  if (place.node != nullptr) return Failed(EEXIST, "create directory", path);
  auto node = std::make_shared<Node>();
  node->is_directory = true;
  SetName(place.directory, place.name, std::move(node), ++changes_);
  return {};
}

void MemoryDisk::Crash() {
  Loss loss;
  Lose(root_.get(), &loss);
}

bool MemoryDisk::CrashByChance(Random& random) {
  Loss loss;
  loss.random = &random;
  loss.seed = random.Next64();
  loss.odds_kept = static_cast<double>(random.Below(5)) / 4;
  Lose(root_.get(), &loss);
  return loss.any;
}

void MemoryDisk::Lose(Node* node, Loss* loss) {
  if (!node->is_directory) {
    if (node->bytes == node->durable) return;
    uint64_t kind = loss->random == nullptr ? 0 : loss->random->Below(3);
    if (kind == 0) {
      loss->any = true;
      node->bytes = node->durable;
    } else if (kind == 1) {
      node->durable = node->bytes;
    } else {
      std::string_view text = node->Text();
      size_t size = static_cast<size_t>(loss->random->Below(text.size() + 1));
      loss->any = loss->any || size < text.size();
      node->bytes = node->durable = std::make_shared<std::string>(text.substr(0, size));
    }
    return;
  }
  for (auto& [name, history] : node->unsynced) {
    size_t last = history.size() - 1;
    while (last > 0 && !loss->Keeps(history[last].change)) --last;
    if (history[last].target == history.back().target) continue;
    loss->any = true;
    if (history[last].target == nullptr) {
      node->names.erase(name);
    } else {
      node->names[name] = history[last].target;
    }
  }
  node->unsynced.clear();
  for (auto& [name, child] : node->names) Lose(child.get(), loss);
}

MemoryDisk::NodePtr MemoryDisk::MakeDirectories(std::string_view path) {
  WEIR_CHECK_MESSAGE(path.starts_with('/'), "paths are absolute");
  NodePtr node = root_;
  while (true) {
    std::string_view name = TakeName(&path);
    if (name.empty()) return node;
    NodePtr& next = node->names[std::string(name)];
    if (next == nullptr) {
      next = std::make_shared<Node>();
      next->is_directory = true;
    }
    WEIR_CHECK(next->is_directory);
    if (auto it = node->unsynced.find(name); it != node->unsynced.end()) node->unsynced.erase(it);
    node = next;
  }
}

void MemoryDisk::PutFile(std::string_view path, std::string bytes) {
  NodePtr directory = MakeDirectories(ParentPath(path));
  std::string_view trimmed = WithoutTrailingSlashes(path);
  std::string name(trimmed.substr(trimmed.rfind('/') + 1));
  auto node = std::make_shared<Node>();
  node->bytes = node->durable = std::make_shared<std::string>(std::move(bytes));
  node->version = ++versions_;
  directory->unsynced.erase(name);
  directory->names[name] = std::move(node);
}

void MemoryDisk::Delete(std::string_view path) {
  Place place = FindPlace(path);
  WEIR_CHECK(place.node != nullptr);
  place.directory->unsynced.erase(std::string(place.name));
  place.directory->names.erase(std::string(place.name));
}

void MemoryDisk::PutDirectory(std::string_view path) { MakeDirectories(path); }

const std::string* MemoryDisk::Bytes(std::string_view path) const {
  static const std::string kEmpty;
  const Node* node = Find(path);
  if (node == nullptr || node->is_directory) return nullptr;
  return node->bytes == nullptr ? &kEmpty : node->bytes.get();
}

bool MemoryDisk::Exists(std::string_view path) const { return Find(path) != nullptr; }

bool MemoryDisk::IsDurable(std::string_view path) const {
  const Node* node = root_.get();
  while (true) {
    std::string_view name = TakeName(&path);
    if (name.empty()) return node->is_directory || node->bytes == node->durable;
    auto it = node->names.find(name);
    if (it == node->names.end()) return false;
    auto history = node->unsynced.find(name);
    if (history != node->unsynced.end() && history->second.front().target != it->second) {
      return false;
    }
    node = it->second.get();
  }
}

void MemoryDisk::FailSync(std::string_view path) {
  Node* node = Find(path);
  if (node != nullptr && node->bytes != node->durable) node->failed = node->bytes;
}

std::vector<std::string> MemoryDisk::Names(std::string_view path) const {
  std::vector<std::string> names;
  if (const Node* node = Find(path)) {
    for (const auto& [name, child] : node->names) names.push_back(name);
  }
  return names;
}

std::vector<std::string> MemoryDisk::Files(std::string_view path) const {
  std::vector<std::string> files;
  auto walk = [&](auto& self, const std::string& at, const Node& node) -> void {
    for (const auto& [name, child] : node.names) {
      std::string child_path = JoinPath(at, name);
      if (child->is_directory) {
        self(self, child_path, *child);
      } else {
        files.push_back(std::move(child_path));
      }
    }
  };
  if (const Node* node = FindDirectory(path)) walk(walk, std::string(path), *node);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace weir
