#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir {

// A fixed number of threads (io-0, io-1, …) for calls that block. Jobs start in order of posting
// and run side by side. The queue has no bound of its own: each caller bounds what it has in flight
// (reads ahead, bytes being written), and a job never posts jobs. Thread: thread-safe.
class IoPool {
 public:
  // REQUIRES: threads >= 1.
  explicit IoPool(int threads);
  ~IoPool();  // stops

  void Start();
  // Waits for the jobs that run; queued ones are destroyed unrun. Not from one of its threads.
  void Stop();
  // Runs `job` on one of the threads. Dropped after Stop.
  void Post(std::function<void()> job);

 private:
  void Run();

  const int threads_count_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<std::thread> threads_;        // of the thread that starts and stops
};

}  // namespace weir
