#include "worker/connectors/files/files_sink.h"

#include <utility>

#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "worker/connectors/files/file_store.h"

namespace weir {

void FilesSink::Open(SinkContext& context, std::function<void(Status)> done) {
  StatusOr<FilesSinkConfig> config = ParseFilesSinkConfig(context.config());
  if (!config.ok()) {
    done(config.status());
    return;
  }
  config_ = *std::move(config);
  SealedPartsOptions options;
  options.part_bytes_max = config_.part_bytes_max;
  if (config_.format == FileFormat::kCsv && config_.header) {
    AppendCsvHeader(*context.input_schema(), &options.head);
  }
  parts_ = MakeFileParts(context,
                         {.path = config_.path,
                          .job = context.job(),
                          .job_name = context.job_name(),
                          .uid = context.uid(),
                          .type = "files.sink"},
                         config_.format, std::move(options));
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
    return batch.rows();
  });
  return {};
}

void FilesSink::Close() {
  if (parts_ != nullptr) parts_->Close();
}

}  // namespace weir
