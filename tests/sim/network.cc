#include "tests/sim/network.h"

#include <algorithm>

#include "common/base/concat.h"

namespace weir::sim {
namespace {

constexpr int64_t kDeadlineUs = 5'000'000;
constexpr size_t kOpenCallsBeforeSweep = 64;

}  // namespace

// One call: answered once, in whatever way.
template <typename Answer>
struct Network::Call {
  Process* from;
  std::string address;
  std::string_view method;
  std::function<void(Endpoint&, std::function<void(Answer)>)> deliver;
  std::function<void(Answer)> done;
  bool answered = false;

  void Finish(Answer answer) {
    if (answered) return;
    answered = true;
    std::exchange(done, nullptr)(std::move(answer));
  }
};

Network::Network(Scheduler& scheduler, const World& world, Probes& probes)
    : scheduler_(scheduler), world_(world), probes_(probes) {}

void Network::Listen(const std::string& address, Process& process, CoordinatorHandler* handler) {
  endpoints_[address] = {&process, handler, nullptr};
}

void Network::Listen(const std::string& address, Process& process, WorkerHandler* handler) {
  endpoints_[address] = {&process, nullptr, handler};
}

void Network::OnDeath(Process& process) {
  std::erase_if(endpoints_, [&](const auto& item) { return item.second.process == &process; });
  std::erase_if(watches_, [&](const Watched& watch) { return watch.watcher == &process; });
  if (auto it = open_.find(&process); it != open_.end()) {
    std::vector<Open> open = std::move(it->second);
    open_.erase(it);
    for (Open& one : open) {
      if (!one.alive.expired()) one.fail();
    }
  }
  // A connection that breaks is a fact at once, unless nothing comes through.
  std::vector<Watched> broken;
  for (auto it = watches_.begin(); it != watches_.end();) {
    if (endpoints_.contains(it->address) || IsBlocked(process.name(), it->watcher->name())) {
      ++it;
    } else {
      broken.push_back(std::move(*it));
      it = watches_.erase(it);
    }
  }
  for (Watched& watch : broken) watch.watcher->After(Delay(), std::move(watch.broken));
}

void Network::BreakWatch(const std::string& watcher, const std::string& worker) {
  for (auto it = watches_.begin(); it != watches_.end(); ++it) {
    auto endpoint = endpoints_.find(it->address);
    if (it->watcher->name() != watcher || endpoint == endpoints_.end() ||
        endpoint->second.process->name() != worker) {
      continue;
    }
    Watched watch = std::move(*it);
    watches_.erase(it);
    watch.watcher->After(Delay(), std::move(watch.broken));
    return;
  }
}

int64_t Network::Delay() {
  if (faults_on_ && scheduler_.Chance(world_.odds.rpc_slow)) {
    return scheduler_.Between(0, world_.odds.rpc_slow_us);
  }
  return scheduler_.Between(1, std::max<int64_t>(world_.rpc_us_max, 1));
}

template <typename Answer>
void Network::Send(Process& from, std::string address, std::string_view method,
                   Generation generation, CheckpointId checkpoint,
                   std::function<void(Endpoint&, std::function<void(Answer)>)> deliver,
                   std::function<void(Answer)> done) {
  if (!from.alive()) return;
  if (from.paused()) {  // stopped inside this very event
    from.After(0, [this, &from, address = std::move(address), method, generation, checkpoint,
                   deliver = std::move(deliver), done = std::move(done)] {
      Send<Answer>(from, address, method, generation, checkpoint, deliver, done);
    });
    return;
  }
  auto call = std::make_shared<Call<Answer>>();
  call->from = &from;
  call->address = std::move(address);
  call->method = method;
  call->deliver = std::move(deliver);
  call->done = std::move(done);

  Fate fate;
  fate.delay_us = Delay();
  if (hook_) {
    Fate own = hook_({from, call->address, method, generation, checkpoint});
    own.delay_us = std::max(own.delay_us, fate.delay_us);
    fate = own;
  }
  if (faults_on_) {
    const EffectOdds& odds = world_.odds;
    fate.lose_request |= scheduler_.Chance(odds.rpc_lost_request);
    fate.lose_reply |= scheduler_.Chance(odds.rpc_lost_reply);
    if (scheduler_.Chance(odds.rpc_duplicate)) {
      fate.repeat_after_us = scheduler_.Between(0, 4 * std::max<int64_t>(world_.rpc_us_max, 1));
    }
  }
  if (scheduler_.tracing()) {
    scheduler_.Trace(from.title(),
                     Concat("call ", method, " at ", call->address, " generation ", generation,
                            " checkpoint ", checkpoint, fate.lose_request ? ", lost" : "",
                            fate.lose_reply ? ", its answer lost" : "",
                            fate.repeat_after_us >= 0 ? ", twice" : ""));
  }
  from.After(kDeadlineUs, [call] {
    call->Finish(Answer(UnavailableError("no answer in time: deadline exceeded")));
  });
  if (!fate.lose_request) {
    scheduler_.After(fate.delay_us,
                     [this, call, lost = fate.lose_reply] { Deliver(call, lost, true); });
  }
  if (fate.repeat_after_us >= 0) {
    probes_.Hit(Probe::kRpcDuplicate);
    scheduler_.After(fate.delay_us + fate.repeat_after_us,
                     [this, call] { Deliver(call, true, false); });
  }
}

template <typename Answer>
void Network::Deliver(const std::shared_ptr<Call<Answer>>& call, bool reply_lost, bool counts) {
  auto it = endpoints_.find(call->address);
  if (it == endpoints_.end()) {
    if (!counts) return;
    call->from->After(Delay(),
                      [call] { call->Finish(Answer(UnavailableError("connection refused"))); });
    return;
  }
  Process& to = *it->second.process;
  if (IsBlocked(call->from->name(), to.name())) return;
  if (counts) {
    std::vector<Open>& open = open_[&to];
    if (open.size() > kOpenCallsBeforeSweep) {
      std::erase_if(open, [](const Open& one) { return one.alive.expired(); });
    }
    open.push_back({call, [this, weak = std::weak_ptr<Call<Answer>>(call)] {
                      std::shared_ptr<Call<Answer>> call = weak.lock();
                      if (!call || call->answered) return;
                      call->from->After(Delay(), [call] {
                        call->Finish(Answer(UnavailableError("connection closed")));
                      });
                    }});
  }
  to.After(0, [this, call, &to, reply_lost, counts] {
    auto there = endpoints_.find(call->address);
    if (there == endpoints_.end() || there->second.process != &to) return;
    scheduler_.Note(call->method);
    call->deliver(there->second, [this, call, &to, reply_lost, counts](Answer answer) {
      if (!to.alive() || !counts) return;
      if (reply_lost) {
        probes_.Hit(Probe::kRpcLostReply);
        return;
      }
      if (IsBlocked(to.name(), call->from->name())) return;
      call->from->After(Delay(), [call, answer = std::move(answer)] { call->Finish(answer); });
    });
  });
}

// How a worker calls coordinators.
class Network::CoordinatorCalls : public CoordinatorGateway {
 public:
  CoordinatorCalls(Network& network, Process& process) : network_(network), process_(process) {}

