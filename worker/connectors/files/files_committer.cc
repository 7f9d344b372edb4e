#include "worker/connectors/files/files_committer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/graph/builtin_configs.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 1'600'000;  // the last wait; 3.1 s in all

StatusOr<std::string> OutputDirectory(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(FilesSinkConfig parsed, ParseFilesSinkConfig(config));
  return std::move(parsed.path);
}

StatusOr<std::string> DeadLetterDirectory(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(FilesSourceConfig parsed, ParseFilesSourceConfig(config));
  return std::move(parsed.dead_letter_path);
}

}  // namespace

FilesCommitter::FilesCommitter(Kind kind)
    : FilesCommitter(kind == Kind::kSink ? "files.sink" : "files.source",
                     kind == Kind::kSink ? OutputDirectory : DeadLetterDirectory) {}

void FilesCommitter::Open(CommitterContext& context) {
  context_ = &context;
  directory_ = {.path = "",
                .job = context.job(),
                .job_name = context.job_name(),
                .uid = context.uid(),
                .type = type_};
  StatusOr<std::string> path = directory_of_(context.config());
  config_status_ = path.status();
  if (!path.ok()) return;
  directory_.path = *std::move(path);
  if (directory_.path.empty()) {
    config_status_ = InvalidArgumentError(
        Concat(directory_.Owner(), " has no 'dead_letter_path' to settle its dead letters in"));
  }
}

void FilesCommitter::Answer(std::function<void(Status)> done, Status status) {
  context_->timers().After(
      0, [alive = std::weak_ptr<int>(alive_), done = std::move(done), status = std::move(status)] {
        if (!alive.expired()) done(status);
      });
}

StatusOr<std::vector<FilePart>> FilesCommitter::Decode(
    const std::vector<Committable>& committables) const {
  WEIR_RETURN_IF_ERROR(config_status_);
  std::vector<FilePart> parts;
  parts.reserve(committables.size());
  for (const Committable& committable : committables) {
    WEIR_ASSIGN_OR_RETURN(FilePart part, DecodeFilePart(committable.payload));
    parts.push_back(std::move(part));
  }
  return parts;
}

void FilesCommitter::Commit(std::vector<Committable> committables,
                            std::function<void(Status)> done) {
  StatusOr<std::vector<FilePart>> parts = Decode(committables);
  if (!parts.ok()) {
    done(parts.status());
    return;
  }
  if (!parts->empty() && PlantedBug("forgotten_commit")) parts->pop_back();
  scope_.Spawn(CommitParts(*std::move(parts), std::move(done)));
}

Co<void> FilesCommitter::CommitParts(std::vector<FilePart> parts,
                                     std::function<void(Status)> done) {
  int64_t retry_us = kRetryFirstMicros;
  while (true) {
    Status status = co_await PublishParts(context_->files(), directory_, parts, true);
    if (!status.retryable() || retry_us > kRetryMaxMicros) {
      Answer(std::move(done), status);
      co_return;
    }
    log::Warning(directory_.Owner(), " cannot commit yet: ", status.message(),
                 " retry_ms=", retry_us / 1000);
    co_await Sleep(context_->timers(), retry_us);
    retry_us *= 2;
  }
}

void FilesCommitter::AbortOthers(Generation generation, std::vector<Committable> listed,
                                 std::function<void(Status)> done) {
  StatusOr<std::vector<FilePart>> parts = Decode(listed);
  if (!parts.ok()) {
    done(parts.status());
    return;
  }
  scope_.Spawn(AbortParts(generation, *std::move(parts), std::move(done)));
}

Co<void> FilesCommitter::AbortParts(Generation generation, std::vector<FilePart> listed,
                                    std::function<void(Status)> done) {
  Status status = co_await RemovePending(generation, std::move(listed));
  Answer(std::move(done), status);
}

Co<Status> FilesCommitter::RemovePending(Generation generation, std::vector<FilePart> listed) {
  FileSystem& files = context_->files();
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, directory_.path);
  if (names.status().code() == StatusCode::kNotFound) co_return Status();  // never opened
  if (!names.ok()) co_return names.status();
  int64_t removed = 0;
  for (const FileInfo& info : *names) {
    std::optional<HiddenName> hidden = ParseHiddenName(info.name);
    const bool made_here = hidden.has_value() && hidden->job == directory_.job &&
                           hidden->uid == directory_.uid && hidden->generation < generation;
    const bool is_probe = info.name == ProbeName(directory_.job, directory_.uid);
    if (info.is_directory || (!made_here && !is_probe)) continue;
    bool is_listed = std::any_of(listed.begin(), listed.end(), [&](const FilePart& part) {
      return part.pending_name == info.name;
    });
    if (is_listed) continue;
    Status status = co_await RemoveFile(files, JoinPath(directory_.path, info.name));
    if (!status.ok() && status.code() != StatusCode::kNotFound) co_return status;
    ++removed;
  }
  if (removed == 0) co_return Status();
  log::Info(directory_.Owner(), " removed what no checkpoint lists: files=", removed,
            " directory=", directory_.path);
  co_return co_await SyncDirectory(files, directory_.path);
}

}  // namespace weir
