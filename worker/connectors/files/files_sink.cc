#include "worker/connectors/files/files_sink.h"

#include <utility>

#include "common/record/csv_format.h"
#include "common/record/json_format.h"

namespace weir {

void FilesSink::Open(SinkContext& context, std::function<void(Status)> done) {
  StatusOr<FilesSinkConfig> config = ParseFilesSinkConfig(context.config());
  if (!config.ok()) {
    done(config.status());
    return;
  }
  config_ = *std::move(config);
  FilePartsOptions options;
  options.directory = {.path = config_.path,
                       .job = context.job(),
                       .job_name = context.job_name(),
                       .uid = context.uid(),
                       .type = "files.sink"};
  options.generation = context.generation();
  options.resumed_from = context.resumed_from();
  options.subtask = context.subtask();
  options.format = config_.format;
  options.part_bytes_max = config_.part_bytes_max;
  if (config_.format == FileFormat::kCsv && config_.header) {
    AppendCsvHeader(*context.input_schema(), &options.head);
  }
  options.files = &context.files();
  options.timers = &context.timers();
  options.wake = [&context] { context.Wake(); };
  options.fail = [&context](Status status) { context.Fail(std::move(status)); };
  parts_ = std::make_unique<FileParts>(std::move(options));
  parts_->Open(std::move(done));
}

Status FilesSink::Write(const RecordBatch& batch) {
  if (!parts_->status().ok()) return parts_->status();
  if (batch.rows() == 0) return {};
  parts_->Write([&](std::string* bytes) {
    if (config_.format == FileFormat::kCsv) {
      AppendCsvRows(batch, bytes);
    } else {
      AppendJsonRows(batch, bytes);
    }
  });
  return {};
}

void FilesSink::Close() {
  if (parts_ != nullptr) parts_->Close();
}

}  // namespace weir
