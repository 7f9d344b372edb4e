#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/control/gateways.h"
#include "common/control/handlers.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "coordinator/job/coordinator_environment.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/job_master.h"
#include "coordinator/job/settle_orders.h"
#include "coordinator/job/submission.h"
#include "coordinator/membership/leadership.h"
#include "coordinator/membership/worker_registry.h"
#include "coordinator/metadata/job_registry.h"

namespace weir {

struct CoordinatorOptions {
  std::string checkpoint_dir;  // absolute; made if it is missing
  std::string address;         // what workers and clients dial
  std::string host;
  int64_t pid = 0;
  int64_t heartbeat_interval_us = 1'000'000;
  int64_t heartbeat_timeout_us = 5'000'000;
  int64_t lease_timeout_us = 5'000'000;
  bool take_over = false;  // lead at once, whatever the present leader's lease says
};

// One coordinator process: waits until it may lead, then owns all jobs of its checkpoint directory
// and knows the workers; when another one leads, it drops both without any further effect and waits
// again. Lives from Start to Stop.
// Thread: confined to the executor (coord-loop); must not be destroyed from inside one of its
// calls. Invariants: no job master and no worker unless leading; every request is answered once,
// also those that wait when the lead is lost.
class Coordinator : public CoordinatorHandler {
 public:
  Coordinator(CoordinatorOptions options, CoordinatorEnvironment environment);
  ~Coordinator() override;

  void Start();
  // Ends without touching the jobs: they go on with the next coordinator. `done` when the lease is
  // released.
  void Stop(std::function<void()> done);
  bool leading() const { return phase_ == Phase::kLeading; }

  void Hello(DoneWith<HelloResponse> done) override;
  void Register(RegisterRequest request, DoneWith<RegisterResponse> done) override;
  void Heartbeat(HeartbeatRequest request, DoneWith<HeartbeatResponse> done) override;
  void ReportTasks(ReportTasksRequest request, Done done) override;
  void Acknowledge(AcknowledgeRequest request, Done done) override;
  void ReportPublished(ReportPublishedRequest request, Done done) override;
  void ConfirmCurrent(ConfirmCurrentRequest request, Done done) override;
  void Leave(WorkerName name, WorkerIncarnation incarnation, Done done) override;
  void Submit(SubmitRequest request, DoneWith<SubmitResponse> done) override;
  void ListJobs(bool all, DoneWith<std::vector<JobStatus>> done) override;
  void GetJob(std::string job, DoneWith<JobStatus> done) override;
  void Cancel(std::string job, bool force, DoneWith<std::vector<std::string>> done) override;
  void Remove(std::string job, bool force, Done done) override;
  void ListCheckpoints(std::string job, DoneWith<std::vector<CheckpointSummary>> done) override;
  void GetEvents(std::string job, DoneWith<std::vector<JobEvent>> done) override;
  void ListWorkers(DoneWith<std::vector<WorkerStatus>> done) override;

 private:
  enum class Phase {
    kStarting,  // nobody knows yet who leads
    kWaiting,   // another one leads
    kLoading,   // leads and reads the jobs
    kLeading,
    kStopped,
  };

  // Calls `go` with OK as soon as this coordinator leads and knows its jobs, or with an error that
  // says who leads instead.
  void WhenReady(std::function<void(Status)> go);
  void AnswerWaiting(const Status& status);
  Status NotLeading() const;
  void OnWon();
  void OnLost(const std::string& reason);
  void OnWaiting();
  void DropOffice(const Status& status);
  Co<void> TakeOffice();
  Co<void> LoadJob(StoredJob stored);
  Co<void> RetakeJob(JobId id);
  Co<void> RegisterFlow(RegisterRequest request, OwedAnswer answer);
  Status CheckRegistration(const RegisterRequest& request) const;
  Status CheckCurrent(const ConfirmCurrentRequest& request);
  Co<void> ConfirmFlow();
  // User error: another job that is live or being submitted holds one of the names.
  Status CheckExclusive(const JobId& id, const std::vector<ExclusiveName>& names) const;
  Co<void> SubmitFlow(SubmitRequest request, Submission submission);
  Co<StatusOr<SubmitResponse>> Store(SubmitRequest request, Submission submission);
  Co<StatusOr<CheckpointManifest>> ReadRestored(std::string directory, Submission submission);
  Co<StatusOr<bool>> CheckOnWorker(JobId id, std::string staged, JobGraph* graph,
                                   std::vector<SettleRequest> succession);
  Co<void> RemoveFlow(JobId id, std::string kept, bool force, OwedAnswer answer);
  Co<Status> CheckNothingUnpublished(JobId id, std::string kept);
  JobMaster& AddJob(StoredJob stored);
  // Calls `go` with the job that `text` names, or answers `fail`.
  void WithJob(std::string text, std::function<void(JobMaster&)> go,
               std::function<void(Status)> fail);
  StatusOr<JobMaster*> FindJob(const std::string& text);
  JobMaster* Find(const JobId& job);

  const CoordinatorOptions options_;
  CoordinatorEnvironment environment_;
  Phase phase_ = Phase::kStarting;
  std::vector<std::function<void(Status)>> waiting_;  // for kLeading

  Leadership leadership_;
  WorkerRegistry workers_;
  JobRegistry registry_;
  SettleOrders settle_orders_;
  std::map<JobId, std::unique_ptr<JobMaster>> jobs_;
  // Submissions in progress: those who wait for the answer, and what they submit.
  struct Submitting {
    std::string digest;
    std::string name;
    std::vector<ExclusiveName> exclusive_names;
    std::vector<DoneWith<SubmitResponse>> done;
  };
  std::map<JobId, Submitting> submitting_;
  std::set<JobId> removing_;
  // Those who wait for the next look at storage whether this coordinator leads.
  struct Confirming {
    ConfirmCurrentRequest request;
    OwedAnswer answer;
  };
  std::vector<Confirming> confirming_;
  bool confirms_ = false;  // ConfirmFlow runs
  // Flows of the present time in office; ended when the lead is lost.
  CoScope scope_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace weir
