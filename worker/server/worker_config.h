#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/daemon/daemon_config.h"
#include "common/daemon/shared_keys.h"

namespace weir {

// What `weir-worker` is told by flags and file.
struct WorkerConfig {
  SharedConfig shared;   // listen: control
  Endpoint data_listen;  // data
  std::string name;
  std::vector<std::string> coordinators;
  int slots = 0;
  int task_threads = 0;
  std::string work_dir;  // absolute
  int64_t coordinator_timeout_us = 0;
};

DaemonCommandLine WorkerCommandLine();
// User error for values that do not go together. What is "as many as cores" or "host name and pid"
// in the file is filled in.
StatusOr<WorkerConfig> ReadWorkerConfig(const DaemonConfig& config);

}  // namespace weir
