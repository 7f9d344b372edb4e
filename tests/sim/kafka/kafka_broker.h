#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::sim {

// Answers of a broker, by their numbers in Kafka's protocol; as it gives them to the request
// versions of librdkafka 2.0.2.
enum class KafkaError : int16_t {
  kNone = 0,
  kUnknownTopicOrPartition = 3,
  kMessageTooLarge = 10,
  kOutOfOrderSequenceNumber = 45,
  kInvalidProducerEpoch = 47,
  kInvalidTxnState = 48,
  kInvalidProducerIdMapping = 49,
  kInvalidTransactionTimeout = 50,
  kConcurrentTransactions = 51,
  kUnstableOffsetCommit = 88,
};
std::string_view ToString(KafkaError error);

struct KafkaProducerId {
  int64_t id = -1;
  int16_t epoch = -1;
  bool operator==(const KafkaProducerId&) const = default;
};

struct KafkaModelRecord {
  std::optional<std::string> key;
  std::optional<std::string> value;
  int64_t timestamp_ms = -1;
};

struct KafkaGroupOffset {
  int64_t offset = -1;  // -1: none was ever committed
  std::string metadata;
  bool operator==(const KafkaGroupOffset&) const = default;
};

// One Kafka broker in memory, as far as transactions go: logs of records, transactional ids with
// their producer's id and epoch, offsets of groups. Transactions are those of protocol V1, which
// librdkafka speaks: ending one does not raise the epoch, so that an EndTxn that comes late ends
// the next transaction of the same instance. Every request is carried out at once; what the broker
// does by itself (ending partitions one by one after an EndTxn, giving up transactions that take
// too long) happens in Advance, which comes before each request. kafka_model_test.py plays the same
// calls to it and to a real broker.
// Lifetime: holds all that a real one has on disk, so that a crash changes nothing.
// Thread: confined to its owner.
class KafkaBroker {
 public:
  struct Options {
    int64_t transaction_timeout_us_max = 900'000'000;  // transaction.max.timeout.ms
    // transaction.abort.timed.out.transaction.cleanup.interval.ms: looked for so often.
    int64_t timed_out_check_us = 10'000'000;
    // From the EndTxn until one of its partitions or groups knows; asked for each.
    std::function<int64_t()> end_marker_us = [] { return int64_t{2'000}; };
  };
  // Of a partition: not behind it; of a group: partition -1 and the group's name.
  using Place = std::pair<std::string, int32_t>;

  explicit KafkaBroker(Options options) : options_(std::move(options)) {}

  void CreateTopic(const std::string& topic, int partitions, int64_t message_bytes_max = 1'048'588);

  // Everything until then has happened. Time never goes back.
  void Advance(int64_t now_us);

  // Requests. `id`: the transactional id; "": idempotent only.
  KafkaError Metadata(const std::string& topic, int32_t* partitions, int64_t* message_bytes_max);
  // kConcurrentTransactions: what the id had open is being ended, ask again. `timeout_us`: of its
  // transactions.
  KafkaError InitProducerId(const std::string& id, int64_t timeout_us, KafkaProducerId* producer);
  KafkaError AddPartition(const std::string& id, KafkaProducerId producer, const std::string& topic,
                          int32_t partition);
  KafkaError AddOffsets(const std::string& id, KafkaProducerId producer, const std::string& group);
  // `sequence`: of the first record, counted from 0 in each partition by each epoch.
  KafkaError Produce(const std::string& id, KafkaProducerId producer, const std::string& topic,
                     int32_t partition, int32_t sequence, std::vector<KafkaModelRecord> records);
  KafkaError TxnOffsetCommit(const std::string& id, KafkaProducerId producer,
                             const std::string& group, const std::string& topic, int32_t partition,
                             KafkaGroupOffset offset);
  KafkaError EndTxn(const std::string& id, KafkaProducerId producer, bool commit);
  // read_committed: kUnstableOffsetCommit while a transaction holds one for it.
  KafkaError OffsetFetch(const std::string& group, const std::string& topic, int32_t partition,
                         KafkaGroupOffset* offset);
  // As by an operator: nothing is committed any more.
  void DeleteGroup(const std::string& group) { groups_.erase(group); }

  // To look. Of a partition that exists.
  int64_t high_watermark(const std::string& topic, int32_t partition) const;
  int64_t last_stable_offset(const std::string& topic, int32_t partition) const;
  // What a reader with isolation.level read_committed has seen at its end.
  std::vector<const KafkaModelRecord*> ReadCommitted(const std::string& topic,
                                                     int32_t partition) const;
  std::vector<std::string> topics() const;
  int32_t partitions(const std::string& topic) const;
  // As the broker's tool names it: "Empty", "Ongoing", "PrepareCommit", …; "": no such id.
  std::string_view StateOf(const std::string& id) const;
  // Ids of transactions that are open or being ended.
  std::vector<std::string> OpenTransactions() const;
  KafkaGroupOffset Committed(const std::string& group, const std::string& topic,
                             int32_t partition) const;
  // The same as it will be when what is decided has reached the group.
  KafkaGroupOffset Decided(const std::string& group, const std::string& topic,
                           int32_t partition) const;
  // Aborted because they took too long.
  int64_t timed_out() const { return timed_out_; }

  // Told of what transactions make visible, as it happens. Views are valid during the call.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnCommitted(const std::string& topic, int32_t partition,
                             const std::vector<const KafkaModelRecord*>& records) = 0;
    // The transaction has the offset; nobody sees it yet.
    virtual void OnOffsetSent(const std::string& group, const KafkaGroupOffset& offset) = 0;
    virtual void OnOffsetCommitted(const std::string& group, const KafkaGroupOffset& before,
                                   const KafkaGroupOffset& offset) = 0;
  };
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  enum class State {
    kEmpty,
    kOngoing,
    kPrepareCommit,
    kPrepareAbort,
    kCompleteCommit,
    kCompleteAbort
  };
  struct Transactions {  // of one id: one after the other
    KafkaProducerId producer;
    int64_t timeout_us = 0;
    State state = State::kEmpty;
    int64_t started_us = 0;
    std::set<Place> places;
    std::vector<std::pair<int64_t, Place>> markers;  // while being ended: when, where
  };
  struct Entry {
    enum class Fate : uint8_t { kOpen, kVisible, kAborted, kControl };
    Fate fate = Fate::kOpen;
    int64_t producer = -1;
    KafkaModelRecord record;
  };
  struct LogProducer {
    int16_t epoch = -1;
    int32_t next_sequence = 0;
    int64_t first_open = -1;  // offset; -1: no transaction
  };
  struct Partition {
    std::vector<Entry> log;  // by offset
    std::map<int64_t, LogProducer> producers;
  };
  struct Topic {
    int64_t message_bytes_max = 0;
    std::vector<Partition> partitions;
  };
  struct Group {
    std::map<Place, KafkaGroupOffset> committed;
    std::map<int64_t, std::map<Place, KafkaGroupOffset>> pending;  // by producer
    std::map<int64_t, int16_t> epochs;                             // by producer
  };

  Partition* Find(const std::string& topic, int32_t partition);
  const Partition& At(const std::string& topic, int32_t partition) const;
  // kNone: the producer is the id's present one.
  KafkaError Check(const std::string& id, KafkaProducerId producer) const;
  KafkaError Add(const std::string& id, KafkaProducerId producer, Place place);
  // What a partition or a group that knows of no open transaction asks the coordinator.
  KafkaError Verify(const std::string& id, KafkaProducerId producer, const Place& place) const;
  void Prepare(Transactions& transactions, bool commit);
  int64_t TimesOutAt(const Transactions& transactions) const;
  void EndAt(const Transactions& transactions, const Place& place);

  const Options options_;
  int64_t now_us_ = 0;
  int64_t next_producer_ = 1000;
  int64_t timed_out_ = 0;
  std::map<std::string, Topic> topics_;
  std::map<std::string, Group> groups_;
  std::map<std::string, Transactions> ids_;
  Observer* observer_ = nullptr;
};

}  // namespace weir::sim
