#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/control/gateways.h"
#include "common/control/handlers.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/world.h"

namespace weir::sim {

// The control calls between the processes of a world: each takes its own time, so that they
// overtake each other; requests and answers are lost, delayed and delivered twice by the world's
// odds. An unanswered call is answered kUnavailable after the deadline that the gRPC gateways have,
// one whose peer died at once. Thread: confined to the simulation.
class Network {
 public:
  // One call, before it is delivered.
  struct Message {
    const Process& from;
    std::string_view to;      // address
    std::string_view method;  // "Trigger", "Acknowledge", …
    Generation generation;
    CheckpointId checkpoint;  // of those that are about one; the lowest of several acks
  };
  // A scenario's own fate for a call; the odds decide when it has none.
  struct Fate {
    bool lose_request = false;
    bool lose_reply = false;
    int64_t delay_us = 0;          // of the request
    int64_t repeat_after_us = -1;  // delivered once more; -1: not
  };

  Network(Scheduler& scheduler, const World& world, Probes& probes);

  // Who answers at an address, as long as the process lives.
  void Listen(const std::string& address, Process& process, CoordinatorHandler* handler);
  void Listen(const std::string& address, Process& process, WorkerHandler* handler);
  // The process was killed: its calls and connections break.
  void OnDeath(Process& process);

  std::unique_ptr<CoordinatorGateway> MakeCoordinatorGateway(Process& process);
  std::unique_ptr<WorkerGateway> MakeWorkerGateway(Process& process);

  void set_faults_on(bool on) { faults_on_ = on; }
  // Nothing goes from one process to the other, by name, until it is unblocked.
  void Block(const std::string& from, const std::string& to) { blocked_.insert({from, to}); }
  void Unblock(const std::string& from, const std::string& to) { blocked_.erase({from, to}); }
  void UnblockAll() { blocked_.clear(); }
  bool IsBlocked(const std::string& from, const std::string& to) const {
    return !blocked_.empty() && blocked_.contains({from, to});
  }
  // The connection a coordinator watches breaks, though both live.
  void BreakWatch(const std::string& watcher, const std::string& worker);

  void set_hook(std::function<Fate(const Message&)> hook) { hook_ = std::move(hook); }
  void set_ack_observer(std::function<void(const AcknowledgeRequest&)> observer) {
    ack_observer_ = std::move(observer);
  }
  void set_start_observer(std::function<void(const StartTasksRequest&)> observer) {
    start_observer_ = std::move(observer);
  }

 private:
  class CoordinatorCalls;
  class WorkerCalls;
  struct Endpoint {
    Process* process = nullptr;
    CoordinatorHandler* coordinator = nullptr;
    WorkerHandler* worker = nullptr;
  };
  struct Watched {
    Process* watcher;
    std::string address;
    std::function<void()> broken;
  };
  template <typename Answer>
  struct Call;
  // Calls under way at a process, so that its death can answer them.
  struct Open {
    std::weak_ptr<void> alive;
    std::function<void()> fail;
  };

  template <typename Answer>
  void Send(Process& from, std::string address, std::string_view method, Generation generation,
            CheckpointId checkpoint,
            std::function<void(Endpoint&, std::function<void(Answer)>)> deliver,
            std::function<void(Answer)> done);
  template <typename Answer>
  void Deliver(const std::shared_ptr<Call<Answer>>& call, bool reply_lost, bool counts);
  int64_t Delay();

  Scheduler& scheduler_;
  const World& world_;
  Probes& probes_;
  bool faults_on_ = false;
  std::map<std::string, Endpoint> endpoints_;
  std::set<std::pair<std::string, std::string>> blocked_;
  std::vector<Watched> watches_;
  std::map<Process*, std::vector<Open>> open_;
  std::map<std::pair<std::string, Generation>, CheckpointId> last_notice_;  // by worker address
  std::function<Fate(const Message&)> hook_;
  std::function<void(const StartTasksRequest&)> start_observer_;
  std::function<void(const AcknowledgeRequest&)> ack_observer_;  // delivered ones
};

}  // namespace weir::sim
