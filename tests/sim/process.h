#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/threading/executor.h"
#include "tests/sim/scheduler.h"

namespace weir::sim {

// One start of a simulated process: alive until it is killed, and paused now and then; its clocks
// go on while it is paused. What it is asked to run meanwhile waits in order.
// Whatever belongs to it checks alive() when an event of it comes due: a killed process does
// nothing more, from the very next effect on, even inside the event that kills it.
// Thread: confined to the simulation.
class Process : public Clock {
 public:
  Process(Scheduler& scheduler, std::string name, int incarnation);
  ~Process() override;

  const std::string& name() const { return name_; }    // "worker-1"
  const std::string& title() const { return title_; }  // "worker-1.2"
  bool alive() const { return alive_; }
  bool paused() const { return paused_; }
  // Expires with the death of the process.
  std::weak_ptr<int> life() const { return life_; }

  // The one whose event runs now; nullptr outside of any.
  static Process* Current();

  void Kill();
  void Pause();
  void Continue();
  // Moves the wall clock.
  void JumpWall(int64_t us) { wall_offset_us_ += us; }

  int64_t WallMicros() const override;
  int64_t MonotonicMicros() const override;

  // Runs `event` after the delay if the process is alive then; when it is paused, as soon as it
  // goes on.
  void After(int64_t delay_us, std::function<void()> event);

  Scheduler& scheduler() { return scheduler_; }

 private:
  void Run(const std::function<void()>& event);
  void Drain();

  Scheduler& scheduler_;
  const std::string name_;
  const std::string title_;
  bool alive_ = true;
  bool paused_ = false;
  std::shared_ptr<int> life_ = std::make_shared<int>();
  int64_t wall_offset_us_ = 0;
  // Came due while it was paused, or behind such: run one by one, in order, when it goes on.
  std::deque<std::function<void()>> waiting_;
  bool draining_ = false;
};

// A loop of a process: mail in order, timers. Dropped with it.
class ProcessLoop : public Executor, public Timers {
 public:
  explicit ProcessLoop(Process& process) : process_(process) {}

  void Post(std::function<void()> mail) override;
  bool InOwnerThread() const override { return true; }
  TimerId After(int64_t delay_us, std::function<void()> mail) override;
  void Cancel(TimerId id) override;
  Process& process() { return process_; }

 private:
  Process& process_;
  TimerId next_timer_ = 1;
  std::map<TimerId, std::function<void()>> timers_;
  std::shared_ptr<int> here_ = std::make_shared<int>();
};

}  // namespace weir::sim
