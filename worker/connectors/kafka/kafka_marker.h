#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/connectors/kafka/kafka_client.h"

// A marker as a group keeps it: the offset is the checkpoint, the rest is the offset's metadata,
//   weir1 <job id> <generation> <part> <parts>
//   weir2 <job id> <generation> <part> <parts> released
// A contract with clusters: what was written by an earlier version is read for ever.
namespace weir {

std::string MarkerMetadata(const KafkaMarker& marker);
// User error: no marker, or one of a version that is not known; shows what stands there instead.
StatusOr<KafkaMarker> ParseMarker(int64_t offset, std::string_view metadata);

}  // namespace weir
