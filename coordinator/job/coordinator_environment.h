#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/control/gateways.h"
#include "common/storage/file_system.h"
#include "common/threading/executor.h"

namespace weir {

// The world as the coordinator's actors see it: all of their effects, time and chance. Everything
// outlives them and belongs to one executor (coord-loop, or the simulator).
struct CoordinatorEnvironment {
  Executor& executor;
  Timers& timers;
  FileSystem& files;
  WorkerGateway& gateway;
  const Clock& clock;
  Random& random;
  // What storage has not answered for long: "sync /x/y for 12 s"; "" when all is well. May be
  // absent.
  std::function<std::string()> slow_storage = nullptr;
};

}  // namespace weir
