#include "tests/sim/kafka/kafka_link.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/concat.h"

namespace weir::sim {

struct KafkaLink::Call {
  Process* from;
  std::weak_ptr<int> life;  // of `from`
  std::string machine;
  std::string api;
  std::string id;
  Deed deed;
  std::function<void()> unanswered;
  bool loses_answer = false;
  bool over = false;  // for its sender

  void End(const std::function<void()>& how) {
    if (std::exchange(over, true)) return;
    how();
  }
};

KafkaLink::Fate KafkaLink::FateOf(const Request& request) {
  if (hook_) return hook_(request);
  Fate fate;
  if (!faults_on_) return fate;
  fate.lose_request = scheduler_.Chance(odds_.lost_request);
  fate.lose_answer = scheduler_.Chance(odds_.lost_answer);
  if (scheduler_.Chance(odds_.cut)) {
    fate.cut = true;
    fate.lose_answer = true;
    fate.lose_request = scheduler_.Chance(0.5);
  }
  if (scheduler_.Chance(odds_.late)) {
    fate.lose_request = false;
    fate.lose_answer = true;
    fate.delay_us = scheduler_.Between(0, odds_.late_us);
  }
  return fate;
}

void KafkaLink::Send(Process& from, std::string_view api, std::string id, Deed deed,
                     std::function<void()> unanswered) {
  if (!from.alive()) return;
  if (from.paused()) {  // stopped inside this very event
    from.After(0, [this, &from, api, id = std::move(id), deed = std::move(deed),
                   unanswered = std::move(unanswered)] { Send(from, api, id, deed, unanswered); });
    return;
  }
  auto call = std::make_shared<Call>();
  call->from = &from;
  call->life = from.life();
  call->machine = from.name();
  call->api = api;
  call->id = std::move(id);
  call->deed = std::move(deed);
  call->unanswered = std::move(unanswered);
  const Fate fate = FateOf({from, call->api, call->id});
  call->loses_answer = fate.lose_answer;
  if (scheduler_.tracing()) {
    scheduler_.Trace(from.title(), Concat("asks the broker: ", api, " of ", call->id,
                                          fate.lose_request ? ", lost" : "",
                                          fate.lose_answer ? ", its answer lost" : "",
                                          fate.cut ? ", cut" : "", ", delayed by ", fate.delay_us));
  }
  const bool refused = is_down_ && !blocked_.contains(call->machine);
  from.After(fate.cut || refused ? Way() : kSocketTimeoutUs,
             [call] { call->End(call->unanswered); });
  if (fate.lose_request || refused) return;
  scheduler_.After(std::max(fate.delay_us, Way()), [this, call] { Deliver(call); });
}

void KafkaLink::Deliver(const std::shared_ptr<Call>& call) {
  if (blocked_.contains(call->machine)) return;
  const bool has_sender = !call->life.expired();
  auto answer_with = [this, &call, has_sender](std::function<void()> answer) {
    if (!has_sender) return;
    call->from->After(Way(), [call, answer = std::move(answer)] { call->End(answer); });
  };
  if (is_down_) {
    answer_with(call->unanswered);
    return;
  }
  if (observer_) observer_({*call->from, call->api, call->id}, call->over);
  std::function<void()> answer = call->deed(broker());
  if (call->loses_answer) return;
  answer_with([this, call, answer = std::move(answer), crashes = crashes_] {
    if (blocked_.contains(call->machine)) {
      call->over = false;  // it is the time-out that ends it
    } else if (crashes != crashes_) {
      call->unanswered();
    } else {
      answer();
    }
  });
}

void KafkaLink::set_down(bool down) {
  if (down && !is_down_) ++crashes_;
  is_down_ = down;
}

}  // namespace weir::sim
