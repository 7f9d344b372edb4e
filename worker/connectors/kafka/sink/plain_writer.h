#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/operator/committable_owner.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"

namespace weir {

// Sends rows as they come, at least once: a Prepare is answered when the broker has acknowledged
// all of them, so that what a completed checkpoint covers is there. After a failure rows since that
// checkpoint come again. Nothing is ever to be committed. Thread: the task's.
class PlainWriter : public CommittableOwner {
 public:
  // `wake`: Ready again. `fail`: an error that ends the generation.
  PlainWriter(std::unique_ptr<TransactionalProducer> producer, std::string owner, Timers* timers,
              std::function<void()> wake, std::function<void(Status)> fail)
      : producer_(std::move(producer)),
        owner_(std::move(owner)),
        timers_(*timers),
        wake_(std::move(wake)),
        fail_(std::move(fail)) {}

  // Begins to send; rows may be given before.
  void Start() { scope_.Spawn(SendInOrder()); }
  // OK, or what went wrong for good.
  const Status& status() const { return failed_; }
  void Write(std::string blocks);
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  // Nothing is answered any more.
  void Close() { alive_ = nullptr; }

 private:
  // Blocks to be sent, or a Prepare that waits for all before it.
  struct Item {
    std::string blocks;
    std::function<void(StatusOr<std::vector<Committable>>)> done;
  };

  Co<void> SendInOrder();
  void Fail(const KafkaResult& result, std::string_view what);
  template <typename T>
  void Answer(std::function<void(T)> done, T value);

  const std::unique_ptr<TransactionalProducer> producer_;
  const std::string owner_;
  Timers& timers_;
  const std::function<void()> wake_;
  const std::function<void(Status)> fail_;
  Status failed_;
  std::deque<Item> items_;
  CoSignal changed_;
  int64_t waiting_bytes_ = 0;
  mutable bool waiting_ = false;  // Ready said no
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope scope_;
};

}  // namespace weir
