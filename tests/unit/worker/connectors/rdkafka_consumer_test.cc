// The consumer on librdkafka against a real broker: rows as they were written, offsets, and what it
// says of partitions that are not there; where that takes several brokers, against librdkafka's
// own.
#include "worker/connectors/kafka/rdkafka_consumer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/random.h"
#include "tests/support/brokers_in_memory.h"
#include "tests/support/test_kafka.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/rdkafka_clients.h"

namespace weir {
namespace {

using test_kafka::MakeTopic;
using test_kafka::Row;
using test_kafka::WaitingExecutor;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

class RdkafkaConsumerTest : public ::testing::Test {
 protected:
  ~RdkafkaConsumerTest() override {
    transactions_.reset();
    consumer_.reset();
    EXPECT_TRUE(clients_.WaitForEnd(std::chrono::seconds(20)));
  }

  std::string Brokers() const {
    return in_memory_ == nullptr ? test_kafka::Brokers() : in_memory_->brokers();
  }
  void Write(const std::string& topic, const std::vector<Row>& rows) {
    std::string blocks;
    KafkaBlockWriter writer;
    for (const Row& row : rows) {
      std::vector<KafkaHeaderView> headers;
      for (const auto& [name, value] : row.headers) headers.push_back({name, value});
      writer.Begin(row.partition, &blocks);
      writer.Add({.key = row.key,
                  .value = row.value,
                  .timestamp_ms = row.timestamp_ms,
                  .headers = headers});
      writer.End();
    }
    KafkaProducerOptions options;
    options.cluster.brokers = Brokers();
    options.topic = topic;
    std::unique_ptr<TransactionalProducer> producer =
        std::move(transactions_->MakeProducer(std::move(options)).value());
    const auto wait = [&](const std::function<void(KafkaDone)>& call) {
      std::optional<KafkaResult> result;
      call([&](KafkaResult answer) { result = std::move(answer); });
      executor_.RunUntil([&] { return result.has_value(); });
      ASSERT_TRUE(result->done()) << result->status;
    };
    wait([&](KafkaDone done) { producer->Initialise(done); });
    wait([&](KafkaDone done) { producer->Produce(blocks, done); });
    wait([&](KafkaDone done) { producer->Commit(done); });
  }

  void Open(const std::string& group = "group-" + Random::FromSystem().HexName(12)) {
    KafkaConsumerOptions options;
    options.cluster.brokers = Brokers();
    options.group = group;
    StatusOr<std::unique_ptr<KafkaConsumer>> made =
        clients_.MakeConsumer(executor_, std::move(options), [this] { ++woken_; });
    ASSERT_TRUE(made.ok()) << made.status();
    consumer_ = *std::move(made);
  }
  template <typename T>
  T Wait(const std::function<void(std::function<void(T)>)>& call, int seconds_max = 60) {
    std::optional<T> result;
    call([&](T answer) { result.emplace(std::move(answer)); });
    executor_.RunUntil([&] { return result.has_value(); }, seconds_max);
    return *std::move(result);
  }
  // Of topic "t", whose answer comes in its time.
  StatusOr<KafkaOffsets> Limits() {
    const auto answer = Wait<StatusOr<std::vector<KafkaOffsets>>>(
        [&](auto done) { consumer_->ListOffsets({{"t", 0}}, done); }, kAnswerSecondsMax);
    if (!answer.ok()) return answer.status();
    return answer->front();
  }
  // Asks until there is an answer.
  KafkaOffsets LimitsInTheEnd() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      const StatusOr<KafkaOffsets> limits = Limits();
      if (limits.ok()) return *limits;
      EXPECT_EQ(limits.status().code(), StatusCode::kUnavailable) << limits.status();
      if (std::chrono::steady_clock::now() > give_up) {
        ADD_FAILURE() << limits.status();
        return {};
      }
    }
  }
  Status Assign(std::vector<KafkaAssignment> assignments) {
    return Wait<Status>([&](auto done) { consumer_->Assign(assignments, done); });
  }
  // Polls, and sleeps until it is woken, as a task does; false: the batch told the end.
  void ReadUntil(const std::function<bool(const KafkaBatch&)>& seen) {
    KafkaBatch batch;
    while (true) {
      const int woken = woken_;
      consumer_->Poll(1000, &batch);
      if (seen(batch)) return;
      if (batch.empty()) executor_.RunUntil([&] { return woken_ != woken; });
    }
  }
  // Offsets of one partition up to its end.
  std::vector<int64_t> Offsets(int32_t tag) {
    std::vector<int64_t> offsets;
    ReadUntil([&](const KafkaBatch& batch) {
      for (const KafkaMessage& message : batch.rows) {
        EXPECT_EQ(message.tag, tag);
        offsets.push_back(message.offset);
      }
      return std::any_of(batch.events.begin(), batch.events.end(), [&](const KafkaEvent& event) {
        return event.kind == KafkaEvent::Kind::kPartitionEnd && event.tag == tag;
      });
    });
    return offsets;
  }

