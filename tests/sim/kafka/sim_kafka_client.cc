#include "tests/sim/kafka/sim_kafka_client.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/threading/co.h"
#include "worker/connectors/kafka/kafka_marker.h"
#include "worker/connectors/kafka/kafka_records.h"

namespace weir::sim {
namespace {

constexpr int64_t kPatienceUs = 5'000'000;  // of a call
constexpr int64_t kReconnectUs = 50'000;
constexpr int64_t kAskAgainUs = 50'000;
constexpr std::string_view kMarkerCall = "send the marker";
constexpr size_t kBatchRows = 1000;

Async<bool> Sleep(Process& process, int64_t us) {
  return Async<bool>([&process, us](Async<bool>::Done done) {
    process.After(us, [done = std::move(done)] { done(true); });
  });
}

// Carried out by the broker. Keep it in a named variable where a flow asks.
template <typename Answer>
using Deed = std::function<Answer(KafkaBroker&)>;

// The answer to one request; no value: none came.
template <typename Answer>
Async<std::optional<Answer>> AskOnce(KafkaLink& link, Process& process, std::string_view api,
                                     std::string id, Deed<Answer> deed) {
  using Result = std::optional<Answer>;
  return Async<Result>([&link, &process, api, id = std::move(id),
                        deed = std::move(deed)](typename Async<Result>::Done done) {
    link.Send(
        process, api, id,
        [deed, done](KafkaBroker& broker) -> std::function<void()> {
          return [answer = deed(broker), done] { done(answer); };
        },
        [done] { done(std::nullopt); });
  });
}

Status StatusOf(KafkaError error, std::string_view what) {
  std::string text = Concat("cannot ", what, ": ", ToString(error));
  switch (error) {
    case KafkaError::kNone:
      return {};
    case KafkaError::kUnknownTopicOrPartition:
    case KafkaError::kMessageTooLarge:
    case KafkaError::kInvalidTransactionTimeout:
      return InvalidArgumentError(std::move(text));
    default:
      return UnavailableError(std::move(text));
  }
}

}  // namespace

// One instance of librdkafka with its thread: what it was told to do it goes on with, whether or
// not somebody waits for it.
class SimKafkaProducer : public TransactionalProducer {
 public:
  SimKafkaProducer(SimKafkaClients& clients, Process& process, Executor& owner,
                   std::weak_ptr<int> owner_life, KafkaProducerOptions options)
      : clients_(clients),
        process_(process),
        owner_(owner),
        owner_life_(std::move(owner_life)),
        options_(std::move(options)) {}

  void Initialise(KafkaDone done) override {
    Run("initialise", [this] { return InitialiseFlow(); }, std::move(done));
  }
  void Begin(KafkaDone done) override {
    in_transaction_ = true;
    transaction_result_ = {};
    Answer(std::move(done), instance_result_);
  }
  void Produce(std::string records, KafkaDone done) override {
    Answer(std::move(done), Enqueue(records));
  }
  void SendMarker(KafkaMarkerPlace place, KafkaMarker marker, KafkaDone done) override {
    Run(
        kMarkerCall, [this, place, marker] { return SendMarkerFlow(place, marker); },
        std::move(done));
  }
  void Commit(KafkaDone done) override {
    Run("commit", [this] { return CommitFlow(); }, std::move(done));
  }
  void Abort(KafkaDone done) override {
    Run("abort", [this] { return AbortFlow(); }, std::move(done));
  }
  void FindEnds(std::function<void(StatusOr<std::vector<int64_t>>)> done) override {
    scope_.Spawn(FindEndsFlow(std::move(done)));
  }
  bool disturbed() const override { return disturbed_; }

 private:
  struct Batch {
    int32_t partition = 0;
    std::vector<KafkaModelRecord> records;
  };
  // A call under way; it goes on when its caller was told kUnknown.
  struct Operation {
    std::string_view what;
    bool abandoned = false;
    std::optional<KafkaResult> result;
    KafkaDone waiting;
    int64_t calls = 0;
  };

  const std::string& id() const { return options_.transactional_id; }

  void Answer(KafkaDone done, KafkaResult result) {
    if (owner_life_.expired()) return;
    owner_.Post([alive = std::weak_ptr<int>(alive_), owner = owner_life_, done = std::move(done),
                 result = std::move(result)] {
      if (!alive.expired() && !owner.expired()) done(result);
    });
  }

