#include "coordinator/scheduler/scheduler.h"

#include <map>

#include "common/base/concat.h"

namespace weir {

Schedule ScheduleTasks(const ExecutionPlan& plan, const std::vector<FreeSlots>& free) {
  std::map<WorkerName, int> left;
  int64_t slots_free = 0;
  for (const FreeSlots& slots : free) {
    if (slots.slots <= 0) continue;
    left[slots.worker] = slots.slots;
    slots_free += slots.slots;
  }
  Schedule schedule;
  if (slots_free < plan.parallelism_max) {
    schedule.waiting_for =
        Concat(plan.parallelism_max, plan.parallelism_max == 1 ? " slot, " : " slots, ", slots_free,
               " free");
    return schedule;
  }
  for (int slot = 0; slot < plan.parallelism_max; ++slot) {
    auto most = left.begin();
    for (auto worker = left.begin(); worker != left.end(); ++worker) {
      if (worker->second > most->second) most = worker;
    }
    --most->second;
    schedule.slots.push_back(most->first);
  }
  for (size_t task = 0; task < plan.tasks.size(); ++task) {
    for (int subtask = 0; subtask < plan.tasks[task].parallelism; ++subtask) {
      schedule.assignments.push_back(TaskAssignment{
          .task = static_cast<int>(task), .subtask = subtask, .worker = schedule.slots[subtask]});
    }
  }
  return schedule;
}

}  // namespace weir
