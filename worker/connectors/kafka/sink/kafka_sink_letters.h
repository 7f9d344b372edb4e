#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/operator/sink.h"
#include "common/record/record_batch.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// The rows that the topic of a kafka.sink subtask does not take: JSON lines in files that appear
// together with the rows around them, named like those of files.sink. Each line is an object with
// the fields
//   sink    uid of the sink               topic   that does not take it
//   reason  why                           row     all its columns: a JSON object, as text
// Thread: the task's.
class KafkaSinkLetters {
 public:
  KafkaSinkLetters(SinkContext& context, std::string directory, std::string topic);

  // `done` once letters may be added.
  void Open(std::function<void(Status)> done) { parts_->Open(std::move(done)); }
  void Add(const RecordBatch& batch, int64_t row, std::string_view reason);
  SealedParts& parts() { return *parts_; }

 private:
  const std::string sink_;
  const std::string topic_;
  const SchemaPtr schema_;
  const std::unique_ptr<SealedParts> parts_;
};

}  // namespace weir
