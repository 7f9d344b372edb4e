#pragma once

#include <cstdint>
#include <variant>

#include "common/base/ids.h"
#include "common/record/record_batch.h"

namespace weir {

// Cuts the stream into checkpoints. Everything before it on a channel belongs to `checkpoint`.
struct Barrier {
  CheckpointId checkpoint;
  int64_t trigger_wall_us = 0;  // when the coordinator triggered, for metrics only
  bool operator==(const Barrier&) const = default;
};

// The sender has no more rows. Barriers may still follow; rows never.
struct EndOfInput {
  bool operator==(const EndOfInput&) const = default;
};

// What flows through a channel, in order.
using StreamElement = std::variant<RecordBatchPtr, Barrier, EndOfInput>;

// Bytes that count against a channel's credit: those of rows; everything else is free.
inline int64_t CreditBytes(const StreamElement& element) {
  const RecordBatchPtr* batch = std::get_if<RecordBatchPtr>(&element);
  return batch ? (*batch)->ByteSize() : 0;
}

}  // namespace weir
