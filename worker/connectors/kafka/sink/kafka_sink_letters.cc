#include "worker/connectors/kafka/sink/kafka_sink_letters.h"

#include <memory>
#include <utility>

#include "common/record/batch_builder.h"
#include "common/record/json_format.h"
#include "worker/connectors/files/file_store.h"

namespace weir {

KafkaSinkLetters::KafkaSinkLetters(SinkContext& context, std::string directory, std::string topic)
    : sink_(context.uid()),
      topic_(std::move(topic)),
      schema_(std::make_shared<const Schema>(Schema({{"sink", Type::kString},
                                                     {"topic", Type::kString},
                                                     {"reason", Type::kString},
                                                     {"row", Type::kString}}))),
      parts_(MakeFileParts(context,
                           {.path = std::move(directory),
                            .job = context.job(),
                            .job_name = context.job_name(),
                            .uid = context.uid(),
                            .type = "kafka.sink"},
                           FileFormat::kJson)) {}

void KafkaSinkLetters::Add(const RecordBatch& batch, int64_t row, std::string_view reason) {
  if (!parts_->status().ok()) return;  // the generation ends
  const int32_t selected[] = {static_cast<int32_t>(row)};
  std::string text;
  AppendJsonRows(batch.Select(selected), &text);
  text.pop_back();
  BatchBuilder letter(schema_);
  letter.column(0).AppendText(sink_);
  letter.column(1).AppendText(topic_);
  letter.column(2).AppendText(reason);
  letter.column(3).AppendText(text);
  parts_->Write([&](std::string* bytes) {
    AppendJsonRows(letter.Finish(), bytes);
    return 1;
  });
}

}  // namespace weir
