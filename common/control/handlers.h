#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/control/messages.h"

// What each process answers; the other side of gateways.h. Called on the owner's executor by the
// server adapter (or the simulator); `done` is called there, once, sooner or later.
namespace weir {

class CoordinatorHandler {
 public:
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;
  using Done = std::function<void(Status)>;

  virtual ~CoordinatorHandler() = default;
  // From workers.
  virtual void Hello(DoneWith<HelloResponse> done) = 0;
  virtual void Register(RegisterRequest request, DoneWith<RegisterResponse> done) = 0;
  virtual void Heartbeat(HeartbeatRequest request, DoneWith<HeartbeatResponse> done) = 0;
  virtual void ReportTasks(ReportTasksRequest request, Done done) = 0;
  virtual void Acknowledge(AcknowledgeRequest request, Done done) = 0;
  virtual void ReportPublished(ReportPublishedRequest request, Done done) = 0;
  virtual void ConfirmCurrent(ConfirmCurrentRequest request, Done done) = 0;
  virtual void Leave(WorkerName name, WorkerIncarnation incarnation, Done done) = 0;
  // From clients. `job` is an id, a unique prefix of one, or the name of exactly one live job;
  // kNotFound and ambiguous ones are user errors that list the candidates.
  virtual void Submit(SubmitRequest request, DoneWith<SubmitResponse> done) = 0;
  virtual void ListJobs(bool all, DoneWith<std::vector<JobStatus>> done) = 0;
  virtual void GetJob(std::string job, DoneWith<JobStatus> done) = 0;
  // Answered when the intent is durable. With force: gives up on transactions that cannot be
  // settled for want of workers; the answer names what is left behind.
  virtual void Cancel(std::string job, bool force, DoneWith<std::vector<std::string>> done) = 0;
  // kFailedPrecondition while the job is live, and without force where rows of it may not be
  // published.
  virtual void Remove(std::string job, bool force, Done done) = 0;
  virtual void ListCheckpoints(std::string job, DoneWith<std::vector<CheckpointSummary>> done) = 0;
  virtual void GetEvents(std::string job, DoneWith<std::vector<JobEvent>> done) = 0;
  virtual void ListWorkers(DoneWith<std::vector<WorkerStatus>> done) = 0;
};

class WorkerHandler {
 public:
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;
  using Done = std::function<void(Status)>;

  virtual ~WorkerHandler() = default;
  virtual void CheckJob(CheckJobRequest request, DoneWith<JobGraph> done) = 0;
  virtual void StartTasks(StartTasksRequest request, Done done) = 0;
  virtual void Trigger(TriggerRequest request, Done done) = 0;
  virtual void NotifyCompleted(CheckpointNotice notice, Done done) = 0;
  virtual void NotifyAborted(CheckpointNotice notice, Done done) = 0;
  virtual void EndTasks(EndTasksRequest request, Done done) = 0;
  virtual void Settle(SettleRequest request, Done done) = 0;
};

}  // namespace weir
