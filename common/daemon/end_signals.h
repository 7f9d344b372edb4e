#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace weir {

// Turns SIGTERM and SIGINT into a clean end of the process: the first wakes Wait; a second one ends
// the process at once. Make it first thing in main, before any thread: it blocks the signals in the
// calling thread and all that it starts. Destroying it gives the signals back to the system, so
// that from then on the first one ends the process. Owns one thread ("signals"). Thread: Request is
// thread-safe, the rest is for main.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Asks the process to end, as a signal would.
  void Request(int exit_code, std::string reason);
  // Waits for a signal or a request; says which.
  std::string Wait();
  // What main should return: 0 after a signal.
  int exit_code() const { return exit_code_; }

 private:
  void Run();

  int signal_fd_ = -1;
  int stop_fd_ = -1;  // readable: the thread ends
  std::atomic<int> exit_code_{0};
  std::string reason_;
  std::atomic<bool> requested_{false};  // reason_ is being set, by whoever set this
  std::atomic<bool> ending_{false};     // reason_ is set
  std::thread thread_;
};

}  // namespace weir
