#include "common/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace weir::log {
namespace {

std::atomic<int> minimum_level{static_cast<int>(Level::kWarning)};

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

StatusOr<Level> ParseLevel(std::string_view text) {
  if (text == "debug") return Level::kDebug;
  if (text == "info") return Level::kInfo;
  if (text == "warning") return Level::kWarning;
  if (text == "error") return Level::kError;
  return InvalidArgumentError(
      Concat("log_level '", text, "' is none of debug, info, warning, error"));
}

Status Start(Level level, const std::string& file) {
  try {
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file, false);
    }
    auto logger = std::make_shared<spdlog::logger>("weir", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l [%t] %v", spdlog::pattern_time_type::utc);
    logger->set_level(ToSpdlog(level));
    logger->flush_on(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return InvalidArgumentError(Concat("cannot open log_file '", file, "': ", error.what()));
  }
  minimum_level.store(static_cast<int>(level), std::memory_order_relaxed);
  return {};
}

bool Enabled(Level level) {
  return static_cast<int>(level) >= minimum_level.load(std::memory_order_relaxed);
}

void Write(Level level, std::string_view message) {
  spdlog::default_logger_raw()->log(ToSpdlog(level),
                                    spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace weir::log
