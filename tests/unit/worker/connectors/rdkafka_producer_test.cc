// Producers and markers on librdkafka against a real broker: what is visible when, and what each
// call says when the broker, or the way to it, does not do as it should.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/concat.h"
#include "common/base/random.h"
#include "tests/support/brokers_in_memory.h"
#include "tests/support/test_kafka.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/rdkafka_clients.h"

namespace weir {
namespace {

using test_kafka::Committed;
using test_kafka::EndsOf;
using test_kafka::MakeTopic;
using test_kafka::Proxy;
using test_kafka::Row;
using test_kafka::WaitingExecutor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

::testing::AssertionResult Ok(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status;
}

std::string NewId() { return "id-" + Random::FromSystem().HexName(12); }

std::string Blocks(const std::vector<Row>& rows) {
  std::string out;
  KafkaBlockWriter writer;
  for (const Row& row : rows) {
    std::vector<KafkaHeaderView> headers;
    for (const auto& [name, value] : row.headers) headers.push_back({name, value});
    writer.Begin(row.partition, &out);
    writer.Add(
        {.key = row.key, .value = row.value, .timestamp_ms = row.timestamp_ms, .headers = headers});
    writer.End();
  }
  return out;
}

std::string Block(int rows, size_t bytes) {
  std::string out;
  KafkaBlockWriter writer;
  writer.Begin(0, &out);
  for (int i = 0; i < rows; ++i) {
    std::string value = Concat(i);
    value.resize(bytes, '.');
    writer.Add({.key = {}, .value = value, .timestamp_ms = -1, .headers = {}});
  }
  writer.End();
  return out;
}

// Rows without the time at which the broker got them.
std::vector<Row> Timeless(std::vector<Row> rows) {
  for (Row& row : rows) row.timestamp_ms = -1;
  return rows;
}

KafkaMarker Marker(uint64_t checkpoint) {
  return {.job = JobId("0123456789abcdef0123456789abcdef"),
          .generation = Generation(3),
          .checkpoint = CheckpointId(checkpoint),
          .part = 0,
          .parts = 1};
}

class RdkafkaProducerTest : public ::testing::Test {
 protected:
  ~RdkafkaProducerTest() override {
    transactions_.reset();
    EXPECT_TRUE(clients_.WaitForEnd(std::chrono::seconds(20)));
  }

  KafkaProducerOptions Options(const std::string& topic, const std::string& id) {
    return {.cluster = {.brokers = brokers_, .properties = {}},
            .topic = topic,
            .transactional_id = id,
            .transaction_timeout_us = 60'000'000,
            .message_bytes_max = 1'000'000};
  }
  std::unique_ptr<TransactionalProducer> Make(const std::string& topic, const std::string& id) {
    return std::move(transactions_->MakeProducer(Options(topic, id)).value());
  }
  std::unique_ptr<TransactionalProducer> MakeInitialised(const std::string& topic,
                                                         const std::string& id) {
    auto producer = Make(topic, id);
    EXPECT_TRUE(Ok(Initialise(*producer).status));
    return producer;
  }

  KafkaResult Wait(const std::function<void(KafkaDone)>& call) {
    std::optional<KafkaResult> result;
    call([&](KafkaResult answer) { result = std::move(answer); });
    executor_.RunUntil([&] { return result.has_value(); });
    return *result;
  }
  KafkaResult Initialise(TransactionalProducer& p) {
    return Wait([&](KafkaDone done) { p.Initialise(done); });
  }
  KafkaResult Begin(TransactionalProducer& p) {
    return Wait([&](KafkaDone done) { p.Begin(done); });
  }
  KafkaResult Produce(TransactionalProducer& p, std::string records) {
    return Wait([&](KafkaDone done) { p.Produce(std::move(records), done); });
  }
  KafkaResult Send(TransactionalProducer& p, const KafkaMarkerPlace& place, uint64_t checkpoint) {
    return Wait([&](KafkaDone done) { p.SendMarker(place, Marker(checkpoint), done); });
  }
  KafkaResult Commit(TransactionalProducer& p) {
    return Wait([&](KafkaDone done) { p.Commit(done); });
  }
  KafkaResult Abort(TransactionalProducer& p) {
    return Wait([&](KafkaDone done) { p.Abort(done); });
  }
  // A transaction up to its commit.
  void Fill(TransactionalProducer& p, const KafkaMarkerPlace& place, uint64_t checkpoint,
            std::string records) {
    ASSERT_TRUE(Ok(Begin(p).status));
    ASSERT_TRUE(Ok(Produce(p, std::move(records)).status));
    ASSERT_TRUE(Ok(Send(p, place, checkpoint).status));
  }

