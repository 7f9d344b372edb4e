#include "worker/task/coordinator_link.h"

#include <algorithm>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

constexpr int64_t kSearchPauseUs = 200'000;
constexpr int64_t kWatchdogUs = 1'000'000;
// A refused worker (name taken, another checkpoint directory) gives up after so long: the name of
// a worker that was killed is free again once its silence has been noticed.
constexpr int64_t kRefusedMaxUs = 20'000'000;

}  // namespace

CoordinatorLink::CoordinatorLink(WorkerEnvironment& environment, const WorkerOptions& options,
                                 Callbacks callbacks)
    : environment_(environment), options_(options), callbacks_(std::move(callbacks)) {}

void CoordinatorLink::Start() {
  last_contact_us_ = environment_.clock->MonotonicMicros();
  flows_.Spawn(Run());
  flows_.Spawn(Watchdog());
}

void CoordinatorLink::Stop() { stopped_ = true; }

void CoordinatorLink::HeardOf(CoordinatorNumber number) { number_ = std::max(number_, number); }

Async<bool> CoordinatorLink::Sleep(int64_t us) {
  Timers* timers = environment_.timers;
  return Async<bool>(
      [timers, us](Async<bool>::Done done) { timers->After(us, [done] { done(true); }); });
}

void CoordinatorLink::Leave(std::function<void()> done) {
  stopped_ = true;
  if (address_.empty()) {
    done();
    return;
  }
  environment_.coordinators->Leave(address_, options_.info.name, options_.info.incarnation,
                                   [done = std::move(done)](Status) { done(); });
}

Co<void> CoordinatorLink::Watchdog() {
  while (!stopped_) {
    co_await Sleep(kWatchdogUs);
    int64_t now_us = environment_.clock->MonotonicMicros();
    if (!stopped_ && now_us - last_contact_us_ > options_.coordinator_timeout_us) {
      callbacks_.abandoned();
    }
  }
}

Co<void> CoordinatorLink::Run() {
  while (!stopped_) {
    if (!co_await Join()) {
      co_await Sleep(kSearchPauseUs);
      continue;
    }
    bool registered = true;
    while (registered && !stopped_) {
      co_await Sleep(heartbeat_interval_us_);
      if (stopped_) co_return;
      HeartbeatRequest request;
      request.name = options_.info.name;
      request.incarnation = options_.info.incarnation;
      request.coordinator = number_;
      request.hosted = callbacks_.hosted();
      if (environment_.slow_storage) request.slow_storage = environment_.slow_storage();
      CoordinatorGateway* gateway = environment_.coordinators;
      std::string address = address_;
      Async<StatusOr<HeartbeatResponse>> call(
          [gateway, address, request](Async<StatusOr<HeartbeatResponse>>::Done done) {
            gateway->Heartbeat(address, request, std::move(done));
          });
      StatusOr<HeartbeatResponse> answer = co_await call;
      if (!answer.ok()) {
        log::Warning("heartbeat failed coordinator=", address_,
                     " error=", answer.status().message());
        registered = false;
        continue;
      }
      last_contact_us_ = environment_.clock->MonotonicMicros();
      if (!answer->known || answer->coordinator < number_) {
        log::Info("coordinator does not know this worker: registering again coordinator=",
                  address_);
        registered = false;
        continue;
      }
      HeardOf(answer->coordinator);
      callbacks_.heard(request.hosted);
      for (const auto& [job, generation] : answer->end) callbacks_.end(job, generation);
    }
    address_.clear();
  }
}

Co<bool> CoordinatorLink::Join() {
  CoordinatorGateway* gateway = environment_.coordinators;
  std::string best;
  HelloResponse hello;
  std::string problem;
  for (const std::string& address : options_.coordinators) {
    Async<StatusOr<HelloResponse>> call(
        [gateway, address](Async<StatusOr<HelloResponse>>::Done done) {
          gateway->Hello(address, std::move(done));
        });
    StatusOr<HelloResponse> answer = co_await call;
    if (!answer.ok()) {
      problem = Concat("coordinator ", address, ": ", answer.status().message());
      continue;
    }
    if (best.empty() || answer->coordinator > hello.coordinator) {
      best = address;
      hello = std::move(*answer);
    }
  }
  if (!best.empty() && hello.coordinator < number_) {
    problem = Concat("coordinator ", best, " has been succeeded by number ", number_);
    best.clear();
  }
  Status refused;
  if (!best.empty()) {
    StatusOr<std::string> nonce = co_await ReadWhole(*environment_.files, hello.nonce_path, 4096);
    RegisterRequest request;
    request.worker = options_.info;
    request.coordinator = hello.coordinator;
    // An unreadable nonce is registered as none: the refusal then names both sides.
    if (nonce.ok()) request.nonce = *nonce;
    Async<StatusOr<RegisterResponse>> call(
        [gateway, best, request](Async<StatusOr<RegisterResponse>>::Done done) {
          gateway->Register(best, request, std::move(done));
        });
    StatusOr<RegisterResponse> answer = co_await call;
    if (answer.ok()) {
      address_ = best;
      HeardOf(hello.coordinator);
      heartbeat_interval_us_ = std::max<int64_t>(answer->heartbeat_interval_us, 10'000);
      last_contact_us_ = environment_.clock->MonotonicMicros();
      refused_since_us_ = 0;
      last_problem_.clear();
      log::Info("registered worker=", options_.info.name, " coordinator=", address_,
                " number=", number_, " slots=", options_.info.slots);
      co_return true;
    }
    problem = Concat("coordinator ", best, ": ", answer.status().message());
    if (!nonce.ok()) problem += Concat(" (", nonce.status().message(), ")");
    if (answer.status().domain() == ErrorDomain::kUser) refused = answer.status();
  }
  if (problem != last_problem_) {
    log::Warning("not registered: ", problem);
    last_problem_ = problem;
  }
  int64_t now_us = environment_.clock->MonotonicMicros();
  if (refused.ok()) {
    refused_since_us_ = 0;
  } else if (refused_since_us_ == 0) {
    refused_since_us_ = now_us;
  } else if (now_us - refused_since_us_ > kRefusedMaxUs) {
    environment_.die(problem);
  }
  co_return false;
}

}  // namespace weir
