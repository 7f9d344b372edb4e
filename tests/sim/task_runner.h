#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/world.h"
#include "worker/task/task_runner.h"

namespace weir::sim {

// Steps the tasks of one process, each step an event of its own that takes its time.
// Thread: confined to the simulation.
class SimTaskRunner : public TaskRunner {
 public:
  SimTaskRunner(Process& process, const World& world, Probes& probes)
      : process_(process), world_(world), probes_(probes) {}
  ~SimTaskRunner() override;

  Seat MakeSeat() override;
  void Add(uint64_t seat, std::shared_ptr<Task> task) override;
  void Remove(uint64_t seat, std::function<void()> removed) override;

 private:
  struct Place;
  void StepLater(const std::shared_ptr<Place>& place);

  Process& process_;
  const World& world_;
  Probes& probes_;
  uint64_t next_seat_ = 1;
  std::map<uint64_t, std::shared_ptr<Place>> places_;
};

}  // namespace weir::sim
