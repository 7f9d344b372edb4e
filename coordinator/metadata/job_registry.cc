#include "coordinator/metadata/job_registry.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {
namespace {

constexpr std::string_view kRecordName = "job.pb";
constexpr std::string_view kUncheckedName = "unchecked";
constexpr std::string_view kNewPrefix = ".new-";
constexpr std::string_view kRemovedPrefix = ".removed-";
constexpr int64_t kCopyChunkBytes = 4 << 20;

}  // namespace

bool IsJobId(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

JobRegistry::JobRegistry(FileSystem& files, std::string checkpoint_dir, Random& random)
    : files_(files), checkpoint_dir_(std::move(checkpoint_dir)), random_(random) {}

std::string JobRegistry::JobDirectory(const JobId& job) const {
  return JoinPath(checkpoint_dir_, job.value());
}

std::string JobRegistry::LibraryPath(std::string_view job_directory, std::string_view sha256) {
  return sha256.empty() ? "" : Concat(job_directory, "/lib/", sha256, ".so");
}

Co<StatusOr<std::vector<StoredJob>>> JobRegistry::Load() {
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files_, checkpoint_dir_);
  if (!names.ok()) co_return names.status();
  std::vector<StoredJob> jobs;
  unreadable_.clear();
  for (const FileInfo& info : *names) {
    if (!info.is_directory) continue;
    std::string directory = JoinPath(checkpoint_dir_, info.name);
    if (info.name.starts_with(kNewPrefix) || info.name.starts_with(kRemovedPrefix)) {
      Status removed = co_await RemoveLeftover(info.name);
      if (!removed.ok())
        log::Warning("cannot remove leftover ", directory, ": ", removed.message());
      continue;
    }
    if (!IsJobId(info.name)) continue;
    StatusOr<StoredJob> job = co_await LoadOne(JobId(info.name));
    if (job.ok()) {
      jobs.push_back(*std::move(job));
    } else if (job.status().code() == StatusCode::kNotFound ||
               job.status().code() == StatusCode::kDataLoss) {
      log::Error("job=", info.name.substr(0, 8), " is not taken up: ", job.status().message());
      unreadable_[JobId(info.name)] = job.status();
    } else {
      co_return job.status();
    }
  }
  co_return jobs;
}

// A deposed coordinator may still be about to give a staged directory the name of its job: it is
// taken away whole, so that this finds either all of it or nothing.
Co<Status> JobRegistry::RemoveLeftover(std::string name) {
  std::string directory = JoinPath(checkpoint_dir_, name);
  if (name.starts_with(kNewPrefix)) {
    std::string hidden = Concat(checkpoint_dir_, "/", kRemovedPrefix,
                                name.substr(kNewPrefix.size()), "-", random_.HexName(8));
    Status status = co_await RenameFile(files_, directory, hidden);
    if (status.code() == StatusCode::kNotFound) co_return Status();
    if (!status.ok()) co_return status;
    directory = std::move(hidden);
  }
  co_return co_await RemoveTree(files_, directory);
}

Co<StatusOr<StoredJob>> JobRegistry::LoadOne(JobId job) {
  std::string directory = JobDirectory(job);
  std::string path = JoinPath(directory, kRecordName);
  StatusOr<std::string> bytes = co_await ReadWhole(files_, path);
  if (!bytes.ok()) co_return bytes.status();
  StatusOr<JobRecord> record = DecodeJobRecord(*bytes);
  if (!record.ok()) co_return DataLossError(Concat(path, ": ", record.status().message()));
  StatusOr<FileInfo> mark = co_await StatFile(files_, JoinPath(directory, kUncheckedName));
  if (!mark.ok() && mark.status().code() != StatusCode::kNotFound) co_return mark.status();
  // Nothing is acted on before its name is durable: whoever gave it may not have come so far.
  Status synced = co_await SyncDirectory(files_, checkpoint_dir_);
  if (!synced.ok()) co_return synced;
  StoredJob stored;
  stored.record = *std::move(record);
  stored.checked = !mark.ok();
  co_return stored;
}

Co<StatusOr<std::string>> JobRegistry::Stage(JobId job, std::string sha256, std::string library) {
  std::string staged = Concat(checkpoint_dir_, "/", kNewPrefix, job, "-", random_.HexName(8));
  Status status = co_await MakeDirectory(files_, staged);
  if (!status.ok()) co_return status;
  if (!sha256.empty()) {
    status = co_await MakeDirectory(files_, JoinPath(staged, "lib"));
    if (status.ok()) {
      status = co_await CreateDurably(files_, LibraryPath(staged, sha256), std::move(library));
    }
  }
  if (!status.ok()) {
    co_await Discard(staged);
    co_return status;
  }
  co_return staged;
}

