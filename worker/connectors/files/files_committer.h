#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/operator/sink.h"
#include "common/threading/co.h"
#include "worker/connectors/files/file_publisher.h"

namespace weir {

// Settles what files.sink sealed, or the dead letters of a source. Errors of the file system
// are tried again for a few seconds, then answered: who asked says so and asks again. Answers may
// destroy it. Thread: confined to the file system's executor.
class FilesCommitter : public Committer {
 public:
  enum class Kind { kSink, kDeadLetters };
  explicit FilesCommitter(Kind kind = Kind::kSink);
  // Of vertices of the type `type`; `directory_of` says where their files are.
  using DirectoryOf = std::function<StatusOr<std::string>(const Config&)>;
  FilesCommitter(std::string type, DirectoryOf directory_of)
      : type_(std::move(type)), directory_of_(std::move(directory_of)) {}

  void Open(CommitterContext& context) override;
  void Commit(std::vector<Committable> committables, std::function<void(Status)> done) override;
  // Removes hidden files alone, by exact name.
  void AbortOthers(Generation generation, std::vector<Committable> listed,
                   std::function<void(Status)> done) override;

 private:
  Co<void> CommitParts(std::vector<FilePart> parts, std::function<void(Status)> done);
  Co<Status> RemovePending(Generation generation, std::vector<FilePart> listed);
  Co<void> AbortParts(Generation generation, std::vector<FilePart> listed,
                      std::function<void(Status)> done);
  // As mail of its own, not inside the flow that ends with it.
  void Answer(std::function<void(Status)> done, Status status);
  StatusOr<std::vector<FilePart>> Decode(const std::vector<Committable>& committables) const;

  const std::string type_;
  const DirectoryOf directory_of_;
  CommitterContext* context_ = nullptr;
  Status config_status_;
  SinkDirectory directory_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // told of the end by answers on the way
  CoScope scope_;
};

}  // namespace weir
