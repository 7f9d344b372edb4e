#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/control/messages.h"

// How far sinks that publish in steps have come. Thread: thread-safe (no state).
namespace weir::cli {

// All subtasks together: sums; committed is what all of them have, and when the one did that did so
// longest ago. No value: none of them tells.
std::optional<SinkProgress> ProgressOf(const VertexStatus& vertex);
// One line for people.
std::string ProgressText(const std::string& uid, const SinkProgress& progress, int64_t now_wall_us);

}  // namespace weir::cli
