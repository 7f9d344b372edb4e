// The config of kafka.source: what it becomes, and what is said of wrong fields.
#include "common/graph/kafka_configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/concat.h"
#include "common/graph/topic_pattern.h"
#include "common/graph/type_descriptor.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config Given(std::initializer_list<std::pair<std::string, ConfigValue>> more) {
  Config config{{"brokers", "a:9092,b:9092"},
                {"topics", ConfigList{"flights", "Delays"}},
                {"format", "json"},
                {"schema", ConfigMembers{{"id", "INT64"}, {"name", "STRING"}}}};
  for (const auto& [name, value] : more) config.Set(name, value);
  return config;
}

std::string ErrorOf(std::initializer_list<std::pair<std::string, ConfigValue>> more) {
  StatusOr<KafkaSourceConfig> parsed = ParseKafkaSourceConfig(Given(more));
  return parsed.ok() ? "no error" : parsed.status().message();
}

TEST(KafkaSourceConfigTest, DefaultsReadEverythingForever) {
  KafkaSourceConfig config = *ParseKafkaSourceConfig(Given({}));
  EXPECT_EQ(config.brokers, "a:9092,b:9092");
  EXPECT_THAT(config.topics, ElementsAre("Delays", "flights"));
  EXPECT_EQ(config.start, KafkaStart::kEarliest);
  EXPECT_FALSE(config.bounded);
  EXPECT_FALSE(config.continue_on_lost_rows);
  EXPECT_EQ(config.discovery_interval_us, 10'000'000);
  EXPECT_EQ(KafkaSourceSchema(config).ToString(), "(id INT64, name STRING)");
}

