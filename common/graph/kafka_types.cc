#include "common/graph/kafka_types.h"

#include "common/base/concat.h"
#include "common/graph/kafka_configs.h"

namespace weir {

std::vector<ExclusiveName> TransactionalNames(const Config& config, const JobId& job,
                                              const std::string& uid) {
  auto text = [&](std::string_view field) {
    const ConfigValue* value = config.Find(field);
    return value != nullptr && value->is_text() ? value->as_text() : std::string();
  };
  if (text("delivery") == "at_least_once") return {};
  std::string prefix = text("transactional_id_prefix");
  if (prefix.empty()) prefix = job.value();
  return {{Concat("transactional_id_prefix '", prefix, "'"), /*of_job=*/true},
          {Concat("transactional ids '", prefix, "-", uid, "-…'"), /*of_job=*/false}};
}

TypeDescriptor KafkaSourceType() {
  TypeDescriptor d;
  d.type = "kafka.source";
  d.kind = VertexKind::kSource;
  d.help =
      "Reads topics of a Kafka cluster, committed rows only. Each partition is one split: read by "
      "one subtask, in order. Positions are part of checkpoints.";
  d.inputs_min = d.inputs_max = 0;
  d.fields = {
      {"brokers", "text", true, "", "host:port, several split by commas"},
      {"topics", "any", false, "", "the name of a topic, or a list of such names"},
      {"topic_pattern", "text", false, "",
       "in place of topics: an extended regular expression that names match as a whole; new topics "
       "are found too"},
      {"format", "text", true, "", "of a message's value: json (an object), csv (a line) or raw"},
      {"schema", "object", false, "",
       "json, csv: columns and their types: {\"row_id\": \"INT64\"}; raw has the column value "
       "BYTES"},
      {"metadata", "object", false, "",
       "further columns, by name: key, key_bytes, topic, partition, offset, timestamp, headers, "
       "header:NAME or header_bytes:NAME"},
      {"start", "text", false, "earliest",
       "where partitions begin that the job finds at its start: earliest, latest, committed (of "
       "the "
       "group, else earliest) or a time like 2013-01-01T10:00:00Z"},
      {"start_offsets", "object", false, "", "for some of those partitions: {\"flights:0\": 1200}"},
      {"end", "text", false, "",
       "latest: the job ends when all is read that is there at its start; absent: it never ends"},
      {"end_offsets", "object", false, "",
       "for some partitions the offset in front of which the read ends, for the others as with end "
       "latest: {\"flights:0\": 1300}"},
      {"group", "text", false, "weir-<job>-<uid>",
       "consumer group whose offsets show, after each checkpoint, how far the job is"},
      {"discovery_interval", "text", false, "10s", "how often to look for new partitions"},
      {"rate", "number", false, "",
       "rows per second of the whole source; absent: as fast as it goes"},
      {"on_lost_rows", "text", false, "fail",
       "rows that the cluster deleted before they were read: fail, or continue behind them and "
       "count them"},
      {"bad_data", "text", false, "the job's",
       "what to do with a row that cannot be read: fail, drop (counted) or dead_letter (counted, "
       "and put into a file)"},
      {"dead_letter_path", "text", false, "",
       "dead_letter: directory for such rows, made if it is not there; JSON lines with source, "
       "topic, partition, offset, timestamp, length, reason, text, bytes and key (base64)"},
      {"kafka", "object", false, "",
       "librdkafka properties, like {\"security.protocol\": \"ssl\"}, but for those that Weir sets "
       "itself"},
  };
  d.check = [](const Config& config,
               const std::vector<Schema>&) -> StatusOr<std::optional<Schema>> {
    WEIR_ASSIGN_OR_RETURN(KafkaSourceConfig parsed, ParseKafkaSourceConfig(config));
    return std::optional<Schema>(KafkaSourceSchema(parsed));
  };
  d.check_options = [](const Config& config, const JobOptions& options) -> Status {
    WEIR_ASSIGN_OR_RETURN(KafkaSourceConfig parsed, ParseKafkaSourceConfig(config));
    return CheckDeadLetters(parsed, options);
  };
  d.owns_committables = [](const Config& config, const JobOptions& options) {
    StatusOr<KafkaSourceConfig> parsed = ParseKafkaSourceConfig(config);
    return parsed.ok() && BadDataOf(*parsed, options) == BadData::kDeadLetter;
  };
  return d;
}

TypeDescriptor KafkaSinkType() {
  TypeDescriptor d;
  d.type = "kafka.sink";
  d.exclusive_names = TransactionalNames;
  d.kind = VertexKind::kSink;
  d.help =
      "Writes rows to a topic of a Kafka cluster. Exactly once: they appear, all of a subtask in "
      "one transaction, when the checkpoint that covers them completed.";
  d.fields = {
      {"brokers", "text", true, "", "host:port, several split by commas"},
      {"topic", "text", true, "", "must exist"},
      {"format", "text", true, "",
       "of a message's value: json (an object), csv (a line) or raw (the column value, STRING or "
       "BYTES; null makes a tombstone)"},
      {"key", "list", false, "",
       "columns that make the key: one STRING or BYTES column gives its bytes, others a JSON "
       "object; absent: no key"},
      {"partition_column", "text", false, "",
       "INT32 or INT64: the number of the partition; absent or null: by the key as Java's clients "
       "do, or in turn"},
      {"timestamp_column", "text", false, "",
       "TIMESTAMP of the message; absent or null: the time at which it is sent"},
      {"headers", "object", false, "",
       "by name the STRING or BYTES column with the value: {\"origin\": \"airport\"}"},
      {"tombstone_column", "text", false, "",
       "BOOL: true makes the value null, which deletes the key in a compacted topic; needs a key"},
      {"delivery", "text", false, "exactly_once", "exactly_once or at_least_once"},
      {"transactional_id_prefix", "text", false, "the job's id",
       "begin of the transactional ids and marker groups, for permissions; no two live jobs may "
       "share one"},
      {"transaction_timeout", "text", false, "60s",
       "a transaction that takes longer is aborted by the broker and done again"},
      {"transaction_size_max", "text", false, "64MiB",
       "rows that are more are published by several transactions, one after the other"},
      {"on_doubled_rows", "text", false, "fail",
       "of a job that starts from a checkpoint behind which rows were published already, or cannot "
       "tell how far they were: fail, or continue and publish them again"},
      {"bad_data", "text", false, "the job's",
       "what to do with a row that the topic does not take (too large, no such partition, a time "
       "too far off, no key for a compacted topic): fail, drop (counted) or dead_letter (counted, "
       "and put into a file)"},
      {"dead_letter_path", "text", false, "",
       "dead_letter: directory for such rows, made if it is not there; JSON lines with sink, "
       "topic, reason and row"},
      {"kafka", "object", false, "",
       "librdkafka properties, like {\"security.protocol\": \"ssl\"}, but for those that Weir sets "
       "itself"},
  };
  d.check = [](const Config& config,
               const std::vector<Schema>& inputs) -> StatusOr<std::optional<Schema>> {
    WEIR_ASSIGN_OR_RETURN(KafkaSinkConfig parsed, ParseKafkaSinkConfig(config));
    for (const Schema& input : inputs) WEIR_RETURN_IF_ERROR(CheckKafkaSinkInput(parsed, input));
    return std::optional<Schema>();
  };
  d.check_options = [](const Config& config, const JobOptions& options) -> Status {
    WEIR_ASSIGN_OR_RETURN(KafkaSinkConfig parsed, ParseKafkaSinkConfig(config));
    return CheckDeadLetters(parsed, options);
  };
  d.transaction_timeout_us = [](const Config& config) {
    StatusOr<KafkaSinkConfig> parsed = ParseKafkaSinkConfig(config);
    return parsed.ok() ? parsed->transaction_timeout_us : KafkaSinkConfig().transaction_timeout_us;
  };
  return d;
}

}  // namespace weir
