#include "worker/connectors/kafka/source/known_rows.h"

#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {
namespace {

constexpr int64_t kPatienceMicros = 5'000'000;
// Retention or compaction may have taken the row: how many partitions of a topic are tried.
constexpr int kTries = 3;

}  // namespace

KnownRows::KnownRows(KafkaConsumers& consumers, Executor& owner, Timers& timers,
                     KafkaConsumerOptions options)
    : consumers_(consumers), owner_(owner), timers_(timers), options_(std::move(options)) {}

KnownRows::~KnownRows() { timers_.Cancel(timer_); }

Co<StatusOr<std::optional<KafkaRowMark>>> KnownRows::FirstRow(TopicPartition partition,
                                                              int64_t offset) {
  StatusOr<std::unique_ptr<KafkaConsumer>> made =
      consumers_.MakeConsumer(owner_, options_, [this] { changed_.Notify(); });
  if (!made.ok()) co_return made.status();
  consumer_ = *std::move(made);
  late_ = false;
  timer_ = timers_.After(kPatienceMicros, [this] {
    late_ = true;
    changed_.Notify();
  });
  const std::vector<KafkaAssignment> assignments = {{.partition = partition, .offset = offset}};
  const Status assigned = co_await Async<Status>([this, &assignments](Async<Status>::Done done) {
    consumer_->Assign(assignments, std::move(done));
  });
  StatusOr<std::optional<KafkaRowMark>> first = UnavailableError("no answer in time");
  KafkaBatch batch;
  bool over = !assigned.ok();
  while (!over && !late_) {
    consumer_->Poll(1, &batch);
    for (const KafkaEvent& event : batch.events) {
      if (event.kind != KafkaEvent::Kind::kPartitionEnd &&
          event.kind != KafkaEvent::Kind::kOutOfRange) {
        continue;
      }
      first = std::optional<KafkaRowMark>();
      over = true;
    }
    if (!batch.rows.empty()) {
      first = std::optional(MarkOf(batch.rows.front()));
      over = true;
    }
    if (!over && batch.empty()) co_await changed_.Wait();
  }
  timers_.Cancel(timer_);
  // Not inside its own waking.
  timers_.After(0, [gone = std::shared_ptr<KafkaConsumer>(std::move(consumer_))] {});
  co_return first;
}

Co<Status> KnownRows::Check(std::map<TopicPartition, KafkaRowMark> last) {
  std::map<std::string, int> tries;      // by topic
  std::map<std::string, bool> is_known;  // by topic
  for (const auto& [partition, now] : last) {
    const auto known = known_.find(partition);
    if (known == known_.end()) {
      known_[partition] = now;
      continue;
    }
    // Nothing was read since that could have been missed.
    if (known->second == now) continue;
    if (is_known[partition.topic] || tries[partition.topic]++ >= kTries) continue;
    const KafkaRowMark expected = known->second;
    Co<StatusOr<std::optional<KafkaRowMark>>> reading = FirstRow(partition, expected.offset);
    const StatusOr<std::optional<KafkaRowMark>> first = co_await reading;
    if (!first.ok()) co_return Status();
    const std::optional<KafkaRowMark>& found = *first;
    if (!found.has_value() || found->offset != expected.offset) {
      log::Debug("kafka: the row at offset ", expected.offset, " of ", ToString(partition),
                 " is not there any more");
      known_[partition] = now;
      continue;
    }
    if (*found != expected) {
      co_return FailedPreconditionError(
          Concat(ToString(partition), " was read, but another row stands at offset ",
                 expected.offset, " now: the topic was deleted and made anew"));
    }
    is_known[partition.topic] = true;
  }
  for (const auto& [partition, now] : last) {
    if (is_known[partition.topic]) known_[partition] = now;
  }
  co_return Status();
}

}  // namespace weir
