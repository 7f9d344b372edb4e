#include "coordinator/membership/heartbeat_monitor.h"

#include <algorithm>

namespace weir {

HeartbeatMonitor::Registration HeartbeatMonitor::OnRegistered(const WorkerName& name,
                                                              const WorkerIncarnation& incarnation,
                                                              int64_t now_us) {
  const auto [worker, added] = workers_.try_emplace(name, State{incarnation, now_us});
  if (added) return Registration::kNew;
  if (worker->second.incarnation != incarnation) return Registration::kNameTaken;
  worker->second.heard_us = std::max(worker->second.heard_us, now_us);
  return Registration::kRepeated;
}

bool HeartbeatMonitor::OnHeartbeat(const WorkerName& name, const WorkerIncarnation& incarnation,
                                   int64_t now_us) {
  const auto worker = workers_.find(name);
  if (worker == workers_.end() || worker->second.incarnation != incarnation) return false;
  worker->second.heard_us = std::max(worker->second.heard_us, now_us);
  return true;
}

bool HeartbeatMonitor::Remove(const WorkerName& name, const WorkerIncarnation& incarnation) {
  const auto worker = workers_.find(name);
  if (worker == workers_.end() || worker->second.incarnation != incarnation) return false;
  workers_.erase(worker);
  return true;
}

std::vector<HeartbeatMonitor::Worker> HeartbeatMonitor::TakeDead(int64_t now_us) {
  std::vector<Worker> dead;
  const std::optional<int64_t> wake_us = NextWakeMicros();
  if (!wake_us || now_us < *wake_us) return dead;
  if (now_us - *wake_us > timeout_us_ / 2) {
    // Nobody could be heard while this process stood still.
    for (auto& [name, worker] : workers_) {
      worker.heard_us = std::max(worker.heard_us, now_us - timeout_us_ / 2);
    }
  }
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    if (now_us - worker->second.heard_us < timeout_us_) {
      ++worker;
      continue;
    }
    dead.push_back(Worker{worker->first, worker->second.incarnation});
    worker = workers_.erase(worker);
  }
  return dead;
}

std::optional<int64_t> HeartbeatMonitor::NextWakeMicros() const {
  std::optional<int64_t> wake_us;
  for (const auto& [name, worker] : workers_) {
    const int64_t dead_us = worker.heard_us + timeout_us_;
    if (!wake_us || dead_us < *wake_us) wake_us = dead_us;
  }
  return wake_us;
}

std::optional<int64_t> HeartbeatMonitor::LastHeardMicros(const WorkerName& name) const {
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) return std::nullopt;
  return worker->second.heard_us;
}

}  // namespace weir