  void Run(std::string_view what, const std::function<Co<KafkaResult>()>& flow, KafkaDone done) {
    if (!operation_) {
      operation_ = std::make_shared<Operation>();
      operation_->what = what;
      operation_->waiting = std::move(done);
      scope_.Spawn(Carry(operation_, flow()));
    } else {
      // Only the same call may be repeated, once it has been answered.
      WEIR_CHECK(!operation_->waiting && operation_->what == what);
      operation_->waiting = std::move(done);
    }
    Tell();
    if (!operation_) return;
    const int64_t call = ++operation_->calls;
    process_.After(kPatienceUs, [this, alive = std::weak_ptr<int>(alive_), call,
                                 operation = std::weak_ptr<Operation>(operation_)] {
      std::shared_ptr<Operation> still = operation.lock();
      if (alive.expired() || !still || still != operation_ || still->calls != call ||
          !still->waiting) {
        return;
      }
      if (still->what == kMarkerCall) {
        GiveMarkerUp();
        Answer(std::exchange(still->waiting, nullptr), transaction_result_);
        return;
      }
      Answer(std::exchange(still->waiting, nullptr),
             {KafkaVerdict::kUnknown, UnavailableError("no answer from the broker yet")});
    });
  }
  Co<void> Carry(std::shared_ptr<Operation> operation, Co<KafkaResult> flow) {
    operation->result = co_await flow;
    if (!operation->abandoned) Tell();
  }
  void Tell() {
    if (!operation_ || !operation_->result || !operation_->waiting) return;
    Answer(std::move(operation_->waiting), *std::move(operation_->result));
    operation_.reset();
  }

  void Disturb() {
    if (!std::exchange(disturbed_, true)) ++clients_.disturbed_;
  }

  // Asks until there is an answer, on a new connection each time.
  Co<KafkaError> Ask(std::string_view api, Deed<KafkaError> deed) {
    while (true) {
      std::optional<KafkaError> error =
          co_await AskOnce<KafkaError>(clients_.link_, process_, api, id(), deed);
      if (error && *error != KafkaError::kConcurrentTransactions) co_return *error;
      // A copy of it may be on its way for long.
      if (!error) Disturb();
      co_await Sleep(process_, error ? kAskAgainUs : kReconnectUs);
    }
  }

  // What an answer means for this instance, and for its transaction.
  KafkaResult Judge(KafkaError error, std::string_view what, KafkaVerdict otherwise) {
    if (error == KafkaError::kNone) return {};
    KafkaResult result{otherwise, StatusOf(error, Concat(what, " as '", id(), "'"))};
    if (error == KafkaError::kInvalidProducerEpoch) {
      result.verdict = KafkaVerdict::kFenced;
      ++clients_.fenced_;
    }
    if (error == KafkaError::kInvalidProducerIdMapping ||
        error == KafkaError::kInvalidTransactionTimeout) {
      result.verdict = KafkaVerdict::kFatal;
    }
    (result.verdict == KafkaVerdict::kAbort ? transaction_result_ : instance_result_) = result;
    return result;
  }
  const KafkaResult& result_so_far() const {
    return instance_result_.done() ? transaction_result_ : instance_result_;
  }

  Co<KafkaResult> InitialiseFlow() {
    using Answer = std::pair<KafkaError, KafkaProducerId>;
    const Deed<Answer> deed = [id = id(),
                               timeout_us = options_.transaction_timeout_us](KafkaBroker& broker) {
      Answer answer;
      answer.first = broker.InitProducerId(id, timeout_us, &answer.second);
      return answer;
    };
    while (true) {
      std::optional<Answer> answer =
          co_await AskOnce<Answer>(clients_.link_, process_, "InitProducerId", id(), deed);
      if (answer && answer->first != KafkaError::kConcurrentTransactions) {
        producer_ = answer->second;
        co_return Judge(answer->first, "initialise", KafkaVerdict::kFatal);
      }
      co_await Sleep(process_, kAskAgainUs);
    }
  }

