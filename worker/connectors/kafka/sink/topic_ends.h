#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/answer_watch.h"

namespace weir {

// How far a topic has to go, from what was seen of it and written into it: one that is not there,
// or ends earlier, was deleted. Clients are not told which topic of a name they write to, so one
// that was made anew and has as many rows again cannot be told from the old one.
// Lifetime: `timers` and `watch` outlive it. Thread: confined to the executor of its timers.
class TopicEnds {
 public:
  // A topic that brokers do not know is looked for again so many times, for they may have just come
  // back and not know it yet; and how long after each time.
  static constexpr int kGoneDoubts = 30;
  // So many times where they are known to be here.
  static constexpr int kShortDoubts = 6;
  static constexpr int64_t kDoubtMicros = 1'000'000;
  // What is said of it; `over`: the last time.
  static Status GoneError(const std::string& topic, bool over, const Status& seen);

  TopicEnds(std::string topic, std::string brokers, Timers& timers, AnswerWatch& watch)
      : topic_(std::move(topic)), brokers_(std::move(brokers)), timers_(timers), watch_(watch) {}

  // So many rows, by partition, have been acknowledged since the last look.
  void Add(const std::map<int32_t, int64_t>& rows);
  // Looks at the topic with an initialised producer that does nothing else. Brokers that have just
  // come back may not know all: what is wrong is an error, of the user's domain, when it stays so
  // for some seconds. Retryable: they do not answer.
  Co<Status> Look(TransactionalProducer& producer);

 private:
  // OK, or what partition ends too early.
  Status Compare(const std::vector<int64_t>& ends) const;

  const std::string topic_;
  const std::string brokers_;
  Timers& timers_;
  AnswerWatch& watch_;
  std::vector<int64_t> ends_;  // at least, by partition; empty: not looked yet
};

}  // namespace weir
