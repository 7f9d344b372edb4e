#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "tests/sim/kafka/kafka_broker.h"
#include "tests/sim/process.h"
#include "tests/sim/scheduler.h"

namespace weir::sim {

// What lies between the processes of a world and its broker: each request takes its own time; it or
// its answer is lost, its connection breaks, or it is carried out long after its sender gave it up
// and asked again on a new connection, by odds or as a scenario wants it.
// Lifetime: as long as the simulation. Thread: confined to the simulation.
class KafkaLink {
 public:
  static constexpr int64_t kSocketTimeoutUs = 3'000'000;

  // Odds per request (0…1) while faults are on.
  struct Odds {
    double lost_request = 0;
    double lost_answer = 0;
    double cut = 0;   // the sender sees the connection break; the request was carried out or not
    double late = 0;  // the sender sees no answer; carried out up to late_us after it was sent
    int64_t late_us = 0;
    int64_t us_max = 3'000;  // an ordinary way to or from the broker
  };
  struct Request {
    const Process& from;
    std::string_view api;   // "EndTxn", …
    const std::string& id;  // transactional id, group or topic
  };
  struct Fate {
    bool lose_request = false;
    bool lose_answer = false;
    bool cut = false;      // with either of them: the sender knows at once
    int64_t delay_us = 0;  // at least, to the broker
  };
  // Carried out by the broker; what it returns runs at the sender with the answer.
  using Deed = std::function<std::function<void()>(KafkaBroker&)>;

  KafkaLink(Scheduler& scheduler, KafkaBroker& broker, Odds odds)
      : scheduler_(scheduler), broker_(broker), odds_(odds) {}

  // `unanswered`: the connection is gone; whether the request was or will be carried out is not
  // known. One of the two runs, as an event of the sender.
  void Send(Process& from, std::string_view api, std::string id, Deed deed,
            std::function<void()> unanswered);

  // The broker as it is now.
  KafkaBroker& broker() {
    broker_.Advance(scheduler_.now_us());
    return broker_;
  }
  // Its process died or is there again; all that it had is on disk.
  void set_down(bool down);
  bool down() const { return is_down_; }
  // Nothing goes between a machine, by name, and the broker.
  void Block(const std::string& machine) { blocked_.insert(machine); }
  void Unblock(const std::string& machine) { blocked_.erase(machine); }
  void UnblockAll() { blocked_.clear(); }
  void set_faults_on(bool on) { faults_on_ = on; }
  // A scenario's own fate for a request; the odds do not decide then.
  void set_hook(std::function<Fate(const Request&)> hook) { hook_ = std::move(hook); }
  // Told of each request that is carried out; `late`: nobody waits for its answer any more.
  void set_observer(std::function<void(const Request&, bool late)> observer) {
    observer_ = std::move(observer);
  }

 private:
  struct Call;
  Fate FateOf(const Request& request);
  int64_t Way() { return scheduler_.Between(1, odds_.us_max); }
  void Deliver(const std::shared_ptr<Call>& call);

  Scheduler& scheduler_;
  KafkaBroker& broker_;
  const Odds odds_;
  bool faults_on_ = false;
  bool is_down_ = false;
  int64_t crashes_ = 0;
  std::set<std::string> blocked_;
  std::function<Fate(const Request&)> hook_;
  std::function<void(const Request&, bool)> observer_;
};

}  // namespace weir::sim
