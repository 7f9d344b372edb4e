#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/graph/job_options.h"

// Fields that the configs of several vertex types have, and what is said of wrong ones.
namespace weir {

// "config field 'rate' is 'fast' (a text): expected …", a user error.
Status InvalidField(std::string_view name, const ConfigValue& value, std::string_view valid);
// REQUIRES: the field is there.
Status InvalidField(const Config& config, std::string_view name, std::string_view valid);

// There, and not null.
bool Given(const Config& config, std::string_view name);

StatusOr<int64_t> IntegerIn(const Config& config, std::string_view name, int64_t absent,
                            int64_t min, int64_t max);
// A text like "10s" in microseconds. `valid`: said of any other and of less than `min_us`.
StatusOr<int64_t> DurationField(const Config& config, std::string_view name, int64_t absent_us,
                                int64_t min_us, std::string_view valid);
// "rate": rows per second; absent: as many as come.
StatusOr<std::optional<double>> RateField(const Config& config);
// "bad_data"; absent: the job's.
StatusOr<std::optional<BadData>> BadDataField(const Config& config);
// "dead_letter_path": a directory; "" when absent.
StatusOr<std::string> DeadLetterPathField(const Config& config);
// User error: dead letters, and no directory for them.
Status CheckDeadLetterPath(BadData bad_data, std::string_view dead_letter_path);

}  // namespace weir
