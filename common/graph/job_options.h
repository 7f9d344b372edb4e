#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace weir {

// "250ms", "10s", "5min", "1h", "0s" in microseconds; user error otherwise.
StatusOr<int64_t> ParseDuration(std::string_view text);
// The shortest such text: "250ms", "10s".
std::string FormatDuration(int64_t us);
// "64MiB", "256KiB", "1GiB", "100" (bytes) in bytes; user error otherwise.
StatusOr<int64_t> ParseSize(std::string_view text);
std::string FormatSize(int64_t bytes);

enum class BadData { kFail, kDrop, kDeadLetter };
// "fail", "drop", "dead_letter"; nullopt for anything else.
std::optional<BadData> ParseBadData(std::string_view text);
enum class Retention { kDelete, kKeep };

// Options of a job, parsed; JobOptionDescriptions says what is valid. Times in microseconds.
struct JobOptions {
  int parallelism = 1;
  int max_parallelism = 128;
  std::optional<int64_t> checkpoint_interval_us = 10'000'000;  // absent: off
  int64_t checkpoint_timeout_us = 600'000'000;
  int64_t checkpoint_min_pause_us = 0;
  int checkpoint_max_concurrent = 1;
  int checkpoint_retained = 1;
  std::optional<int> checkpoint_tolerable_failures;  // absent: unlimited
  Retention checkpoint_on_cancel = Retention::kDelete;
  Retention checkpoint_on_failure = Retention::kKeep;
  int64_t restart_backoff_initial_us = 100'000;
  int64_t restart_backoff_max_us = 30'000'000;
  std::optional<int> restart_attempts_max;  // absent: unlimited
  BadData bad_data = BadData::kFail;
  int64_t batch_rows_max = 4096;
  int64_t batch_bytes_max = 256 * 1024;
  int64_t batch_delay_max_us = 5000;
  std::string state_backend = "memory";
};

// Unknown name or wrong value: user error with name, value, what is valid, the nearest known name.
StatusOr<JobOptions> ParseJobOptions(const std::map<std::string, std::string>& options);

struct JobOptionHelp {
  std::string name, default_value, valid, help;
};
const std::vector<JobOptionHelp>& JobOptionDescriptions();

}  // namespace weir
