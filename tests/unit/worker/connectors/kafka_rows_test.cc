#include "worker/connectors/kafka/sink/kafka_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "partition key=value@timestamp header=…", null as ~.
std::vector<std::string> Texts(std::string_view bytes) {
  std::vector<std::string> texts;
  const auto text = [](const std::optional<std::string_view>& bytes) {
    return bytes.has_value() ? std::string(*bytes) : "~";
  };
  KafkaBlockReader blocks(bytes);
  KafkaBlock block;
  while (*blocks.Next(&block)) {
    KafkaRecordReader records(block);
    KafkaRecordView record;
    while (records.Next(&record)) {
      texts.push_back(Concat(block.partition, ' ', text(record.key), '=', text(record.value), '@',
                             record.timestamp_ms));
      for (const KafkaHeaderView& header : record.headers) {
        texts.back() += Concat(' ', header.name, '=', text(header.value));
      }
    }
    EXPECT_TRUE(records.status().ok()) << records.status();
  }
  EXPECT_EQ(blocks.used(), bytes.size());
  return texts;
}

// Rows of (id INT64, name STRING, part INT32, at TIMESTAMP, gone BOOL, value BYTES).
struct Row {
  std::optional<int64_t> id = {};
  std::optional<std::string> name = {};
  std::optional<int32_t> part = {};
  std::optional<int64_t> at_us = {};
  std::optional<bool> gone = {};
  std::optional<std::string> value = {};
};

constexpr int64_t kNowUs = 1'357'034'400'000'000;  // 2013-01-01T10:00:00Z

class KafkaRowsTest : public testing::Test {
 protected:
  RecordBatch Batch(const std::vector<Row>& rows) {
    BatchBuilder builder(schema_);
    for (const Row& row : rows) {
      const auto append = [&](int column, const auto& value, auto append_value) {
        if (value.has_value()) {
          append_value(builder.column(column), *value);
        } else {
          builder.column(column).AppendNull();
        }
      };
      append(0, row.id, [](auto& column, int64_t value) { column.AppendInt64(value); });
      append(1, row.name, [](auto& column, const auto& value) { column.AppendText(value); });
      append(2, row.part, [](auto& column, int32_t value) { column.AppendInt32(value); });
      append(3, row.at_us, [](auto& column, int64_t value) { column.AppendInt64(value); });
      append(4, row.gone, [](auto& column, bool value) { column.AppendBool(value); });
      append(5, row.value, [](auto& column, const auto& value) { column.AppendText(value); });
    }
    return builder.Finish();
  }
  // Encodes into 3 partitions.
  std::vector<std::string> Encode(Config config, const std::vector<Row>& rows,
                                  KafkaTopic topic = {.message_bytes_max = 1'000'000}) {
    config.Set("brokers", "localhost:9092");
    config.Set("topic", "out");
    StatusOr<KafkaSinkConfig> parsed = ParseKafkaSinkConfig(config);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(CheckKafkaSinkInput(*parsed, *schema_).ok());
    topic.partitions = 3;
    KafkaRows encoder(*parsed, schema_, topic, 1);
    std::string out;
    bad_.clear();
    encoder.Encode(Batch(rows), kNowUs, &out, &bad_);
    return Texts(out);
  }

  const SchemaPtr schema_ = std::make_shared<const Schema>(Schema({{"id", Type::kInt64},
                                                                   {"name", Type::kString},
                                                                   {"part", Type::kInt32},
                                                                   {"at", Type::kTimestamp},
                                                                   {"gone", Type::kBool},
                                                                   {"value", Type::kBytes}}));
  std::vector<KafkaBadRow> bad_;
};

// By Kafka's own client: Utils.murmur2 and toPositive.
TEST(KafkaPartition, IsThatOfJavasClients) {
  EXPECT_EQ(KafkaPartitionOf("TT0124", 15), 10);
  EXPECT_EQ(KafkaPartitionOf("wu", 10), 0);
  EXPECT_EQ(KafkaPartitionOf("", 7), 2);
  EXPECT_EQ(KafkaPartitionOf("a", 7), 5);
}

TEST_F(KafkaRowsTest, JsonValuesWithoutKeyGoToOnePartitionABatch) {
  EXPECT_THAT(Encode(Config{{"format", "json"},
                            {"partition_column", "part"},
                            {"headers", ConfigMembers{{"h", "value"}}}},
                     {{1, "a\nb", {}, 0, false, "x"}, {{}, {}, {}, {}, {}, {}}}),
              ElementsAre("1 ~={\"id\":1,\"name\":\"a\\nb\",\"at\":\"1970-01-01T00:00:00Z\","
                          "\"gone\":false}@-1 h=x",
                          "1 ~={\"id\":null,\"name\":null,\"at\":null,\"gone\":null}@-1 h=~"));
}