Co<Status> JobRegistry::LinkOrCopy(std::string from, std::string to) {
  Status status = co_await LinkFile(files_, from, to);
  if (status.ok() || status.code() == StatusCode::kNotFound ||
      status.code() == StatusCode::kAlreadyExists) {
    co_return status;
  }
  status = co_await CreateFile(files_, to, "");
  if (!status.ok()) co_return status;
  int64_t offset = 0;
  while (true) {
    StatusOr<std::string> chunk = co_await ReadAt(files_, from, offset, kCopyChunkBytes);
    if (!chunk.ok()) co_return chunk.status();
    int64_t size = static_cast<int64_t>(chunk->size());
    if (size > 0) {
      status = co_await WriteAt(files_, to, offset, *std::move(chunk));
      if (!status.ok()) co_return status;
    }
    offset += size;
    if (size < kCopyChunkBytes) break;
  }
  co_return co_await SyncFile(files_, to);
}

Co<StatusOr<std::string>> JobRegistry::StageRestored(std::string staged, std::string from,
                                                     CheckpointManifest manifest) {
  std::string checkpoint = CheckpointDirectoryName(manifest.checkpoint, manifest.generation);
  std::set<std::string> paths = {Concat(checkpoint, "/_metadata")};
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    for (const StateHandle& handle : snapshot.handles) paths.insert(handle.path);
  }
  std::string root = JoinPath(staged, "restored");
  std::set<std::string> directories = {root};
  for (const std::string& path : paths) directories.insert(ParentPath(JoinPath(root, path)));
  for (const std::string& directory : directories) {
    Status made = co_await MakeDirectories(files_, directory);
    if (!made.ok()) co_return made;
  }
  for (const std::string& path : paths) {
    std::string source = JoinPath(from, path);
    std::string target = JoinPath(root, path);
    Status linked = co_await LinkOrCopy(source, target);
    if (!linked.ok()) co_return linked;
  }
  // Says whose transactions the checkpoint lists; a checkpoint that somebody copied has none.
  Status record = co_await LinkOrCopy(JoinPath(from, kRecordName), JoinPath(root, kRecordName));
  if (!record.ok() && record.code() != StatusCode::kNotFound) co_return record;
  // What that job left there to be published by somebody; it has ended.
  const std::string unpublished = JoinPath(from, kStagingName);
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files_, unpublished);
  if (!names.ok() && names.status().code() != StatusCode::kNotFound) co_return names.status();
  if (names.ok() && !names->empty()) {
    std::string target = JoinPath(root, kStagingName);
    directories.insert(target);
    Status made = co_await MakeDirectories(files_, target);
    if (!made.ok()) co_return made;
    for (const FileInfo& info : *names) {
      Status linked =
          co_await LinkOrCopy(JoinPath(unpublished, info.name), JoinPath(target, info.name));
      if (!linked.ok() && linked.code() != StatusCode::kNotFound) co_return linked;
    }
  }
  for (const std::string& directory : directories) {
    Status synced = co_await SyncDirectory(files_, directory);
    if (!synced.ok()) co_return synced;
  }
  co_return Concat("restored/", checkpoint);
}

Co<Status> JobRegistry::Publish(std::string staged, StoredJob job) {
  std::string bytes = EncodeJobRecord(job.record);
  Status status = co_await CreateDurably(files_, JoinPath(staged, kRecordName), std::move(bytes));
  if (status.ok() && !job.checked) {
    status = co_await CreateDurably(files_, JoinPath(staged, kUncheckedName), "");
  }
  if (status.ok()) status = co_await MakeDirectory(files_, JoinPath(staged, "log"));
  if (status.ok()) status = co_await SyncDirectory(files_, staged);
  if (status.ok()) status = co_await RenameFile(files_, staged, JobDirectory(job.record.id));
  if (status.ok()) status = co_await SyncDirectory(files_, checkpoint_dir_);
  co_return status;
}

Co<void> JobRegistry::Discard(std::string staged) {
  Status removed = co_await RemoveTree(files_, staged);
  if (!removed.ok()) log::Warning("cannot remove ", staged, ": ", removed.message());
}

Co<Status> JobRegistry::StoreChecked(JobRecord record) {
  std::string directory = JobDirectory(record.id);
  std::string bytes = EncodeJobRecord(record);
  Status status = co_await ReplaceDurably(files_, JoinPath(directory, kRecordName),
                                          std::move(bytes), random_.HexName(8));
  if (!status.ok()) co_return status;
  status = co_await RemoveFile(files_, JoinPath(directory, kUncheckedName));
  if (!status.ok() && status.code() != StatusCode::kNotFound) co_return status;
  co_return co_await SyncDirectory(files_, directory);
}

Co<Status> JobRegistry::Remove(JobId job) {
  std::string hidden = Concat(checkpoint_dir_, "/", kRemovedPrefix, job, "-", random_.HexName(8));
  Status status = co_await RenameFile(files_, JobDirectory(job), hidden);
  if (status.code() == StatusCode::kNotFound) co_return Status();
  if (!status.ok()) co_return status;
  status = co_await SyncDirectory(files_, checkpoint_dir_);
  if (!status.ok()) co_return status;
  status = co_await RemoveTree(files_, hidden);
  if (!status.ok()) log::Warning("cannot remove ", hidden, ": ", status.message());
  co_return Status();
}

}  // namespace weir
