#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/graph/kafka_configs.h"
#include "common/operator/source.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// The dead letters of a kafka.source subtask: JSON lines in files that appear together with the
// rows around them, named like those of files.sink. Each line is an object with the fields
//   source     uid of the source          topic, partition, offset   of the message
//   timestamp  of the message             length  of its value in bytes; null: it has none
//   reason     what is wrong with it      text    the value, if it is valid UTF-8 of at most
//   bytes      the value in base64                kDeadLetterTextBytesMax bytes; else null
//   key        the key in base64; null: it has none
// Thread: the task's.
class KafkaDeadLetters {
 public:
  KafkaDeadLetters(SourceContext& context, std::string directory);

  // `done` once letters may be added.
  void Open(std::function<void(Status)> done) { parts_->Open(std::move(done)); }
  void Add(const TopicPartition& partition, const KafkaMessage& message, std::string_view reason);
  SealedParts& parts() { return *parts_; }

 private:
  const std::string source_;
  const SchemaPtr schema_;
  const std::unique_ptr<SealedParts> parts_;
};

}  // namespace weir