  // A question takes 5 s at most, and may wait for one that is under way.
  static constexpr int kAnswerSecondsMax = 15;

  std::unique_ptr<BrokersInMemory> in_memory_;
  WaitingExecutor executor_;
  RdkafkaClients clients_;
  std::unique_ptr<KafkaTransactions> transactions_ = clients_.TransactionsFor(executor_);
  std::unique_ptr<KafkaConsumer> consumer_;
  int woken_ = 0;
};

TEST_F(RdkafkaConsumerTest, WhatIsLeftOfADroppedPartitionDoesNotHideTheRowsBehindIt) {
  const std::string topic = MakeTopic(2);
  Write(topic, {{.partition = 0, .value = "a"}, {.partition = 1, .value = "b"}});
  Open();
  const Status assigned = Assign({{.partition = {topic, 0}, .offset = 0, .tag = 0},
                                  {.partition = {topic, 1}, .offset = 0, .tag = 1}});
  ASSERT_TRUE(assigned.ok()) << assigned;
  bool seen = false;
  const auto poll = [&] {
    KafkaBatch batch;
    const int woken = woken_;
    consumer_->Poll(1, &batch);
    for (const KafkaMessage& message : batch.rows) seen = seen || message.tag == 1;
    if (batch.empty()) executor_.RunUntil([&] { return woken_ != woken; });
  };
  poll();  // sleeps until a fetch has brought both
  consumer_->Drop({{topic, 0}}, [](const Status&) {});
  while (!seen) {
    poll();
    ASSERT_FALSE(HasFailure()) << "nobody woke it, and the queue is not empty";
  }
}

TEST_F(RdkafkaConsumerTest, RowsAreWhatWasWritten) {
  const std::string topic = MakeTopic(3);
  const std::vector<Row> written = {
      {.partition = 0, .key = "k", .value = "v", .timestamp_ms = 1'700'000'000'123},
      {.partition = 0, .key = std::nullopt, .value = "", .timestamp_ms = 1'700'000'000'124},
      {.partition = 0, .key = "", .value = std::nullopt, .timestamp_ms = 1'700'000'000'125},
      {.partition = 2,
       .key = std::string("\0b", 2),
       .value = "{}",
       .timestamp_ms = 1'700'000'000'126,
       .headers = {{"a", "1"}, {"none", std::nullopt}, {"a", ""}}},
  };
  Write(topic, written);
  Open();
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = 0, .tag = 7},
                      {.partition = {topic, 1}, .offset = 0, .tag = 8},
                      {.partition = {topic, 2}, .offset = 0, .tag = 9}})
                  .ok());
  std::vector<Row> read;
  std::set<int32_t> ended;
  ReadUntil([&](const KafkaBatch& batch) {
    for (const KafkaMessage& message : batch.rows) {
      Row& row = read.emplace_back();
      row.partition = message.tag - 7;
      if (message.has_key()) row.key = message.key;
      if (message.has_value()) row.value = message.value;
      row.timestamp_ms = message.timestamp_ms;
      std::vector<KafkaMessageHeader> headers;
      consumer_->Headers(message, &headers);
      for (const KafkaMessageHeader& header : headers) {
        auto& [name, value] = row.headers.emplace_back(header.name, std::nullopt);
        if (header.value.data() != nullptr) value = header.value;
      }
    }
    for (const KafkaEvent& event : batch.events) {
      EXPECT_EQ(event.kind, KafkaEvent::Kind::kPartitionEnd);
      EXPECT_EQ(event.offset, event.tag == 7 ? 3 : event.tag == 8 ? 0 : 1);
      ended.insert(event.tag);
    }
    return ended.size() == 3;
  });
  std::sort(read.begin(), read.end(), [](const Row& a, const Row& b) {
    return std::pair(a.partition, a.timestamp_ms) < std::pair(b.partition, b.timestamp_ms);
  });
  EXPECT_EQ(read, written);
}