TEST(KafkaSourceConfigTest, EveryFieldIsRead) {
  KafkaSourceConfig config = *ParseKafkaSourceConfig(
      Given({{"metadata", ConfigMembers{{"k", "key"},
                                        {"kb", "key_bytes"},
                                        {"t", "topic"},
                                        {"p", "partition"},
                                        {"o", "offset"},
                                        {"at", "timestamp"},
                                        {"all", "headers"},
                                        {"trace", "header:trace-id"},
                                        {"raw", "header_bytes:trace-id"}}},
             {"start", "2013-01-01T10:00:00Z"},
             {"start_offsets", ConfigMembers{{"flights:0", 17}, {"flights:12", 0}}},
             {"end_offsets", ConfigMembers{{"Delays:3", 20}}},
             {"group", "g"},
             {"discovery_interval", "250ms"},
             {"rate", 10},
             {"on_lost_rows", "continue"},
             {"bad_data", "dead_letter"},
             {"dead_letter_path", "/d"},
             {"kafka", ConfigMembers{{"security.protocol", "ssl"},
                                     {"fetch.max.bytes", 1000000},
                                     {"enable.ssl.certificate.verification", false}}}}));
  EXPECT_EQ(KafkaSourceSchema(config).ToString(),
            "(id INT64, name STRING, k STRING, kb BYTES, t STRING, p INT32, o INT64, at TIMESTAMP, "
            "all STRING, trace STRING, raw BYTES)");
  EXPECT_EQ(config.metadata[7].header, "trace-id");
  EXPECT_EQ(config.start, KafkaStart::kTime);
  EXPECT_EQ(config.start_time_us, 1'357'034'400'000'000);
  EXPECT_EQ(ParseKafkaSourceConfig(Given({{"start", "1970-01-01T00:00:00Z"}}))->start,
            KafkaStart::kTime);
  EXPECT_EQ(ParseKafkaSourceConfig(Given({{"start", "1969-12-31T23:59:59.999999Z"}}))->start,
            KafkaStart::kEarliest);
  EXPECT_EQ(config.start_offsets.at({"flights", 12}), 0);
  EXPECT_EQ(config.end_offsets.at({"Delays", 3}), 20);
  EXPECT_TRUE(config.bounded);
  EXPECT_TRUE(config.continue_on_lost_rows);
  EXPECT_EQ(config.properties.at("fetch.max.bytes"), "1000000");
  EXPECT_EQ(config.properties.at("enable.ssl.certificate.verification"), "false");
}

TEST(KafkaSourceConfigTest, RawValuesAreOneColumn) {
  Config config{{"brokers", "a"}, {"topics", "t"}, {"format", "raw"}};
  EXPECT_EQ(KafkaSourceSchema(*ParseKafkaSourceConfig(config)).ToString(), "(value BYTES)");
  config.Set("schema", ConfigMembers{{"id", "INT64"}});
  EXPECT_THAT(ParseKafkaSourceConfig(config).status().message(), HasSubstr("value BYTES"));
}

TEST(KafkaSourceConfigTest, WrongFieldsAreNamedWithWhatIsValid) {
  EXPECT_EQ(ErrorOf({{"brokers", "a:1, b:1"}}),
            "config field 'brokers' is 'a:1, b:1' (a text): expected host:port, several split by "
            "commas without blanks");
  for (const char* brokers : {"a:1,b:99999", "a:1,b:0", "a:1,b:", "a:1,b:x"}) {
    EXPECT_THAT(ErrorOf({{"brokers", brokers}}),
                HasSubstr(Concat("with a port from 1 to 65535 in '", brokers + 4, "'")));
  }
  for (const char* brokers : {"a", "a:65535,b", "[::1]:9092,[::1]"}) {
    EXPECT_EQ(ErrorOf({{"brokers", brokers}}), "no error");
  }
  EXPECT_THAT(ErrorOf({{"topics", ConfigList{"a", "a"}}}), HasSubstr("none twice"));
  EXPECT_THAT(ErrorOf({{"topics", "a b"}}), HasSubstr("letters, digits"));
  EXPECT_THAT(ErrorOf({{"topic_pattern", "a.*"}}), HasSubstr("both there"));
  EXPECT_THAT(ErrorOf({{"topics", ConfigValue()}}), HasSubstr("'topics' is missing"));
  EXPECT_THAT(ErrorOf({{"topics", ConfigValue()}, {"topic_pattern", "a["}}),
              HasSubstr("config field 'topic_pattern': 'a[' is no regular expression"));
  EXPECT_THAT(ErrorOf({{"format", "avro"}}), HasSubstr("expected json, csv or raw"));
  EXPECT_THAT(ErrorOf({{"schema", ConfigValue()}}), HasSubstr("'schema' is missing"));
  EXPECT_EQ(ErrorOf({{"metadata", ConfigMembers{{"o", "offsets"}}}}),
            "config field 'metadata.o' is 'offsets' (a text): expected key, key_bytes, topic, "
            "partition, offset, timestamp, headers, header:NAME or header_bytes:NAME");
  EXPECT_THAT(ErrorOf({{"metadata", ConfigMembers{{"o", "header:"}}}}), HasSubstr("'header:'"));
  EXPECT_THAT(ErrorOf({{"metadata", ConfigMembers{{"id", "offset"}}}}), HasSubstr("'id'"));
  EXPECT_THAT(ErrorOf({{"start", "newest"}}), HasSubstr("expected earliest, latest, committed or"));
  EXPECT_THAT(ErrorOf({{"end", "never"}}), HasSubstr("expected latest"));
  EXPECT_THAT(ErrorOf({{"start_offsets", ConfigMembers{{"flight:0", 1}}}}),
              HasSubstr("config field 'start_offsets.flight:0' is '1' (an integer): expected a "
                        "partition of one of 'topics'; did you mean 'flights'?"));
  for (const char* partition : {"flights", "flights:", "flights:-1", "flights:1x", ":1"}) {
    EXPECT_THAT(ErrorOf({{"end_offsets", ConfigMembers{{partition, 1}}}}),
                HasSubstr("like {\"flights:0\": 1200}"))
        << partition;
  }
  EXPECT_EQ(
      ErrorOf({{"start_offsets", ConfigMembers{{"flights:0", -1}}}}),
      "config field 'start_offsets.flights:0' is '-1' (an integer): expected an offset, which "
      "is never negative");
  EXPECT_EQ(ErrorOf({{"start_offsets", ConfigMembers{{"flights:0", 8}, {"flights:1", 9}}},
                     {"end_offsets", ConfigMembers{{"flights:0", 8}, {"flights:1", 8}}}}),
            "config fields 'start_offsets' and 'end_offsets' have flights/1 begin at offset 9 and "
            "end in front of 8: expected an end that is not before the begin");
  EXPECT_THAT(ErrorOf({{"on_lost_rows", "skip"}}), HasSubstr("expected fail or continue"));
  EXPECT_THAT(ErrorOf({{"rate", 0}}), HasSubstr("above 0"));
  EXPECT_THAT(ErrorOf({{"discovery_interval", "10ms"}}), HasSubstr("at least 100ms"));
  EXPECT_THAT(ErrorOf({{"group", ""}}), HasSubstr("not empty"));
}

TEST(KafkaSourceConfigTest, PropertiesThatWeirSetsAreRefusedByName) {
  EXPECT_EQ(ErrorOf({{"kafka", ConfigMembers{{"group.id", "x"}}}}),
            "config field 'kafka' sets 'group.id', which Weir sets itself: set 'group' of "
            "kafka.source instead");
  for (const char* owned :
       {"bootstrap.servers", "metadata.broker.list", "group.instance.id", "enable.auto.commit",
        "enable.auto.offset.store", "auto.offset.reset", "isolation.level", "transactional.id",
        "enable.idempotence", "transaction.timeout.ms", "enable.partition.eof",
        "max.in.flight.requests.per.connection"}) {
    EXPECT_THAT(ErrorOf({{"kafka", ConfigMembers{{owned, "1"}}}}),
                HasSubstr(std::string("'") + owned + "', which Weir sets itself"));
  }
  // librdkafka before 2.5.0 crashes with a long one.
  EXPECT_EQ(ErrorOf({{"kafka", ConfigMembers{{"client.id", std::string(64, 'c')}}}}), "no error");
  EXPECT_THAT(ErrorOf({{"kafka", ConfigMembers{{"client.id", std::string(65, 'c')}}}}),
              testing::AllOf(HasSubstr("kafka.client.id"), HasSubstr("at most 64 bytes")));
  // A consumer has no use for it, and may share its properties with a producer.
  EXPECT_EQ(ErrorOf({{"kafka", ConfigMembers{{"acks", "all"}}}}), "no error");
  EXPECT_EQ(ErrorOf({{"kafka", ConfigMembers{{"security.protocl", "ssl"}}}}),
            "config field 'kafka' sets 'security.protocl', which is no property of librdkafka; did "
            "you mean 'security.protocol'?");
  EXPECT_THAT(
      KafkaPropertiesField(Given({{"kafka", ConfigMembers{{"acks", "1"}}}}), KafkaRole::kProducer)
          .status()
          .message(),
      HasSubstr("'acks', which Weir sets itself"));
  EXPECT_THAT(ErrorOf({{"kafka", ConfigMembers{{"debug", ConfigList{"fetch"}}}}}),
              HasSubstr("'kafka.debug'"));
}

TEST(KafkaSourceTypeTest, DeadLettersNeedADirectory) {
  const TypeDescriptor& type = BuiltinTypes().find("kafka.source")->second;
  JobOptions options;
  Config config = Given({{"bad_data", "dead_letter"}});
  EXPECT_THAT(type.check_options(config, options).message(), HasSubstr("dead_letter_path"));
  EXPECT_TRUE(type.owns_committables(config, options));
  EXPECT_FALSE(type.owns_committables(Given({}), options));
  EXPECT_EQ((*type.check(config, {}))->ToString(), "(id INT64, name STRING)");
}

TEST(KafkaSinkTypeTest, DeadLettersNeedADirectory) {
  const TypeDescriptor& type = BuiltinTypes().find("kafka.sink")->second;
  Config config{{"brokers", "b:1"}, {"topic", "out"}, {"format", "json"}};
  JobOptions options;
  options.bad_data = BadData::kDeadLetter;
  EXPECT_THAT(type.check_options(config, options).message(), HasSubstr("dead_letter_path"));
  config.Set("bad_data", "drop");
  EXPECT_TRUE(type.check_options(config, options).ok());
  config.Set("bad_data", "dead_letter");
  config.Set("dead_letter_path", "/dead");
  EXPECT_TRUE(type.check_options(config, options).ok());
}

TEST(TopicPatternTest, MatchesWholeNames) {
  TopicPattern pattern = *TopicPattern::Parse("fl.*|delays-[0-9]+");
  EXPECT_TRUE(pattern.Matches("flights"));
  EXPECT_TRUE(pattern.Matches("delays-17"));
  EXPECT_FALSE(pattern.Matches("delays-17x"));
  EXPECT_FALSE(pattern.Matches("my-flights"));
  EXPECT_FALSE(TopicPattern::Parse(".*")->Matches("__consumer_offsets"));
  EXPECT_TRUE(TopicPattern::Parse("__con.*")->Matches("__consumer_offsets"));
  for (const char* wrong : {"", "a[", "(", "a)|(b"}) {
    EXPECT_FALSE(TopicPattern::Parse(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace weir
