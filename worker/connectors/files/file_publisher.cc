#include "worker/connectors/files/file_publisher.h"

#include <optional>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

constexpr int64_t kMarkBytesMax = 4096;

// The length of a file; no value: there is none.
Co<StatusOr<std::optional<int64_t>>> Length(FileSystem& files, std::string path) {
  StatusOr<FileInfo> info = co_await StatFile(files, path);
  if (info.ok()) co_return std::optional<int64_t>(info->size);
  if (info.status().code() == StatusCode::kNotFound) co_return std::optional<int64_t>();
  co_return info.status();
}

// The directory is not the one that the sink marked, or has been emptied.
Status Unmarked(const SinkDirectory& directory) {
  return UnavailableError(Concat(directory.Owner(), ": ", directory.path,
                                 " does not bear this sink's mark ", kMarkName,
                                 " any more (is it mounted?)"));
}

// The maker of the directory's mark, which is this sink's. kNotFound: it has none.
Co<StatusOr<std::string>> ReadMark(FileSystem& files, SinkDirectory directory) {
  std::string path = JoinPath(directory.path, kMarkName);
  StatusOr<std::string> bytes = co_await ReadWhole(files, path, kMarkBytesMax);
  if (!bytes.ok()) co_return bytes.status();
  StatusOr<Mark> mark = ParseMark(*bytes);
  if (!mark.ok()) co_return mark.status().WithContext(path).WithRetry(false);
  if (mark->job == directory.job && mark->uid == directory.uid) co_return mark->maker;
  co_return FailedPreconditionError(Concat(directory.Owner(), ": ", directory.path,
                                           " belongs to sink '", mark->uid, "' of job ",
                                           mark->job_name, " (", mark->job, "), not to job ",
                                           directory.job_name, " (", directory.job, ")"));
}

// OK: the directory is the one in which the part was sealed. Else it may heal: one that is mounted
// over another hides what lies there.
Co<Status> CheckMark(FileSystem& files, SinkDirectory directory, FilePart part) {
  StatusOr<std::string> maker = co_await ReadMark(files, directory);
  if (maker.status().code() == StatusCode::kNotFound) co_return Unmarked(directory);
  if (!maker.ok()) co_return maker.status();
  if (*maker == part.mark_maker) co_return Status();
  co_return UnavailableError(Concat(directory.Owner(), ": ", directory.path, " bears the mark of ",
                                    *maker, "; ", part.pending_name,
                                    " was sealed in another directory there, with that of ",
                                    part.mark_maker, " (is the right one mounted?)"));
}

Status WrongLength(const SinkDirectory& directory, const std::string& name, int64_t length,
                   const FilePart& part) {
  return FailedPreconditionError(Concat(directory.Owner(), ": ", JoinPath(directory.path, name),
                                        " has ", length, " bytes; what was sealed as ",
                                        part.pending_name, " for ", part.final_name, " has ",
                                        part.length));
}

// One part. `renamed` counts the renames of the call.
Co<Status> PublishPart(FileSystem& files, SinkDirectory directory, FilePart part, bool may_be_taken,
                       int* renamed) {
  std::string pending_path = JoinPath(directory.path, part.pending_name);
  std::string final_path = JoinPath(directory.path, part.final_name);
  // A part only ever goes from pending to final, so the order of looking tells a rename by somebody
  // else in between from a file that is not ours.
  StatusOr<std::optional<int64_t>> published = co_await Length(files, final_path);
  if (!published.ok()) co_return published.status();
  StatusOr<std::optional<int64_t>> pending = co_await Length(files, pending_path);
  if (!pending.ok()) co_return pending.status();
  if (!published->has_value() && !pending->has_value()) {
    published = co_await Length(files, final_path);
    if (!published.ok()) co_return published.status();
  }
  if (published->has_value() && **published != part.length) {
    co_return WrongLength(directory, part.final_name, **published, part);
  }
  if (pending->has_value()) {
    if (**pending != part.length) {
      co_return WrongLength(directory, part.pending_name, **pending, part);
    }
    if (published->has_value()) {
      co_return FailedPreconditionError(Concat(directory.Owner(), ": cannot publish ", pending_path,
                                               ": ", final_path,
                                               " exists and is not of this sink"));
    }
    KillPoint((*renamed)++ == 0 ? "sink.before_rename" : "sink.between_renames");
    Status status = co_await RenameFile(files, pending_path, final_path);
    if (status.code() != StatusCode::kNotFound) co_return status;
    // Somebody else did it meanwhile, or the file is lost: look once more.
    published = co_await Length(files, final_path);
    if (!published.ok()) co_return published.status();
    if (!published->has_value()) co_return UnavailableError(status.message());
    if (**published != part.length) {
      co_return WrongLength(directory, part.final_name, **published, part);
    }
  }
  if (published->has_value()) co_return Status();
  Status mark = co_await CheckMark(files, directory, part);
  if (!mark.ok()) {
    co_return mark.WithContext(
        Concat("neither ", part.pending_name, " nor ", part.final_name, " is there"));
  }
  if (may_be_taken) co_return Status();
  co_return FailedPreconditionError(
      Concat(directory.Owner(), ": ", pending_path,
             " is lost: somebody removed it before it was published as ", part.final_name));
}

}  // namespace

std::string SinkDirectory::Owner() const { return Concat(type, " '", uid, "'"); }

Co<StatusOr<std::string>> MarkDirectory(FileSystem& files, SinkDirectory directory,
                                        HiddenName unique, bool marked) {
  if (marked) {
    StatusOr<std::string> there = co_await ReadMark(files, directory);
    if (there.status().code() == StatusCode::kNotFound) co_return Unmarked(directory);
    co_return there;
  }
  Status status = co_await MakeDirectories(files, directory.path);
  if (!status.ok()) co_return status;
  StatusOr<std::string> maker = co_await ReadMark(files, directory);
  if (maker.status().code() == StatusCode::kNotFound) {
    Mark mark{directory.job, directory.job_name, directory.uid, MarkUnique(unique)};
    status = co_await ClaimFile(files, JoinPath(directory.path, kMarkName), MarkContents(mark),
                                mark.maker);
    if (status.ok()) co_return mark.maker;
    if (status.code() != StatusCode::kAlreadyExists) co_return status;
    maker = co_await ReadMark(files, directory);
  }
  if (!maker.ok()) co_return maker.status();
  // Another subtask's claim may not be durable yet.
  status = co_await SyncDirectory(files, directory.path);
  if (!status.ok()) co_return status;
  co_return maker;
}

Co<Status> CheckSealed(FileSystem& files, SinkDirectory directory, std::vector<FilePart> parts) {
  for (const FilePart& part : parts) {
    Status mark = co_await CheckMark(files, directory, part);
    if (!mark.ok()) co_return mark;
    StatusOr<FileInfo> info = co_await StatFile(files, JoinPath(directory.path, part.pending_name));
    if (!info.ok()) co_return info.status();
    if (info->size != part.length) {
      co_return WrongLength(directory, part.pending_name, info->size, part);
    }
  }
  co_return Status();
}

Co<Status> PublishParts(FileSystem& files, SinkDirectory directory, std::vector<FilePart> parts,
                        bool may_be_taken) {
  if (parts.empty()) co_return Status();
  int renamed = 0;
  for (const FilePart& part : parts) {
    Status status = co_await PublishPart(files, directory, part, may_be_taken, &renamed);
    if (!status.ok()) co_return status;
  }
  KillPoint("sink.before_sync");
  // Also when all had their names: whoever gave them may have died before this.
  co_return co_await SyncDirectory(files, directory.path);
}

}  // namespace weir