  StatusOr<std::optional<KafkaMarker>> Read(const KafkaMarkerPlace& place) {
    std::optional<StatusOr<std::optional<KafkaMarker>>> result;
    transactions_->ReadMarker({.brokers = test_kafka::Brokers(), .properties = {}}, place,
                              [&](auto answer) { result = std::move(answer); });
    executor_.RunUntil([&] { return result.has_value(); });
    return *result;
  }
  // 0: none.
  uint64_t Published(const KafkaMarkerPlace& place) {
    StatusOr<std::optional<KafkaMarker>> marker = Read(place);
    EXPECT_TRUE(Ok(marker.status()));
    return marker->has_value() ? (*marker)->checkpoint.value() : 0;
  }

  std::string brokers_ = test_kafka::Brokers();
  WaitingExecutor executor_;
  RdkafkaClients clients_;
  std::unique_ptr<KafkaTransactions> transactions_ = clients_.TransactionsFor(executor_);
};

TEST_F(RdkafkaProducerTest, RowsAndMarkerBecomeVisibleTogetherAndAsTheyWereGiven) {
  const std::string topic = MakeTopic(3);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  EXPECT_EQ(Published(place), 0u);

  const std::vector<Row> plain = {
      {.partition = 0, .key = "k", .value = "v"},
      {.partition = 0, .key = std::nullopt, .value = ""},
      {.partition = 0, .key = "", .value = std::nullopt},
      {.partition = 2, .key = std::string("\0b", 2), .value = "{}"},
  };
  Fill(*producer, place, 7, Blocks(plain));
  EXPECT_THAT(Committed(topic), IsEmpty());
  ASSERT_TRUE(Ok(Commit(*producer).status));
  EXPECT_EQ(Timeless(Committed(topic)), plain);
  StatusOr<std::optional<KafkaMarker>> marker = Read(place);
  ASSERT_TRUE(Ok(marker.status()));
  EXPECT_EQ(*marker, std::optional(Marker(7)));

  // Timestamps and headers, among rows that have none.
  const std::vector<Row> more = {
      {.partition = 1, .key = "a", .value = "1"},
      {.partition = 1,
       .key = "b",
       .value = "2",
       .timestamp_ms = 1'700'000'000'123,
       .headers = {{"h", "x"}, {"h", std::nullopt}, {"empty", ""}}},
      {.partition = 1, .key = "c", .value = "3"},
  };
  Fill(*producer, place, 8, Blocks(more));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  std::vector<Row> rows = Committed(topic);
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[4], more[1]);
  EXPECT_EQ(Timeless({rows[3], rows[5]}), (std::vector<Row>{more[0], more[2]}));
  EXPECT_EQ(Published(place), 8u);
  EXPECT_FALSE(producer->disturbed());
}

TEST_F(RdkafkaProducerTest, AMarkerWithoutRowsIsCommittedAndAnAbortLeavesNothing) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  ASSERT_TRUE(Ok(Begin(*producer).status));
  ASSERT_TRUE(Ok(Send(*producer, place, 1).status));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  EXPECT_EQ(Published(place), 1u);
  Fill(*producer, place, 2, Block(10, 10));
  ASSERT_TRUE(Ok(Abort(*producer).status));
  EXPECT_EQ(Published(place), 1u);
  EXPECT_THAT(Committed(topic), IsEmpty());
  EXPECT_EQ(EndsOf(topic, 0).stable, EndsOf(topic, 0).high);
  EXPECT_FALSE(producer->disturbed());
}

