#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace weir {

// Which registered workers are alive, by their heartbeats. All times are monotonic microseconds.
// Thread: confined to coord-loop.
// Silence is held against a worker only while the coordinator listened: when TakeDead is called
// late by more than half the timeout (the process was paused), everybody gets half the timeout to
// be heard again.
class HeartbeatMonitor {
 public:
  explicit HeartbeatMonitor(int64_t timeout_us) : timeout_us_(timeout_us) {}

  enum class Registration {
    kNew,
    kRepeated,   // the same incarnation again: counts as a heartbeat
    kNameTaken,  // another live incarnation has the name: refuse
  };
  Registration OnRegistered(const WorkerName& name, const WorkerIncarnation& incarnation,
                            int64_t now_us);
  // False: not registered with this incarnation, it has to register (again).
  bool OnHeartbeat(const WorkerName& name, const WorkerIncarnation& incarnation, int64_t now_us);
  // It left, or its connection broke. False: it was not registered with this incarnation.
  bool Remove(const WorkerName& name, const WorkerIncarnation& incarnation);

  struct Worker {
    WorkerName name;
    WorkerIncarnation incarnation;
    bool operator==(const Worker&) const = default;
  };
  // Removes and returns those that have been silent for the timeout, by name.
  std::vector<Worker> TakeDead(int64_t now_us);
  // When the next of them is dead unless it is heard of; absent: nobody is registered.
  std::optional<int64_t> NextWakeMicros() const;
  // Absent: not registered.
  std::optional<int64_t> LastHeardMicros(const WorkerName& name) const;

 private:
  struct State {
    WorkerIncarnation incarnation;
    int64_t heard_us = 0;
  };
  const int64_t timeout_us_;
  std::map<WorkerName, State> workers_;
};

}  // namespace weir