  KafkaResult Enqueue(const std::string& records) {
    if (!result_so_far().done()) return result_so_far();
    KafkaBlockReader blocks(records);
    KafkaBlock block;
    while (true) {
      StatusOr<bool> more = blocks.Next(&block);
      if (!more.ok()) return {KafkaVerdict::kFatal, more.status()};
      if (!*more) break;
      KafkaRecordReader reader(block);
      KafkaRecordView view;
      while (reader.Next(&view)) {
        // As librdkafka: what waits for a partition goes together.
        auto batch = std::find_if(queue_.begin(), queue_.end(), [&](const Batch& waits) {
          return waits.partition == block.partition && waits.records.size() < kBatchRows;
        });
        if (batch == queue_.end()) batch = queue_.insert(queue_.end(), {block.partition, {}});
        KafkaModelRecord record;
        if (view.key) record.key = std::string(*view.key);
        if (view.value) record.value = std::string(*view.value);
        record.timestamp_ms = view.timestamp_ms;
        batch->records.push_back(std::move(record));
      }
      if (!reader.status().ok()) return {KafkaVerdict::kFatal, reader.status()};
    }
    if (blocks.used() != records.size()) {
      return {KafkaVerdict::kFatal, DataLossError("half a block of records")};
    }
    if (!std::exchange(is_sending_, true)) scope_.Spawn(SendFlow());
    return {};
  }

  // Sends what is in the queue, in order.
  Co<void> SendFlow() {
    while (!queue_.empty() && result_so_far().done()) {
      Batch batch = std::move(queue_.front());
      queue_.pop_front();
      if (!id().empty() && !added_.contains(batch.partition)) {
        is_registered_ = true;
        const Deed<KafkaError> add = [id = id(), producer = producer_, topic = options_.topic,
                                      partition = batch.partition](KafkaBroker& broker) {
          return broker.AddPartition(id, producer, topic, partition);
        };
        const KafkaError error = co_await Ask("AddPartitionsToTxn", add);
        if (!Judge(error, "add a partition", KafkaVerdict::kAbort).done()) break;
        added_.insert(batch.partition);
      }
      if (is_aborting_) break;
      const int64_t give_up_us =
          process_.scheduler().now_us() + options_.transaction_timeout_us;  // message.timeout.ms
      const Deed<KafkaError> produce =
          [id = id(), producer = producer_, topic = options_.topic, batch,
           sequence = sequences_[batch.partition]](KafkaBroker& broker) {
            return broker.Produce(id, producer, topic, batch.partition, sequence, batch.records);
          };
      while (true) {
        std::optional<KafkaError> error =
            co_await AskOnce<KafkaError>(clients_.link_, process_, "Produce", id(), produce);
        if (error && *error != KafkaError::kConcurrentTransactions) {
          if (Judge(*error, "produce", id().empty() ? KafkaVerdict::kFatal : KafkaVerdict::kAbort)
                  .done()) {
            sequences_[batch.partition] += static_cast<int32_t>(batch.records.size());
          }
          break;
        }
        if (is_aborting_ || process_.scheduler().now_us() >= give_up_us) {
          // May come yet, and in the next transaction: no sequence number is safe any more.
          Disturb();
          transaction_result_ = {KafkaVerdict::kAbort,
                                 UnavailableError("rows were not delivered in time")};
          break;
        }
        co_await Sleep(process_, error ? kAskAgainUs : kReconnectUs);
      }
    }
    queue_.clear();
    is_sending_ = false;
    idle_.Notify();
  }

  // It cannot be asked for again: another transaction has to have it.
  void GiveMarkerUp() {
    operation_->abandoned = true;
    operation_.reset();
    Disturb();
    transaction_result_ = {KafkaVerdict::kAbort,
                           UnavailableError("the marker had no answer in time")};
  }

