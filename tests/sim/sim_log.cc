// The log of the simulated processes: lines of the trace, or nothing.

#include "common/base/log.h"
#include "tests/sim/simulation.h"

namespace weir::log {

StatusOr<Level> ParseLevel(std::string_view) { return Level::kInfo; }

Status Start(Level, const std::string&) { return {}; }

bool Enabled(Level) {
  sim::Simulation* simulation = sim::Simulation::Current();
  return simulation != nullptr && simulation->scheduler().tracing();
}

void Write(Level, std::string_view message) {
  sim::Process* process = sim::Process::Current();
  sim::Simulation::Current()->scheduler().Trace(process ? process->title() : "-", message);
}

}  // namespace weir::log
