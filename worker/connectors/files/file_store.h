#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "common/base/ids.h"
#include "common/graph/builtin_configs.h"
#include "common/storage/file_system.h"
#include "worker/connectors/files/file_publisher.h"
#include "worker/connectors/sealed_parts/part_store.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// Where a subtask's parts become files: hidden ones in the directory, renamed when their checkpoint
// completed. Thread: the task's. Kill points: those of PublishParts.
class FileStore : public PartStore {
 public:
  // From checkpoint `resumed_from` of the job (0: none): the directory has been marked before, and
  // nothing in it was published by a later one. `format`: by which final names end.
  FileStore(SinkDirectory directory, Generation generation, CheckpointId resumed_from, int subtask,
            FileFormat format, FileSystem* files)
      : directory_(std::move(directory)),
        owner_(directory_.Owner()),
        generation_(generation),
        resumed_from_(resumed_from),
        subtask_(subtask),
        format_(format),
        files_(*files) {}

  const std::string& owner() const override { return owner_; }
  const std::string& directory() const override { return directory_.path; }
  // Makes and marks the directory.
  Co<Status> Open() override;
  std::string NameOf(int64_t number) const override;
  Co<Status> CheckSealed(std::vector<SealedPart> parts) override;
  std::string PayloadOf(const SealedPart& part) const override;
  Co<Status> Publish(std::vector<SealedPart> parts, bool tried) override;

 private:
  Co<Status> CheckNothingIsLater();
  HiddenName HiddenNameOf(int64_t number) const;
  std::vector<FilePart> FilePartsOf(const std::vector<SealedPart>& parts) const;
  FilePart FilePartOf(const SealedPart& part) const;

  const SinkDirectory directory_;
  const std::string owner_;
  const Generation generation_;
  const CheckpointId resumed_from_;
  const int subtask_;
  const FileFormat format_;
  FileSystem& files_;
  std::string mark_maker_;  // of the directory, since it was opened
};

// The parts of a source or sink in its directory, of generation and subtask as the context says.
// `format`: by which final names end.
template <typename Context>
std::unique_ptr<SealedParts> MakeFileParts(Context& context, SinkDirectory directory,
                                           FileFormat format, SealedPartsOptions options = {}) {
  options.uid = context.uid();
  options.generation = context.generation();
  options.subtask = context.subtask();
  options.files = &context.files();
  options.timers = &context.timers();
  options.wake = [&context] { context.Wake(); };
  options.fail = [&context](Status status) { context.Fail(std::move(status)); };
  options.waits = [&context](std::string_view part, std::string what) {
    context.SetWaiting(Concat("files ", part), std::move(what));
  };
  return std::make_unique<SealedParts>(
      std::make_unique<FileStore>(std::move(directory), context.generation(),
                                  context.resumed_from(), context.subtask(), format,
                                  &context.files()),
      std::move(options));
}

}  // namespace weir