TEST_F(RdkafkaConsumerTest, ReadsFromWhereItIsToldAlsoWhenItReadsAlready) {
  const std::string topic = MakeTopic(1);
  std::vector<Row> rows;
  for (int i = 0; i < 5; ++i) rows.push_back({.partition = 0, .value = "v"});
  Write(topic, rows);
  Open();
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = 2, .tag = 0}}).ok());
  EXPECT_THAT(Offsets(0), ElementsAre(2, 3, 4));
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = 4, .tag = 5}}).ok());
  EXPECT_THAT(Offsets(5), ElementsAre(4));
  // At the end it is woken by what comes.
  Write(topic, rows);
  EXPECT_THAT(Offsets(5), ElementsAre(5, 6, 7, 8, 9));
  const Status dropped = Wait<Status>([&](auto done) { consumer_->Drop({{topic, 0}}, done); });
  EXPECT_TRUE(dropped.ok()) << dropped;
}

TEST_F(RdkafkaConsumerTest, WhatWasTakenBeforeAnAssignmentIsNotOfIt) {
  constexpr int kRows = 2000;
  constexpr int64_t kAnew = 1500;
  const std::string topic = MakeTopic(2);
  std::vector<Row> rows;
  for (int i = 0; i < 2 * kRows; ++i) rows.push_back({.partition = i % 2, .value = "v"});
  Write(topic, rows);
  Open();
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = 0, .tag = 0},
                      {.partition = {topic, 1}, .offset = 0, .tag = 1}})
                  .ok());
  std::map<int32_t, std::vector<int64_t>> offsets;
  std::set<int32_t> ended;
  const auto note = [&](const KafkaBatch& batch) {
    for (const KafkaMessage& message : batch.rows) offsets[message.tag].push_back(message.offset);
    for (const KafkaEvent& event : batch.events) ended.insert(event.tag);
  };
  // One by one, so that others are at hand.
  for (int read = 0; read < 100;) {
    KafkaBatch batch;
    const int woken = woken_;
    consumer_->Poll(1, &batch);
    ASSERT_LE(batch.rows.size(), 1u);
    note(batch);
    read += static_cast<int>(batch.rows.size());
    if (batch.empty()) executor_.RunUntil([&] { return woken_ != woken; });
  }
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = kAnew, .tag = 2}}).ok());
  ReadUntil([&](const KafkaBatch& batch) {
    note(batch);
    return ended.count(1) > 0 && ended.count(2) > 0;
  });
  const auto count_up = [](int64_t from, int64_t to) {
    std::vector<int64_t> numbers;
    for (int64_t i = from; i < to; ++i) numbers.push_back(i);
    return numbers;
  };
  EXPECT_EQ(offsets[0], count_up(0, static_cast<int64_t>(offsets[0].size())));
  EXPECT_LE(offsets[0].size(), 100u);
  EXPECT_EQ(offsets[1], count_up(0, kRows));
  EXPECT_EQ(offsets[2], count_up(kAnew, kRows));
}