  void Hello(std::string address, DoneWith<HelloResponse> done) override {
    Send<StatusOr<HelloResponse>>(
        std::move(address), "Hello", {}, {},
        [](CoordinatorHandler& handler, auto answer) { handler.Hello(std::move(answer)); },
        std::move(done));
  }
  void Register(std::string address, RegisterRequest request,
                DoneWith<RegisterResponse> done) override {
    Send<StatusOr<RegisterResponse>>(
        std::move(address), "Register", {}, {},
        [&network = network_, request = std::move(request)](CoordinatorHandler& handler,
                                                            auto answer) {
          handler.Register(request, [&network, answer = std::move(answer)](
                                        const StatusOr<RegisterResponse>& response) {
            if (!response.ok() && response.status().domain() == ErrorDomain::kUser) {
              network.probes_.Hit(Probe::kRefusedWorker);
            }
            answer(response);
          });
        },
        std::move(done));
  }
  void Heartbeat(std::string address, HeartbeatRequest request,
                 DoneWith<HeartbeatResponse> done) override {
    Send<StatusOr<HeartbeatResponse>>(
        std::move(address), "Heartbeat", {}, {},
        [request = std::move(request)](CoordinatorHandler& handler, auto answer) {
          handler.Heartbeat(request, std::move(answer));
        },
        std::move(done));
  }
  void ReportTasks(std::string address, ReportTasksRequest request, Done done) override {
    Generation generation = request.generation;
    Send<Status>(
        std::move(address), "ReportTasks", generation, {},
        [request = std::move(request)](CoordinatorHandler& handler, auto answer) {
          handler.ReportTasks(request, std::move(answer));
        },
        std::move(done));
  }
  void Acknowledge(std::string address, AcknowledgeRequest request, Done done) override {
    Generation generation = request.generation;
    CheckpointId lowest(UINT64_MAX);
    for (const TaskAck& ack : request.acks) lowest = std::min(lowest, ack.checkpoint);
    Send<Status>(
        std::move(address), "Acknowledge", generation, lowest,
        [&network = network_, request = std::move(request)](CoordinatorHandler& handler,
                                                            auto answer) {
          if (network.ack_observer_) network.ack_observer_(request);
          handler.Acknowledge(request, std::move(answer));
        },
        std::move(done));
  }
  void ReportPublished(std::string address, ReportPublishedRequest request, Done done) override {
    Generation generation = request.generation;
    Send<Status>(
        std::move(address), "ReportPublished", generation, {},
        [request = std::move(request)](CoordinatorHandler& handler, auto answer) {
          handler.ReportPublished(request, std::move(answer));
        },
        std::move(done));
  }
  void ConfirmCurrent(std::string address, ConfirmCurrentRequest request, Done done) override {
    Send<Status>(
        std::move(address), "ConfirmCurrent", request.generation, {},
        [request](CoordinatorHandler& handler, auto answer) {
          handler.ConfirmCurrent(request, std::move(answer));
        },
        std::move(done));
  }
  void Leave(std::string address, WorkerName name, WorkerIncarnation incarnation,
             Done done) override {
    Send<Status>(
        std::move(address), "Leave", {}, {},
        [name = std::move(name), incarnation = std::move(incarnation)](CoordinatorHandler& handler,
                                                                       auto answer) {
          handler.Leave(name, incarnation, std::move(answer));
        },
        std::move(done));
  }

