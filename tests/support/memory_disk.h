#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/storage/file_system.h"

namespace weir {

// The disk of a machine that may lose power, in memory: the primitives of FileSystem, carried out
// at once. Bytes are durable after Sync of the file, names after SyncDirectory of the directory.
// Thread: externally synchronised.
class MemoryDisk {
 public:
  MemoryDisk();
  ~MemoryDisk();

  StatusOr<std::string> Read(std::string_view path, int64_t offset, int64_t length) const;
  Status Create(std::string_view path, std::string bytes);
  Status WriteAt(std::string_view path, int64_t offset, std::string_view bytes);
  Status Truncate(std::string_view path, int64_t size);
  Status Sync(std::string_view path);
  Status SyncDirectory(std::string_view path);
  Status Link(std::string_view from, std::string_view to);
  Status Rename(std::string_view from, std::string_view to);
  StatusOr<std::vector<FileInfo>> List(std::string_view path) const;
  StatusOr<FileInfo> Stat(std::string_view path) const;
  Status Remove(std::string_view path);
  Status RemoveDirectory(std::string_view path);
  Status MakeDirectory(std::string_view path);

  // Power loss: all that is not durable is gone.
  void Crash();
  // Power loss: each change of a name that was not synced (both names of a rename together) has
  // happened or not, and a file whose bytes were not synced has all of them, those that were
  // durable, or a prefix. Whether anything was lost.
  bool CrashByChance(Random& random);

  // Durable, parents made as needed. A file of that name is replaced.
  void PutFile(std::string_view path, std::string bytes);
  void PutDirectory(std::string_view path);
  // A file, or a directory with all that is in it. Aborts when there is none.
  void Delete(std::string_view path);
  // The bytes of a file until it changes; nullptr: there is no file of that name.
  const std::string* Bytes(std::string_view path) const;
  bool Exists(std::string_view path) const;
  // Whether a power loss now would leave it as it is, under this name.
  bool IsDurable(std::string_view path) const;
  // A sync of the file failed in the worst way that there is (Linux does so): its bytes count as
  // written from now on and are not durable, whatever later syncs say, until they are written
  // again.
  void FailSync(std::string_view path);
  // Names in a directory, sorted; none if there is no such directory.
  std::vector<std::string> Names(std::string_view path) const;
  // Paths of all files below `path`, sorted.
  std::vector<std::string> Files(std::string_view path) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Place;
  struct Loss;

  Node* Find(std::string_view path) const;
  Node* FindDirectory(std::string_view path) const;
  Place FindPlace(std::string_view path) const;
  NodePtr MakeDirectories(std::string_view path);
  void SetName(Node* directory, std::string_view name, NodePtr target, uint64_t change);
  void Lose(Node* node, Loss* loss);

  NodePtr root_;
  uint64_t changes_ = 0;   // of names
  uint64_t versions_ = 0;  // of files
};

}  // namespace weir