TEST_F(RdkafkaProducerTest, AnOlderInstanceIsFencedAndItsRowsAreGone) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto zombie = MakeInitialised(topic, place.group);
  Fill(*zombie, place, 1, Block(10, 10));
  auto heir = MakeInitialised(topic, place.group);
  EXPECT_EQ(Published(place), 0u);
  EXPECT_EQ(Commit(*zombie).verdict, KafkaVerdict::kFenced);
  EXPECT_TRUE(Commit(*zombie).status.retryable());
  Fill(*heir, place, 1, Block(3, 10));
  ASSERT_TRUE(Ok(Commit(*heir).status));
  EXPECT_EQ(Committed(topic).size(), 3u);
}

TEST_F(RdkafkaProducerTest, WhatIsDroppedWithAnOpenTransactionLeavesItToTheNextInstance) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  {
    auto producer = MakeInitialised(topic, place.group);
    Fill(*producer, place, 1, Block(10, 10));
    bool answered = false;
    producer->Begin([&](KafkaResult) { answered = true; });
    producer.reset();
    auto heir = MakeInitialised(topic, place.group);
    EXPECT_FALSE(answered);
  }
  EXPECT_EQ(EndsOf(topic, 0).stable, EndsOf(topic, 0).high);
  EXPECT_EQ(Published(place), 0u);
}

TEST_F(RdkafkaProducerTest, AMarkerOfAnotherMakeIsRefused) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  test_kafka::CommitOffset(place.group, topic, 5, "mine");
  StatusOr<std::optional<KafkaMarker>> marker = Read(place);
  EXPECT_EQ(marker.status().domain(), ErrorDomain::kUser);
  EXPECT_THAT(marker.status().message(), HasSubstr(place.group));
  EXPECT_THAT(marker.status().message(), HasSubstr("offset 5 with metadata 'mine'"));
}

