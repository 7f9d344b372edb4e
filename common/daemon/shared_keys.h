#pragma once

#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/daemon/daemon_config.h"
#include "common/daemon/endpoint.h"

namespace weir {

// What both daemons are told about their log and their addresses.
struct SharedConfig {
  Endpoint listen;
  Endpoint advertised;  // host "": not set; port 0: the one listened on
  log::Level log_level = log::Level::kInfo;
  std::string log_file;  // "": stderr
};

// The keys advertise, insecure, log_level, log_file.
std::vector<ConfigKey> SharedKeys();
// The values of `listen` and the keys above. Listening where others reach it needs `insecure`.
StatusOr<SharedConfig> ReadSharedKeys(const DaemonConfig& config);

// The listening address under `key`; one that others can reach needs `insecure`.
StatusOr<Endpoint> ReadListenAddress(const DaemonConfig& config, const std::string& key);

// `path` as an absolute one; user error for an empty one.
StatusOr<std::string> AbsolutePath(const std::string& key, const std::string& path);

// The sections SIGNALS and EXIT STATUS of the manual.
std::vector<DaemonCommandLine::Section> SharedSections(const std::string& on_signal);

}  // namespace weir
