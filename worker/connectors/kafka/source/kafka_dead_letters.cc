#include "worker/connectors/kafka/source/kafka_dead_letters.h"

#include <memory>
#include <utility>

#include "common/record/batch_builder.h"
#include "common/record/json_format.h"
#include "common/record/text_values.h"
#include "worker/connectors/files/dead_letters.h"
#include "worker/connectors/files/file_store.h"

namespace weir {

KafkaDeadLetters::KafkaDeadLetters(SourceContext& context, std::string directory)
    : source_(context.uid()),
      schema_(std::make_shared<const Schema>(Schema({{"source", Type::kString},
                                                     {"topic", Type::kString},
                                                     {"partition", Type::kInt32},
                                                     {"offset", Type::kInt64},
                                                     {"timestamp", Type::kTimestamp},
                                                     {"length", Type::kInt64},
                                                     {"reason", Type::kString},
                                                     {"text", Type::kString},
                                                     {"bytes", Type::kBytes},
                                                     {"key", Type::kBytes}}))),
      parts_(MakeFileParts(context,
                           {.path = std::move(directory),
                            .job = context.job(),
                            .job_name = context.job_name(),
                            .uid = context.uid(),
                            .type = "kafka.source"},
                           FileFormat::kJson)) {}

void KafkaDeadLetters::Add(const TopicPartition& partition, const KafkaMessage& message,
                           std::string_view reason) {
  if (!parts_->status().ok()) return;  // the generation ends
  BatchBuilder row(schema_);
  const auto append = [&](int column, bool known, std::string_view text) {
    if (known) {
      row.column(column).AppendText(text);
    } else {
      row.column(column).AppendNull();
    }
  };
  row.column(0).AppendText(source_);
  row.column(1).AppendText(partition.topic);
  row.column(2).AppendInt32(partition.partition);
  row.column(3).AppendInt64(message.offset);
  if (message.timestamp_ms >= 0 && message.timestamp_ms <= kTimestampMsMax) {
    row.column(4).AppendInt64(message.timestamp_ms * kMicrosOfMilli);
  } else {
    row.column(4).AppendNull();
  }
  if (message.has_value()) {
    row.column(5).AppendInt64(static_cast<int64_t>(message.value.size()));
  } else {
    row.column(5).AppendNull();
  }
  row.column(6).AppendText(reason);
  const bool is_text = message.has_value() && message.value.size() <= kDeadLetterTextBytesMax &&
                       IsValidUtf8(message.value);
  append(7, is_text, message.value);
  append(8, message.has_value(), message.value);
  append(9, message.has_key(), message.key);
  parts_->Write([&](std::string* bytes) {
    AppendJsonRows(row.Finish(), bytes);
    return 1;
  });
}

}  // namespace weir
