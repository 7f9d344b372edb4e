#include "common/daemon/daemon_start.h"

#include <iostream>

// What jemalloc looks for in a program. Threads of its own give freed pages back in time; without
// them it is who allocates next from the same arena, and a thread that idles keeps them for ever.
// In time is one second: the 10 s of jemalloc are for programs whose threads would have to do it.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000";
}

namespace weir {

std::optional<DaemonConfig> DaemonStart::Parse(const DaemonCommandLine& command_line, int argc,
                                               char** argv) {
  StatusOr<DaemonCommandLine::Parsed> parsed =
      command_line.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (!parsed.ok()) {
    WrongUsage(parsed.status());
    return std::nullopt;
  }
  if (!parsed->print.empty()) {
    std::cout << parsed->print << std::flush;
    return std::nullopt;
  }
  return std::move(parsed->config);
}

int DaemonStart::WrongUsage(const Status& status) { return Fail(status, 2); }

int DaemonStart::CannotStart(const Status& status) { return Fail(status, 1); }

int DaemonStart::Fail(const Status& status, int exit_code) {
  std::cerr << program_ << ": " << status.message() << std::endl;
  exit_code_ = exit_code;
  return exit_code;
}

}  // namespace weir
