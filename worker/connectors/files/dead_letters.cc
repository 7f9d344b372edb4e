#include "worker/connectors/files/dead_letters.h"

#include <memory>
#include <utility>

#include "common/record/batch_builder.h"
#include "common/record/json_format.h"
#include "common/record/text_values.h"
#include "worker/connectors/files/file_store.h"

namespace weir {

DeadLetters::DeadLetters(SourceContext& context, std::string directory)
    : source_(context.uid()),
      schema_(std::make_shared<const Schema>(Schema({{"source", Type::kString},
                                                     {"file", Type::kString},
                                                     {"line", Type::kInt64},
                                                     {"offset", Type::kInt64},
                                                     {"length", Type::kInt64},
                                                     {"reason", Type::kString},
                                                     {"text", Type::kString},
                                                     {"bytes", Type::kBytes}}))),
      parts_(MakeFileParts(context,
                           {.path = std::move(directory),
                            .job = context.job(),
                            .job_name = context.job_name(),
                            .uid = context.uid(),
                            .type = "files.source"},
                           FileFormat::kJson)) {}

void DeadLetters::Add(const DeadLetter& letter) {
  if (!parts_->status().ok()) return;  // the generation ends
  BatchBuilder row(schema_);
  row.column(0).AppendText(source_);
  // Names of files are bytes; those that are no text are written as in messages.
  row.column(1).AppendText(IsValidUtf8(letter.file) ? std::string(letter.file)
                                                    : QuoteForMessage(letter.file));
  row.column(2).AppendInt64(letter.line);
  row.column(3).AppendInt64(letter.offset);
  row.column(4).AppendInt64(letter.length);
  row.column(5).AppendText(letter.reason);
  if (letter.bytes.has_value() && letter.bytes->size() <= kDeadLetterTextBytesMax &&
      IsValidUtf8(*letter.bytes)) {
    row.column(6).AppendText(*letter.bytes);
  } else {
    row.column(6).AppendNull();
  }
  if (letter.bytes.has_value()) {
    row.column(7).AppendText(*letter.bytes);
  } else {
    row.column(7).AppendNull();
  }
  parts_->Write([&](std::string* bytes) {
    AppendJsonRows(row.Finish(), bytes);
    return 1;
  });
}

}  // namespace weir
