#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/control/messages.h"

namespace weir {

// How a client asks the coordinator; each call waits for its answer. kUnavailable that names the
// address when it is not reached or silent (10 s; Submit, which has workers look at the job, 60 s).
// `job` is an id, a unique prefix of one, or the name of exactly one live job. Thread: thread-safe.
class CoordinatorClient {
 public:
  explicit CoordinatorClient(std::string address);  // host:port
  ~CoordinatorClient();

  StatusOr<SubmitResponse> Submit(SubmitRequest request);
  StatusOr<std::vector<JobStatus>> ListJobs(bool all);
  StatusOr<JobStatus> GetJob(const std::string& job);
  // What a forced cancel leaves behind.
  StatusOr<std::vector<std::string>> Cancel(const std::string& job, bool force);
  Status Remove(const std::string& job, bool force);
  StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& job);
  StatusOr<std::vector<JobEvent>> GetEvents(const std::string& job);
  StatusOr<std::vector<WorkerStatus>> ListWorkers();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