TEST_F(RdkafkaProducerTest, BatchesKeepWithinTheTopicsLimitAndALargerRowIsRefusedByItsSize) {
  const std::string topic = MakeTopic(1, {{"max.message.bytes", "5000"},
                                          {"message.timestamp.after.max.ms", "7000"},
                                          {"message.timestamp.before.max.ms", "86400000"}});
  std::optional<StatusOr<KafkaTopic>> described;
  transactions_->DescribeTopic({.brokers = brokers_, .properties = {}}, topic,
                               [&](auto answer) { described = std::move(answer); });
  executor_.RunUntil([&] { return described.has_value(); });
  ASSERT_TRUE(Ok(described->status()));
  EXPECT_EQ((*described)->partitions, 1);
  EXPECT_EQ((*described)->message_bytes_max, 5000);
  EXPECT_EQ((*described)->timestamp_ahead_ms_max, 7000);
  EXPECT_EQ((*described)->timestamp_behind_ms_max, 86'400'000);
  EXPECT_FALSE((*described)->compacted);

  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  KafkaProducerOptions options = Options(topic, place.group);
  options.message_bytes_max = 5000;
  auto producer = std::move(transactions_->MakeProducer(options).value());
  ASSERT_TRUE(Ok(Initialise(*producer).status));
  Fill(*producer, place, 1, Block(2000, 100));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  EXPECT_EQ(Committed(topic).size(), 2000u);

  ASSERT_TRUE(Ok(Begin(*producer).status));
  KafkaResult refused = Produce(*producer, Block(1, 5001));
  EXPECT_EQ(refused.verdict, KafkaVerdict::kAbort);
  EXPECT_EQ(refused.status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(refused.status.message(), HasSubstr("a row of 5001 bytes"));
  ASSERT_TRUE(Ok(Abort(*producer).status));

  // What only the broker refuses.
  options.message_bytes_max = 1'000'000;
  producer = std::move(transactions_->MakeProducer(options).value());
  ASSERT_TRUE(Ok(Initialise(*producer).status));
  ASSERT_TRUE(Ok(Begin(*producer).status));
  ASSERT_TRUE(Ok(Produce(*producer, Block(1, 5100)).status));
  KafkaResult commit = Commit(*producer);
  EXPECT_EQ(commit.verdict, KafkaVerdict::kAbort);
  EXPECT_EQ(commit.status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(commit.status.message(), HasSubstr("a row of 5100 bytes"));
  ASSERT_TRUE(Ok(Abort(*producer).status));
  // librdkafka 2.0.2 has lost count of its rows here, and says so.
  EXPECT_TRUE(producer->disturbed());
  producer = MakeInitialised(topic, place.group);
  Fill(*producer, place, 2, Block(1, 10));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  EXPECT_EQ(Committed(topic).size(), 2001u);
}

TEST_F(RdkafkaProducerTest, WhatTheBrokerRefusesForGoodIsToldFromWhatMayBeSentAgain) {
  const std::string young = MakeTopic(1, {{"message.timestamp.before.max.ms", "1000"}});
  const std::string compacted = MakeTopic(1, {{"cleanup.policy", "compact"}});
  KafkaRecordView old;
  old.timestamp_ms = 1;
  for (const auto& [topic, record] : {std::pair(young, old), {compacted, KafkaRecordView()}}) {
    for (const std::string& id : {NewId(), std::string()}) {
      auto producer = std::move(transactions_->MakeProducer(Options(topic, id)).value());
      ASSERT_TRUE(Ok(Initialise(*producer).status));
      if (!id.empty()) {
        ASSERT_TRUE(Ok(Begin(*producer).status));
      }
      std::string records;
      KafkaBlockWriter writer;
      writer.Begin(0, &records);
      writer.Add(record);
      writer.End();
      ASSERT_TRUE(Ok(Produce(*producer, records).status));
      const KafkaResult refused = Commit(*producer);
      EXPECT_EQ(refused.verdict, id.empty() ? KafkaVerdict::kFatal : KafkaVerdict::kAbort);
      EXPECT_EQ(refused.status.code(), StatusCode::kOutOfRange) << refused.status;
      EXPECT_THAT(refused.status.message(), HasSubstr(Concat("partition 0 of topic '", topic)));
    }
  }
}

TEST_F(RdkafkaProducerTest, AQueueFullOfRowsOfManyPartitionsIsSentAndDoesNotWaitForMore) {
  const std::string topic = MakeTopic(4);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  KafkaProducerOptions options = Options(topic, place.group);
  // Were they waited for, this would take longer than a test may.
  options.cluster.properties = {{"queue.buffering.max.messages", "20"}, {"linger.ms", "55000"}};
  auto producer = std::move(transactions_->MakeProducer(options).value());
  ASSERT_TRUE(Ok(Initialise(*producer).status));
  std::vector<Row> rows;
  for (int i = 0; i < 100; ++i) {
    rows.push_back({.partition = i % 4,
                    .key = "k",
                    .value = Concat(i),
                    .timestamp_ms = i % 8 == 0 ? 1'700'000'000'000 : -1});
  }
  Fill(*producer, place, 1, Blocks(rows));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.partition < b.partition; });
  EXPECT_EQ(Timeless(Committed(topic)), Timeless(rows));
}

TEST_F(RdkafkaProducerTest, WithoutTransactionsRowsAreVisibleWhenTheyAreAcknowledged) {
  const std::string topic = MakeTopic(2);
  auto producer = MakeInitialised(topic, "");
  const std::vector<Row> rows = {{.partition = 0, .key = "a", .value = "1"},
                                 {.partition = 1, .key = "b", .value = "2"}};
  ASSERT_TRUE(Ok(Produce(*producer, Blocks(rows)).status));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  EXPECT_EQ(Timeless(Committed(topic)), rows);
  ASSERT_EQ(Produce(*producer, Blocks({{.partition = 9, .key = "c", .value = "3"}})).verdict,
            KafkaVerdict::kFatal);
}

TEST_F(RdkafkaProducerTest, MoreRowsThanTheQueueHoldsGoThrough) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  constexpr int kRows = 250'000;
  Fill(*producer, place, 1, Block(kRows, 20));
  ASSERT_TRUE(Ok(Commit(*producer).status));
  std::vector<Row> rows = Committed(topic);
  ASSERT_EQ(rows.size(), size_t{kRows});
  for (int i = 0; i < kRows; ++i) {
    ASSERT_EQ(std::stoi(*rows[static_cast<size_t>(i)].value), i);
  }
}

