#include "common/graph/kafka_configs.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <utility>

#include "common/base/concat.h"
#include "common/base/consume_text.h"
#include "common/base/names.h"
#include "common/graph/config_fields.h"
#include "common/graph/job_graph.h"
#include "common/graph/topic_pattern.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

// A property that the user may not set, and why; of aliases, too.
struct OwnedProperty {
  std::string_view name;
  bool consumer;
  bool producer;
  std::string_view instead;
};
constexpr std::string_view kCheckpoints = "positions are part of checkpoints";
constexpr std::string_view kTransactions = "exactly-once publishing depends on it";
constexpr OwnedProperty kOwnedProperties[] = {
    {"bootstrap.servers", true, true, "set 'brokers' instead"},
    {"metadata.broker.list", true, true, "set 'brokers' instead"},
    {"group.id", true, true, "set 'group' of kafka.source instead"},
    {"group.instance.id", true, true, "the group is used to show positions only"},
    {"partition.assignment.strategy", true, true, "the source gives partitions to its subtasks"},
    {"enable.auto.commit", true, true, kCheckpoints},
    {"auto.commit.enable", true, true, kCheckpoints},
    {"auto.commit.interval.ms", true, true, kCheckpoints},
    {"enable.auto.offset.store", true, true, kCheckpoints},
    {"offset.store.method", true, true, kCheckpoints},
    {"auto.offset.reset", true, true, "set 'start' or 'on_lost_rows' instead"},
    {"isolation.level", true, true, "only committed rows are read"},
    {"enable.partition.eof", true, true, "bounded reads depend on it"},
    {"allow.auto.create.topics", true, true, "a topic that is missing is an error"},
    {"transactional.id", true, true, "set 'transactional_id_prefix' of kafka.sink instead"},
    {"transaction.timeout.ms", true, true, "set 'transaction_timeout' of kafka.sink instead"},
    {"enable.idempotence", true, true, kTransactions},
    {"enable.gapless.guarantee", true, true, kTransactions},
    {"max.in.flight", true, true, kTransactions},
    {"max.in.flight.requests.per.connection", true, true, kTransactions},
    {"acks", false, true, kTransactions},
    {"request.required.acks", false, true, kTransactions},
    {"retries", false, true, kTransactions},
    {"message.send.max.retries", false, true, kTransactions},
    {"message.timeout.ms", false, true, kTransactions},
    {"delivery.timeout.ms", false, true, kTransactions},
    {"queuing.strategy", false, true, kTransactions},
    {"delivery.report.only.error", false, true, kTransactions},
    {"message.max.bytes", false, true, "it is the topic's max.message.bytes"},
    {"partitioner", false, true, "set 'key' or 'partition_column' of kafka.sink instead"},
};

// librdkafka before 2.5.0 crashes with a long one (its pull request 4689).
constexpr size_t kClientIdBytesMax = 64;

struct NamedMetadata {
  std::string_view text;
  KafkaMetadata what;
};
constexpr NamedMetadata kMetadata[] = {
    {"key", KafkaMetadata::kKey},         {"key_bytes", KafkaMetadata::kKeyBytes},
    {"topic", KafkaMetadata::kTopic},     {"partition", KafkaMetadata::kPartition},
    {"offset", KafkaMetadata::kOffset},   {"timestamp", KafkaMetadata::kTimestamp},
    {"headers", KafkaMetadata::kHeaders},
};
constexpr std::string_view kHeaderPrefix = "header:";
constexpr std::string_view kHeaderBytesPrefix = "header_bytes:";
constexpr std::string_view kMetadataValid =
    "key, key_bytes, topic, partition, offset, timestamp, headers, header:NAME or "
    "header_bytes:NAME";

// Of "host", "host:port" or "[address]:port".
bool HasValidPort(std::string_view broker) {
  const size_t colon = broker.rfind(':');
  const size_t bracket = broker.rfind(']');
  if (colon == std::string_view::npos) return true;
  if (bracket != std::string_view::npos && bracket > colon) return true;
  std::string_view digits = broker.substr(colon + 1);
  uint16_t port = 0;
  return ConsumeNumber<uint16_t>(&digits, &port, 1) && digits.empty();
}

