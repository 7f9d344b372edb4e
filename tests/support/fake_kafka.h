#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/kafka_records.h"

namespace weir {

// A Kafka cluster of one topic in memory, as much of it as publishing sees: transactions, fencing
// by epochs, the last stable offset, markers. What a request does is done at once when it arrives;
// faults decide whether it arrives and whether its answer does. Thread: confined to the test.
class FakeKafka {
 public:
  struct Row {
    std::optional<std::string> key;
    std::optional<std::string> value;
    int64_t timestamp_ms = -1;
  };
  // What happens to one request.
  struct Fault {
    bool lose_request = false;  // it does nothing
    bool lose_answer = false;   // it does what it should; answered as if it had not
    bool hold = false;          // it comes to the broker only at ReleaseHeld; of ends alone
    KafkaVerdict verdict = KafkaVerdict::kUnknown;  // of the answer in its place
    bool disturbs = true;                           // the instance knows of it
    bool refuse = false;                            // not carried out: the rows are bad
  };
  using Faults = std::function<Fault(std::string_view call, const std::string& id)>;

  explicit FakeKafka(int32_t partitions = 3) : logs_(static_cast<size_t>(partitions)) {}

  // Asked for each request: initialise, begin, produce, marker, commit, abort, read, describe,
  // ends.
  void set_faults(Faults faults) { faults_ = std::move(faults); }
  Fault FaultOf(std::string_view call, const std::string& id) {
    ++requests_;
    return faults_ ? faults_(call, id) : Fault();
  }
  int64_t requests() const { return requests_; }
  void set_message_bytes_max(int64_t bytes) { message_bytes_max_ = bytes; }
  void DeleteGroup(const std::string& group) { markers_.erase(group); }
  void SetMarker(const std::string& group, KafkaMarker marker) {
    markers_[group] = std::move(marker);
  }
  std::optional<KafkaMarker> MarkerOf(const std::string& group) const {
    auto it = markers_.find(group);
    return it == markers_.end() ? std::nullopt : std::optional(it->second);
  }
  // Rows that a reader with read_committed sees, by partition.
  std::vector<std::vector<Row>> Visible() const {
    std::vector<std::vector<Row>> visible(logs_.size());
    for (size_t i = 0; i < logs_.size(); ++i) {
      for (const Entry& entry : logs_[i]) {
        if (StateOf(entry) == State::kOpen) break;  // the last stable offset
        if (StateOf(entry) == State::kCommitted) visible[i].push_back(entry.row);
      }
    }
    return visible;
  }
  bool AnyTransactionOpen() const {
    for (const Transaction& transaction : transactions_) {
      if (transaction.state == State::kOpen) return true;
    }
    return false;
  }
  // Delayed ends of transactions arrive: each ends what is open of its id and epoch, as brokers do
  // that know no better.
  void ReleaseHeld() {
    for (const Held& held : std::exchange(held_, {})) End(held.id, held.epoch, held.commit);
  }
  size_t held() const { return held_.size(); }

