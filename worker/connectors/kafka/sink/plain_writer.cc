#include "worker/connectors/kafka/sink/plain_writer.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
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

void PlainWriter::Write(std::string blocks) {
  waiting_bytes_ += static_cast<int64_t>(blocks.size());
  items_.push_back({.blocks = std::move(blocks), .done = nullptr});
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
  items_.push_back({.blocks = {}, .done = std::move(done)});
  changed_.Notify();
}

void PlainWriter::Publish(CheckpointId checkpoint, std::function<void(Status)> done) {
  (void)checkpoint;
  Answer(std::move(done), Status());
}

void PlainWriter::Fail(const KafkaResult& result, std::string_view what) {
  failed_ = result.status.WithContext(Concat(options_.owner, ": cannot ", what));
  for (Item& item : items_) {
    if (item.done == nullptr) continue;
    Answer<StatusOr<std::vector<Committable>>>(std::move(item.done), failed_);
  }
  items_.clear();
  if (alive_ != nullptr) options_.fail(failed_);
}

Co<void> PlainWriter::SendInOrder() {
  while (true) {
    while (items_.empty()) co_await changed_.Wait();
    Item& item = items_.front();  // stays in its place while others come
    if (item.done == nullptr) {
      const int64_t bytes = static_cast<int64_t>(item.blocks.size());
      watch_.Begin("take rows");
      KafkaResult result = co_await Produce(*producer_, std::move(item.blocks));
      watch_.End(result.status);
      if (!result.done()) {
        Fail(result, "send rows");
        co_return;
      }
      waiting_bytes_ -= bytes;
      if (alive_ != nullptr && waiting_ && Ready()) options_.wake();
    } else {
      watch_.Begin("acknowledge rows");
      KafkaResult result = co_await Async<KafkaResult>(
          [this](Async<KafkaResult>::Done done) { producer_->Commit(std::move(done)); });
      watch_.End(result.status);
      if (result.verdict == KafkaVerdict::kUnknown) {
        log::Warning(options_.owner, " waits for rows to be acknowledged: ", result.status.message());
        co_await Sleep(*options_.timers, kAskAgainMicros);
        continue;
      }
      if (!result.done()) {
        Fail(result, "flush rows");
        co_return;
      }
      Answer<StatusOr<std::vector<Committable>>>(std::move(item.done), std::vector<Committable>());
    }
    items_.pop_front();
  }
}

}  // namespace weir