StatusOr<std::vector<std::string>> Topics(const Config& config) {
  constexpr std::string_view kValid = "the name of a topic, or a list of such names, none twice";
  const ConfigValue& value = *config.Find("topics");
  std::vector<std::string> topics;
  if (value.is_text()) {
    topics.push_back(value.as_text());
  } else if (value.is_list()) {
    for (const ConfigValue& item : value.as_list()) {
      if (!item.is_text()) return InvalidField(config, "topics", kValid);
      topics.push_back(item.as_text());
    }
  }
  std::sort(topics.begin(), topics.end());
  const bool twice = std::adjacent_find(topics.begin(), topics.end()) != topics.end();
  if (topics.empty() || twice) return InvalidField(config, "topics", kValid);
  for (const std::string& topic : topics) {
    if (IsTopicName(topic)) continue;
    return InvalidField("topics", ConfigValue(topic),
                        "names of 1 to 249 letters, digits, '.', '_' and '-'");
  }
  return topics;
}

// {"flights:0": 17}.
StatusOr<std::map<TopicPartition, int64_t>> Offsets(const Config& config, std::string_view name,
                                                    const std::vector<std::string>& topics) {
  constexpr std::string_view kValid =
      "an object of partitions and offsets, like {\"flights:0\": 1200}";
  std::map<TopicPartition, int64_t> offsets;
  if (!Given(config, name)) return offsets;
  const ConfigValue& value = *config.Find(name);
  if (!value.is_object() || value.as_object().empty()) return InvalidField(config, name, kValid);
  for (const auto& [text, offset] : value.as_object()) {
    const std::string place = Concat(name, ".", text);
    const size_t colon = text.rfind(':');
    TopicPartition partition;
    const char* end = text.data() + text.size();
    bool valid = colon != std::string::npos && offset.is_integer();
    if (valid && offset.as_integer() < 0) {
      return InvalidField(place, offset, "an offset, which is never negative");
    }
    if (valid) {
      partition.topic = text.substr(0, colon);
      const char* begin = text.data() + colon + 1;
      auto [stop, error] = std::from_chars(begin, end, partition.partition);
      valid = error == std::errc() && stop == end && partition.partition >= 0 &&
              IsTopicName(partition.topic);
    }
    if (!valid) return InvalidField(place, offset, kValid);
    if (!topics.empty() && !std::binary_search(topics.begin(), topics.end(), partition.topic)) {
      const std::string nearest = NearestName(partition.topic, topics);
      return InvalidField(place, offset,
                          nearest.empty() ? "a partition of one of 'topics'"
                                          : Concat("a partition of one of 'topics'; did you mean '",
                                                   nearest, "'?"));
    }
    offsets[std::move(partition)] = offset.as_integer();
  }
  return offsets;
}

StatusOr<KafkaFormat> Format(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(std::string format, config.Text("format"));
  if (format == "json") return KafkaFormat::kJson;
  if (format == "csv") return KafkaFormat::kCsv;
  if (format == "raw") return KafkaFormat::kRaw;
  return InvalidField(config, "format", "json, csv or raw");
}

StatusOr<std::vector<KafkaMetadataColumn>> MetadataColumns(const Config& config) {
  std::vector<KafkaMetadataColumn> columns;
  if (!Given(config, "metadata")) return columns;
  const ConfigValue& value = *config.Find("metadata");
  if (!value.is_object()) {
    return InvalidField(config, "metadata",
                        Concat("an object of column names, each with one of ", kMetadataValid));
  }
  for (const auto& [name, what] : value.as_object()) {
    const std::string place = Concat("metadata.", name);
    if (!what.is_text()) return InvalidField(place, what, kMetadataValid);
    const std::string& text = what.as_text();
    KafkaMetadataColumn column;
    column.name = name;
    bool found = false;
    for (const auto& [known, metadata] : kMetadata) {
      if (text != known) continue;
      column.what = metadata;
      found = true;
    }
    for (const auto& [prefix, metadata] :
         {std::pair(kHeaderPrefix, KafkaMetadata::kHeader),
          std::pair(kHeaderBytesPrefix, KafkaMetadata::kHeaderBytes)}) {
      if (!text.starts_with(prefix) || text.size() == prefix.size()) continue;
      column.what = metadata;
      column.header = text.substr(prefix.size());
      found = true;
    }
    if (!found) return InvalidField(place, what, kMetadataValid);
    columns.push_back(std::move(column));
  }
  return columns;
}