  // What requests do. False: fenced.
  int64_t Initialise(const std::string& id) {
    Identity& identity = identities_[id];
    if (identity.open) transactions_[*identity.open].state = State::kAborted;
    identity.open.reset();
    return ++identity.epoch;
  }
  bool Produce(const std::string& id, int64_t epoch, std::string_view blocks) {
    Transaction* transaction = TransactionOf(id, epoch);
    if (transaction == nullptr) return false;
    Append(blocks, static_cast<size_t>(transaction - transactions_.data()));
    return true;
  }
  // Without a transaction.
  void Append(std::string_view blocks) { Append(blocks, kNone); }
  bool SendMarker(const std::string& id, int64_t epoch, const KafkaMarkerPlace& place,
                  const KafkaMarker& marker) {
    Transaction* transaction = TransactionOf(id, epoch);
    if (transaction == nullptr) return false;
    transaction->marker = {place.group, marker};
    return true;
  }
  bool End(const std::string& id, int64_t epoch, bool commit) {
    Identity& identity = identities_[id];
    if (identity.epoch != epoch) return false;
    if (!identity.open) return true;
    Transaction& transaction = transactions_[*identity.open];
    identity.open.reset();
    transaction.state = commit ? State::kCommitted : State::kAborted;
    if (commit && transaction.marker) {
      markers_[transaction.marker->first] = transaction.marker->second;
    }
    return true;
  }
  void HoldEnd(const std::string& id, int64_t epoch, bool commit) {
    held_.push_back({id, epoch, commit});
  }
  // As by a person, with the markers that lie in it; rows of open transactions are gone, too.
  void MakeTopicAnew() {
    for (auto& log : logs_) log.clear();
    markers_.clear();
  }
  void set_gone(bool gone) { gone_ = gone; }
  StatusOr<std::vector<int64_t>> Ends() const {
    if (gone_) return NotFoundError("unknown topic");
    std::vector<int64_t> ends;
    for (const auto& log : logs_) ends.push_back(static_cast<int64_t>(log.size()));
    return ends;
  }
  KafkaTopic topic() const {
    return {.partitions = static_cast<int32_t>(logs_.size()),
            .message_bytes_max = message_bytes_max_};
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  enum class State { kOpen, kCommitted, kAborted };
  struct Transaction {
    State state = State::kOpen;
    std::optional<std::pair<std::string, KafkaMarker>> marker;  // by group
  };
  struct Identity {
    int64_t epoch = 0;
    std::optional<size_t> open;
  };
  struct Entry {
    Row row;
    size_t transaction;
  };
  struct Held {
    std::string id;
    int64_t epoch;
    bool commit;
  };

  State StateOf(const Entry& entry) const {
    return entry.transaction == kNone ? State::kCommitted : transactions_[entry.transaction].state;
  }
  // Begins one where none is open. nullptr: fenced.
  Transaction* TransactionOf(const std::string& id, int64_t epoch) {
    Identity& identity = identities_[id];
    if (identity.epoch != epoch) return nullptr;
    if (!identity.open) {
      identity.open = transactions_.size();
      transactions_.emplace_back();
    }
    return &transactions_[*identity.open];
  }
  void Append(std::string_view blocks, size_t transaction) {
    KafkaBlockReader reader(blocks);
    KafkaBlock block;
    while (*reader.Next(&block)) {
      KafkaRecordReader records(block);
      KafkaRecordView view;
      while (records.Next(&view)) {
        Row row;
        if (view.key) row.key = std::string(*view.key);
        if (view.value) row.value = std::string(*view.value);
        row.timestamp_ms = view.timestamp_ms;
        logs_.at(static_cast<size_t>(block.partition)).push_back({std::move(row), transaction});
      }
    }
  }

  std::vector<std::vector<Entry>> logs_;
  bool gone_ = false;
  std::vector<Transaction> transactions_;
  std::map<std::string, Identity> identities_;
  std::map<std::string, KafkaMarker> markers_;
  std::vector<Held> held_;
  Faults faults_;
  int64_t requests_ = 0;
  int64_t message_bytes_max_ = 1'000'000;
};

// Clients of a FakeKafka; each request and answer is mail. Thread: confined to the test.
class FakeKafkaClients : public KafkaClients {
 public:
  explicit FakeKafkaClients(FakeKafka& kafka) : kafka_(kafka) {}
  FakeKafka& kafka() const { return kafka_; }
  std::unique_ptr<KafkaTransactions> TransactionsFor(Executor& owner) override {
    return std::make_unique<Transactions>(kafka_, owner);
  }

