#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/storage/file_flows.h"
#include "common/threading/co.h"
#include "coordinator/checkpoint/completion_log.h"
#include "coordinator/job/coordinator_environment.h"

namespace weir {

// Carries out what the completion log of one job asks for: `<job>/log/<term>/<number>`. Storage
// errors are waited out and the same action is repeated, for an error is no answer; `trouble` is
// told about each, and "" when it is over. Thread: confined to the executor. Invariant: one Drive
// at a time. Must outlive its flows.
//
// What a crash may leave behind: `<number>.tmp-<unique>` in a term, which nobody reads; the next
// leader removes it.
class LogDriver {
 public:
  // `confirm` is asked before each seal, for a seal deposes whoever leads: an error is waited out,
  // until the lead is found to be lost.
  LogDriver(CoordinatorEnvironment& environment, std::string job_directory, std::string owner,
            std::function<void(const std::string&)> trouble, std::function<Co<Status>()> confirm);

  CompletionLog& log() { return *log_; }
  const CompletionLog& log() const { return *log_; }

  // What else tells of the job's past: a log that does not reach up to `generation` has lost
  // entries, as `evidence` shows. To be said before the first Drive, and found out before it: a
  // newer leader may make more of it at any time.
  void RequireGeneration(Generation generation, std::string evidence);

  // Until the log asks for nothing more: then its phase tells. kDataLoss: the log is gone, damaged
  // or has lost entries, and nothing may be done to the job any more. Any other error: a name could
  // not be made durable, so nobody may act on what storage shows; the leader ends.
  Co<Status> Drive();

  // Deletes what the log no longer needs; what fails is tried again with the next one.
  Co<void> Prune(std::set<CheckpointId> retained);

 private:
  Co<Status> ListTerms();
  Co<Status> MakeTerm(Term term);
  Co<Status> ListTerm(Term term);
  Co<Status> Claim(LogAction action);
  // kDataLoss when the job is there and `directory` of its log is not.
  Co<Status> CheckThere(std::string directory);
  std::string TermPath(Term term) const;
  std::string EntryPath(Term term, uint64_t number) const;

  CoordinatorEnvironment& environment_;
  const std::string directory_;  // <job>/log
  std::function<void(const std::string&)> trouble_;
  std::function<Co<Status>()> confirm_;
  std::unique_ptr<CompletionLog> log_;
  Generation required_;
  std::string evidence_;
};

// All entries that are still there, of all terms in order, without taking charge. For telling
// whether the job has ended; not durable by themselves.
Co<StatusOr<std::vector<NumberedEntry>>> ReadLog(FileSystem& files, std::string job_directory);

// Makes all of them durable.
Co<Status> SyncLog(FileSystem& files, std::string job_directory);

}  // namespace weir
