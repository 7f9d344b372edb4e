#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/daemon/daemon_config.h"
#include "common/daemon/shared_keys.h"

namespace weir {

// What `weir-coordinator` is told by flags and file.
struct CoordinatorConfig {
  SharedConfig shared;
  std::string checkpoint_dir;  // absolute
  int64_t heartbeat_interval_us = 0;
  int64_t heartbeat_timeout_us = 0;
  int64_t lease_timeout_us = 0;
  bool take_over = false;
};

DaemonCommandLine CoordinatorCommandLine();
// User error for values that do not go together.
StatusOr<CoordinatorConfig> ReadCoordinatorConfig(const DaemonConfig& config);

}  // namespace weir
