#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/task/task_runner.h"

namespace weir {

// A fixed number of threads "task-<n>", each with its own tasks, which it steps in turn for as long
// as they make progress and lets sleep when they do not. Tasks go to the thread with the fewest.
// Thread: thread-safe.
class ThreadedTaskRunner : public TaskRunner {
 public:
  // 0: as many as cores.
  explicit ThreadedTaskRunner(int threads);
  ~ThreadedTaskRunner() override;  // REQUIRES: all tasks were removed

  void Start();
  void Stop();

  Seat MakeSeat() override;
  void Add(uint64_t seat, std::shared_ptr<Task> task) override;
  void Remove(uint64_t seat, std::function<void()> removed) override;

 private:
  class TaskThread;
  std::vector<std::unique_ptr<TaskThread>> threads_;
  std::mutex mutex_;
  std::map<uint64_t, size_t> thread_of_seat_;  // guarded by mutex_
  std::vector<int> seats_of_thread_;           // guarded by mutex_
  uint64_t next_seat_ = 1;                     // guarded by mutex_
};

}  // namespace weir