TEST_F(RdkafkaConsumerTest, SaysThatAnOffsetIsOutOfRange) {
  const std::string topic = MakeTopic(1);
  Write(topic, {{.partition = 0, .value = "v"}});
  Open();
  ASSERT_TRUE(Assign({{.partition = {topic, 0}, .offset = 100, .tag = 3}}).ok());
  ReadUntil([&](const KafkaBatch& batch) {
    EXPECT_TRUE(batch.rows.empty());
    for (const KafkaEvent& event : batch.events) {
      EXPECT_EQ(event.kind, KafkaEvent::Kind::kOutOfRange);
      EXPECT_EQ(event.tag, 3);
    }
    return !batch.events.empty();
  });
}

TEST_F(RdkafkaConsumerTest, AnswersQuestions) {
  const std::string topic = MakeTopic(2);
  Write(topic, {{.partition = 1, .value = "a", .timestamp_ms = 1000},
                {.partition = 1, .value = "b", .timestamp_ms = 2000}});
  const std::string group = "group-" + Random::FromSystem().HexName(12);
  Open(group);
  using Topics = StatusOr<std::vector<KafkaTopicView>>;
  const std::string missing = topic + "-missing";
  Topics topics = Wait<Topics>([&](auto done) { consumer_->ListTopics({topic, missing}, done); });
  ASSERT_TRUE(topics.ok()) << topics.status();
  ASSERT_EQ(topics->size(), 2u);
  EXPECT_EQ((*topics)[0].partitions, 2);
  EXPECT_TRUE((*topics)[0].status.ok());
  EXPECT_EQ((*topics)[1].name, missing);
  EXPECT_EQ((*topics)[1].status.code(), StatusCode::kNotFound);
  topics = Wait<Topics>([&](auto done) { consumer_->ListTopics({}, done); });
  EXPECT_TRUE(std::any_of(topics->begin(), topics->end(),
                          [&](const KafkaTopicView& view) { return view.name == topic; }));

  const std::vector<TopicPartition> both = {{topic, 1}, {topic, 0}};
  const auto ends = Wait<StatusOr<std::vector<KafkaOffsets>>>(
      [&](auto done) { consumer_->ListOffsets(both, done); });
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ((*ends)[0].low, 0);
  EXPECT_EQ((*ends)[0].end, 2);
  EXPECT_EQ((*ends)[1].end, 0);

  using MaybeOffsets = StatusOr<std::vector<std::optional<int64_t>>>;
  const MaybeOffsets found =
      Wait<MaybeOffsets>([&](auto done) { consumer_->FindOffsets(both, 1001, done); });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(Optional(1), Eq(std::nullopt)));

  std::optional<Status> committed;
  consumer_->CommitOffsets({{{topic, 1}, 2}}, [&](Status status) { committed = status; });
  KafkaBatch batch;
  while (!committed.has_value()) {
    const int woken = woken_;
    consumer_->Poll(10, &batch);
    executor_.RunUntil([&] { return woken_ != woken || committed.has_value(); });
  }
  EXPECT_TRUE(committed->ok()) << *committed;
  const MaybeOffsets offsets =
      Wait<MaybeOffsets>([&](auto done) { consumer_->CommittedOffsets(both, done); });
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_THAT(*offsets, ElementsAre(Optional(2), Eq(std::nullopt)));
}

