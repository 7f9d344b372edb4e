// The simulated client between the seam of kafka_client.h and the model of a broker: what a caller
// sees when requests or answers are lost or late, the broker is away, or the instance is fenced.

#include "tests/sim/kafka/sim_kafka_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/connectors/kafka/kafka_records.h"

namespace weir::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000;

std::string Rows(int32_t partition, const std::vector<std::string>& values) {
  std::string records;
  KafkaBlockWriter writer;
  writer.Begin(partition, &records);
  for (const std::string& value : values) {
    KafkaRecordView record;
    record.value = value;
    writer.Add(record);
  }
  writer.End();
  return records;
}

// A process with its clients, and a broker with topic "rows" of two partitions.
class SimKafkaClientTest : public ::testing::Test {
 protected:
  SimKafkaClientTest() {
    broker_.CreateTopic("rows", 2);
    process_.After(0, [this] { transactions_ = clients_.TransactionsFor(loop_); });
    RunFor(0);
    link_.set_hook([this](const KafkaLink::Request& request) {
      auto it = fates_.find(std::string(request.api));
      if (it == fates_.end()) return KafkaLink::Fate();
      const KafkaLink::Fate fate = it->second;
      fates_.erase(it);
      return fate;
    });
  }
  ~SimKafkaClientTest() override { scheduler_.Clear(); }

  void RunFor(int64_t us) {
    const int64_t until_us = scheduler_.now_us() + us;
    while (scheduler_.RunOne(until_us)) {
    }
  }
  std::unique_ptr<TransactionalProducer> Producer(int64_t timeout_us = 60 * kSecond) {
    KafkaProducerOptions options;
    options.topic = "rows";
    options.transactional_id = "one";
    options.transaction_timeout_us = timeout_us;
    return *transactions_->MakeProducer(options);
  }
  // The answer to a call, once it comes.
  template <typename F>
  KafkaResult Answer(F call) {
    std::optional<KafkaResult> result;
    process_.After(0, [&] { call([&](KafkaResult answer) { result = std::move(answer); }); });
    for (int i = 0; i < 10'000 && !result; ++i) RunFor(1000);
    return result ? *result : KafkaResult{KafkaVerdict::kFatal, InternalError("no answer at all")};
  }
  KafkaVerdict Initialise(TransactionalProducer& one) {
    return Answer([&](KafkaDone done) { one.Initialise(done); }).verdict;
  }
  KafkaVerdict Begin(TransactionalProducer& one) {
    return Answer([&](KafkaDone done) { one.Begin(done); }).verdict;
  }
  KafkaVerdict Produce(TransactionalProducer& one, std::string records) {
    return Answer([&](KafkaDone done) { one.Produce(records, done); }).verdict;
  }
  KafkaVerdict SendMarker(TransactionalProducer& one, uint64_t checkpoint) {
    return Answer([&](KafkaDone done) { one.SendMarker(place_, Marker(checkpoint), done); })
        .verdict;
  }
  KafkaVerdict Commit(TransactionalProducer& one) {
    return Answer([&](KafkaDone done) { one.Commit(done); }).verdict;
  }
  KafkaVerdict Abort(TransactionalProducer& one) {
    return Answer([&](KafkaDone done) { one.Abort(done); }).verdict;
  }
  static KafkaMarker Marker(uint64_t checkpoint) {
    return {JobId("job"), Generation(1), CheckpointId(checkpoint), 0, 1};
  }
  StatusOr<std::optional<KafkaMarker>> ReadMarker() {
    std::optional<StatusOr<std::optional<KafkaMarker>>> result;
    process_.After(0, [&] {
      transactions_->ReadMarker({}, place_, [&](auto answer) { result = std::move(answer); });
    });
    for (int i = 0; i < 20'000 && !result; ++i) RunFor(1000);
    return result ? *result : InternalError("no answer at all");
  }
  std::vector<std::string> Seen(int32_t partition) {
    std::vector<std::string> values;
    for (const KafkaModelRecord* record : link_.broker().ReadCommitted("rows", partition)) {
      values.push_back(*record->value);
    }
    return values;
  }

  Scheduler scheduler_{7};
  KafkaBroker broker_{KafkaBroker::Options()};
  KafkaLink link_{scheduler_, broker_, {}};
  SimKafkaClients clients_{link_};
  Process process_{scheduler_, "worker-0", 1};
  ProcessLoop loop_{process_};
  std::unique_ptr<KafkaTransactions> transactions_;
  const KafkaMarkerPlace place_{"one", "rows", 0};
  std::map<std::string, KafkaLink::Fate> fates_;  // of the next request of an API
};

TEST_F(SimKafkaClientTest, RowsAndMarkerComeTogether) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  EXPECT_EQ(*ReadMarker(), std::nullopt);
  ASSERT_EQ(Begin(*one), KafkaVerdict::kDone);
  ASSERT_EQ(Produce(*one, Rows(0, {"a", "b"}) + Rows(1, {"c"})), KafkaVerdict::kDone);
  ASSERT_EQ(SendMarker(*one, 3), KafkaVerdict::kDone);
  EXPECT_THAT(Seen(0), IsEmpty());
  ASSERT_EQ(Commit(*one), KafkaVerdict::kDone);
  EXPECT_EQ(*ReadMarker(), Marker(3));
  EXPECT_THAT(Seen(0), ElementsAre("a", "b"));
  EXPECT_THAT(Seen(1), ElementsAre("c"));
  EXPECT_FALSE(one->disturbed());
  int32_t partitions = 0;
  process_.After(0, [&] {
    transactions_->DescribeTopic(
        {}, "rows", [&](StatusOr<KafkaTopic> topic) { partitions = topic->partitions; });
  });
  RunFor(kSecond);
  EXPECT_EQ(partitions, 2);
}

TEST_F(SimKafkaClientTest, ALostAnswerIsAskedForAgainAndDisturbs) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  Begin(*one);
  Produce(*one, Rows(0, {"a"}));
  SendMarker(*one, 1);
  fates_["EndTxn"] = {.lose_answer = true};
  EXPECT_EQ(Commit(*one), KafkaVerdict::kDone);
  EXPECT_TRUE(one->disturbed());
  EXPECT_GE(scheduler_.now_us(), KafkaLink::kSocketTimeoutUs);
  EXPECT_THAT(Seen(0), ElementsAre("a"));
}

