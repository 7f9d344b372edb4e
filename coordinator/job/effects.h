#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/concat.h"
#include "common/control/gateways.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "coordinator/job/coordinator_environment.h"

// Timers and control calls as steps of a flow. Thread: confined to the executor.
namespace weir {

// The answer a flow owes: given when the flow ends early, too, be it destroyed where it waits.
class OwedAnswer {
 public:
  explicit OwedAnswer(std::function<void(Status)> answer) : answer_(std::move(answer)) {}
  OwedAnswer(OwedAnswer&& other) noexcept : answer_(std::exchange(other.answer_, nullptr)) {}
  OwedAnswer& operator=(OwedAnswer&&) = delete;
  ~OwedAnswer() {
    if (answer_) answer_(UnavailableError("this coordinator has stopped leading"));
  }
  void Give(const Status& status) {
    if (answer_) std::exchange(answer_, nullptr)(status);
  }

 private:
  std::function<void(Status)> answer_;
};

inline Async<bool> Sleep(Timers& timers, int64_t us) {
  return Async<bool>([&timers, us](Async<bool>::Done done) {
    timers.After(us, [done = std::move(done)] { done(true); });
  });
}

// The outcome of the call that `start` makes, or kUnavailable when it has not come in time; one
// that comes later is ignored.
template <typename T>
Async<T> CallWithTimeout(Timers& timers, int64_t timeout_us, std::string what,
                         std::function<void(std::function<void(T)>)> start) {
  return Async<T>([&timers, timeout_us, what = std::move(what),
                   start = std::move(start)](typename Async<T>::Done done) {
    TimerId timer = timers.After(timeout_us, [done, what, timeout_us] {
      done(UnavailableError(Concat(what, ": no answer within ", timeout_us / 1000, " ms")));
    });
    start([&timers, timer, done](T answer) {
      timers.Cancel(timer);
      done(std::move(answer));
    });
  });
}

inline Async<StatusOr<JobGraph>> CheckJobOn(CoordinatorEnvironment& environment,
                                            const WorkerInfo& worker, CheckJobRequest request,
                                            int64_t timeout_us) {
  WorkerGateway& gateway = environment.gateway;
  std::string what = Concat("worker ", worker.name, " to check the job");
  return CallWithTimeout<StatusOr<JobGraph>>(
      environment.timers, timeout_us, std::move(what),
      [&gateway, address = worker.control_address, request = std::move(request)](auto done) {
        gateway.CheckJob(address, request, std::move(done));
      });
}

inline Async<Status> StartTasksOn(CoordinatorEnvironment& environment, const WorkerInfo& worker,
                                  StartTasksRequest request, int64_t timeout_us) {
  WorkerGateway& gateway = environment.gateway;
  std::string what = Concat("worker ", worker.name, " to start tasks");
  return CallWithTimeout<Status>(
      environment.timers, timeout_us, std::move(what),
      [&gateway, address = worker.control_address, request = std::move(request)](auto done) {
        gateway.StartTasks(address, request, std::move(done));
      });
}

inline Async<Status> TriggerOn(CoordinatorEnvironment& environment, const WorkerInfo& worker,
                               TriggerRequest request, int64_t timeout_us) {
  WorkerGateway& gateway = environment.gateway;
  std::string what = Concat("worker ", worker.name, " to trigger a checkpoint");
  return CallWithTimeout<Status>(environment.timers, timeout_us, std::move(what),
                                 [&gateway, address = worker.control_address, request](auto done) {
                                   gateway.Trigger(address, request, std::move(done));
                                 });
}

// completed: or aborted.
inline Async<Status> NotifyOn(CoordinatorEnvironment& environment, const WorkerInfo& worker,
                              CheckpointNotice notice, bool completed, int64_t timeout_us) {
  WorkerGateway& gateway = environment.gateway;
  std::string what = Concat("worker ", worker.name, " to take notice of a checkpoint");
  return CallWithTimeout<Status>(
      environment.timers, timeout_us, std::move(what),
      [&gateway, address = worker.control_address, notice, completed](auto done) {
        if (completed) {
          gateway.NotifyCompleted(address, notice, std::move(done));
        } else {
          gateway.NotifyAborted(address, notice, std::move(done));
        }
      });
}

inline Async<Status> EndTasksOn(CoordinatorEnvironment& environment, const WorkerInfo& worker,
                                EndTasksRequest request, int64_t timeout_us) {
  WorkerGateway& gateway = environment.gateway;
  std::string what = Concat("worker ", worker.name, " to end tasks");
  return CallWithTimeout<Status>(environment.timers, timeout_us, std::move(what),
                                 [&gateway, address = worker.control_address, request](auto done) {
                                   gateway.EndTasks(address, request, std::move(done));
                                 });
}

// `give_up`, if any, is set to what ends the wait before its time; to be called as mail.
inline Async<Status> SettleOn(CoordinatorEnvironment& environment, const WorkerInfo& worker,
                              SettleRequest request, int64_t timeout_us,
                              std::function<void(Status)>* give_up = nullptr) {
  WorkerGateway& gateway = environment.gateway;
  // It answers by then with what keeps it from settling; silence is told a little later.
  constexpr int64_t kGraceUs = 500'000;
  request.answer_within_us = timeout_us;
  std::string what = Concat("worker ", worker.name);
  return CallWithTimeout<Status>(environment.timers, timeout_us + kGraceUs, std::move(what),
                                 [&gateway, address = worker.control_address,
                                  request = std::move(request), give_up](auto done) {
                                   if (give_up != nullptr) *give_up = done;
                                   gateway.Settle(address, request, std::move(done));
                                 });
}

}  // namespace weir
