#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/control/messages.h"
#include "tests/sim/probes.h"
#include "tests/sim/world.h"
#include "tests/support/memory_file_system.h"

namespace weir::sim {

// A primitive that was carried out on the shared disk (refused ones are not told).
struct StorageEvent {
  int64_t now_us = 0;
  std::string_view process;    // "worker-1.2": name and incarnation
  std::string_view operation;  // names as MemoryFileSystem gives them to its hooks
  const std::string& path;
  const std::string& to;  // link, rename
};

class KafkaBroker;

// What a checker works with.
struct CheckContext {
  const World& world;
  MemoryFileSystem& disk;  // to look at, at once; changes nothing
  Probes& probes;
  std::function<void(std::string)> violation;  // the seed has failed; the first one counts
  // Whether the process of this title is alive.
  std::function<bool(std::string_view)> lives;
  std::function<int64_t()> now_us;
  KafkaBroker* kafka = nullptr;  // to look at, and to observe; nullptr: there is none
};

// Watches one promise of the system through a whole run. Knows nothing of the code under test but
// its formats on disk. Thread: confined to the simulation.
class Checker {
 public:
  virtual ~Checker() = default;
  virtual std::string_view name() const = 0;
  virtual void OnStorage(const StorageEvent& event) { (void)event; }
  // What was not synced is gone.
  virtual void OnPowerLoss() {}
  // A coordinator ordered a worker to start a generation (delivered or not).
  virtual void OnStartOrdered(const StartTasksRequest& request) { (void)request; }
  // Faults are over and the job is FINISHED; some time has passed since.
  virtual void AtEnd() {}
};

// All checkers of a world.
std::vector<std::unique_ptr<Checker>> MakeCheckers(const CheckContext& context);

}  // namespace weir::sim