TEST_F(KafkaRowsTest, RowsAreGroupedByPartitionInTheirOrder) {
  EXPECT_THAT(
      Encode(Config{{"format", "raw"}, {"partition_column", "part"}}, {{.part = 2, .value = "a"},
                                                                       {.part = 0, .value = "b"},
                                                                       {.part = 2, .value = "c"},
                                                                       {.part = 0, .value = ""},
                                                                       {.part = 2, .value = {}}}),
      ElementsAre("0 ~=b@-1", "0 ~=@-1", "2 ~=a@-1", "2 ~=c@-1", "2 ~=~@-1"));
}

TEST_F(KafkaRowsTest, KeysAreTextsOrObjects) {
  auto rows = Encode(Config{{"format", "raw"}, {"key", ConfigList{"name"}}},
                     {{.name = "a", .value = "v"}, {.name = {}, .value = "w"}});
  EXPECT_THAT(rows, testing::UnorderedElementsAre("1 a=v@-1", "1 ~=w@-1"));
  rows = Encode(Config{{"format", "raw"}, {"key", ConfigList{"id", "name"}}},
                {{.id = 7, .name = {}, .value = "v"}});
  EXPECT_THAT(rows[0], HasSubstr(" {\"id\":7,\"name\":null}=v@"));
  rows = Encode(Config{{"format", "raw"}, {"key", ConfigList{"id"}}},
                {{.id = 7, .value = "v"}, {.id = {}, .value = "w"}});
  EXPECT_THAT(rows, testing::UnorderedElementsAre(HasSubstr(" {\"id\":7}=v@"), "1 ~=w@-1"));
}

TEST_F(KafkaRowsTest, TimestampsAndTombstones) {
  EXPECT_THAT(Encode(Config{{"format", "csv"},
                            {"key", ConfigList{"name"}},
                            {"partition_column", "part"},
                            {"timestamp_column", "at"},
                            {"tombstone_column", "gone"},
                            {"headers", ConfigMembers{{"h", "value"}}}},
                     {{1, "k", 0, 1'234'999, false, ""}, {2, "l", 0, {}, true, {}}}),
              ElementsAre("0 k=1,k,1970-01-01T00:00:01.234999Z@1234 h=", "0 l=~@-1 h=~"));
}

TEST_F(KafkaRowsTest, RowsThatTheTopicDoesNotTakeAreNamed) {
  // 97 bytes go with each message, at most.
  EXPECT_THAT(Encode(Config{{"format", "raw"},
                            {"key", ConfigList{"name"}},
                            {"partition_column", "part"},
                            {"timestamp_column", "at"}},
                     {{.name = "kk", .part = 1, .value = "1"},
                      {.name = "kk", .part = 1, .value = "12"},
                      {.name = "k", .part = 3, .value = "1"},
                      {.name = "k", .part = -1, .value = "1"},
                      {.name = "k", .part = 1, .at_us = -1, .value = "1"},
                      {.name = "k", .part = 2, .value = "2"}},
                     {.message_bytes_max = 100}),
              ElementsAre("1 kk=1@-1", "2 k=2@-1"));
  ASSERT_EQ(bad_.size(), 4u);
  EXPECT_EQ(bad_[0].row, 1);
  EXPECT_EQ(bad_[0].reason, "its message of 101 bytes is larger than the 100 that the topic takes");
  EXPECT_EQ(bad_[1].reason, "column 'part' names partition 3; the topic has 0 to 2");
  EXPECT_EQ(bad_[2].reason, "column 'part' names partition -1; the topic has 0 to 2");
  EXPECT_EQ(bad_[3].row, 4);
  EXPECT_THAT(bad_[3].reason, HasSubstr("before 1970"));
}

