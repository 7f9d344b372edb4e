#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/control/messages.h"
#include "common/graph/execution_plan.h"

namespace weir {

// Slots of one live worker that no job uses.
struct FreeSlots {
  WorkerName worker;
  int slots = 0;
};

struct Schedule {
  // Every subtask of every task, by task and subtask. Empty when slots are missing.
  std::vector<TaskAssignment> assignments;
  // Slot i holds subtask i of every task: the worker of each of the job's slots.
  std::vector<WorkerName> slots;
  // "4 slots, 3 free" when slots are missing, else empty.
  std::string waiting_for;
  bool complete() const { return waiting_for.empty(); }
};

// Places a job that needs plan.parallelism_max slots: each goes to the worker with most slots left,
// the lower name first among equals; names that have no free slot count for nothing. Deterministic,
// whatever the order of `free`. REQUIRES: names are unique.
Schedule ScheduleTasks(const ExecutionPlan& plan, const std::vector<FreeSlots>& free);

}  // namespace weir
