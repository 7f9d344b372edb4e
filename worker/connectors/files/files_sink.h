#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "common/operator/sink.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// Writes rows into files that appear when their checkpoint completed; SealedParts does all but the
// format. Thread: the task's.
class FilesSink : public Sink {
 public:
  void Open(SinkContext& context, std::function<void(Status)> done) override;
  Status Write(const RecordBatch& batch) override;
  bool Ready() const override { return parts_->Ready(); }
  std::string blocking_reason() const override { return parts_->blocking_reason(); }
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    parts_->Prepare(checkpoint, std::move(done));
  }
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override {
    parts_->Publish(checkpoint, std::move(done));
  }
  void OnAborted(CheckpointId checkpoint) override { parts_->OnAborted(checkpoint); }
  void Close() override;

 private:
  FilesSinkConfig config_;
  std::unique_ptr<SealedParts> parts_;  // from Open on
};

}  // namespace weir
