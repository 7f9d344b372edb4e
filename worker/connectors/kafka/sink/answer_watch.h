#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/threading/executor.h"

namespace weir {

// Says of calls to a Kafka cluster, made one after the other, when an answer is long in coming or
// has not come. Lifetime: as long as somebody calls; timers outlive it. Thread: confined to the
// executor of its timers.
class AnswerWatch {
 public:
  // What a sink waits for is said after this time.
  static constexpr int64_t kPatienceMicros = 3'000'000;

  // `waits`: told what is waited for, "" when that is over. It may be empty.
  AnswerWatch(Timers& timers, std::string brokers, std::function<void(std::string)> waits,
              int64_t patience_us = kPatienceMicros)
      : timers_(timers),
        brokers_(std::move(brokers)),
        waits_(std::move(waits)),
        patience_us_(patience_us) {}
  AnswerWatch(const AnswerWatch&) = delete;
  ~AnswerWatch() { timers_.Cancel(timer_); }

  // A call was made, to do `what` ("commit a transaction").
  void Begin(std::string_view what);
  // While it is under way: what keeps it from being answered.
  void Note(std::string what);
  // Its outcome; kUnavailable: no broker gave it.
  void End(const Status& status);

 private:
  void Tell(std::string what);

  Timers& timers_;
  const std::string brokers_;
  const std::function<void(std::string)> waits_;
  const int64_t patience_us_;
  TimerId timer_ = 0;
  bool told_ = false;
};

}  // namespace weir
