#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/kafka_configs.h"
#include "common/record/batch_builder.h"
#include "common/record/text_decoder.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// Turns messages into rows: a message's value into the columns of the schema, or all of them null
// when it is null, and the metadata columns behind. Values of texts are decoded many at a time, as
// the lines of one text; if those do not come out as one row each, one by one. A value is one row:
// line ends within JSON and in quoted fields of CSV are part of it, one at its end is not.
// Thread: confined to its owner.
class KafkaRowDecoder {
 public:
  // Looks up the headers of a message.
  using Headers = std::function<void(const KafkaMessage&, std::vector<KafkaMessageHeader>*)>;
  // What is to be done about a message that is no row: OK leaves it out, errors end the decoding.
  using BadRow = std::function<Status(const KafkaMessage&, const Status& why)>;
  // The names of topics, by the tags of messages.
  using PartitionOf = std::function<const TopicPartition&(int32_t tag)>;

  // REQUIRES: `output` is KafkaSourceSchema(config).
  KafkaRowDecoder(const KafkaSourceConfig& config, SchemaPtr output, Headers headers,
                  PartitionOf partition_of, BadRow bad_row);

  // Appends a row for each message but the bad ones.
  Status Decode(std::span<const KafkaMessage* const> messages);
  int64_t rows() const { return values_.rows(); }
  // All rows since the last call.
  RecordBatch Finish();

 private:
  Status DecodeRaw(std::span<const KafkaMessage* const> messages);
  // REQUIRES: no value is null.
  Status DecodeTexts(std::span<const KafkaMessage* const> messages);
  // False: not every value is one row; nothing was appended.
  bool DecodeTogether(std::span<const KafkaMessage* const> messages);
  Status DecodeAlone(const KafkaMessage& message);
  // OK: appended.
  Status AppendAlone(const KafkaMessage& message);
  void AppendNulls();
  Status CheckMetadata(const KafkaMessage& message);
  void AppendMetadata(std::span<const KafkaMessage* const> messages);
  // Of headers_ with this name the last, which counts; nullptr: there is none.
  const KafkaMessageHeader* LastHeader(std::string_view name) const;
  void AppendHeaders(const KafkaMessage& message, const KafkaMetadataColumn& what,
                     ColumnBuilder* column);

  const KafkaFormat format_;
  const std::vector<KafkaMetadataColumn> metadata_;
  const SchemaPtr output_;
  const Headers headers_of_;
  const PartitionOf partition_of_;
  const BadRow bad_row_;
  bool metadata_may_be_bad_ = false;      // a text among it
  std::unique_ptr<TextDecoder> decoder_;  // json, csv
  BatchBuilder values_;
  std::vector<ColumnBuilder> metadata_columns_;
  std::string text_;
  std::vector<KafkaMessageHeader> headers_;
};

}  // namespace weir
