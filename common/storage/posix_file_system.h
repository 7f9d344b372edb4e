#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/storage/file_system.h"
#include "common/threading/executor.h"
#include "common/threading/io_pool.h"

namespace weir {

// The machine's file system. Each primitive is one job of the pool; its outcome is posted to
// `owner`. No descriptor stays open between calls. Errors are those of errno with the operation
// and the path: "cannot create /a/b: File exists".
//
// Links: a symbolic link counts as what it points to, except that List shows one to a directory as
// a file, so that nobody who walks a tree to remove it leaves the tree.
//
// Lifetime: `owner` and `pool` outlive this; `owner` may go right after it, whatever is under way.
// Destroying it drops every callback unrun; requests that no pool thread has begun are dropped, but
// for Remove, the others still carried out. When the pool stops it is the same: who stops it, or
// asks afterwards, carries out the removals. Thread: confined to `owner`.
class PosixFileSystem : public FileSystem {
 public:
  PosixFileSystem(Executor& owner, IoPool& pool);
  ~PosixFileSystem() override;

  void Read(std::string path, int64_t offset, int64_t length, DoneWith<std::string> done) override;
  void ReadInto(std::string storage, std::string path, int64_t offset, int64_t length,
                DoneWith<std::string> done) override;
  void Create(std::string path, std::string bytes, Done done) override;
  void WriteAt(std::string path, int64_t offset, std::string bytes, Done done) override;
  void CreateShared(std::string path, std::shared_ptr<const std::string> bytes, Done done) override;
  void WriteSharedAt(std::string path, int64_t offset, std::shared_ptr<const std::string> bytes,
                     Done done) override;
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
  // Callbacks of requests under way, by number. They stay on the owner's side: a pool thread
  // neither runs nor destroys one.
  struct Requests;
  // The way to the owner for pool threads, for as long as this lives.
  class Answers;
  class Creation;
  // `if_gone`: carried out although this was destroyed, or the pool stopped, before a pool thread
  // began; whatever is `behind`, too: not begun before that is over.
  template <typename T>
  void Submit(std::string what, std::function<void(T)> done, std::function<T()> job,
              bool if_gone = false, const std::shared_ptr<Creation>& behind = nullptr);

  IoPool& pool_;
  std::shared_ptr<Answers> answers_;
  std::shared_ptr<Requests> requests_;
};

}  // namespace weir
