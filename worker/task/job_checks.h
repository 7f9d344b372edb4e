#pragma once

#include "common/control/messages.h"
#include "common/threading/co.h"
#include "worker/task/worker_environment.h"

namespace weir {

// What only a worker can see of a submitted job: loads its library, expands source patterns, reads
// headers, looks into output directories, asks Kafka clusters. The graph with all of that filled
// in, or the user error. Changes nothing. Thread: confined to the control loop.
Co<StatusOr<JobGraph>> CheckJobHere(WorkerEnvironment& environment, CheckJobRequest request);

}  // namespace weir