TEST_F(SimKafkaClientTest, ALostAnswerToTheMarkerAborts) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  Begin(*one);
  fates_["TxnOffsetCommit"] = {.lose_answer = true};
  EXPECT_EQ(SendMarker(*one, 1), KafkaVerdict::kAbort);
  EXPECT_EQ(Commit(*one), KafkaVerdict::kAbort) << "not without the marker";
  EXPECT_EQ(Abort(*one), KafkaVerdict::kDone);
  EXPECT_TRUE(one->disturbed());
  EXPECT_EQ(*ReadMarker(), std::nullopt);
}

// The seam knows no repetition of a marker: without an answer in time it is an abort, and what is
// still under way for it touches no later transaction.
TEST_F(SimKafkaClientTest, AMarkerWithoutAnAnswerInTimeAborts) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  Begin(*one);
  Produce(*one, Rows(0, {"a"}));
  RunFor(kSecond);
  link_.set_down(true);
  EXPECT_EQ(SendMarker(*one, 1), KafkaVerdict::kAbort);
  link_.set_down(false);
  EXPECT_EQ(Abort(*one), KafkaVerdict::kDone);
  EXPECT_TRUE(one->disturbed());
  RunFor(10 * kSecond);
  EXPECT_THAT(link_.broker().OpenTransactions(), IsEmpty());
  EXPECT_EQ(*ReadMarker(), std::nullopt);
  EXPECT_THAT(Seen(0), IsEmpty());
}

// A commit is held back, its copy on a new connection succeeds, and the first is let go half way
// through the next transaction.
class TornTransaction : public SimKafkaClientTest, public ::testing::WithParamInterface<bool> {};

