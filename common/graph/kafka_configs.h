#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/graph/job_options.h"
#include "common/record/schema.h"

// The configs of kafka.source and kafka.sink as values; see builtin_configs.h.
namespace weir {

struct TopicPartition {
  std::string topic;
  int32_t partition = 0;
  auto operator<=>(const TopicPartition&) const = default;
};
// "flights/3", as positions and messages name a partition.
std::string ToString(const TopicPartition& partition);

enum class KafkaFormat { kJson, kCsv, kRaw };

// Where a metadata column has its value from.
enum class KafkaMetadata {
  kKey,       // STRING
  kKeyBytes,  // BYTES
  kTopic,
  kPartition,
  kOffset,
  kTimestamp,
  kHeaders,      // STRING: all of them as JSON
  kHeader,       // STRING: the last one of a name
  kHeaderBytes,  // BYTES: the same
};
struct KafkaMetadataColumn {
  std::string name;
  KafkaMetadata what = KafkaMetadata::kKey;
  std::string header;  // whose value, of kHeader and kHeaderBytes
  bool operator==(const KafkaMetadataColumn&) const = default;
};
// Type of the column.
Type TypeOf(KafkaMetadata what);

enum class KafkaStart { kEarliest, kLatest, kCommitted, kTime };

struct KafkaSourceConfig {
  std::string brokers;                            // host:port, split by commas
  std::map<std::string, std::string> properties;  // librdkafka's, none that Weir owns
  std::vector<std::string> topics;                // sorted; empty: topic_pattern
  std::string topic_pattern;
  KafkaFormat format = KafkaFormat::kJson;
  Schema values;  // the columns that a message's value gives
  std::vector<KafkaMetadataColumn> metadata;
  KafkaStart start = KafkaStart::kEarliest;
  int64_t start_time_us = 0;  // kTime: not negative
  std::map<TopicPartition, int64_t> start_offsets;
  bool bounded = false;  // each partition to its end at the start, or to its end_offset
  std::map<TopicPartition, int64_t> end_offsets;
  std::string group;  // "": weir-<job name>-<uid>
  int64_t discovery_interval_us = 10'000'000;
  std::optional<double> rate;
  bool continue_on_lost_rows = false;
  std::optional<BadData> bad_data;  // absent: the job's
  std::string dead_letter_path;     // a directory, absolute once submitted
};
StatusOr<KafkaSourceConfig> ParseKafkaSourceConfig(const Config& config);
// Whose offsets show the positions of source `uid`.
std::string KafkaGroupOf(const KafkaSourceConfig& config, std::string_view job_name,
                         std::string_view uid);
// The columns of the values, then those of the metadata.
Schema KafkaSourceSchema(const KafkaSourceConfig& config);
// What the source does with a row it cannot read.
BadData BadDataOf(const KafkaSourceConfig& config, const JobOptions& options);
// User error: dead letters, and no directory for them.
Status CheckDeadLetters(const KafkaSourceConfig& config, const JobOptions& options);

enum class KafkaDelivery { kExactlyOnce, kAtLeastOnce };

struct KafkaSinkConfig {
  std::string brokers;
  std::map<std::string, std::string> properties;
  std::string topic;
  KafkaFormat format = KafkaFormat::kJson;
  std::vector<std::string> key;                // columns; empty: no key
  std::string partition_column;                // "": by the key, or as it comes
  std::string timestamp_column;                // "": the time at which it is sent
  std::map<std::string, std::string> headers;  // by name: the column with its value
  std::string tombstone_column;                // "": no tombstones but null values of raw
  KafkaDelivery delivery = KafkaDelivery::kExactlyOnce;
  std::string transactional_id_prefix;  // "": the job's id
  int64_t transaction_timeout_us = 60'000'000;
  int64_t transaction_bytes_max = 64 << 20;
  std::optional<BadData> bad_data;  // absent: the job's
  std::string dead_letter_path;     // a directory, absolute once submitted
  // The job goes on although rows will come twice, or an identity may be another live job's.
  bool continue_on_doubled_rows = false;
};
StatusOr<KafkaSinkConfig> ParseKafkaSinkConfig(const Config& config);
// User error: a column that the config names and `input` does not have, or not with such a type.
Status CheckKafkaSinkInput(const KafkaSinkConfig& config, const Schema& input);
// The columns of `input` that are in a message's value, by index: all but those that are only
// headers, partition or tombstone.
std::vector<int> KafkaValueColumns(const KafkaSinkConfig& config, const Schema& input);
// What the sink does with a row that the topic does not take.
BadData BadDataOf(const KafkaSinkConfig& config, const JobOptions& options);
Status CheckDeadLetters(const KafkaSinkConfig& config, const JobOptions& options);

// "brokers": host or host:port, split by commas.
StatusOr<std::string> KafkaBrokersField(const Config& config);
enum class KafkaRole { kConsumer, kProducer };
// "kafka": librdkafka properties as texts. User error: one that Weir owns, named with what is to be
// set in its place, or that librdkafka does not know, named with the nearest.
StatusOr<std::map<std::string, std::string>> KafkaPropertiesField(const Config& config,
                                                                  KafkaRole role);
// The properties of librdkafka 2.0.2 that can be given as text, those of consumers, producers and
// topics alike, sorted: so that a wrong name is found where no librdkafka is.
const std::vector<std::string>& KafkaPropertyNames();

}  // namespace weir
