#include "worker/connectors/kafka/sink/topic_watch.h"

#include <utility>

#include "worker/connectors/kafka/sink/sink_topic.h"
#include "worker/connectors/kafka/sink/topic_ends.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kAwayMicros = 5'000'000;

}  // namespace

void TopicWatch::Begin(std::function<void(Status)> deleted) {
  deleted_ = std::move(deleted);
  if (!untold_.ok()) Tell();
  if (std::exchange(watches_, true)) return;
  timer_ = timers_.After(kPatienceMicros, [this] { scope_.Spawn(Look()); });
}

void TopicWatch::End(bool progress) {
  deleted_ = nullptr;
  if (!progress) return;
  watches_ = false;
  untold_ = Status();
  timers_.Cancel(timer_);
  scope_.Clear();
}

void TopicWatch::Tell() {
  timers_.After(0, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || !deleted_ || untold_.ok()) return;
    const Status wrong = std::exchange(untold_, Status());
    std::exchange(deleted_, nullptr)(wrong);
  });
}

Co<void> TopicWatch::Look() {
  int doubts = 0;
  int doubts_max = TopicEnds::kShortDoubts;
  while (true) {
    StatusOr<KafkaTopic> topic = co_await DescribeTopic(transactions_, cluster_, topic_);
    const bool is_missing = topic.status().code() == StatusCode::kNotFound;
    if (!is_missing && !topic.ok()) doubts_max = TopicEnds::kGoneDoubts;
    doubts = is_missing ? doubts + 1 : 0;
    const bool over = doubts >= doubts_max;
    const Status wrong = TopicEnds::GoneError(topic_, over, topic.status());
    if (is_missing) answers_.Note(wrong.message());
    // Between two calls nobody wants to know: the next one hears of it.
    if (over && deleted_) {
      is_deleted_ = true;
      untold_ = wrong;
      Tell();
      co_return;
    }
    co_await Sleep(timers_, topic.ok() || is_missing ? TopicEnds::kDoubtMicros : kAwayMicros);
  }
}

}  // namespace weir
