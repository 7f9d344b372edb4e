#include "worker/connectors/kafka/sink/plain_writer.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/sink/sink_topic.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kWaitingBytesMax = 8 << 20;
constexpr int64_t kAskAgainMicros = 100'000;

Async<KafkaResult> Produce(TransactionalProducer& producer, std::string records) {
  return Async<KafkaResult>(
      [&producer, records = std::move(records)](Async<KafkaResult>::Done done) {
        producer.Produce(records, std::move(done));
      });
}

}  // namespace

template <typename T>
void PlainWriter::Answer(std::function<void(T)> done, T value) {
  if (alive_ == nullptr) return;
  options_.timers->After(
      0, [alive = std::weak_ptr<int>(alive_), done = std::move(done), value = std::move(value)] {
        if (!alive.expired()) done(value);
      });
}

void PlainWriter::Write(std::string blocks, int64_t rows) {
  const int64_t bytes = static_cast<int64_t>(blocks.size());
  waiting_bytes_ += bytes;
  given_ = {.rows = given_.rows + rows, .bytes = given_.bytes + bytes};
  items_.push_back({.blocks = std::move(blocks), .done = nullptr, .given = {}});
  changed_.Notify();
}

bool PlainWriter::Ready() const {
  waiting_ = waiting_bytes_ > kWaitingBytesMax;
  return !waiting_;
}

std::string PlainWriter::blocking_reason() const {
  return waiting_bytes_ > kWaitingBytesMax ? "bytes in flight" : "";
}

void PlainWriter::Prepare(CheckpointId checkpoint,
                          std::function<void(StatusOr<std::vector<Committable>>)> done) {
  (void)checkpoint;
  if (!failed_.ok()) {
    done(failed_);
    return;
  }
  items_.push_back({.blocks = {}, .done = std::move(done), .given = given_});
  changed_.Notify();
}

void PlainWriter::Publish(CheckpointId checkpoint, std::function<void(Status)> done) {
  (void)checkpoint;
  Answer(std::move(done), Status());
}

void PlainWriter::Fail(Status status) {
  failed_ = status.WithContext(options_.owner);
  for (Item& item : items_) {
    if (item.done == nullptr) continue;
    Answer<StatusOr<std::vector<Committable>>>(std::move(item.done), failed_);
  }
  items_.clear();
  if (alive_ != nullptr) options_.fail(failed_);
}

Co<Status> PlainWriter::Send(Item& item) {
  const int64_t bytes = static_cast<int64_t>(item.blocks.size());
  KafkaBlockReader blocks(item.blocks);
  KafkaBlock block;
  while (true) {
    StatusOr<bool> more = blocks.Next(&block);
    if (!more.ok()) co_return more.status();
    if (!*more) break;
    produced_[block.partition] += block.rows;
  }
  watch_.Begin("take rows");
  KafkaResult result = co_await Produce(*producer_, std::move(item.blocks));
  watch_.End(result.status);
  if (!result.done()) co_return result.status.WithContext("cannot send rows");
  waiting_bytes_ -= bytes;
  if (alive_ != nullptr && waiting_ && Ready()) options_.wake();
  co_return Status();
}

Co<Status> PlainWriter::Flush(Item& item) {
  while (true) {
    watch_.Begin("acknowledge rows");
    KafkaResult result = co_await Async<KafkaResult>(
        [this](Async<KafkaResult>::Done done) { producer_->Commit(std::move(done)); });
    watch_.End(result.status);
    if (!result.done() && result.verdict != KafkaVerdict::kUnknown) {
      co_return result.status.WithContext("cannot flush rows");
    }
    Status status = result.status;
    if (result.done()) {
      ends_.Add(std::exchange(produced_, {}));
      status = co_await ends_.Look(*producer_);
      if (!status.ok() && !status.retryable()) co_return status;
    }
    if (status.ok()) break;
    log::Warning(options_.owner, " waits for rows to be acknowledged: ", status.message());
    co_await Sleep(*options_.timers, kAskAgainMicros);
  }
  confirmed_ = item.given;
  Answer<StatusOr<std::vector<Committable>>>(std::move(item.done), std::vector<Committable>());
  co_return Status();
}

Co<Status> PlainWriter::Refused(Status status) {
  StatusOr<KafkaTopic> topic =
      co_await DescribeTopic(watch_, *options_.transactions, options_.cluster, options_.topic);
  if (!topic.ok()) co_return status.WithRetry(topic.status().retryable());
  co_return OutOfRangeError(Concat(status.message(), "; ", LimitsOf(*topic)))
      .WithRetry(*topic != options_.limits);
}

Co<Status> PlainWriter::Gone(Status status) {
  while (true) {
    Status ends = co_await ends_.Look(*producer_);
    if (ends.ok()) break;
    if (!ends.retryable()) co_return ends;
    co_await Sleep(*options_.timers, kAskAgainMicros);
  }
  // It is back, and rows are lost of which the next generation has more.
  co_return status
      .WithContext(
          Concat("topic '", options_.topic, "', or a partition of it, is not there any more"))
      .WithRetry(true);
}

Co<void> PlainWriter::SendInOrder() {
  while (true) {
    while (items_.empty()) co_await changed_.Wait();
    Item& item = items_.front();  // stays in its place while others come
    Co<Status> turn = item.done == nullptr ? Send(item) : Flush(item);
    Status status = co_await turn;
    if (status.code() == StatusCode::kOutOfRange) {
      Co<Status> refused = Refused(std::move(status));
      status = co_await refused;
    } else if (status.code() == StatusCode::kNotFound) {
      Co<Status> gone = Gone(std::move(status));
      status = co_await gone;
    }
    if (!status.ok()) {
      Fail(std::move(status));
      co_return;
    }
    items_.pop_front();
  }
}

}  // namespace weir
