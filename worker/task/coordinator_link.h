#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/control/messages.h"
#include "common/threading/co.h"
#include "worker/task/worker_environment.h"

namespace weir {

// The worker's side of its bond with whoever leads: looks for the coordinator of the highest number
// among the known addresses, proves that both see one checkpoint directory, registers, sends a
// heartbeat each interval, and begins anew when that fails. Thread: confined to the control loop.
class CoordinatorLink {
 public:
  struct Callbacks {
    std::function<std::vector<HostedGeneration>()> hosted;  // for the heartbeat
    // The coordinator has taken a heartbeat with these.
    std::function<void(const std::vector<HostedGeneration>&)> heard;
    std::function<void(const JobId&, Generation)> end;      // no longer current there
    std::function<void()> abandoned;  // without a coordinator for coordinator_timeout
  };

  CoordinatorLink(WorkerEnvironment& environment, const WorkerOptions& options,
                  Callbacks callbacks);

  void Start();
  // Takes leave of the coordinator, if there is one; `done` in any case after a bounded time.
  void Leave(std::function<void()> done);
  // Nothing is sent any more.
  void Stop();

  // The coordinator that this worker is registered at; "" while there is none.
  const std::string& address() const { return address_; }
  // Highest number heard of. A command from a lower one is stale.
  CoordinatorNumber number() const { return number_; }
  void HeardOf(CoordinatorNumber number);

 private:
  Co<void> Run();
  Co<bool> Join();
  Co<void> Watchdog();
  Async<bool> Sleep(int64_t us);

  WorkerEnvironment& environment_;
  const WorkerOptions& options_;
  Callbacks callbacks_;
  CoScope flows_;
  std::string address_;
  CoordinatorNumber number_;
  int64_t heartbeat_interval_us_ = 1'000'000;
  int64_t last_contact_us_ = 0;
  int64_t refused_since_us_ = 0;  // 0: not refused
  std::string last_problem_;      // logged once until it changes
  bool stopped_ = false;
};

}  // namespace weir
