#include "worker/connectors/kafka/sink/answer_watch.h"

#include <utility>

#include "common/base/concat.h"

namespace weir {

void AnswerWatch::Tell(std::string what) {
  told_ = !what.empty();
  if (waits_) waits_(std::move(what));
}

void AnswerWatch::Begin(std::string_view what) {
  timers_.Cancel(timer_);
  // What the last call said of them holds until they answer.
  if (told_) return;
  timer_ = timers_.After(patience_us_, [this, what = std::string(what)] {
    Tell(Concat("Kafka brokers ", brokers_, " do not answer (to ", what, ")"));
  });
}

void AnswerWatch::Note(std::string what) {
  timers_.Cancel(timer_);
  Tell(std::move(what));
}

void AnswerWatch::End(const Status& status) {
  timers_.Cancel(timer_);
  if (status.code() == StatusCode::kUnavailable) {
    Tell(status.message());
  } else if (told_) {
    Tell("");
  }
}

}  // namespace weir
