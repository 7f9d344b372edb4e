#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir {

// A fixed number of threads (io-0, io-1, …) for calls that block. Jobs start in order of posting
// and run side by side. The queue has no bound of its own: each caller bounds what it has in flight
// (reads ahead, bytes being written), and a job posts no jobs but those that waited for its end. Of
// the idle threads the one that was busy last takes the next job: memory that jobs free stays with
// their thread for some time, so it is few threads' memory. Thread: thread-safe.
class IoPool {
 public:
  // REQUIRES: threads >= 1.
  explicit IoPool(int threads);
  ~IoPool();  // stops

  void Start();
  // Waits for the jobs that run; queued ones are destroyed unrun, or run here if they are never to
  // be dropped. Not from one of its threads.
  void Stop();
  // Runs `job` on one of the threads. After Stop it is dropped, or run before this returns if it is
  // `never_dropped`. `what` names it: "sync /out/x".
  void Post(std::function<void()> job, std::string what = "", bool never_dropped = false);
  // The one that has been running longest, if that is at least `least`: "sync /out/x for 12 s";
  // "" when there is none. A call that hangs hangs up its thread, and soon all of them.
  std::string Slowest(std::chrono::milliseconds least) const;

 private:
  struct Job {
    std::function<void()> run;
    std::string what;
    bool never_dropped = false;
  };
  struct Running {
    std::string what;
    std::chrono::steady_clock::time_point since;
  };
  void Run(int thread);

  mutable std::mutex mutex_;
  std::vector<std::condition_variable> wakes_;  // by thread
  // Of idle threads, that which was busy last at the back; guarded by mutex_.
  std::vector<std::condition_variable*> idle_;
  std::deque<Job> jobs_;              // guarded by mutex_
  std::map<int, Running> running_;    // by thread; guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::vector<std::thread> threads_;  // of the thread that starts and stops
};

}  // namespace weir
