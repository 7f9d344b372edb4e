#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/daemon/daemon_config.h"
#include "common/daemon/shared_keys.h"

namespace weir {

// The part of main that all daemons share: errors go to standard error as "PROGRAM: message".
class DaemonStart {
 public:
  explicit DaemonStart(std::string program) : program_(std::move(program)) {}

  // The config, or nothing when main is to return exit_code(): after --help and --version, which
  // are printed here, and after an error.
  std::optional<DaemonConfig> Parse(const DaemonCommandLine& command_line, int argc, char** argv);
  // Prints an error of the configuration or the start.
  int WrongUsage(const Status& status);
  int CannotStart(const Status& status);
  int exit_code() const { return exit_code_; }

 private:
  int Fail(const Status& status, int exit_code);

  const std::string program_;
  int exit_code_ = 0;
};

}  // namespace weir
