#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/operator/committable_owner.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/answer_watch.h"
#include "worker/connectors/kafka/sink/topic_ends.h"

namespace weir {

// What a PlainWriter works with; timers and transactions outlive it.
struct PlainWriterOptions {
  std::string owner;     // "kafka.sink 'out'", for messages
  KafkaCluster cluster;  // of the producer
  std::string topic;     // of the producer
  KafkaTopic limits;     // by which the rows were judged
  KafkaTransactions* transactions = nullptr;
  Timers* timers = nullptr;
  std::function<void()> wake;              // Ready again
  std::function<void(Status)> fail;        // an error that ends the generation
  std::function<void(std::string)> waits;  // as AnswerWatch tells it
};

// Sends rows as they come, at least once: a Prepare is answered when the broker has acknowledged
// all of them, so that what a completed checkpoint covers is there. After a failure rows since that
// checkpoint come again. Nothing is ever to be committed. Thread: the task's.
class PlainWriter : public CommittableOwner {
 public:
  PlainWriter(std::unique_ptr<TransactionalProducer> producer, PlainWriterOptions options)
      : producer_(std::move(producer)),
        options_(std::move(options)),
        watch_(*options_.timers, options_.cluster.brokers, options_.waits),
        ends_(options_.topic, options_.cluster.brokers, *options_.timers, watch_) {}

  // Begins to send; rows may be given before.
  void Start() { scope_.Spawn(SendInOrder()); }
  // OK, or what went wrong for good.
  const Status& status() const { return failed_; }
  // Blocks of so many rows.
  void Write(std::string blocks, int64_t rows);
  // Given, and not known to be acknowledged.
  int64_t unconfirmed_rows() const { return given_.rows - confirmed_.rows; }
  int64_t unconfirmed_bytes() const { return given_.bytes - confirmed_.bytes; }
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  // Nothing is answered any more.
  void Close() { alive_ = nullptr; }

 private:
  struct Amount {
    int64_t rows = 0;
    int64_t bytes = 0;
  };
  // Blocks to be sent, or a Prepare that waits for all before it.
  struct Item {
    std::string blocks;
    std::function<void(StatusOr<std::vector<Committable>>)> done;
    Amount given;  // of a Prepare: in front of it
  };

  Co<void> SendInOrder();
  // Sends the blocks, or has all before acknowledged; what is wrong, if anything.
  Co<Status> Send(Item& item);
  Co<Status> Flush(Item& item);
  // What is to be said of rows that the topic refuses for good. Retryable where it takes others by
  // now than when they were judged: the next generation judges them anew.
  Co<Status> Refused(Status status);
  // What is to be said when the brokers do not know the topic: the next generation does not know
  // where it has to end, so this one finds out whether it is made anew or stays away.
  Co<Status> Gone(Status status);
  void Fail(Status status);
  template <typename T>
  void Answer(std::function<void(T)> done, T value);

  const std::unique_ptr<TransactionalProducer> producer_;
  const PlainWriterOptions options_;
  AnswerWatch watch_;
  TopicEnds ends_;
  std::map<int32_t, int64_t> produced_;  // rows not acknowledged, by partition
  Status failed_;
  std::deque<Item> items_;
  CoSignal changed_;
  int64_t waiting_bytes_ = 0;
  Amount given_;
  Amount confirmed_;
  mutable bool waiting_ = false;  // Ready said no
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope scope_;
};

}  // namespace weir
