#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/control/gateways.h"
#include "common/control/messages.h"
#include "common/graph/validate.h"
#include "common/operator/registry.h"
#include "common/storage/file_system.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_admin.h"
#include "worker/network/data_plane.h"
#include "worker/task/snapshot_pace.h"
#include "worker/task/task_runner.h"

namespace weir {

// A job library in this process: its vertex types, and its factories in front of the built-in ones.
struct LoadedLibrary {
  TypeLookup types;
  const Registry* registry = nullptr;
};

// Everything a worker does to the world goes through here; the simulator puts its own behind it.
// All of it outlives the worker's node. `executor`, `timers`, `files` and the gateway's answers
// belong to the control loop.
struct WorkerEnvironment {
  Executor* executor = nullptr;
  Timers* timers = nullptr;
  FileSystem* files = nullptr;
  const Clock* clock = nullptr;
  Random* random = nullptr;
  CoordinatorGateway* coordinators = nullptr;
  DataPlane* data_plane = nullptr;
  TaskRunner* runner = nullptr;
  const Registry* registry = nullptr;
  // Asks Kafka clusters when a job is submitted. Absent: those jobs are not checked there.
  KafkaAdmin* kafka = nullptr;
  // What may wait in one channel at most; less where a worker has many of them.
  int64_t channel_window_bytes_max = int64_t{1} << 20;
  SnapshotPace snapshot_pace;
  // A file system whose answers go to `owner`, for a task.
  std::function<std::unique_ptr<FileSystem>(Executor& owner)> make_files;
  // Loads a job library, once per path; it stays as long as the process.
  std::function<StatusOr<LoadedLibrary>(const std::string& path)> load_library;
  // What storage has not answered for long, of any task: "sync /out/x for 12 s"; "" when all is
  // well. May be absent.
  std::function<std::string()> slow_storage = nullptr;
  // Ends the process at once: the worker can no longer keep its word.
  std::function<void(const std::string& reason)> die;
};

struct WorkerOptions {
  WorkerInfo info;                              // as registered
  std::vector<std::string> coordinators;        // host:port, in order of preference
  int64_t coordinator_timeout_us = 60'000'000;  // without a coordinator for so long: tasks end
};

}  // namespace weir
