#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/control/gateways.h"
#include "common/control/messages.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "coordinator/membership/heartbeat_monitor.h"
#include "coordinator/scheduler/scheduler.h"

namespace weir {

// The live workers of a cluster and who uses their slots. A worker is lost when its connection
// breaks, when it has been silent for the timeout, when it leaves or when its name is given to its
// successor; then all that asked to be told are told, once. Thread: confined to the executor.
// Invariant: reservations of a worker that is lost are gone with it.
class WorkerRegistry {
 public:
  using LostListener = std::function<void(const WorkerInfo& worker, const std::string& reason)>;

  WorkerRegistry(int64_t heartbeat_timeout_us, Executor& executor, Timers& timers,
                 WorkerGateway& gateway, const Clock& clock);
  ~WorkerRegistry();

  void set_lost_listener(LostListener listener) { lost_ = std::move(listener); }

  // Whether another live incarnation has the name.
  bool NameTaken(const WorkerInfo& worker) const;
  // REQUIRES: !NameTaken(worker). A repetition counts as a heartbeat.
  void Register(WorkerInfo worker);
  // False: unknown; it has to register.
  bool Heartbeat(const WorkerName& name, const WorkerIncarnation& incarnation);
  // The worker is gone, for this reason. Unknown ones are ignored.
  void Lose(const WorkerName& name, const WorkerIncarnation& incarnation,
            const std::string& reason);
  // Forgets all, telling nobody.
  void Clear();

  // nullptr when no live worker has the name.
  // What its storage has not answered, as it last said; "" when all is well.
  void SetSlowStorage(const WorkerName& name, std::string what);
  std::string SlowStorage(const WorkerName& name) const;
  const WorkerInfo* Find(const WorkerName& name) const;
  std::vector<WorkerName> Names() const;  // sorted
  // Absent: not registered.
  std::optional<int64_t> LastHeardMicros(const WorkerName& name) const;
  std::vector<FreeSlots> Free() const;
  std::vector<WorkerStatus> List() const;

  // One slot for each mention. Replaces the job's earlier reservation.
  void Reserve(const JobId& job, const std::vector<WorkerName>& slots);
  void Release(const JobId& job);
  // Announced (as mail) after workers came or slots became free.
  CoSignal& changed() { return changed_; }

 private:
  struct Worker {
    WorkerInfo info;
    int64_t registered_wall_us = 0;
    std::string slow_storage;
  };
  int Used(const WorkerName& name) const;
  void Announce();
  void ArmTimer();
  void OnTimer();

  Executor& executor_;
  Timers& timers_;
  WorkerGateway& gateway_;
  const Clock& clock_;
  LostListener lost_;
  HeartbeatMonitor monitor_;
  std::map<WorkerName, Worker> workers_;
  std::map<JobId, std::map<WorkerName, int>> reserved_;
  CoSignal changed_;
  TimerId timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace weir