Status ParseStart(const Config& config, KafkaSourceConfig* parsed) {
  WEIR_ASSIGN_OR_RETURN(std::string start, config.Text("start", "earliest"));
  if (start == "earliest") {
    parsed->start = KafkaStart::kEarliest;
  } else if (start == "latest") {
    parsed->start = KafkaStart::kLatest;
  } else if (start == "committed") {
    parsed->start = KafkaStart::kCommitted;
  } else if (ParseTimestamp(start, &parsed->start_time_us)) {
    // No broker can be asked for a time before 1970: -1 and -2 mean other things, and what is less
    // nothing.
    parsed->start = parsed->start_time_us < 0 ? KafkaStart::kEarliest : KafkaStart::kTime;
  } else {
    return InvalidField(config, "start",
                        "earliest, latest, committed or a time like 2013-01-01T10:00:00Z");
  }
  return {};
}

// Part of a transactional id and of a consumer group.
bool IsIdPrefix(std::string_view text) {
  constexpr size_t kBytesMax = 100;
  return !text.empty() && text.size() <= kBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

StatusOr<std::string> ColumnField(const Config& config, std::string_view name) {
  if (!Given(config, name)) return std::string();
  WEIR_ASSIGN_OR_RETURN(std::string column, config.Text(name));
  if (column.empty()) return InvalidField(config, name, "the name of a column");
  return column;
}

// User error: there is no such column, or none of these types.
Status CheckColumn(const Schema& input, std::string_view field, const std::string& column,
                   std::initializer_list<Type> types) {
  StatusOr<int> index = input.Require(column);
  if (!index.ok()) return index.status().WithContext(Concat("config field '", field, "'"));
  const Type type = input.field(*index).type;
  if (types.size() == 0 || std::find(types.begin(), types.end(), type) != types.end()) return {};
  std::string valid;
  for (const Type one : types) valid += Concat(valid.empty() ? "" : " or ", ToString(one));
  return InvalidArgumentError(Concat("config field '", field, "' names column '", column,
                                     "', which is ", ToString(type), ": expected ", valid));
}

}  // namespace

std::string ToString(const TopicPartition& partition) {
  return Concat(partition.topic, '/', partition.partition);
}

Type TypeOf(KafkaMetadata what) {
  switch (what) {
    case KafkaMetadata::kKeyBytes:
    case KafkaMetadata::kHeaderBytes:
      return Type::kBytes;
    case KafkaMetadata::kPartition:
      return Type::kInt32;
    case KafkaMetadata::kOffset:
      return Type::kInt64;
    case KafkaMetadata::kTimestamp:
      return Type::kTimestamp;
    case KafkaMetadata::kKey:
    case KafkaMetadata::kTopic:
    case KafkaMetadata::kHeaders:
    case KafkaMetadata::kHeader:
      break;
  }
  return Type::kString;
}

StatusOr<std::string> KafkaBrokersField(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(std::string brokers, config.Text("brokers"));
  std::string_view left = brokers;
  while (true) {
    const std::string_view broker = left.substr(0, left.find(','));
    if (broker.empty() || broker.starts_with(':') || broker.find(' ') != std::string_view::npos) {
      return InvalidField(config, "brokers", "host:port, several split by commas without blanks");
    }
    if (!HasValidPort(broker)) {
      return InvalidField(config, "brokers",
                          Concat("host:port, with a port from 1 to 65535 in '", broker, "'"));
    }
    if (broker.size() == left.size()) return brokers;
    left.remove_prefix(broker.size() + 1);
  }
}

