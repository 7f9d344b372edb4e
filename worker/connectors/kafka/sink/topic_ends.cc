#include "worker/connectors/kafka/sink/topic_ends.h"

#include <algorithm>

#include "common/base/concat.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

Status TopicEnds::GoneError(const std::string& topic, bool over, const Status& seen) {
  return FailedPreconditionError(Concat("topic '", topic, "', or a partition of it, ",
                                        over ? "was deleted (" : "is not there any more (",
                                        seen.message(), ")"));
}

void TopicEnds::Add(const std::map<int32_t, int64_t>& rows) {
  for (const auto& [partition, count] : rows) {
    if (static_cast<size_t>(partition) < ends_.size()) {
      ends_[static_cast<size_t>(partition)] += count;
    }
  }
}

Status TopicEnds::Compare(const std::vector<int64_t>& ends) const {
  for (size_t i = 0; i < std::min(ends.size(), ends_.size()); ++i) {
    if (ends[i] >= ends_[i]) continue;
    return FailedPreconditionError(
        Concat("topic '", topic_, "' was deleted and made anew, or has lost rows: partition ", i,
               " ends at offset ", ends[i], " (Kafka brokers ", brokers_,
               "), but what was written there goes up to offset ", ends_[i], " at least"));
  }
  return {};
}

Co<Status> TopicEnds::Look(TransactionalProducer& producer) {
  using Answer = StatusOr<std::vector<int64_t>>;
  for (int doubts = 1;; ++doubts) {
    watch_.Begin(Concat("tell the ends of topic '", topic_, "'"));
    Answer ends = co_await Async<Answer>(
        [&producer](Async<Answer>::Done done) { producer.FindEnds(std::move(done)); });
    Status wrong;
    bool over = false;
    if (ends.ok()) {
      wrong = Compare(*ends);
      over = doubts >= kShortDoubts;
    } else if (ends.status().code() == StatusCode::kNotFound) {
      over = doubts >= kGoneDoubts;
      wrong = GoneError(topic_, over, ends.status());
    } else {
      watch_.End(ends.status());
      co_return ends.status();
    }
    if (wrong.ok()) ends_ = *std::move(ends);
    watch_.End(wrong.ok() ? Status() : UnavailableError(wrong.message()));
    if (wrong.ok() || over) co_return wrong;
    co_await Sleep(timers_, kDoubtMicros);
  }
}

}  // namespace weir
