#pragma once

#include <string>
#include <string_view>

#include "common/base/concat.h"
#include "common/base/status.h"

// The log of the daemons: one line an event, "time level thread message key=value …".
// spdlog lives in log.cc alone. Thread: thread-safe.
namespace weir::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// Levels by name: debug, info, warning, error.
StatusOr<Level> ParseLevel(std::string_view text);

// Sends the log to `file` (appending), or to stderr when empty.
Status Start(Level level, const std::string& file);
bool Enabled(Level level);
void Write(Level level, std::string_view message);

template <typename... T>
void Debug(const T&... pieces) {
  if (Enabled(Level::kDebug)) Write(Level::kDebug, Concat(pieces...));
}
template <typename... T>
void Info(const T&... pieces) {
  if (Enabled(Level::kInfo)) Write(Level::kInfo, Concat(pieces...));
}
template <typename... T>
void Warning(const T&... pieces) {
  if (Enabled(Level::kWarning)) Write(Level::kWarning, Concat(pieces...));
}
template <typename... T>
void Error(const T&... pieces) {
  if (Enabled(Level::kError)) Write(Level::kError, Concat(pieces...));
}

}  // namespace weir::log
