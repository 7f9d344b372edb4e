#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/graph/kafka_configs.h"
#include "common/operator/committable.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/sealed_parts/part_store.h"

// What kafka.sink seals, how its files are named and what its committables say. On-disk contracts.
//   staged/g<generation>-<subtask>-<number>-<uid>.records   rows of one part
namespace weir {

// The name of a staged file. Generation, subtask and uid never have two writers.
struct StagedName {
  Generation generation;
  int subtask = 0;
  int64_t number = 0;  // counts the files of this subtask in this generation
  std::string uid;
  bool operator==(const StagedName&) const = default;
};
std::string ToFileName(const StagedName& name);
// nullopt for any other name.
std::optional<StagedName> ParseStagedName(std::string_view file_name);

// The payload of a committable: its part, checkpoint and index aside.
std::string EncodeStage(const SealedPart& part);
// Whether it is a stage; else it is of dead letters, as files.sink's are.
bool IsStage(const Committable& committable);
// kDataLoss when the payload is none of kafka.sink.
StatusOr<SealedPart> DecodeStage(const Committable& committable);

// Who publishes: transactional id and marker group of one subtask number of a sink.
std::string KafkaIdentity(const KafkaSinkConfig& config, const JobId& job, const std::string& uid,
                          int subtask);

}  // namespace weir
