#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/control/handlers.h"
#include "common/threading/co.h"
#include "worker/task/coordinator_link.h"
#include "worker/task/generation_host.h"
#include "worker/task/worker_environment.h"

namespace weir {

// A worker: answers the coordinator's commands and hosts generations of jobs. Owns the link to the
// coordinator and every generation here. Thread: confined to the control loop.
// Invariants: of a job at most one generation is hosted; a generation that has ended is never
// started again; a command of a coordinator that has been succeeded is answered as stale.
class WorkerNode : public WorkerHandler {
 public:
  WorkerNode(WorkerOptions options, WorkerEnvironment environment);
  ~WorkerNode() override;

  // Begins to look for a coordinator.
  void Start();
  // Takes leave, ends all tasks; `done` when they are gone or after a bounded time.
  void Stop(std::function<void()> done);

  void CheckJob(CheckJobRequest request, DoneWith<JobGraph> done) override;
  void StartTasks(StartTasksRequest request, Done done) override;
  void Trigger(TriggerRequest request, Done done) override;
  void NotifyCompleted(CheckpointNotice notice, Done done) override;
  void NotifyAborted(CheckpointNotice notice, Done done) override;
  void EndTasks(EndTasksRequest request, Done done) override;
  void Settle(SettleRequest request, Done done) override;

 private:
  // A generation here, from the order to start it until nothing of it is left.
  struct Hosted {
    Generation generation;
    std::unique_ptr<GenerationHost> host;
    bool ending = false;
    std::vector<std::function<void()>> when_ended;
  };

  Co<void> CheckJobFlow(CheckJobRequest request, DoneWith<JobGraph> done);
  Co<void> SettleFlow(SettleRequest request, Done done);
  Co<Status> CheckSuccession(SettleRequest request, const Registry& registry);
  // Where the vertex types of a job are found; "": the built-in ones alone.
  StatusOr<const Registry*> RegistryOf(const std::string& library_path) const;
  void StartNow(StartTasksRequest request, Done done);
  // Ends what is hosted of the job up to `generation`; `ended` when it is gone.
  void End(const JobId& job, Generation generation, std::function<void()> ended);
  void RememberEnded(const JobId& job, Generation generation);
  // The running generation a message is for, or why it is not acted on.
  StatusOr<GenerationHost*> Current(const JobId& job, Generation generation);
  std::vector<HostedGeneration> HostedNow() const;
  // Ends tasks that nobody ordered to end by name. The coordinator hears of them once more, for it
  // has to remove what they made after it settled their sinks.
  void EndLate(const JobId& job, Generation generation);

  WorkerOptions options_;
  WorkerEnvironment environment_;
  std::map<JobId, Hosted> hosted_;
  std::map<JobId, Generation> ended_;       // highest generation ended here
  std::map<JobId, Generation> ended_late_;  // not yet in a heartbeat that was answered
  std::deque<JobId> ended_order_;           // oldest first, bounds ended_
  std::unique_ptr<CoordinatorLink> link_;
  CoScope flows_;
  bool stopping_ = false;
};

}  // namespace weir