  Co<KafkaResult> SendMarkerFlow(KafkaMarkerPlace place, KafkaMarker marker) {
    const std::shared_ptr<Operation> self = operation_;
    while (is_sending_) co_await idle_.Wait();
    if (self->abandoned || !result_so_far().done()) co_return result_so_far();
    is_registered_ = true;
    const Deed<KafkaError> add = [id = id(), producer = producer_,
                                  group = place.group](KafkaBroker& broker) {
      return broker.AddOffsets(id, producer, group);
    };
    std::optional<KafkaError> added;
    while (!added || *added == KafkaError::kConcurrentTransactions) {
      added = co_await AskOnce<KafkaError>(clients_.link_, process_, "AddOffsetsToTxn", id(), add);
      if (!added) Disturb();
      if (!added || *added == KafkaError::kConcurrentTransactions) {
        co_await Sleep(process_, kAskAgainUs);
      }
      if (self->abandoned) co_return transaction_result_;
    }
    KafkaResult result = Judge(*added, "add the marker's group", KafkaVerdict::kAbort);
    if (!result.done()) co_return result;
    const KafkaGroupOffset offset{static_cast<int64_t>(marker.checkpoint.value()),
                                  MarkerMetadata(marker)};
    const Deed<KafkaError> deed = [id = id(), producer = producer_, place,
                                   offset](KafkaBroker& broker) {
      return broker.TxnOffsetCommit(id, producer, place.group, place.topic, place.partition,
                                    offset);
    };
    std::optional<KafkaError> sent =
        co_await AskOnce<KafkaError>(clients_.link_, process_, "TxnOffsetCommit", id(), deed);
    if (self->abandoned) co_return transaction_result_;
    if (!sent) {
      Disturb();
      transaction_result_ = {KafkaVerdict::kAbort,
                             UnavailableError("the answer to the marker was lost")};
      co_return transaction_result_;
    }
    co_return Judge(*sent, "send the marker", KafkaVerdict::kAbort);
  }

  Co<void> FindEndsFlow(std::function<void(StatusOr<std::vector<int64_t>>)> done) {
    using Found = std::pair<KafkaError, std::vector<int64_t>>;
    const Deed<Found> deed = [topic = options_.topic](KafkaBroker& broker) {
      Found found;
      int32_t partitions = 0;
      int64_t message_bytes_max = 0;
      found.first = broker.Metadata(topic, &partitions, &message_bytes_max);
      for (int32_t partition = 0; partition < partitions; ++partition) {
        found.second.push_back(broker.high_watermark(topic, partition));
      }
      return found;
    };
    std::optional<Found> found =
        co_await AskOnce<Found>(clients_.link_, process_, "ListOffsets", id(), deed);
    StatusOr<std::vector<int64_t>> ends = UnavailableError("no answer from the broker");
    if (found && found->first == KafkaError::kNone) ends = std::move(found->second);
    if (found && found->first != KafkaError::kNone) ends = StatusOf(found->first, "find ends");
    if (owner_life_.expired()) co_return;
    owner_.Post([alive = std::weak_ptr<int>(alive_), owner = owner_life_, done = std::move(done),
                 ends = std::move(ends)] {
      if (!alive.expired() && !owner.expired()) done(ends);
    });
  }

  Co<KafkaResult> EndFlow(bool commit) {
    if (is_registered_) {
      const Deed<KafkaError> end = [id = id(), producer = producer_, commit](KafkaBroker& broker) {
        return broker.EndTxn(id, producer, commit);
      };
      const KafkaError error = co_await Ask("EndTxn", end);
      KafkaResult result = Judge(error, commit ? "commit" : "abort", KafkaVerdict::kFatal);
      if (!result.done()) co_return result;
    }
    in_transaction_ = false;
    is_registered_ = false;
    added_.clear();
    transaction_result_ = {};
    co_return KafkaResult();
  }

  Co<KafkaResult> CommitFlow() {
    while (is_sending_) co_await idle_.Wait();
    if (!result_so_far().done()) co_return result_so_far();
    if (id().empty()) co_return KafkaResult();
    co_return co_await EndFlow(true);
  }

  Co<KafkaResult> AbortFlow() {
    queue_.clear();
    is_aborting_ = true;
    while (is_sending_) co_await idle_.Wait();
    is_aborting_ = false;
    if (!instance_result_.done()) co_return instance_result_;
    co_return co_await EndFlow(false);
  }

  SimKafkaClients& clients_;
  Process& process_;
  Executor& owner_;
  const std::weak_ptr<int> owner_life_;
  const KafkaProducerOptions options_;
  KafkaProducerId producer_;
  bool in_transaction_ = false;
  bool is_registered_ = false;  // the coordinator may know of the transaction
  bool is_sending_ = false;
  bool is_aborting_ = false;
  bool disturbed_ = false;
  KafkaResult instance_result_;     // for good
  KafkaResult transaction_result_;  // of this transaction
  std::set<int32_t> added_;
  std::map<int32_t, int32_t> sequences_;  // next, by partition
  std::deque<Batch> queue_;
  CoSignal idle_;
  std::shared_ptr<Operation> operation_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope scope_;
};

namespace {

class SimKafkaTransactions : public KafkaTransactions {
 public:
  SimKafkaTransactions(SimKafkaClients& clients, KafkaLink& link, Process& process, Executor& owner)
      : clients_(clients), link_(link), process_(process), owner_(owner) {}

