#pragma once

#include <vector>

#include "common/control/messages.h"
#include "common/graph/config.h"

// The JSON documents of `weir --json` (surface.md): snake_case, RFC 3339 UTC times, units last.
namespace weir::cli {

// {"error": {"message", "code", "exit_code"}}.
ConfigValue ErrorToJson(const Status& status, int exit_code);
ConfigValue JobToJson(const JobStatus& job);
ConfigValue JobsToJson(const std::vector<JobStatus>& jobs);
ConfigValue CheckpointsToJson(const std::vector<CheckpointSummary>& checkpoints, bool subtasks);
ConfigValue WorkersToJson(const std::vector<WorkerStatus>& workers);
ConfigValue EventsToJson(const std::vector<JobEvent>& events);

}  // namespace weir::cli
