#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/threading/executor.h"

// What publishing asks of a Kafka cluster, in domain types: librdkafka is behind it, or the
// simulator. Every call returns at once and its outcome comes back as mail on the executor the
// object was made for.
namespace weir {

// How a cluster is reached.
struct KafkaCluster {
  std::string brokers;                            // host:port, split by commas
  std::map<std::string, std::string> properties;  // librdkafka's, as the user gave them
};

// What became of a call of a transaction.
enum class KafkaVerdict {
  kDone,
  // No answer yet: it may have been carried out. The same call may be repeated until it answers.
  kUnknown,
  // The transaction cannot be committed: abort it; the same rows may go into another one.
  kAbort,
  // A younger instance has the id, or the broker gave the transaction up: this instance can do
  // nothing any more, and only the marker tells whether its last transaction was committed.
  kFenced,
  // The instance can do nothing any more, or the request is refused for good.
  kFatal,
};
struct KafkaResult {
  KafkaVerdict verdict = KafkaVerdict::kDone;
  Status status;  // OK with kDone
  bool done() const { return verdict == KafkaVerdict::kDone; }
};
using KafkaDone = std::function<void(KafkaResult)>;

// How far an identity has published: the last part of the last stage, committed with the rows of
// that part in one transaction.
struct KafkaMarker {
  JobId job;
  Generation generation;    // that committed it
  CheckpointId checkpoint;  // at whose barrier the stage was sealed
  int part = 0;             // from 0; of `parts`
  int parts = 1;
  bool released = false;  // the job publishes nothing more as this identity
  bool operator==(const KafkaMarker&) const = default;
};

// Where an identity's marker lies: its group's offset of one partition that exists.
struct KafkaMarkerPlace {
  std::string group;
  std::string topic;
  int32_t partition = 0;
};

struct KafkaProducerOptions {
  KafkaCluster cluster;
  std::string topic;             // of the rows
  int32_t partitions = 0;        // of that topic, as DescribeTopic tells
  std::string transactional_id;  // "": no transactions, idempotent
  int64_t transaction_timeout_us = 60'000'000;
  // Of the topic, as DescribeTopic tells: a batch of rows is a message too and never larger.
  int64_t message_bytes_max = 1'000'000;
};

// What a topic is like at the moment.
struct KafkaTopic {
  int32_t partitions = 0;
  // Of one message as the broker counts it: max.message.bytes of the topic, which is the broker's
  // message.max.bytes unless set.
  int64_t message_bytes_max = 0;
  // How far a message's timestamp may be ahead of the broker's clock, and behind it.
  int64_t timestamp_ahead_ms_max = INT64_MAX;
  int64_t timestamp_behind_ms_max = INT64_MAX;
  bool compacted = false;  // takes no message without key
  bool operator==(const KafkaTopic&) const = default;
};

// One instance of a producer with a transactional id. The calls of a transaction follow one
// another: each is made after the answer to the one before. Nothing is answered after destruction,
// which leaves an open transaction as it is: the next Initialise of the id ends it, or the broker
// after its timeout. Without a transactional id there are Initialise, Produce, Commit and FindEnds:
// that is done when the broker has acknowledged all rows so far, kFatal when it refused one.
// An answer other than kDone has a status of the user's domain where a repetition does not help (no
// permission, no such topic), with kOutOfRange where the topic refuses rows for good (too large,
// too old), else of the external one. Thread: confined to its executor.
class TransactionalProducer {
 public:
  virtual ~TransactionalProducer() = default;
  // Fences all earlier instances of the id; done when whatever they left is finally committed or
  // aborted, so that a marker read afterwards is final. Must be done once before all else.
  virtual void Initialise(KafkaDone done) = 0;
  virtual void Begin(KafkaDone done) = 0;
  // Whole blocks of kafka_records.h, without the header of a file, into the open transaction; done
  // when the producer has taken them. What becomes of them is known when the commit is.
  virtual void Produce(std::string records, KafkaDone done) = 0;
  // The marker into the open transaction. kAbort when its answer was lost.
  virtual void SendMarker(KafkaMarkerPlace place, KafkaMarker marker, KafkaDone done) = 0;
  virtual void Commit(KafkaDone done) = 0;
  virtual void Abort(KafkaDone done) = 0;
  // Of each partition of the topic the offset behind all that is in it, of open transactions too.
  // kNotFound: the cluster knows no such topic, or not all of its partitions. kUnavailable: may be
  // asked again.
  virtual void FindEnds(std::function<void(StatusOr<std::vector<int64_t>>)> done) = 0;
  // A request of a transaction was sent and its answer was lost, so that a copy may still be on the
  // way and end a later transaction half way (a torn transaction), or rows could not be delivered,
  // after which librdkafka may miscount: the next transaction has to come from a new instance.
  // Never turns false again.
  virtual bool disturbed() const = 0;
};

// What one owner asks of clusters. Nothing is answered after destruction; `owner` may go right
// after it, and producers may outlive it. Thread: confined to its executor.
class KafkaTransactions {
 public:
  virtual ~KafkaTransactions() = default;
  // User error: a property that librdkafka refuses, named.
  virtual StatusOr<std::unique_ptr<TransactionalProducer>> MakeProducer(
      KafkaProducerOptions options) = 0;
  // What is committed (read_committed); no value: none. kUnavailable: a pending commit or the
  // broker is in the way, may be asked again. User error: the marker is of another make, or its
  // group may not be read.
  virtual void ReadMarker(KafkaCluster cluster, KafkaMarkerPlace place,
                          std::function<void(StatusOr<std::optional<KafkaMarker>>)> done) = 0;
  // User error: there is no such topic, or it may not be described. kUnavailable: may be asked
  // again.
  virtual void DescribeTopic(KafkaCluster cluster, std::string topic,
                             std::function<void(StatusOr<KafkaTopic>)> done) = 0;
};

// Lifetime: outlives all that it makes. Thread: thread-safe.
class KafkaClients {
 public:
  virtual ~KafkaClients() = default;
  virtual std::unique_ptr<KafkaTransactions> TransactionsFor(Executor& owner) = 0;
};

}  // namespace weir
