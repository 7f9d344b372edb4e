#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/storage/file_system.h"
#include "tests/sim/checkers/checker.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/world.h"
#include "tests/support/memory_file_system.h"

namespace weir::sim {

// The shared disk of a world and what may go wrong with it. A request is carried out at a time of
// its own and answered later still, so that requests in flight overtake each other; each may fail
// before or after it was carried out, by the world's odds. When its asker is gone (the process was
// killed, the file system object destroyed), a request not yet carried out still is, or not, by
// chance. Thread: confined to the simulation. Outlives every file system it made.
class Storage {
 public:
  Storage(Scheduler& scheduler, const World& world, Probes& probes);
  ~Storage();

  // A file system whose answers are posted to `owner`, of `process`. `owner` is not touched once
  // the process is dead or the file system destroyed.
  std::unique_ptr<FileSystem> Open(Process& process, Executor& owner);

  // Told of every primitive carried out.
  void set_observer(std::function<void(const StorageEvent&)> observer);
  // REQUIRES: every process is dead. Of what was not synced, each name and each file's bytes are
  // there or not, by chance.
  void PowerLoss();

  // Conditions that last until they are set otherwise.
  void set_faults_on(bool on);         // the odds
  void set_full(bool full);            // create, write and the like fail with ENOSPC
  void set_read_only(bool read_only);  // EROFS
  void set_hanging(bool hanging);      // nothing is carried out until it is over
  // A scenario's own fault: asked before each primitive, carried out and answered with no fault
  // when OK; the error is answered instead. Named as MemoryFileSystem's hooks.
  using Hook = std::function<Status(const Process& process, std::string_view operation,
                                    const std::string& path, const std::string& to)>;
  void set_before(Hook hook);
  void set_after(Hook hook);  // after it was carried out: an error is answered instead
  // How long at least a primitive takes, asked when it is asked for; may set the conditions above
  // so that they meet this very one.
  using Slowness = std::function<int64_t(const Process& process, std::string_view operation,
                                         const std::string& path, const std::string& to)>;
  void set_slowness(Slowness slowness);

  // To arrange and to look.
  MemoryFileSystem& view();

 private:
  class View;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::sim