  StatusOr<std::unique_ptr<TransactionalProducer>> MakeProducer(
      KafkaProducerOptions options) override {
    return std::make_unique<SimKafkaProducer>(clients_, process_, owner_, alive_,
                                              std::move(options));
  }
  void ReadMarker(KafkaCluster, KafkaMarkerPlace place,
                  std::function<void(StatusOr<std::optional<KafkaMarker>>)> done) override {
    scope_.Spawn(ReadMarkerFlow(std::move(place), std::move(done)));
  }
  void DescribeTopic(KafkaCluster, std::string topic,
                     std::function<void(StatusOr<KafkaTopic>)> done) override {
    scope_.Spawn(DescribeTopicFlow(std::move(topic), std::move(done)));
  }

 private:
  template <typename T>
  void Answer(std::function<void(T)> done, T value) {
    owner_.Post(
        [alive = std::weak_ptr<int>(alive_), done = std::move(done), value = std::move(value)] {
          if (!alive.expired()) done(value);
        });
  }

  Co<void> ReadMarkerFlow(KafkaMarkerPlace place,
                          std::function<void(StatusOr<std::optional<KafkaMarker>>)> done) {
    using Result = StatusOr<std::optional<KafkaMarker>>;
    using Found = std::pair<KafkaError, KafkaGroupOffset>;
    const int64_t until_us = process_.scheduler().now_us() + kPatienceUs;
    const Deed<Found> fetch = [place](KafkaBroker& broker) {
      Found found;
      found.first = broker.OffsetFetch(place.group, place.topic, place.partition, &found.second);
      return found;
    };
    while (true) {
      std::optional<Found> found =
          co_await AskOnce<Found>(link_, process_, "OffsetFetch", place.group, fetch);
      if (found && found->first == KafkaError::kNone) {
        if (found->second.offset < 0) {
          Answer<Result>(std::move(done), std::optional<KafkaMarker>());
          co_return;
        }
        StatusOr<KafkaMarker> marker = ParseMarker(found->second.offset, found->second.metadata);
        Answer<Result>(std::move(done), marker.ok() ? Result(std::optional<KafkaMarker>(*marker))
                                                    : Result(marker.status()));
        co_return;
      }
      if (process_.scheduler().now_us() >= until_us) {
        Answer<Result>(
            std::move(done),
            Result(UnavailableError(Concat("cannot read the offset of group ", place.group))));
        co_return;
      }
      co_await Sleep(process_, kAskAgainUs);
    }
  }

  Co<void> DescribeTopicFlow(std::string topic, std::function<void(StatusOr<KafkaTopic>)> done) {
    using Result = StatusOr<KafkaTopic>;
    using Found = std::pair<KafkaError, KafkaTopic>;
    const int64_t until_us = process_.scheduler().now_us() + kPatienceUs;
    const Deed<Found> look = [topic](KafkaBroker& broker) {
      Found found;
      found.first =
          broker.Metadata(topic, &found.second.partitions, &found.second.message_bytes_max);
      return found;
    };
    while (true) {
      std::optional<Found> found =
          co_await AskOnce<Found>(link_, process_, "Metadata", topic, look);
      if (found) {
        Answer<Result>(std::move(done), found->first == KafkaError::kNone
                                            ? Result(found->second)
                                            : Result(StatusOf(found->first, "describe the topic")));
        co_return;
      }
      if (process_.scheduler().now_us() >= until_us) {
        Answer<Result>(std::move(done),
                       Result(UnavailableError(Concat("cannot describe topic ", topic))));
        co_return;
      }
      co_await Sleep(process_, kReconnectUs);
    }
  }

  SimKafkaClients& clients_;
  KafkaLink& link_;
  Process& process_;
  Executor& owner_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope scope_;
};

}  // namespace

std::unique_ptr<KafkaTransactions> SimKafkaClients::TransactionsFor(Executor& owner) {
  WEIR_CHECK(Process::Current() != nullptr);
  return std::make_unique<SimKafkaTransactions>(*this, link_, *Process::Current(), owner);
}

}  // namespace weir::sim