TEST_F(RdkafkaProducerTest, SaysWhatIsInTheWayAndGoesAwayWhileItWaits) {
  brokers_ = "127.0.0.1:1";
  auto producer = Make("t", NewId());
  KafkaResult result = Initialise(*producer);
  EXPECT_EQ(result.verdict, KafkaVerdict::kUnknown);
  EXPECT_TRUE(result.status.retryable());
  EXPECT_THAT(result.status.message(), HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(result.status.message(), HasSubstr("refused"));
  bool answered = false;
  producer->Initialise([&](KafkaResult) { answered = true; });
  producer.reset();
  EXPECT_TRUE(clients_.WaitForEnd(std::chrono::seconds(20)));
  EXPECT_FALSE(answered);
}

TEST_F(RdkafkaProducerTest, PropertiesThatLibrdkafkaRefusesAreNamed) {
  KafkaProducerOptions options = Options("t", NewId());
  options.cluster.properties = {{"linger.msec", "1"}};
  Status unknown = transactions_->MakeProducer(options).status();
  EXPECT_EQ(unknown.domain(), ErrorDomain::kUser);
  EXPECT_THAT(unknown.message(), HasSubstr("linger.msec"));
  options.cluster.properties = {{"linger.ms", "soon"}};
  EXPECT_THAT(transactions_->MakeProducer(options).status().message(), HasSubstr("linger.ms"));
  // What librdkafka sees only when it makes the client.
  options.cluster.properties = {{"security.protocol", "ssl"}, {"ssl.ca.location", "/no/such"}};
  auto producer = std::move(transactions_->MakeProducer(options).value());
  KafkaResult result = Initialise(*producer);
  EXPECT_EQ(result.verdict, KafkaVerdict::kFatal);
  EXPECT_EQ(result.status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(result.status.message(), HasSubstr("ssl.ca.location"));
}

TEST_F(RdkafkaProducerTest, ATrialTransactionWritesNoRowAndSaysWhatTheBrokerRefuses) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto trial = [&](KafkaProducerOptions options) {
    std::optional<Status> result;
    clients_.TryTransaction(executor_, std::move(options), place, 5'000'000,
                            [&](Status status) { result = std::move(status); });
    executor_.RunUntil([&] { return result.has_value(); });
    return *result;
  };
  EXPECT_TRUE(Ok(trial(Options(topic, place.group))));
  EXPECT_THAT(Committed(topic), IsEmpty());
  EXPECT_EQ(Published(place), 0u);
  EXPECT_LE(EndsOf(topic, 0).high, 1);  // the abort's own mark
  KafkaProducerOptions options = Options(topic, place.group);
  options.transaction_timeout_us = int64_t{3'600'000'000};
  EXPECT_EQ(trial(options).domain(), ErrorDomain::kUser);

  std::optional<StatusOr<KafkaClusterView>> view;
  clients_.Look(executor_, {.brokers = brokers_, .properties = {}}, {}, 5'000'000,
                [&](auto answer) { view = std::move(answer); });
  executor_.RunUntil([&] { return view.has_value(); });
  ASSERT_TRUE(Ok(view->status()));
  EXPECT_EQ((*view)->transaction_timeout_us_max, std::optional<int64_t>(900'000'000));
  bool seen = false;
  for (const KafkaListedTopic& listed : (*view)->topics) {
    if (listed.name == topic) seen = listed.partitions == 1;
  }
  EXPECT_TRUE(seen);
}

class RdkafkaLostAnswerTest : public RdkafkaProducerTest {
 protected:
  RdkafkaLostAnswerTest() { brokers_ = proxy_.brokers(); }
  Proxy proxy_;
};

// The commit heals by itself, and is told as one after which the instance must not go on.
TEST_F(RdkafkaLostAnswerTest, OfACommitDisturbs) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  for (const char* at : {"request", "answer"}) {
    producer = MakeInitialised(topic, place.group);
    Fill(*producer, place, 1, Block(10, 10));
    EXPECT_FALSE(producer->disturbed());
    int rule = proxy_.Add(Concat(R"("api": "EndTxn", "at": ")", at, R"(", "action": "cut")"));
    KafkaResult result = Commit(*producer);
    proxy_.WaitFor(rule);
    EXPECT_TRUE(Ok(result.status)) << at;
    EXPECT_TRUE(producer->disturbed()) << at;
  }
  EXPECT_EQ(Committed(topic).size(), 20u);
  EXPECT_EQ(Published(place), 1u);
}

TEST_F(RdkafkaLostAnswerTest, OfAnAbortDisturbs) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  Fill(*producer, place, 1, Block(10, 10));
  int rule = proxy_.Add(R"("api": "EndTxn", "at": "answer", "action": "cut")");
  EXPECT_TRUE(Ok(Abort(*producer).status));
  proxy_.WaitFor(rule);
  EXPECT_TRUE(producer->disturbed());
  EXPECT_THAT(Committed(topic), IsEmpty());
}

