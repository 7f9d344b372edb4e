#pragma once

#include <functional>
#include <memory>

#include "common/threading/executor.h"

namespace weir {

class Task;

// Steps tasks. A seat is a place on one of the runner's threads; the task made for it is stepped
// there only. Thread: thread-safe.
class TaskRunner {
 public:
  // Handed to a task when it is made.
  struct Seat {
    std::unique_ptr<Timers> timers;  // of the seat's thread; to be used and destroyed there
    std::function<void()> wake;      // thread-safe, harmless after the task is gone
    uint64_t id = 0;
  };

  virtual ~TaskRunner() = default;
  virtual Seat MakeSeat() = 0;
  // Begins to step the task on its seat; the runner shares ownership until Remove.
  virtual void Add(uint64_t seat, std::shared_ptr<Task> task) = 0;
  // Shuts the task down on its thread, after the step being made, and lets go of it; `removed` is
  // called from that thread.
  virtual void Remove(uint64_t seat, std::function<void()> removed) = 0;
};

}  // namespace weir
