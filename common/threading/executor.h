#pragma once

#include <cstdint>
#include <functional>

namespace weir {

// One owner thread (or the simulator) that runs what is posted to it, in order. All state of an
// actor is touched only from its executor. Thread: thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `mail` later on the owner thread, never inside the call. Dropped after Stop.
  virtual void Post(std::function<void()> mail) = 0;
  // Whether the caller is the owner thread.
  virtual bool InOwnerThread() const = 0;
};

using TimerId = uint64_t;

// Timers of one executor: `mail` runs on it. Thread: confined to the executor.
class Timers {
 public:
  virtual ~Timers() = default;
  // Once, `delay_us` from now. The id is never reused and never 0.
  virtual TimerId After(int64_t delay_us, std::function<void()> mail) = 0;
  // Unknown and fired ids are ignored. After Cancel the mail does not run.
  virtual void Cancel(TimerId id) = 0;
};

}  // namespace weir