TEST_F(RdkafkaLostAnswerTest, OfTheMarkerAbortsAndDisturbs) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  ASSERT_TRUE(Ok(Begin(*producer).status));
  ASSERT_TRUE(Ok(Produce(*producer, Block(10, 10)).status));
  int rule = proxy_.Add(R"("api": "TxnOffsetCommit", "at": "answer", "action": "cut")");
  KafkaResult sent = Send(*producer, place, 1);
  proxy_.WaitFor(rule);
  if (!sent.done()) {
    EXPECT_EQ(sent.verdict, KafkaVerdict::kAbort);
    EXPECT_TRUE(sent.status.retryable());
  }
  EXPECT_TRUE(Ok(Abort(*producer).status));
  EXPECT_TRUE(producer->disturbed());
  EXPECT_EQ(Published(place), 0u);
}

// Lost answers to what may come twice without harm: the transaction goes on.
TEST_F(RdkafkaLostAnswerTest, OfRowsHealsByItself) {
  const std::string topic = MakeTopic(1);
  const KafkaMarkerPlace place{.group = NewId(), .topic = topic, .partition = 0};
  auto producer = MakeInitialised(topic, place.group);
  int rule = proxy_.Add(R"("api": "Produce", "at": "answer", "action": "cut")");
  Fill(*producer, place, 1, Block(10, 10));
  EXPECT_TRUE(Ok(Commit(*producer).status));
  proxy_.WaitFor(rule);
  EXPECT_EQ(Committed(topic).size(), 10u);
  EXPECT_EQ(Published(place), 1u);
}

// Its brokers may be away while others are here.
TEST(RdkafkaProducerMockTest, ATopicWithoutLeaderIsNotOneThatIsNotThere) {
  BrokersInMemory brokers(2);
  WaitingExecutor executor;
  RdkafkaClients clients;
  std::unique_ptr<KafkaTransactions> transactions = clients.TransactionsFor(executor);
  KafkaProducerOptions options;
  options.cluster.brokers = brokers.brokers();
  options.topic = "t";
  options.partitions = 1;
  std::unique_ptr<TransactionalProducer> producer =
      std::move(transactions->MakeProducer(std::move(options)).value());
  std::optional<KafkaResult> ready;
  producer->Initialise([&](KafkaResult result) { ready = std::move(result); });
  executor.RunUntil([&] { return ready.has_value(); });
  ASSERT_TRUE(ready->done()) << ready->status;
  const auto ends = [&] {
    std::optional<StatusOr<std::vector<int64_t>>> found;
    producer->FindEnds([&](StatusOr<std::vector<int64_t>> answer) { found = std::move(answer); });
    executor.RunUntil([&] { return found.has_value(); });
    return *std::move(found);
  };
  ASSERT_TRUE(Ok(ends().status()));
  brokers.SetLeader(-1);
  // Until it has heard of it, it knows the old one.
  Status status = ends().status();
  for (int i = 0; i < 3; ++i) {
    status = ends().status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  }
  brokers.SetLeader(2);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    status = ends().status();
  } while (!status.ok() && std::chrono::steady_clock::now() < until);
  EXPECT_TRUE(Ok(status));
  producer.reset();
  transactions.reset();
  EXPECT_TRUE(clients.WaitForEnd(std::chrono::seconds(20)));
}

}  // namespace
}  // namespace weir
