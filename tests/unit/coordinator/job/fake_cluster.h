#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/control/gateways.h"
#include "common/graph/execution_plan.h"
#include "coordinator/job/coordinator.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {

class FakeCluster;

// A loop that can be stopped like a process by SIGSTOP: its clock goes on, and what becomes due
// waits until it is continued.
class PausableLoop : public Executor, public Timers {
 public:
  void Post(std::function<void()> mail) override { inner_.Post(Guard(0, std::move(mail))); }
  bool InOwnerThread() const override { return true; }
  TimerId After(int64_t delay_us, std::function<void()> mail) override;
  void Cancel(TimerId id) override;

  void Pause() { paused_ = true; }
  void Continue();
  bool paused() const { return paused_; }
  void Advance(int64_t us) { inner_.Advance(us); }
  const ManualClock& clock() const { return inner_.clock(); }

 private:
  std::function<void()> Guard(TimerId id, std::function<void()> mail);

  ManualExecutor inner_;
  bool paused_ = false;
  std::vector<std::pair<TimerId, std::function<void()>>> backlog_;
  std::set<TimerId> timers_;  // set, neither run nor cancelled
};

// One coordinator process: its own loop, clock and file system over the shared disk.
struct CoordinatorProcess {
  CoordinatorProcess(FakeCluster& cluster, std::shared_ptr<MemoryFileSystem::Disk> disk,
                     std::string name, uint64_t seed);
  ~CoordinatorProcess();

  // Ends like SIGKILL: nothing more happens, what storage was asked for and has not done is gone.
  void Kill();

  const std::string name;
  PausableLoop loop;
  std::unique_ptr<MemoryFileSystem> files;
  Random random;
  std::unique_ptr<WorkerGateway> gateway;
  std::unique_ptr<Coordinator> coordinator;

 private:
  FakeCluster& cluster_;
};

// The other side of the coordinator: workers whose tasks have no data, and the world outside that
// sees what sinks publish. Each sink subtask seals one committable a checkpoint and lists it until
// it knows that it is published. Thread: the test's.
class FakeCluster {
 public:
  using CommittableKey = std::tuple<std::string, std::string, int, uint64_t, uint64_t>;
  enum class Fate { kSealed, kPublished, kAborted };

  struct Worker {
    WorkerInfo info;
    bool alive = true;
    bool silent = false;  // takes calls and never answers, sends nothing
    bool registered = false;
    std::map<JobId, Generation> hosted;
    std::map<JobId, Generation> ended;  // up to here
  };
  struct Call {
    std::string coordinator;
    std::string what;
    std::string worker;
    Generation generation;
    CheckpointId checkpoint;
  };

  FakeCluster();

  std::unique_ptr<CoordinatorProcess> StartCoordinator(const std::string& name,
                                                       bool take_over = false);
  Worker& AddWorker(const std::string& name, int slots);
  // Its connection breaks at once.
  void KillWorker(const std::string& name);
  // Whom workers talk to; they register there.
  void Follow(CoordinatorProcess* process);

  // Moves time in small steps, for everybody.
  void Advance(int64_t us);
  bool Until(const std::function<bool()>& condition, int64_t us_max = 60'000'000);

  // What a client gets, in the end.
  StatusOr<SubmitResponse> Submit(CoordinatorProcess& process, const JobId& job,
                                  const std::string& graph_json, std::string restore_from = "");
  StatusOr<JobStatus> Get(CoordinatorProcess& process, const std::string& job);
  StatusOr<std::vector<JobStatus>> List(CoordinatorProcess& process, bool all);
  StatusOr<std::vector<CheckpointSummary>> Checkpoints(CoordinatorProcess& process,
                                                       const std::string& job);
  template <typename T>
  StatusOr<T> Await(std::optional<StatusOr<T>>& answer) {
    Until([&] { return answer.has_value(); });
    if (!answer) return UnavailableError("never answered");
    return *answer;
  }
  bool InState(CoordinatorProcess& process, const std::string& job, JobState state);

  // All running sources of the job end their input.
  void EndSources(const JobId& job);
  void FailTask(const JobId& job, Status error);

  const std::shared_ptr<MemoryFileSystem::Disk>& disk() const { return disk_; }
  // Reads and arranges the disk directly.
  MemoryFileSystem& disk_view() { return *view_; }
  const std::map<CommittableKey, Fate>& outside() const { return outside_; }
  int Count(Fate fate) const;
  std::vector<std::string> violations;  // published after abort, aborted after publication
  std::vector<Call> calls;

  // Behaviour.
  bool auto_run = true;
  bool auto_ack = true;
  bool auto_publish = true;
  std::vector<SubtaskMetrics> metrics;            // in each heartbeat, of every generation
  Status check_answer;                            // of CheckJob
  std::vector<SettleRequest> checked_succession;  // of the last CheckJob
  Status settle_answer;                           // of Settle
  bool hold_settles = false;                      // they are never answered
  std::vector<SettleRequest> settles;             // as they came

  // From the gateways.
  Worker* At(const std::string& address);
  void Watch(const std::string& address, std::function<void()> broken);
  void StartTasks(Worker& worker, const StartTasksRequest& request);
  void Trigger(const TriggerRequest& request);
  void Ack(const JobId& job, Generation generation, CheckpointId checkpoint);
  void Publish(Worker& worker, const CheckpointNotice& notice);
  Status Settle(const SettleRequest& request);

 private:
  struct RunningJob {
    StartTasksRequest start;
    ExecutionPlan plan;
    std::set<CheckpointId> acked;
    // Of each sink subtask: sealed and not known to be published.
    std::map<std::pair<std::string, int>, std::vector<Committable>> listed;
  };
  void Heartbeats();
  void CheckRestore(const StartTasksRequest& request);
  void RegisterWorker(Worker& worker);
  void SetFate(const Committable& committable, const JobId& job, Fate fate);
  // As mail of the coordinator that workers follow.
  void Tell(std::function<void(Coordinator&)> message);
  std::string UidOf(const RunningJob& job, int task) const;  // of its first vertex

  std::shared_ptr<MemoryFileSystem::Disk> disk_;
  ManualExecutor view_loop_;
  std::unique_ptr<MemoryFileSystem> view_;
  std::vector<CoordinatorProcess*> processes_;
  friend struct CoordinatorProcess;
  CoordinatorProcess* followed_ = nullptr;
  std::map<std::string, Worker> workers_;  // by control address
  std::map<std::string, std::vector<std::function<void()>>> watches_;
  std::map<std::pair<JobId, Generation>, RunningJob> running_;
  std::map<CommittableKey, Fate> outside_;
  int64_t now_us_ = 0;
  int incarnations_ = 0;
};

}  // namespace weir
