#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/kafka_configs.h"
#include "common/record/record_batch.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/kafka_records.h"

namespace weir {

// What Java's clients give for the bytes of a key: murmur2 with seed 0x9747b28c.
uint32_t KafkaMurmur2(std::string_view bytes);
// The partition of `partitions` that Java's clients put a key into.
int32_t KafkaPartitionOf(std::string_view key, int32_t partitions);

// A row that the topic does not take.
struct KafkaBadRow {
  int64_t row = 0;  // of the batch
  std::string reason;
};

// Makes the records of a topic from rows. Thread: the task's.
class KafkaRows {
 public:
  // `first_partition`: of the first rows without key; from batch to batch the next one takes them.
  // REQUIRES: CheckKafkaSinkInput has accepted the config for `schema`, and topic.partitions > 0.
  KafkaRows(const KafkaSinkConfig& config, SchemaPtr schema, const KafkaTopic& topic,
            int32_t first_partition);

  // Appends blocks with the records of the batch, grouped by partition and in order within each.
  // Rows that the topic does not take are left out and named in `bad`. `now_us`: since 1970, with
  // which their timestamps are compared.
  void Encode(const RecordBatch& batch, int64_t now_us, std::string* out,
              std::vector<KafkaBadRow>* bad);

 private:
  // Texts of some columns, a line each.
  struct Lines {
    SchemaPtr schema;
    std::vector<int> columns;
    std::string text;
    std::vector<size_t> ends;
    std::string_view Line(int64_t row) const {
      const size_t begin = row == 0 ? 0 : ends[static_cast<size_t>(row) - 1];
      return std::string_view(text).substr(begin, ends[static_cast<size_t>(row)] - begin - 1);
    }
  };
  struct Header {
    std::string name;
    int column;
  };

  Lines LinesOf(std::vector<int> columns) const;
  void Write(const RecordBatch& batch, KafkaFormat format, Lines* lines) const;
  std::optional<std::string_view> KeyOf(const RecordBatch& batch, int64_t row) const;
  std::optional<std::string_view> ValueOf(const RecordBatch& batch, int64_t row) const;
  // Of a column; -1: none.
  int64_t TimestampOf(const RecordBatch& batch, int64_t row) const;
  // Bytes of the message as the broker counts them, at most.
  int64_t MessageBytes(const RecordBatch& batch, int64_t row) const;
  // Whether no row can be one that the topic does not take: the batch as a whole is small enough.
  bool TakesAll(const RecordBatch& batch) const;
  // Why the topic does not take the row's key, or its timestamp; "" if it does.
  std::string WhyNotKey(const RecordBatch& batch, int64_t row) const;
  std::string WhyNotTimestamp(const RecordBatch& batch, int64_t row) const;
  // Notes why, if the topic does not take the row.
  bool IsBad(const RecordBatch& batch, int64_t row, std::vector<KafkaBadRow>* bad) const;
  // The partition of the row's own column; no value: it names none.
  std::optional<int64_t> OwnPartition(const RecordBatch& batch, int64_t row) const;
  // Orders the rows by partition: order_ and counts_.
  void Group(const RecordBatch& batch, std::vector<KafkaBadRow>* bad);

  const KafkaFormat format_;
  const SchemaPtr schema_;
  const KafkaTopic topic_;
  int raw_column_ = -1;
  std::vector<int> key_columns_;
  bool key_is_text_ = false;  // one STRING or BYTES column
  int partition_column_ = -1;
  int timestamp_column_ = -1;
  int tombstone_column_ = -1;
  std::vector<Header> headers_;
  size_t header_name_bytes_ = 0;
  int32_t next_partition_;

  // Of the batch at hand; kept for their memory.
  int64_t now_us_ = 0;
  Lines values_;
  Lines keys_;
  std::vector<int32_t> row_partitions_;  // -1: bad
  std::vector<int64_t> begins_;          // by partition: where its rows begin in order_
  std::vector<int32_t> order_;
  std::vector<KafkaHeaderView> header_views_;
};

}  // namespace weir
