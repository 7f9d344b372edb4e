#include "worker/connectors/files/file_store.h"

#include <optional>
#include <utility>

#include "common/base/concat.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/files/file_names.h"

namespace weir {

HiddenName FileStore::HiddenNameOf(int64_t number) const {
  return {.job = directory_.job,
          .generation = generation_,
          .subtask = subtask_,
          .number = number,
          .uid = directory_.uid};
}

std::string FileStore::NameOf(int64_t number) const { return PendingName(HiddenNameOf(number)); }

Co<Status> FileStore::Open() {
  StatusOr<std::string> maker =
      co_await MarkDirectory(files_, directory_, HiddenNameOf(0), resumed_from_.value() > 0);
  Status status = maker.status();
  // One subtask looks for all.
  if (status.ok() && subtask_ == 0) status = co_await CheckNothingIsLater();
  if (status.ok()) mark_maker_ = *maker;
  co_return status;
}

// Only what completed is published: a later file says that the checkpoint to go on from is not the
// newest one, whatever the completion log tells, and its rows would come out again.
Co<Status> FileStore::CheckNothingIsLater() {
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files_, directory_.path);
  if (!names.ok()) co_return names.status();
  for (const FileInfo& info : *names) {
    std::optional<CheckpointId> published =
        CheckpointOfFinalName(info.name, directory_.job_name, directory_.uid);
    if (!published || *published <= resumed_from_) continue;
    co_return DataLossError(
        Concat(owner_, ": ", JoinPath(directory_.path, info.name), " was published by checkpoint ",
               *published, ", and the job starts from checkpoint ", resumed_from_,
               ": its completion log has lost entries; going on would publish rows twice"))
        .WithRetry(false);
  }
  co_return Status();
}

FilePart FileStore::FilePartOf(const SealedPart& part) const {
  return {.pending_name = part.name,
          .final_name = FinalName(directory_.job_name, directory_.uid, subtask_, part.checkpoint,
                                  part.index, format_),
          .length = part.bytes,
          .mark_maker = mark_maker_};
}

std::vector<FilePart> FileStore::FilePartsOf(const std::vector<SealedPart>& parts) const {
  std::vector<FilePart> file_parts;
  file_parts.reserve(parts.size());
  for (const SealedPart& part : parts) file_parts.push_back(FilePartOf(part));
  return file_parts;
}

std::string FileStore::PayloadOf(const SealedPart& part) const {
  return EncodeFilePart(FilePartOf(part));
}

Co<Status> FileStore::CheckSealed(std::vector<SealedPart> parts) {
  return weir::CheckSealed(files_, directory_, FilePartsOf(parts));
}

Co<Status> FileStore::Publish(std::vector<SealedPart> parts, bool tried) {
  return PublishParts(files_, directory_, FilePartsOf(parts), tried);
}

}  // namespace weir