TEST_F(RdkafkaConsumerTest, QuestionsAreAnsweredWhileALeaderIsAwayAndAfterItMoved) {
  constexpr int kRows = 20'000;
  // Beyond this room is made for more, by a question to the leader.
  constexpr int kRowsWithoutLeader = 3500;
  in_memory_ = std::make_unique<BrokersInMemory>(2);
  in_memory_->SetLeader(1);
  Write("t", std::vector<Row>(kRows, {.partition = 0, .value = std::string(20, 'v')}));
  Open();
  EXPECT_EQ(LimitsInTheEnd().end, kRows);
  ASSERT_TRUE(Assign({{.partition = {"t", 0}, .offset = 0, .tag = 0}}).ok());
  int read = 0;
  const auto read_to = [&](int rows, bool leader_is_there) {
    ReadUntil([&](const KafkaBatch& batch) {
      read += static_cast<int>(batch.rows.size());
      const bool lost = std::any_of(
          batch.events.begin(), batch.events.end(),
          [](const KafkaEvent& event) { return event.kind == KafkaEvent::Kind::kBrokerLost; });
      return read >= rows || (lost && !leader_is_there);
    });
  };
  read_to(1, true);
  // Answers come behind those to fetches before them: by then the client has what it keeps.
  for (int i = 0; i < 2; ++i) LimitsInTheEnd();

  in_memory_->SetDown(1);
  read_to(kRowsWithoutLeader, false);
  const auto topics = Wait<StatusOr<std::vector<KafkaTopicView>>>(
      [&](auto done) { consumer_->ListTopics({"t"}, done); }, kAnswerSecondsMax);
  // Each may go to the broker that is away, and has its time then.
  EXPECT_TRUE(topics.ok() || topics.status().code() == StatusCode::kUnavailable) << topics.status();
  // The new leader is not known yet when this is asked.
  const auto limits = Wait<StatusOr<std::vector<KafkaOffsets>>>(
      [&](auto done) {
        consumer_->ListOffsets({{"t", 0}}, done);
        in_memory_->SetLeader(2);
      },
      kAnswerSecondsMax);
  EXPECT_TRUE(limits.ok() || limits.status().code() == StatusCode::kUnavailable) << limits.status();

  EXPECT_EQ(LimitsInTheEnd().end, kRows);
  read_to(kRows, true);
  const Status dropped = Wait<Status>([&](auto done) { consumer_->Drop({{"t", 0}}, done); });
  EXPECT_TRUE(dropped.ok()) << dropped;
}

TEST_F(RdkafkaConsumerTest, APartitionWithoutLeaderIsNoUnknownOne) {
  in_memory_ = std::make_unique<BrokersInMemory>(2);
  in_memory_->SetLeader(-1);
  Open();
  const StatusOr<KafkaOffsets> none = Limits();
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable) << none.status();
  EXPECT_THAT(none.status().message(), ::testing::HasSubstr("t/0"));
  in_memory_->SetLeader(2);
  EXPECT_EQ(LimitsInTheEnd().end, 0);
}

TEST_F(RdkafkaConsumerTest, AGroupThatMayNotBeUsedIsNamedWithWhatIsNeeded) {
  in_memory_ = std::make_unique<BrokersInMemory>(1);
  in_memory_->RefuseGroups(100);
  Open("secret");
  Status failed;
  ReadUntil([&](const KafkaBatch& batch) {
    for (const KafkaEvent& event : batch.events) {
      if (event.kind == KafkaEvent::Kind::kFailed) failed = event.status;
    }
    return !failed.ok();
  });
  EXPECT_EQ(failed.domain(), ErrorDomain::kUser);
  EXPECT_EQ(failed.message(), "cannot use group 'secret' (cluster " + Brokers() +
                                  "): Broker: Group authorization failed (needed: READ on the "
                                  "group)");
}

TEST_F(RdkafkaConsumerTest, ABrokerThatIsNotThereIsSaidToBeAway) {
  KafkaConsumerOptions options;
  options.cluster.brokers = "127.0.0.1:1";
  options.group = "g";
  consumer_ =
      std::move(clients_.MakeConsumer(executor_, std::move(options), [this] { ++woken_; }).value());
  ReadUntil([&](const KafkaBatch& batch) {
    bool away = false;
    for (const KafkaEvent& event : batch.events) {
      if (event.kind == KafkaEvent::Kind::kBrokerLost) continue;
      EXPECT_EQ(event.kind, KafkaEvent::Kind::kBrokersAway);
      EXPECT_THAT(event.status.message(),
                  ::testing::StartsWith("Kafka brokers 127.0.0.1:1 do not answer"));
      away = true;
    }
    return away;
  });
  options.cluster.brokers = test_kafka::Brokers();
  options.cluster.properties = {{"no.such.property", "1"}};
  const auto refused = clients_.MakeConsumer(executor_, std::move(options), [] {});
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("'no.such.property'"));
}

}  // namespace
}  // namespace weir
