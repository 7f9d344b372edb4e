#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/manifest_codec.h"
#include "common/storage/file_flows.h"

namespace weir {

// A job as it lies in the checkpoint directory.
struct StoredJob {
  JobRecord record;
  // False: submitted while there was no worker to look at files, topics and the job library.
  bool checked = true;
};

// The jobs on disk: one directory each below the checkpoint directory, which appears and disappears
// by one rename. Whether a job still runs is not written here but in its completion log.
// Thread: confined to the file system's executor; must outlive its flows.
//
// What a crash may leave behind: `.new-<job>-<unique>` (never became a job) and
// `.removed-<job>-<unique>` (was forgotten); Load removes both.
class JobRegistry {
 public:
  JobRegistry(FileSystem& files, std::string checkpoint_dir, Random& random);

  const std::string& checkpoint_dir() const { return checkpoint_dir_; }
  std::string JobDirectory(const JobId& job) const;
  // "<job directory>/lib/<sha256>.so", "" if there is no library.
  static std::string LibraryPath(std::string_view job_directory, std::string_view sha256);

  // All jobs, by id. A directory whose job.pb cannot be decoded is left alone and logged by name.
  // REQUIRES: no Stage or Remove in progress: their hidden directories would be swept.
  Co<StatusOr<std::vector<StoredJob>>> Load();
  // Those that the last Load found and could not read, and why.
  const std::map<JobId, Status>& unreadable() const { return unreadable_; }

  // Durable, whoever made it. kNotFound: there is no such job; kDataLoss: its record is damaged.
  Co<StatusOr<StoredJob>> LoadOne(JobId job);

  // A hidden directory that holds the library, durable; answers its path.
  Co<StatusOr<std::string>> Stage(JobId job, std::string sha256, std::string library);
  // Puts checkpoint `manifest` (of the job directory `from`) into `staged` below "restored/", by
  // hard links or, where the file system has none, copies. Answers the path of the checkpoint
  // directory relative to the job's.
  Co<StatusOr<std::string>> StageRestored(std::string staged, std::string from,
                                          CheckpointManifest manifest);
  // Makes the staged directory the job: complete and durable when OK is returned.
  Co<Status> Publish(std::string staged, StoredJob job);
  Co<void> Discard(std::string staged);

  // The graph as a worker completed it replaces the one that nobody had looked at.
  Co<Status> StoreChecked(JobRecord record);
  // The job and all its files are gone when OK is returned; repeating is harmless.
  Co<Status> Remove(JobId job);

 private:
  Co<Status> RemoveLeftover(std::string name);
  Co<Status> LinkOrCopy(std::string from, std::string to);

  FileSystem& files_;
  const std::string checkpoint_dir_;
  Random& random_;
  std::map<JobId, Status> unreadable_;
};

// Whether `text` has the form of a job id: 32 lower-case hex digits.
bool IsJobId(std::string_view text);

}  // namespace weir
