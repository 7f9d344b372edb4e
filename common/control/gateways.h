#pragma once

#include <functional>

#include "common/control/messages.h"

// Control calls as requests: each returns at once, its outcome comes back as mail on the executor
// the gateway was made for. kUnavailable: not delivered or no answer in time (it may have been
// carried out: kUnknownOutcome where the difference matters to nobody is folded into it).
namespace weir {

// How a worker talks to coordinators. Thread: confined to its executor.
class CoordinatorGateway {
 public:
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;
  using Done = std::function<void(Status)>;

  virtual ~CoordinatorGateway() = default;
  virtual void Hello(std::string coordinator_address, DoneWith<HelloResponse> done) = 0;
  virtual void Register(std::string coordinator_address, RegisterRequest request,
                        DoneWith<RegisterResponse> done) = 0;
  virtual void Heartbeat(std::string coordinator_address, HeartbeatRequest request,
                         DoneWith<HeartbeatResponse> done) = 0;
  virtual void ReportTasks(std::string coordinator_address, ReportTasksRequest request,
                           Done done) = 0;
  virtual void Acknowledge(std::string coordinator_address, AcknowledgeRequest request,
                           Done done) = 0;
  virtual void ReportPublished(std::string coordinator_address, ReportPublishedRequest request,
                               Done done) = 0;
  virtual void ConfirmCurrent(std::string coordinator_address, ConfirmCurrentRequest request,
                              Done done) = 0;
  // The worker leaves on purpose (SIGTERM): its tasks restart elsewhere.
  virtual void Leave(std::string coordinator_address, WorkerName name,
                     WorkerIncarnation incarnation, Done done) = 0;
};

// How the coordinator talks to workers, by control address. Thread: confined to its executor.
class WorkerGateway {
 public:
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;
  using Done = std::function<void(Status)>;

  virtual ~WorkerGateway() = default;
  virtual void CheckJob(std::string worker_address, CheckJobRequest request,
                        DoneWith<JobGraph> done) = 0;
  virtual void StartTasks(std::string worker_address, StartTasksRequest request, Done done) = 0;
  virtual void Trigger(std::string worker_address, TriggerRequest request, Done done) = 0;
  virtual void NotifyCompleted(std::string worker_address, CheckpointNotice notice, Done done) = 0;
  virtual void NotifyAborted(std::string worker_address, CheckpointNotice notice, Done done) = 0;
  virtual void EndTasks(std::string worker_address, EndTasksRequest request, Done done) = 0;
  virtual void Settle(std::string worker_address, SettleRequest request, Done done) = 0;
  // Calls `broken` once when the connection to that worker breaks after it stood; until Unwatch.
  virtual void Watch(std::string worker_address, std::function<void()> broken) = 0;
  virtual void Unwatch(std::string worker_address) = 0;
};

}  // namespace weir