 private:
  template <typename Answer, typename F>
  void Send(std::string address, std::string_view method, Generation generation,
            CheckpointId checkpoint, F deliver, std::function<void(Answer)> done) {
    network_.Send<Answer>(
        process_, std::move(address), method, generation, checkpoint,
        [deliver = std::move(deliver)](Endpoint& endpoint, std::function<void(Answer)> answer) {
          if (endpoint.coordinator != nullptr) deliver(*endpoint.coordinator, std::move(answer));
        },
        std::move(done));
  }

  Network& network_;
  Process& process_;
};

// How a coordinator calls workers.
class Network::WorkerCalls : public WorkerGateway {
 public:
  WorkerCalls(Network& network, Process& process) : network_(network), process_(process) {}

  void CheckJob(std::string address, CheckJobRequest request, DoneWith<JobGraph> done) override {
    Send<StatusOr<JobGraph>>(
        std::move(address), "CheckJob", {}, {},
        [request = std::move(request)](WorkerHandler& handler, auto answer) {
          handler.CheckJob(request, std::move(answer));
        },
        std::move(done));
  }
  void StartTasks(std::string address, StartTasksRequest request, Done done) override {
    if (network_.start_observer_ && process_.alive()) network_.start_observer_(request);
    Generation generation = request.generation;
    Send<Status>(
        std::move(address), "StartTasks", generation, request.restore.checkpoint,
        [request = std::move(request)](WorkerHandler& handler, auto answer) {
          handler.StartTasks(request, std::move(answer));
        },
        std::move(done));
  }
  void Trigger(std::string address, TriggerRequest request, Done done) override {
    Send<Status>(
        std::move(address), "Trigger", request.generation, request.checkpoint,
        [request](WorkerHandler& handler, auto answer) {
          handler.Trigger(request, std::move(answer));
        },
        std::move(done));
  }
  void NotifyCompleted(std::string address, CheckpointNotice notice, Done done) override {
    Send<Status>(
        std::move(address), "NotifyCompleted", notice.generation, notice.checkpoint,
        [&network = network_, address, notice](WorkerHandler& handler, auto answer) {
          CheckpointId& last = network.last_notice_[{address, notice.generation}];
          if (notice.checkpoint < last) network.probes_.Hit(Probe::kCompletedNoticeLate);
          last = std::max(last, notice.checkpoint);
          handler.NotifyCompleted(notice, std::move(answer));
        },
        std::move(done));
  }
  void NotifyAborted(std::string address, CheckpointNotice notice, Done done) override {
    Send<Status>(
        std::move(address), "NotifyAborted", notice.generation, notice.checkpoint,
        [&network = network_, notice](WorkerHandler& handler, auto answer) {
          network.probes_.Hit(Probe::kCheckpointAborted);
          handler.NotifyAborted(notice, std::move(answer));
        },
        std::move(done));
  }
  void EndTasks(std::string address, EndTasksRequest request, Done done) override {
    Send<Status>(
        std::move(address), "EndTasks", request.generation, {},
        [request](WorkerHandler& handler, auto answer) {
          handler.EndTasks(request, std::move(answer));
        },
        std::move(done));
  }
  void Settle(std::string address, SettleRequest request, Done done) override {
    Generation generation = request.generation;
    Send<Status>(
        std::move(address), "Settle", generation, {},
        [&network = network_, request = std::move(request)](WorkerHandler& handler, auto answer) {
          handler.Settle(request, [&network, answer = std::move(answer)](const Status& status) {
            if (!status.ok()) network.probes_.Hit(Probe::kSettleFailed);
            answer(status);
          });
        },
        std::move(done));
  }
  void Watch(std::string address, std::function<void()> broken) override {
    if (!process_.alive()) return;
    network_.watches_.push_back({&process_, std::move(address), std::move(broken)});
  }
  void Unwatch(std::string address) override {
    std::erase_if(network_.watches_, [&](const Watched& watch) {
      return watch.watcher == &process_ && watch.address == address;
    });
  }

 private:
  template <typename Answer, typename F>
  void Send(std::string address, std::string_view method, Generation generation,
            CheckpointId checkpoint, F deliver, std::function<void(Answer)> done) {
    network_.Send<Answer>(
        process_, std::move(address), method, generation, checkpoint,
        [deliver = std::move(deliver)](Endpoint& endpoint, std::function<void(Answer)> answer) {
          if (endpoint.worker != nullptr) deliver(*endpoint.worker, std::move(answer));
        },
        std::move(done));
  }

  Network& network_;
  Process& process_;
};

std::unique_ptr<CoordinatorGateway> Network::MakeCoordinatorGateway(Process& process) {
  return std::make_unique<CoordinatorCalls>(*this, process);
}

std::unique_ptr<WorkerGateway> Network::MakeWorkerGateway(Process& process) {
  return std::make_unique<WorkerCalls>(*this, process);
}

}  // namespace weir::sim