// To librdkafka zero means that the row has none.
TEST_F(KafkaRowsTest, TheFirstMillisecondCannotBeATimestamp) {
  EXPECT_THAT(
      Encode(Config{{"format", "raw"}, {"partition_column", "part"}, {"timestamp_column", "at"}},
             {{.part = 0, .at_us = 0, .value = "a"},
              {.part = 0, .at_us = 999, .value = "b"},
              {.part = 0, .at_us = 1'000, .value = "c"}}),
      ElementsAre("0 ~=c@1"));
  ASSERT_EQ(bad_.size(), 2u);
  EXPECT_THAT(bad_[1].reason,
              AllOf(HasSubstr("1970-01-01T00:00:00.000999Z"), HasSubstr("first millisecond")));
}

TEST_F(KafkaRowsTest, TimestampsKeepWithinTheTopicsLimits) {
  const KafkaTopic limited{.message_bytes_max = 1'000'000,
                           .timestamp_ahead_ms_max = 3'600'000,
                           .timestamp_behind_ms_max = 60'000};
  const Config config{{"format", "raw"}, {"partition_column", "part"}, {"timestamp_column", "at"}};
  const auto rows = [](int64_t ms) {
    return std::vector<Row>{{.part = 0, .at_us = kNowUs + ms * 1000, .value = "v"}};
  };
  for (const int64_t ms : {3'600'000, 0, -60'000}) {
    EXPECT_EQ(Encode(config, rows(ms), limited).size(), 1u) << ms;
  }
  EXPECT_THAT(Encode(config, rows(3'600'001), limited), testing::IsEmpty());
  EXPECT_EQ(bad_.at(0).reason,
            "column 'at' is 2013-01-01T11:00:00.001Z, more than 3600000 ms ahead of the clock "
            "(2013-01-01T10:00:00Z), which the topic does not take "
            "(message.timestamp.after.max.ms)");
  EXPECT_THAT(Encode(config, rows(-60'001), limited), testing::IsEmpty());
  EXPECT_THAT(bad_.at(0).reason, HasSubstr("2013-01-01T09:58:59.999Z, more than 60000 ms behind"));
  EXPECT_EQ(Encode(config, rows(1'000'000'000'000)).size(), 1u);
  EXPECT_EQ(Encode(config, {{.part = 0, .value = "v"}}, limited).size(), 1u);
}

TEST_F(KafkaRowsTest, ACompactedTopicTakesNoRowWithoutKey) {
  const KafkaTopic compacted{.message_bytes_max = 1'000'000, .compacted = true};
  const std::vector<Row> rows = {{.name = "a", .value = {}}, {.name = {}, .value = "w"}};
  const Config keyed{{"format", "raw"}, {"key", ConfigList{"name"}}};
  EXPECT_THAT(Encode(keyed, rows, compacted), ElementsAre("1 a=~@-1"));
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].row, 1);
  EXPECT_EQ(bad_[0].reason,
            "its key, column 'name', is null, and the topic takes no row without key (its "
            "cleanup.policy contains compact)");
  EXPECT_THAT(Encode({{"format", "raw"}}, rows, compacted), testing::IsEmpty());
  EXPECT_THAT(bad_.at(1).reason, HasSubstr("it has no key"));
  EXPECT_EQ(Encode({{"format", "raw"}, {"key", ConfigList{"id", "name"}}}, rows, compacted).size(),
            2u);
}

TEST(KafkaSinkConfig, WrongOnesAreRefused) {
  const Schema input({{"id", Type::kInt64}, {"name", Type::kString}});
  const auto message = [&](std::string_view field, ConfigValue value) {
    Config config{{"brokers", "b:1"}, {"topic", "out"}, {"format", "json"}};
    config.Set(field, std::move(value));
    StatusOr<KafkaSinkConfig> parsed = ParseKafkaSinkConfig(config);
    return parsed.ok() ? CheckKafkaSinkInput(*parsed, input).ToString()
                       : parsed.status().ToString();
  };
  EXPECT_EQ(message("key", ConfigList{"id"}), "OK");
  EXPECT_THAT(message("topic", "a b"), HasSubstr("config field 'topic' is 'a b'"));
  EXPECT_THAT(message("format", "xml"), HasSubstr("json, csv or raw"));
  EXPECT_THAT(message("format", "raw"), HasSubstr("value"));
  EXPECT_THAT(message("key", ConfigList{"idd"}), HasSubstr("'id'"));
  EXPECT_THAT(message("key", ConfigList{"id", "id"}), HasSubstr("none twice"));
  EXPECT_THAT(message("partition_column", "name"), HasSubstr("INT32 or INT64"));
  EXPECT_THAT(message("timestamp_column", "id"), HasSubstr("TIMESTAMP"));
  EXPECT_THAT(message("tombstone_column", "id"), HasSubstr("needs a 'key'"));
  EXPECT_THAT(message("headers", ConfigMembers{{"h", "id"}}), HasSubstr("STRING or BYTES"));
  EXPECT_THAT(message("delivery", "twice"), HasSubstr("exactly_once or at_least_once"));
  EXPECT_THAT(message("transactional_id_prefix", "a/b"), HasSubstr("letters, digits"));
  EXPECT_THAT(message("transaction_size_max", "1KiB"), HasSubstr("at least 1 MiB"));
  EXPECT_THAT(message("transaction_size_max", 1), HasSubstr("at least 1 MiB, as text like"));
  EXPECT_THAT(message("on_doubled_rows", "drop"), HasSubstr("expected fail or continue"));
  EXPECT_THAT(message("kafka", ConfigMembers{{"acks", "1"}}), HasSubstr("Weir sets itself"));
}

}  // namespace
}  // namespace weir
