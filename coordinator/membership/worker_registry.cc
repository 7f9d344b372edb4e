#include "coordinator/membership/worker_registry.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {

WorkerRegistry::WorkerRegistry(int64_t heartbeat_timeout_us, Executor& executor, Timers& timers,
                               WorkerGateway& gateway, const Clock& clock)
    : executor_(executor),
      timers_(timers),
      gateway_(gateway),
      clock_(clock),
      monitor_(heartbeat_timeout_us) {}

WorkerRegistry::~WorkerRegistry() {
  if (timer_ != 0) timers_.Cancel(timer_);
}

bool WorkerRegistry::NameTaken(const WorkerInfo& worker) const {
  auto it = workers_.find(worker.name);
  return it != workers_.end() && it->second.info.incarnation != worker.incarnation;
}

void WorkerRegistry::Register(WorkerInfo worker) {
  HeartbeatMonitor::Registration registration =
      monitor_.OnRegistered(worker.name, worker.incarnation, clock_.MonotonicMicros());
  WEIR_CHECK(registration != HeartbeatMonitor::Registration::kNameTaken);
  ArmTimer();
  if (registration == HeartbeatMonitor::Registration::kRepeated) return;
  log::Info("worker ", worker.name, " is here: ", worker.slots, " slots, control ",
            worker.control_address, ", data ", worker.data_address, ", host ", worker.host,
            ", pid ", worker.pid);
  std::string address = worker.control_address;
  WorkerName name = worker.name;
  WorkerIncarnation incarnation = worker.incarnation;
  workers_[name] = Worker{std::move(worker), clock_.WallMicros(), ""};
  std::weak_ptr<int> alive = alive_;
  gateway_.Watch(address, [this, alive, name, incarnation] {
    if (!alive.expired()) Lose(name, incarnation, "its connection broke");
  });
  Announce();
}

bool WorkerRegistry::Heartbeat(const WorkerName& name, const WorkerIncarnation& incarnation) {
  bool known = monitor_.OnHeartbeat(name, incarnation, clock_.MonotonicMicros());
  if (known) ArmTimer();
  return known;
}

void WorkerRegistry::Lose(const WorkerName& name, const WorkerIncarnation& incarnation,
                          const std::string& reason) {
  auto it = workers_.find(name);
  if (it == workers_.end() || it->second.info.incarnation != incarnation) return;
  WorkerInfo worker = std::move(it->second.info);
  workers_.erase(it);
  monitor_.Remove(name, incarnation);
  for (auto& [job, slots] : reserved_) slots.erase(name);
  gateway_.Unwatch(worker.control_address);
  ArmTimer();
  log::Warning("worker ", name, " is lost: ", reason);
  if (lost_) lost_(worker, reason);
  Announce();
}

void WorkerRegistry::Clear() {
  for (const auto& [name, worker] : workers_) {
    monitor_.Remove(name, worker.info.incarnation);
    gateway_.Unwatch(worker.info.control_address);
  }
  workers_.clear();
  reserved_.clear();
  ArmTimer();
}

const WorkerInfo* WorkerRegistry::Find(const WorkerName& name) const {
  auto it = workers_.find(name);
  return it == workers_.end() ? nullptr : &it->second.info;
}

void WorkerRegistry::SetSlowStorage(const WorkerName& name, std::string what) {
  auto it = workers_.find(name);
  if (it != workers_.end()) it->second.slow_storage = std::move(what);
}

std::string WorkerRegistry::SlowStorage(const WorkerName& name) const {
  auto it = workers_.find(name);
  return it == workers_.end() ? std::string() : it->second.slow_storage;
}

std::vector<WorkerName> WorkerRegistry::Names() const {
  std::vector<WorkerName> names;
  for (const auto& [name, worker] : workers_) names.push_back(name);
  return names;
}

std::optional<int64_t> WorkerRegistry::LastHeardMicros(const WorkerName& name) const {
  return monitor_.LastHeardMicros(name);
}

int WorkerRegistry::Used(const WorkerName& name) const {
  int used = 0;
  for (const auto& [job, slots] : reserved_) {
    auto it = slots.find(name);
    if (it != slots.end()) used += it->second;
  }
  return used;
}

std::vector<FreeSlots> WorkerRegistry::Free() const {
  std::vector<FreeSlots> free;
  for (const auto& [name, worker] : workers_) {
    free.push_back(FreeSlots{name, std::max(0, worker.info.slots - Used(name))});
  }
  return free;
}

std::vector<WorkerStatus> WorkerRegistry::List() const {
  std::vector<WorkerStatus> list;
  for (const auto& [name, worker] : workers_) {
    WorkerStatus status;
    status.info = worker.info;
    status.slots_free = std::max(0, worker.info.slots - Used(name));
    status.registered_wall_us = worker.registered_wall_us;
    status.last_heartbeat_age_us =
        clock_.MonotonicMicros() - monitor_.LastHeardMicros(name).value_or(0);
    list.push_back(std::move(status));
  }
  return list;
}

void WorkerRegistry::Reserve(const JobId& job, const std::vector<WorkerName>& slots) {
  std::map<WorkerName, int> counts;
  for (const WorkerName& name : slots) ++counts[name];
  reserved_[job] = std::move(counts);
}

void WorkerRegistry::Release(const JobId& job) {
  if (reserved_.erase(job) > 0) Announce();
}

void WorkerRegistry::Announce() {
  std::weak_ptr<int> alive = alive_;
  executor_.Post([this, alive] {
    if (!alive.expired()) changed_.Notify();
  });
}

void WorkerRegistry::ArmTimer() {
  if (timer_ != 0) timers_.Cancel(timer_);
  timer_ = 0;
  std::optional<int64_t> wake = monitor_.NextWakeMicros();
  if (!wake) return;
  timer_ = timers_.After(std::max<int64_t>(0, *wake - clock_.MonotonicMicros()), [this] {
    timer_ = 0;
    OnTimer();
  });
}

void WorkerRegistry::OnTimer() {
  for (const HeartbeatMonitor::Worker& dead : monitor_.TakeDead(clock_.MonotonicMicros())) {
    Lose(dead.name, dead.incarnation, "it has been silent for the heartbeat timeout");
  }
  ArmTimer();
}

}  // namespace weir