StatusOr<std::map<std::string, std::string>> KafkaPropertiesField(const Config& config,
                                                                  KafkaRole role) {
  std::map<std::string, std::string> properties;
  if (!Given(config, "kafka")) return properties;
  const ConfigValue& value = *config.Find("kafka");
  if (!value.is_object()) {
    return InvalidField(config, "kafka",
                        "an object of librdkafka properties, like {\"security.protocol\": "
                        "\"ssl\"}");
  }
  for (const auto& [name, property] : value.as_object()) {
    for (const OwnedProperty& owned : kOwnedProperties) {
      if (name != owned.name) continue;
      if (!(role == KafkaRole::kConsumer ? owned.consumer : owned.producer)) continue;
      return InvalidArgumentError(Concat("config field 'kafka' sets '", name,
                                         "', which Weir sets itself: ", owned.instead));
    }
    const std::vector<std::string>& known = KafkaPropertyNames();
    if (!std::binary_search(known.begin(), known.end(), name)) {
      const std::string nearest = NearestName(name, known);
      return InvalidArgumentError(
          Concat("config field 'kafka' sets '", name, "', which is no property of librdkafka",
                 nearest.empty() ? "" : Concat("; did you mean '", nearest, "'?")));
    }
    if (property.is_text()) {
      properties[name] = property.as_text();
    } else if (property.is_bool() || property.is_number()) {
      properties[name] = property.ToJson();
    } else {
      return InvalidField(Concat("kafka.", name), property, "a text, a number or a bool");
    }
    if (name == "client.id" && properties[name].size() > kClientIdBytesMax) {
      return InvalidField(Concat("kafka.", name), property,
                          Concat("at most ", kClientIdBytesMax, " bytes"));
    }
  }
  return properties;
}