TEST_P(TornTransaction, HarmsWhoDoesNotTakeANewInstance) {
  const bool takes_a_new_one = GetParam();
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  Begin(*one);
  Produce(*one, Rows(0, {"a"}));
  SendMarker(*one, 1);
  fates_["EndTxn"] = {.lose_answer = true, .delay_us = 10 * kSecond};
  const int64_t held_us = scheduler_.now_us() + 10 * kSecond;
  ASSERT_EQ(Commit(*one), KafkaVerdict::kDone);
  ASSERT_TRUE(one->disturbed());
  if (takes_a_new_one) {
    one = Producer();
    ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
    EXPECT_EQ(*ReadMarker(), Marker(1));
  }
  Begin(*one);
  Produce(*one, Rows(0, {"b"}));
  RunFor(held_us + kSecond - scheduler_.now_us());  // it comes
  if (takes_a_new_one) {
    EXPECT_THAT(Seen(0), ElementsAre("a"));
    Produce(*one, Rows(0, {"c"}));
    EXPECT_EQ(SendMarker(*one, 2), KafkaVerdict::kDone);
    EXPECT_EQ(Commit(*one), KafkaVerdict::kDone);
    RunFor(kSecond);
    EXPECT_THAT(Seen(0), ElementsAre("a", "b", "c"));
  } else {
    EXPECT_THAT(Seen(0), ElementsAre("a", "b")) << "half of it, and no marker";
    EXPECT_EQ(*ReadMarker(), Marker(1));
    Produce(*one, Rows(0, {"c"}));
    RunFor(kSecond);
    EXPECT_EQ(Commit(*one), KafkaVerdict::kAbort);
  }
}

INSTANTIATE_TEST_SUITE_P(, TornTransaction, ::testing::Bool(), [](const auto& info) {
  return info.param ? "NewInstance" : "SameInstance";
});

TEST_F(SimKafkaClientTest, ABrokerThatIsAwayIsWaitedFor) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  Begin(*one);
  Produce(*one, Rows(0, {"a"}));
  SendMarker(*one, 1);
  link_.set_down(true);
  EXPECT_EQ(Commit(*one), KafkaVerdict::kUnknown);
  EXPECT_EQ(Commit(*one), KafkaVerdict::kUnknown);
  EXPECT_FALSE(ReadMarker().ok());
  link_.set_down(false);
  EXPECT_EQ(Commit(*one), KafkaVerdict::kDone);
  RunFor(kSecond);
  EXPECT_THAT(Seen(0), ElementsAre("a"));
  EXPECT_TRUE(one->disturbed());
}

TEST_F(SimKafkaClientTest, AYoungerInstanceFencesAndATimeoutDoesSo) {
  auto old = Producer();
  ASSERT_EQ(Initialise(*old), KafkaVerdict::kDone);
  Begin(*old);
  Produce(*old, Rows(0, {"a"}));
  RunFor(kSecond);
  auto young = Producer(kSecond);
  ASSERT_EQ(Initialise(*young), KafkaVerdict::kDone);
  EXPECT_EQ(SendMarker(*old, 1), KafkaVerdict::kFenced);
  EXPECT_EQ(Abort(*old), KafkaVerdict::kFenced);
  Begin(*young);
  Produce(*young, Rows(0, {"b"}));
  RunFor(12 * kSecond);
  EXPECT_EQ(link_.broker().timed_out(), 1);
  EXPECT_EQ(SendMarker(*young, 1), KafkaVerdict::kFenced);
  EXPECT_THAT(Seen(0), IsEmpty());
  EXPECT_EQ(clients_.fenced(), 2);
}

TEST_F(SimKafkaClientTest, NothingIsAnsweredAfterDestruction) {
  auto one = Producer();
  ASSERT_EQ(Initialise(*one), KafkaVerdict::kDone);
  bool answered = false;
  process_.After(0, [&] {
    one->Begin([&](const KafkaResult&) { answered = true; });
    transactions_->ReadMarker({}, place_, [&](const auto&) { answered = true; });
    one.reset();
    transactions_.reset();
  });
  RunFor(20 * kSecond);
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace weir::sim