 private:
  class Producer : public TransactionalProducer {
   public:
    Producer(FakeKafka& kafka, Executor& owner, KafkaProducerOptions options)
        : kafka_(kafka), owner_(owner), id_(options.transactional_id) {}
    void Initialise(KafkaDone done) override {
      Request("initialise", std::move(done), [this] {
        if (!id_.empty()) epoch_ = kafka_.Initialise(id_);
        return true;
      });
    }
    void Begin(KafkaDone done) override {
      Request("begin", std::move(done), [] { return true; });
    }
    void Produce(std::string records, KafkaDone done) override {
      Request("produce", std::move(done), [this, records = std::move(records)] {
        if (!id_.empty()) return kafka_.Produce(id_, epoch_, records);
        kafka_.Append(records);
        return true;
      });
    }
    void SendMarker(KafkaMarkerPlace place, KafkaMarker marker, KafkaDone done) override {
      Request("marker", std::move(done),
              [this, place, marker] { return kafka_.SendMarker(id_, epoch_, place, marker); });
    }
    void Commit(KafkaDone done) override { End("commit", true, std::move(done)); }
    void Abort(KafkaDone done) override { End("abort", false, std::move(done)); }
    void FindEnds(std::function<void(StatusOr<std::vector<int64_t>>)> done) override {
      owner_.Post([this, alive = std::weak_ptr<int>(alive_), done = std::move(done)] {
        if (alive.expired()) return;
        const FakeKafka::Fault fault = kafka_.FaultOf("ends", id_);
        StatusOr<std::vector<int64_t>> ends = UnavailableError("ends was lost");
        if (!fault.lose_request && !fault.lose_answer) ends = kafka_.Ends();
        owner_.Post([alive, done, ends] {
          if (!alive.expired()) done(ends);
        });
      });
    }
    bool disturbed() const override { return disturbed_; }

   private:
    void End(std::string_view call, bool commit, KafkaDone done) {
      Request(
          call, std::move(done),
          [this, commit] { return id_.empty() || kafka_.End(id_, epoch_, commit); }, commit);
    }
    void Request(std::string_view call, KafkaDone done, std::function<bool()> effect,
                 bool commit = false) {
      owner_.Post([this, alive = std::weak_ptr<int>(alive_), call = std::string(call),
                   done = std::move(done), effect = std::move(effect), commit] {
        if (alive.expired()) return;
        const FakeKafka::Fault fault = kafka_.FaultOf(call, id_);
        const bool lost = fault.lose_request || fault.lose_answer || fault.hold;
        disturbed_ = disturbed_ || (lost && fault.disturbs);
        if (fault.hold) kafka_.HoldEnd(id_, epoch_, commit);
        KafkaResult result;
        if (fault.refuse) {
          result = {id_.empty() ? KafkaVerdict::kFatal : KafkaVerdict::kAbort,
                    OutOfRangeError("a row of 9 bytes is too old")};
        } else if (!fault.lose_request && !fault.hold && !effect()) {
          result = {KafkaVerdict::kFenced, UnavailableError("fenced")};
        } else if (lost) {
          result = {fault.verdict, UnavailableError(call + " was lost")};
        }
        owner_.Post([alive, done, result] {
          if (!alive.expired()) done(result);
        });
      });
    }
    FakeKafka& kafka_;
    Executor& owner_;
    const std::string id_;
    int64_t epoch_ = 0;
    bool disturbed_ = false;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
  };

  class Transactions : public KafkaTransactions {
   public:
    Transactions(FakeKafka& kafka, Executor& owner) : kafka_(kafka), owner_(owner) {}
    StatusOr<std::unique_ptr<TransactionalProducer>> MakeProducer(
        KafkaProducerOptions options) override {
      return std::unique_ptr<TransactionalProducer>(
          std::make_unique<Producer>(kafka_, owner_, std::move(options)));
    }
    void ReadMarker(KafkaCluster, KafkaMarkerPlace place,
                    std::function<void(StatusOr<std::optional<KafkaMarker>>)> done) override {
      Ask<std::optional<KafkaMarker>>("read", std::move(done),
                                      [this, place] { return kafka_.MarkerOf(place.group); });
    }
    void DescribeTopic(KafkaCluster, std::string,
                       std::function<void(StatusOr<KafkaTopic>)> done) override {
      Ask<KafkaTopic>("describe", std::move(done), [this] { return kafka_.topic(); });
    }

   private:
    template <typename T>
    void Ask(std::string_view call, std::function<void(StatusOr<T>)> done,
             std::function<T()> answer) {
      owner_.Post([this, alive = std::weak_ptr<int>(alive_), call = std::string(call),
                   done = std::move(done), answer = std::move(answer)] {
        if (alive.expired()) return;
        const FakeKafka::Fault fault = kafka_.FaultOf(call, "");
        if (fault.lose_request || fault.lose_answer) {
          done(UnavailableError(call + " was lost"));
        } else {
          done(answer());
        }
      });
    }
    FakeKafka& kafka_;
    Executor& owner_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
  };

  FakeKafka& kafka_;
};

}  // namespace weir
