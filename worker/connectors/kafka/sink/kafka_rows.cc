#include "worker/connectors/kafka/sink/kafka_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/concat.h"
#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

// Of a batch with one record, at most: the batch's own header and the record's lengths.
constexpr int64_t kMessageOverheadBytes = 61 + 36;
constexpr int64_t kHeaderOverheadBytes = 10;

int64_t SizeOf(const std::optional<std::string_view>& bytes) {
  return bytes.has_value() ? static_cast<int64_t>(bytes->size()) : 0;
}

std::string TimeText(int64_t at_us) {
  char text[kTimestampTextBytesMax];
  return std::string(text, WriteTimestamp(at_us, text));
}

std::optional<std::string_view> TextOf(const Column& column, int64_t row) {
  if (column.IsNull(row)) return std::nullopt;
  return column.Text(row);
}

}  // namespace

uint32_t KafkaMurmur2(std::string_view bytes) {
  constexpr uint32_t kSeed = 0x9747b28c;
  constexpr uint32_t kFactor = 0x5bd1e995;
  constexpr int kShift = 24;
  uint32_t hash = kSeed ^ static_cast<uint32_t>(bytes.size());
  while (bytes.size() >= 4) {
    uint32_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    word *= kFactor;
    word ^= word >> kShift;
    word *= kFactor;
    hash *= kFactor;
    hash ^= word;
    bytes.remove_prefix(4);
  }
  if (!bytes.empty()) {
    for (size_t i = bytes.size(); i-- > 0;) {
      hash ^= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    hash *= kFactor;
  }
  hash ^= hash >> 13;
  hash *= kFactor;
  hash ^= hash >> 15;
  return hash;
}

int32_t KafkaPartitionOf(std::string_view key, int32_t partitions) {
  return static_cast<int32_t>(KafkaMurmur2(key) & 0x7fffffff) % partitions;
}

KafkaRows::KafkaRows(const KafkaSinkConfig& config, SchemaPtr schema, const KafkaTopic& topic,
                     int32_t first_partition)
    : format_(config.format),
      schema_(std::move(schema)),
      topic_(topic),
      next_partition_(first_partition % topic.partitions) {
  const auto index_of = [&](const std::string& name) {
    return name.empty() ? -1 : schema_->IndexOf(name);
  };
  for (const std::string& name : config.key) key_columns_.push_back(index_of(name));
  key_is_text_ = key_columns_.size() == 1 && IsVariableWidth(schema_->field(key_columns_[0]).type);
  partition_column_ = index_of(config.partition_column);
  timestamp_column_ = index_of(config.timestamp_column);
  tombstone_column_ = index_of(config.tombstone_column);
  for (const auto& [name, column] : config.headers) {
    headers_.push_back({name, index_of(column)});
    header_name_bytes_ += name.size();
  }
  if (format_ == KafkaFormat::kRaw) {
    raw_column_ = schema_->IndexOf("value");
  } else {
    values_ = LinesOf(KafkaValueColumns(config, *schema_));
  }
  if (!key_columns_.empty() && !key_is_text_) keys_ = LinesOf(key_columns_);
}

KafkaRows::Lines KafkaRows::LinesOf(std::vector<int> columns) const {
  std::vector<Field> fields;
  for (const int column : columns) fields.push_back(schema_->field(column));
  Lines lines;
  lines.schema = std::make_shared<const Schema>(Schema(std::move(fields)));
  lines.columns = std::move(columns);
  return lines;
}

void KafkaRows::Write(const RecordBatch& batch, KafkaFormat format, Lines* lines) const {
  std::vector<Column> columns;
  for (const int column : lines->columns) columns.push_back(batch.column(column));
  const RecordBatch part(lines->schema, batch.rows(), std::move(columns));
  lines->text.clear();
  lines->ends.clear();
  if (format == KafkaFormat::kCsv) {
    AppendCsvRows(part, &lines->text, &lines->ends);
  } else {
    AppendJsonRows(part, &lines->text, &lines->ends);
  }
}

std::optional<std::string_view> KafkaRows::KeyOf(const RecordBatch& batch, int64_t row) const {
  if (key_columns_.empty()) return std::nullopt;
  const Column& first = batch.column(key_columns_[0]);
  if (key_is_text_) return TextOf(first, row);
  if (key_columns_.size() == 1 && first.IsNull(row)) return std::nullopt;
  return keys_.Line(row);
}

std::optional<std::string_view> KafkaRows::ValueOf(const RecordBatch& batch, int64_t row) const {
  if (tombstone_column_ >= 0) {
    const Column& column = batch.column(tombstone_column_);
    if (!column.IsNull(row) && column.Bool(row)) return std::nullopt;
  }
  if (raw_column_ >= 0) return TextOf(batch.column(raw_column_), row);
  return values_.Line(row);
}

int64_t KafkaRows::TimestampOf(const RecordBatch& batch, int64_t row) const {
  if (timestamp_column_ < 0) return -1;
  const Column& column = batch.column(timestamp_column_);
  return column.IsNull(row) ? -1 : column.Int64(row) / 1000;
}

int64_t KafkaRows::MessageBytes(const RecordBatch& batch, int64_t row) const {
  int64_t bytes = kMessageOverheadBytes + SizeOf(KeyOf(batch, row)) + SizeOf(ValueOf(batch, row)) +
                  static_cast<int64_t>(header_name_bytes_) +
                  kHeaderOverheadBytes * static_cast<int64_t>(headers_.size());
  for (const Header& header : headers_) bytes += SizeOf(TextOf(batch.column(header.column), row));
  return bytes;
}

std::optional<int64_t> KafkaRows::OwnPartition(const RecordBatch& batch, int64_t row) const {
  if (partition_column_ < 0) return std::nullopt;
  const Column& column = batch.column(partition_column_);
  if (column.IsNull(row)) return std::nullopt;
  return column.type() == Type::kInt32 ? column.Int32(row) : column.Int64(row);
}

bool KafkaRows::TakesAll(const RecordBatch& batch) const {
  if (partition_column_ >= 0 || timestamp_column_ >= 0) return false;
  // Of several columns the key is an object, never null.
  const bool may_lack_key = key_columns_.empty() ||
                            (key_columns_.size() == 1 && batch.column(key_columns_[0]).has_nulls());
  if (topic_.compacted && may_lack_key) return false;
  // A column may be value, key and each of the headers.
  const int64_t columns_bytes = (2 + static_cast<int64_t>(headers_.size())) * batch.ByteSize();
  return kMessageOverheadBytes + static_cast<int64_t>(header_name_bytes_) +
             kHeaderOverheadBytes * static_cast<int64_t>(headers_.size()) + columns_bytes +
             static_cast<int64_t>(values_.text.size() + keys_.text.size()) <=
         topic_.message_bytes_max;
}

std::string KafkaRows::WhyNotKey(const RecordBatch& batch, int64_t row) const {
  if (!topic_.compacted || KeyOf(batch, row).has_value()) return "";
  return Concat(key_columns_.empty() ? "it has no key"
                                     : Concat("its key, column '",
                                              schema_->field(key_columns_[0]).name, "', is null"),
                ", and the topic takes no row without key (its cleanup.policy contains compact)");
}

std::string KafkaRows::WhyNotTimestamp(const RecordBatch& batch, int64_t row) const {
  if (timestamp_column_ < 0) return "";
  const Column& column = batch.column(timestamp_column_);
  if (column.IsNull(row)) return "";
  const int64_t at_us = column.Int64(row);
  const std::string& name = schema_->field(timestamp_column_).name;
  if (at_us < 0) {
    return Concat("column '", name, "' is before 1970, which a message's timestamp cannot be");
  }
  // librdkafka takes it for no timestamp, and puts its own.
  if (at_us < 1000) {
    return Concat("column '", name, "' is ", TimeText(at_us),
                  ", in the first millisecond of 1970, which cannot be sent as a timestamp");
  }
  const auto beyond = [&](std::string_view where, int64_t limit_ms, std::string_view setting) {
    return Concat("column '", name, "' is ", TimeText(at_us), ", more than ", limit_ms, " ms ",
                  where, " the clock (", TimeText(now_us_), "), which the topic does not take (",
                  setting, ")");
  };
  const int64_t ahead_ms = at_us / 1000 - now_us_ / 1000;
  if (ahead_ms > topic_.timestamp_ahead_ms_max) {
    return beyond("ahead of", topic_.timestamp_ahead_ms_max, "message.timestamp.after.max.ms");
  }
  if (-ahead_ms > topic_.timestamp_behind_ms_max) {
    return beyond("behind", topic_.timestamp_behind_ms_max, "message.timestamp.before.max.ms");
  }
  return "";
}

bool KafkaRows::IsBad(const RecordBatch& batch, int64_t row, std::vector<KafkaBadRow>* bad) const {
  const int64_t bytes = MessageBytes(batch, row);
  if (bytes > topic_.message_bytes_max) {
    bad->push_back({row, Concat("its message of ", bytes, " bytes is larger than the ",
                                topic_.message_bytes_max, " that the topic takes")});
    return true;
  }
  const std::optional<int64_t> own = OwnPartition(batch, row);
  if (own.has_value() && (*own < 0 || *own >= topic_.partitions)) {
    bad->push_back(
        {row, Concat("column '", schema_->field(partition_column_).name, "' names partition ", *own,
                     "; the topic has 0 to ", topic_.partitions - 1)});
    return true;
  }
  std::string why = WhyNotKey(batch, row);
  if (why.empty()) why = WhyNotTimestamp(batch, row);
  if (why.empty()) return false;
  bad->push_back({row, std::move(why)});
  return true;
}

void KafkaRows::Group(const RecordBatch& batch, std::vector<KafkaBadRow>* bad) {
  const size_t rows = static_cast<size_t>(batch.rows());
  row_partitions_.resize(rows);
  order_.resize(rows);
  // Counts, shifted by two: the sum over them says where each begins, and moves by one while rows
  // are put there.
  begins_.assign(static_cast<size_t>(topic_.partitions) + 2, 0);
  const bool takes_all = TakesAll(batch);
  const int32_t in_turn = next_partition_;
  next_partition_ = (next_partition_ + 1) % topic_.partitions;
  for (size_t i = 0; i < rows; ++i) {
    const int64_t row = static_cast<int64_t>(i);
    if (!takes_all && IsBad(batch, row, bad)) {
      row_partitions_[i] = -1;
      continue;
    }
    int32_t partition = in_turn;
    if (const std::optional<int64_t> own = OwnPartition(batch, row)) {
      partition = static_cast<int32_t>(*own);
    } else if (const std::optional<std::string_view> key = KeyOf(batch, row)) {
      partition = KafkaPartitionOf(*key, topic_.partitions);
    }
    row_partitions_[i] = partition;
    ++begins_[static_cast<size_t>(partition) + 2];
  }
  for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  for (size_t i = 0; i < rows; ++i) {
    if (row_partitions_[i] < 0) continue;
    int64_t& at = begins_[static_cast<size_t>(row_partitions_[i]) + 1];
    order_[static_cast<size_t>(at++)] = static_cast<int32_t>(i);
  }
}

void KafkaRows::Encode(const RecordBatch& batch, int64_t now_us, std::string* out,
                       std::vector<KafkaBadRow>* bad) {
  if (batch.rows() == 0) return;
  now_us_ = now_us;
  if (raw_column_ < 0) Write(batch, format_, &values_);
  if (!key_columns_.empty() && !key_is_text_) Write(batch, KafkaFormat::kJson, &keys_);
  Group(batch, bad);
  header_views_.resize(headers_.size());
  for (size_t i = 0; i < headers_.size(); ++i) header_views_[i].name = headers_[i].name;
  const size_t bytes_per_row =
      static_cast<size_t>(
          (raw_column_ < 0 ? static_cast<int64_t>(values_.text.size()) : batch.ByteSize()) /
          batch.rows()) +
      32;
  KafkaBlockWriter writer;
  for (int32_t partition = 0; partition < topic_.partitions; ++partition) {
    const int64_t begin = begins_[static_cast<size_t>(partition)];
    const int64_t end = begins_[static_cast<size_t>(partition) + 1];
    if (begin == end) continue;
    writer.Begin(partition, out, static_cast<size_t>(end - begin) * bytes_per_row);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = order_[static_cast<size_t>(i)];
      for (size_t j = 0; j < headers_.size(); ++j) {
        header_views_[j].value = TextOf(batch.column(headers_[j].column), row);
      }
      writer.Add({.key = KeyOf(batch, row),
                  .value = ValueOf(batch, row),
                  .timestamp_ms = TimestampOf(batch, row),
                  .headers = header_views_});
    }
    writer.End();
  }
}

}  // namespace weir