StatusOr<KafkaSourceConfig> ParseKafkaSourceConfig(const Config& config) {
  KafkaSourceConfig parsed;
  WEIR_ASSIGN_OR_RETURN(parsed.brokers, KafkaBrokersField(config));
  if (Given(config, "topics")) {
    WEIR_ASSIGN_OR_RETURN(parsed.topics, Topics(config));
  }
  if (Given(config, "topic_pattern")) {
    WEIR_ASSIGN_OR_RETURN(parsed.topic_pattern, config.Text("topic_pattern"));
    StatusOr<TopicPattern> pattern = TopicPattern::Parse(parsed.topic_pattern);
    if (!pattern.ok()) return pattern.status().WithContext("config field 'topic_pattern'");
  }
  if (parsed.topics.empty() == parsed.topic_pattern.empty()) {
    return InvalidArgumentError(
        parsed.topics.empty()
            ? "config field 'topics' is missing: expected the name of a topic, a list of such "
              "names, or a 'topic_pattern' in its place"
            : "config fields 'topics' and 'topic_pattern' are both there: expected one of them");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.format, Format(config));
  if (parsed.format == KafkaFormat::kRaw) {
    if (Given(config, "schema")) {
      return InvalidField(config, "schema",
                          "no such field with the format raw, whose one column is value BYTES");
    }
    parsed.values = Schema({{"value", Type::kBytes}});
  } else {
    if (!Given(config, "schema")) {
      return InvalidArgumentError(
          "config field 'schema' is missing: expected columns and their types, like {\"id\": "
          "\"INT64\"}");
    }
    WEIR_ASSIGN_OR_RETURN(parsed.values,
                          ParseSchema(*config.Find("schema"), "config field 'schema'"));
  }
  WEIR_ASSIGN_OR_RETURN(parsed.metadata, MetadataColumns(config));
  std::vector<Field> fields = parsed.values.fields();
  for (const KafkaMetadataColumn& column : parsed.metadata) {
    fields.push_back({column.name, TypeOf(column.what)});
  }
  StatusOr<Schema> all = Schema::Make(std::move(fields));
  if (!all.ok()) return all.status().WithContext("config fields 'schema' and 'metadata'");
  WEIR_RETURN_IF_ERROR(ParseStart(config, &parsed));
  WEIR_ASSIGN_OR_RETURN(parsed.start_offsets, Offsets(config, "start_offsets", parsed.topics));
  WEIR_ASSIGN_OR_RETURN(parsed.end_offsets, Offsets(config, "end_offsets", parsed.topics));
  for (const auto& [partition, end] : parsed.end_offsets) {
    const auto start = parsed.start_offsets.find(partition);
    if (start == parsed.start_offsets.end() || start->second <= end) continue;
    return InvalidArgumentError(Concat("config fields 'start_offsets' and 'end_offsets' have ",
                                       ToString(partition), " begin at offset ", start->second,
                                       " and end in front of ", end,
                                       ": expected an end that is not before the begin"));
  }
  parsed.bounded = !parsed.end_offsets.empty();
  if (Given(config, "end")) {
    WEIR_ASSIGN_OR_RETURN(std::string end, config.Text("end"));
    if (end != "latest") {
      return InvalidField(config, "end", "latest: to what is the end at the start");
    }
    parsed.bounded = true;
  }
  if (Given(config, "group")) {
    WEIR_ASSIGN_OR_RETURN(parsed.group, config.Text("group"));
    if (parsed.group.empty()) return InvalidField(config, "group", "a text that is not empty");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.discovery_interval_us,
                        DurationField(config, "discovery_interval", parsed.discovery_interval_us,
                                      100'000, "a duration of at least 100ms, like 10s"));
  WEIR_ASSIGN_OR_RETURN(parsed.rate, RateField(config));
  WEIR_ASSIGN_OR_RETURN(std::string on_lost_rows, config.Text("on_lost_rows", "fail"));
  if (on_lost_rows != "fail" && on_lost_rows != "continue") {
    return InvalidField(config, "on_lost_rows", "fail or continue");
  }
  parsed.continue_on_lost_rows = on_lost_rows == "continue";
  WEIR_ASSIGN_OR_RETURN(parsed.bad_data, BadDataField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.dead_letter_path, DeadLetterPathField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.properties, KafkaPropertiesField(config, KafkaRole::kConsumer));
  return parsed;
}

std::string KafkaGroupOf(const KafkaSourceConfig& config, std::string_view job_name,
                         std::string_view uid) {
  return config.group.empty() ? Concat("weir-", job_name, "-", uid) : config.group;
}

Schema KafkaSourceSchema(const KafkaSourceConfig& config) {
  std::vector<Field> fields = config.values.fields();
  for (const KafkaMetadataColumn& column : config.metadata) {
    fields.push_back({column.name, TypeOf(column.what)});
  }
  return Schema(std::move(fields));
}

BadData BadDataOf(const KafkaSourceConfig& config, const JobOptions& options) {
  return config.bad_data.value_or(options.bad_data);
}

Status CheckDeadLetters(const KafkaSourceConfig& config, const JobOptions& options) {
  return CheckDeadLetterPath(BadDataOf(config, options), config.dead_letter_path);
}

StatusOr<KafkaSinkConfig> ParseKafkaSinkConfig(const Config& config) {
  KafkaSinkConfig parsed;
  WEIR_ASSIGN_OR_RETURN(parsed.brokers, KafkaBrokersField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.topic, config.Text("topic"));
  if (!IsTopicName(parsed.topic)) {
    return InvalidField(config, "topic", "1 to 249 letters, digits, '.', '_' and '-'");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.format, Format(config));
  if (Given(config, "key")) {
    constexpr std::string_view kValid = "a list of column names, none twice, or no such field";
    const ConfigValue& value = *config.Find("key");
    if (!value.is_list() || value.as_list().empty()) return InvalidField(config, "key", kValid);
    for (const ConfigValue& item : value.as_list()) {
      if (!item.is_text() ||
          std::find(parsed.key.begin(), parsed.key.end(), item.as_text()) != parsed.key.end()) {
        return InvalidField(config, "key", kValid);
      }
      parsed.key.push_back(item.as_text());
    }
  }
  WEIR_ASSIGN_OR_RETURN(parsed.partition_column, ColumnField(config, "partition_column"));
  WEIR_ASSIGN_OR_RETURN(parsed.timestamp_column, ColumnField(config, "timestamp_column"));
  WEIR_ASSIGN_OR_RETURN(parsed.tombstone_column, ColumnField(config, "tombstone_column"));
  if (!parsed.tombstone_column.empty() && parsed.key.empty()) {
    return InvalidArgumentError(
        "config field 'tombstone_column' needs a 'key': a null value without one deletes nothing");
  }
  if (Given(config, "headers")) {
    const ConfigValue& value = *config.Find("headers");
    constexpr std::string_view kValid = "an object of header names, each with a column";
    if (!value.is_object()) return InvalidField(config, "headers", kValid);
    for (const auto& [name, column] : value.as_object()) {
      if (!column.is_text()) return InvalidField(Concat("headers.", name), column, kValid);
      parsed.headers[name] = column.as_text();
    }
  }
  WEIR_ASSIGN_OR_RETURN(std::string delivery, config.Text("delivery", "exactly_once"));
  if (delivery != "exactly_once" && delivery != "at_least_once") {
    return InvalidField(config, "delivery", "exactly_once or at_least_once");
  }
  if (delivery == "at_least_once") parsed.delivery = KafkaDelivery::kAtLeastOnce;
  if (Given(config, "transactional_id_prefix")) {
    WEIR_ASSIGN_OR_RETURN(parsed.transactional_id_prefix, config.Text("transactional_id_prefix"));
    if (!IsIdPrefix(parsed.transactional_id_prefix)) {
      return InvalidField(config, "transactional_id_prefix",
                          "1 to 100 letters, digits, '.', '_' and '-'");
    }
  }
  WEIR_ASSIGN_OR_RETURN(parsed.transaction_timeout_us,
                        DurationField(config, "transaction_timeout", parsed.transaction_timeout_us,
                                      1'000'000, "a duration of at least 1s, like 60s"));
  if (Given(config, "transaction_size_max")) {
    constexpr int64_t kTransactionBytesMin = 1 << 20;
    StatusOr<std::string> text = config.Text("transaction_size_max");
    StatusOr<int64_t> bytes = text.ok() ? ParseSize(*text) : StatusOr<int64_t>(text.status());
    if (!bytes.ok() || *bytes < kTransactionBytesMin) {
      return InvalidField(config, "transaction_size_max",
                          "a size of at least 1 MiB, as text like \"64MiB\"");
    }
    parsed.transaction_bytes_max = *bytes;
  }
  WEIR_ASSIGN_OR_RETURN(std::string doubled, config.Text("on_doubled_rows", "fail"));
  if (doubled != "fail" && doubled != "continue") {
    return InvalidField(config, "on_doubled_rows", "fail or continue");
  }
  parsed.continue_on_doubled_rows = doubled == "continue";
  WEIR_ASSIGN_OR_RETURN(parsed.bad_data, BadDataField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.dead_letter_path, DeadLetterPathField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.properties, KafkaPropertiesField(config, KafkaRole::kProducer));
  return parsed;
}

Status CheckKafkaSinkInput(const KafkaSinkConfig& config, const Schema& input) {
  if (config.format == KafkaFormat::kRaw) {
    WEIR_RETURN_IF_ERROR(CheckColumn(input, "format raw", "value", {Type::kBytes, Type::kString}));
  }
  for (const std::string& column : config.key) {
    WEIR_RETURN_IF_ERROR(CheckColumn(input, "key", column, {}));
  }
  if (!config.partition_column.empty()) {
    WEIR_RETURN_IF_ERROR(CheckColumn(input, "partition_column", config.partition_column,
                                     {Type::kInt32, Type::kInt64}));
  }
  if (!config.timestamp_column.empty()) {
    WEIR_RETURN_IF_ERROR(
        CheckColumn(input, "timestamp_column", config.timestamp_column, {Type::kTimestamp}));
  }
  if (!config.tombstone_column.empty()) {
    WEIR_RETURN_IF_ERROR(
        CheckColumn(input, "tombstone_column", config.tombstone_column, {Type::kBool}));
  }
  for (const auto& [name, column] : config.headers) {
    WEIR_RETURN_IF_ERROR(
        CheckColumn(input, Concat("headers.", name), column, {Type::kString, Type::kBytes}));
  }
  return {};
}

std::vector<int> KafkaValueColumns(const KafkaSinkConfig& config, const Schema& input) {
  std::vector<int> columns;
  if (config.format == KafkaFormat::kRaw) return {input.IndexOf("value")};
  for (int i = 0; i < input.size(); ++i) {
    const std::string& name = input.field(i).name;
    const bool in_key = std::find(config.key.begin(), config.key.end(), name) != config.key.end();
    bool elsewhere = name == config.partition_column || name == config.tombstone_column;
    for (const auto& [header, column] : config.headers) elsewhere = elsewhere || column == name;
    if (in_key || name == config.timestamp_column || !elsewhere) columns.push_back(i);
  }
  return columns;
}

BadData BadDataOf(const KafkaSinkConfig& config, const JobOptions& options) {
  return config.bad_data.value_or(options.bad_data);
}

Status CheckDeadLetters(const KafkaSinkConfig& config, const JobOptions& options) {
  return CheckDeadLetterPath(BadDataOf(config, options), config.dead_letter_path);
}

}  // namespace weir
