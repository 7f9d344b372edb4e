// What a real cluster says of kafka.source and kafka.sink when a job is submitted: each refusal
// names both sides, and comes within five seconds.

#include "worker/connectors/kafka/kafka_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "common/base/concat.h"
#include "common/base/random.h"
#include "tests/support/test_kafka.h"
#include "worker/connectors/kafka/rdkafka_clients.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class KafkaChecksTest : public ::testing::Test {
 protected:
  Status Run(Co<Status> check) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Status> result;
    CoScope scope;
    scope.Spawn(Keep(std::move(check), &result));
    executor_.RunUntil([&] { return result.has_value(); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    return *result;
  }
  static Co<void> Keep(Co<Status> check, std::optional<Status>* result) {
    *result = co_await check;
  }
  Status Source(Config config) {
    return Run(CheckKafkaSource(clients_, executor_, clock_, config, "job", "in"));
  }
  Status Sink(Config config) {
    return Run(CheckKafkaSink(clients_, executor_, clock_, config,
                              JobId(Random::FromSystem().HexName(32)), "out"));
  }
  Config SourceConfig(const std::string& topic) const {
    return {{"brokers", brokers_}, {"topics", topic}, {"format", "raw"}};
  }
  Config SinkConfig(const std::string& topic) const {
    return {{"brokers", brokers_}, {"topic", topic}, {"format", "json"}};
  }

  std::string brokers_ = test_kafka::Brokers();
  SystemClock clock_;
  test_kafka::WaitingExecutor executor_;
  RdkafkaClients clients_;
};

TEST_F(KafkaChecksTest, WhatIsThereIsAccepted) {
  const std::string topic = test_kafka::MakeTopic(2);
  EXPECT_EQ(Source(SourceConfig(topic)).ToString(), "OK");
  EXPECT_EQ(Sink(SinkConfig(topic)).ToString(), "OK");
  EXPECT_TRUE(test_kafka::Committed(topic).empty());
  Config pattern{{"brokers", brokers_}, {"topic_pattern", "none-yet-.*"}, {"format", "raw"}};
  EXPECT_EQ(Source(pattern).ToString(), "OK");
}

TEST_F(KafkaChecksTest, AMissingTopicIsNamedWithTheBrokersAndTheNearestOne) {
  const std::string topic = test_kafka::MakeTopic(1);
  for (Status status : {Source(SourceConfig(topic + "x")), Sink(SinkConfig(topic + "x"))}) {
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(Concat("topic '", topic, "x' does not exist at ", brokers_)),
                      HasSubstr(Concat("did you mean '", topic, "'?"))));
  }
}

// It would read nothing, and fail: what comes later is no part of it.
TEST_F(KafkaChecksTest, APatternThatMatchesNothingIsRefusedForASourceWithAnEnd) {
  Config config{{"brokers", brokers_},
                {"topic_pattern", "none-yet-.*"},
                {"format", "raw"},
                {"end", "latest"}};
  const Status status = Source(config);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(),
              HasSubstr(Concat("topic_pattern 'none-yet-.*' matches no topic at ", brokers_)));
  const std::string topic = test_kafka::MakeTopic(1);
  config.Set("topic_pattern", topic + ".*");
  EXPECT_EQ(Source(config).ToString(), "OK");
}

TEST_F(KafkaChecksTest, OffsetsOfAPartitionThatIsNotThereAreRefused) {
  const std::string topic = test_kafka::MakeTopic(2);
  Config config = SourceConfig(topic);
  config.Set("start_offsets", ConfigMembers{{topic + ":1", 0}});
  EXPECT_EQ(Source(config).ToString(), "OK");
  config.Set("end_offsets", ConfigMembers{{topic + ":2", 7}});
  Status status = Source(config);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("end_offsets"), HasSubstr("partition 2"),
                                      HasSubstr(topic), HasSubstr("which has 2")));
}

TEST_F(KafkaChecksTest, ASinkWithoutKeyIsRefusedForACompactedTopic) {
  const std::string topic = test_kafka::MakeTopic(1, {{"cleanup.policy", "compact,delete"}});
  Config config = SinkConfig(topic);
  for (const char* delivery : {"exactly_once", "at_least_once"}) {
    config.Set("delivery", delivery);
    Status status = Sink(config);
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(Concat("topic '", topic, "'")),
                                        HasSubstr("cleanup.policy"), HasSubstr("set 'key'")));
  }
  config.Set("key", ConfigList{"id"});
  EXPECT_EQ(Sink(config).ToString(), "OK");
}

TEST_F(KafkaChecksTest, ATransactionTimeoutAboveTheBrokersIsNamedWithTheirs) {
  Config config = SinkConfig(test_kafka::MakeTopic(1));
  config.Set("transaction_timeout", "901s");
  Status status = Sink(config);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("901000 ms"), HasSubstr("900000 ms"), HasSubstr(brokers_)));
  config.Set("delivery", "at_least_once");
  EXPECT_EQ(Sink(config).ToString(), "OK");
}

TEST_F(KafkaChecksTest, BrokersThatCannotBeReachedAreNamedWithTheReason) {
  brokers_ = "127.0.0.1:1";
  Status status = Sink(SinkConfig("t"));
  // Else the coordinator would ask every other worker, and the client once more.
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("refused")));
}

TEST_F(KafkaChecksTest, AValueThatLibrdkafkaRefusesIsNamed) {
  Config config = SinkConfig("t");
  config.Set("kafka", ConfigMembers{{"compression.type", "zip"}});
  Status status = Sink(config);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(), HasSubstr("compression.type"));
}

}  // namespace
}  // namespace weir
