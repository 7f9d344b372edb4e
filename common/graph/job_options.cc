#include "common/graph/job_options.h"

#include <array>
#include <charconv>
#include <limits>

#include "common/base/concat.h"
#include "common/graph/config.h"

namespace weir {
namespace {

struct Unit {
  std::string_view name;
  int64_t size;
};

constexpr std::array<Unit, 5> kDurationUnits = {
    {{"us", 1}, {"ms", 1'000}, {"s", 1'000'000}, {"min", 60'000'000}, {"h", 3'600'000'000}}};
constexpr std::array<Unit, 6> kSizeUnits = {{{"", 1},
                                             {"B", 1},
                                             {"KiB", 1 << 10},
                                             {"MiB", 1 << 20},
                                             {"GiB", 1 << 30},
                                             {"TiB", int64_t{1} << 40}}};
constexpr int64_t kDurationMaxUs = 1'000'000 * int64_t{3'600'000'000};  // 1,000,000h

// A whole number and a unit, nothing else, at most `value_max`.
template <size_t n>
std::optional<int64_t> ParseQuantity(std::string_view text, const std::array<Unit, n>& units,
                                     int64_t value_max) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0 || text.starts_with('-')) return std::nullopt;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number > value_max / unit.size) return std::nullopt;
    return number * unit.size;
  }
  return std::nullopt;
}

template <size_t n>
std::string FormatQuantity(int64_t value, const std::array<Unit, n>& units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.size == 0 && unit.size > best->size) best = &unit;
  }
  return Concat(value / best->size, best->name);
}

// One option: how it is described, and how its text becomes a field. `parse` answers false for a
// value that is not valid.
struct Option {
  std::string_view name, default_value, valid, help;
  bool (*parse)(const std::string& text, JobOptions* options);
};

bool ParseInteger(const std::string& text, int64_t min, int64_t max, int64_t* value) {
  int64_t parsed = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || rest != end || parsed < min || parsed > max) return false;
  *value = parsed;
  return true;
}

bool ParseInteger(const std::string& text, int min, int max, int* value) {
  int64_t parsed = 0;
  if (!ParseInteger(text, int64_t{min}, int64_t{max}, &parsed)) return false;
  *value = static_cast<int>(parsed);
  return true;
}

bool ParseUnlimited(const std::string& text, std::optional<int>* value) {
  if (text == "unlimited") {
    value->reset();
    return true;
  }
  int parsed = 0;
  if (!ParseInteger(text, 0, std::numeric_limits<int>::max(), &parsed)) return false;
  *value = parsed;
  return true;
}

bool ParseDurationFrom(const std::string& text, int64_t min_us, int64_t* value_us) {
  StatusOr<int64_t> parsed = ParseDuration(text);
  if (!parsed.ok() || *parsed < min_us) return false;
  *value_us = *parsed;
  return true;
}

bool ParseRetention(const std::string& text, Retention* value) {
  if (text != "delete" && text != "keep") return false;
  *value = text == "keep" ? Retention::kKeep : Retention::kDelete;
  return true;
}

const std::vector<Option>& Options() {
  static const std::vector<Option> options = {
      {"parallelism", "1", "1 ... max_parallelism",
       "subtasks of every vertex that gives no number of its own",
       [](const std::string& text, JobOptions* o) {
         return ParseInteger(text, 1, 32768, &o->parallelism);
       }},
      {"max_parallelism", "128", "1 ... 32768",
       "key groups, fixed for the life of the state: the most subtasks a job can grow to",
       [](const std::string& text, JobOptions* o) {
         return ParseInteger(text, 1, 32768, &o->max_parallelism);
       }},
      {"checkpoint.interval", "10s", "off, or a duration of at least 10ms",
       "time from the start of a checkpoint to the start of the next",
       [](const std::string& text, JobOptions* o) {
         if (text == "off") {
           o->checkpoint_interval_us.reset();
           return true;
         }
         int64_t us = 0;
         if (!ParseDurationFrom(text, 10'000, &us)) return false;
         o->checkpoint_interval_us = us;
         return true;
       }},
      {"checkpoint.timeout", "10min", "a duration of at least 10ms",
       "a checkpoint that takes longer is aborted",
       [](const std::string& text, JobOptions* o) {
         return ParseDurationFrom(text, 10'000, &o->checkpoint_timeout_us);
       }},
      {"checkpoint.min_pause", "0s", "a duration",
       "least time from the end of a checkpoint to the next",
       [](const std::string& text, JobOptions* o) {
         return ParseDurationFrom(text, 0, &o->checkpoint_min_pause_us);
       }},
      {"checkpoint.max_concurrent", "1", "1 ... 100", "checkpoints in progress at one time",
       [](const std::string& text, JobOptions* o) {
         return ParseInteger(text, 1, 100, &o->checkpoint_max_concurrent);
       }},
      {"checkpoint.retained", "1", "1 ... 1000", "completed checkpoints that are kept",
       [](const std::string& text, JobOptions* o) {
         return ParseInteger(text, 1, 1000, &o->checkpoint_retained);
       }},
      {"checkpoint.tolerable_failures", "unlimited", "unlimited, or 0 and more",
       "failed checkpoints in a row before the job restarts",
       [](const std::string& text, JobOptions* o) {
         return ParseUnlimited(text, &o->checkpoint_tolerable_failures);
       }},
      {"checkpoint.on_cancel", "delete", "delete, keep",
       "what becomes of the last completed checkpoint when the job is cancelled; kept where rows "
       "of it were left unpublished",
       [](const std::string& text, JobOptions* o) {
         return ParseRetention(text, &o->checkpoint_on_cancel);
       }},
      {"checkpoint.on_failure", "keep", "delete, keep",
       "what becomes of the last completed checkpoint when the job fails; kept where rows of it "
       "were left unpublished",
       [](const std::string& text, JobOptions* o) {
         return ParseRetention(text, &o->checkpoint_on_failure);
       }},
      {"restart.backoff_initial", "100ms",
       "a duration of at least 1ms, at most restart.backoff_max",
       "wait before the first restart; doubled with jitter, reset by a completed checkpoint",
       [](const std::string& text, JobOptions* o) {
         return ParseDurationFrom(text, 1'000, &o->restart_backoff_initial_us);
       }},
      {"restart.backoff_max", "30s", "a duration of at least 1ms", "longest wait before a restart",
       [](const std::string& text, JobOptions* o) {
         return ParseDurationFrom(text, 1'000, &o->restart_backoff_max_us);
       }},
      {"restart.attempts_max", "unlimited", "unlimited, or 0 and more",
       "restarts in a row before the job fails",
       [](const std::string& text, JobOptions* o) {
         return ParseUnlimited(text, &o->restart_attempts_max);
       }},
      {"bad_data", "fail", "fail, drop, dead_letter",
       "what a source does with a row it cannot read, kafka.sink with one that its topic does not "
       "take",
       [](const std::string& text, JobOptions* o) {
         std::optional<BadData> parsed = ParseBadData(text);
         if (parsed.has_value()) o->bad_data = *parsed;
         return parsed.has_value();
       }},
      {"batch.rows_max", "4096", "1 ... 65536", "rows of a batch",
       [](const std::string& text, JobOptions* o) {
         return ParseInteger(text, int64_t{1}, int64_t{65536}, &o->batch_rows_max);
       }},
      {"batch.bytes_max", "256KiB", "a size of 1KiB ... 64MiB", "bytes of a batch of several rows",
       [](const std::string& text, JobOptions* o) {
         StatusOr<int64_t> bytes = ParseSize(text);
         if (!bytes.ok() || *bytes < 1024 || *bytes > 64 << 20) return false;
         o->batch_bytes_max = *bytes;
         return true;
       }},
      {"batch.delay_max", "5ms", "a duration of at most 1min",
       "a batch that is not full is sent at the latest after it",
       [](const std::string& text, JobOptions* o) {
         int64_t us = 0;
         if (!ParseDurationFrom(text, 0, &us) || us > 60'000'000) return false;
         o->batch_delay_max_us = us;
         return true;
       }},
      {"state.backend", "memory", "memory", "where keyed state lives",
       [](const std::string& text, JobOptions* o) {
         if (text != "memory") return false;
         o->state_backend = text;
         return true;
       }},
  };
  return options;
}

Status InvalidOption(std::string_view name, std::string_view value, std::string_view valid) {
  return InvalidArgumentError(Concat("option '", name, "' is '", value, "': valid is ", valid));
}

}  // namespace

std::optional<BadData> ParseBadData(std::string_view text) {
  if (text == "fail") return BadData::kFail;
  if (text == "drop") return BadData::kDrop;
  if (text == "dead_letter") return BadData::kDeadLetter;
  return std::nullopt;
}

StatusOr<int64_t> ParseDuration(std::string_view text) {
  std::optional<int64_t> us = ParseQuantity(text, kDurationUnits, kDurationMaxUs);
  if (us.has_value()) return *us;
  return InvalidArgumentError(Concat(
      "'", text, "' is no duration: expected a whole number and us, ms, s, min or h, like 250ms"));
}

std::string FormatDuration(int64_t us) {
  return us == 0 ? "0s" : FormatQuantity(us, kDurationUnits);
}

StatusOr<int64_t> ParseSize(std::string_view text) {
  std::optional<int64_t> bytes =
      ParseQuantity(text, kSizeUnits, std::numeric_limits<int64_t>::max());
  if (bytes.has_value()) return *bytes;
  return InvalidArgumentError(Concat("'", text,
                                     "' is no size: expected a whole number of bytes, or one and "
                                     "KiB, MiB, GiB or TiB, like 64MiB"));
}

std::string FormatSize(int64_t bytes) { return FormatQuantity(bytes, kSizeUnits); }

StatusOr<JobOptions> ParseJobOptions(const std::map<std::string, std::string>& options) {
  JobOptions parsed;
  for (const auto& [name, value] : options) {
    const Option* option = nullptr;
    for (const Option& known : Options()) {
      if (known.name == name) option = &known;
    }
    if (option == nullptr) {
      std::vector<std::string> names;
      std::string all;
      for (const Option& known : Options()) {
        names.emplace_back(known.name);
        all += Concat(all.empty() ? "" : ", ", known.name);
      }
      const std::string nearest = NearestName(name, names);
      return InvalidArgumentError(
          nearest.empty()
              ? Concat("unknown option '", name, "' (value '", value, "'): known are ", all)
              : Concat("unknown option '", name, "' (value '", value, "'): did you mean '", nearest,
                       "'?"));
    }
    if (!option->parse(value, &parsed)) return InvalidOption(name, value, option->valid);
  }
  if (parsed.parallelism > parsed.max_parallelism) {
    return InvalidOption("parallelism", Concat(parsed.parallelism),
                         Concat("1 ... max_parallelism, which is ", parsed.max_parallelism));
  }
  if (parsed.restart_backoff_initial_us > parsed.restart_backoff_max_us) {
    return InvalidOption("restart.backoff_initial",
                         FormatDuration(parsed.restart_backoff_initial_us),
                         Concat("1ms ... restart.backoff_max, which is ",
                                FormatDuration(parsed.restart_backoff_max_us)));
  }
  return parsed;
}

const std::vector<JobOptionHelp>& JobOptionDescriptions() {
  static const std::vector<JobOptionHelp> descriptions = [] {
    std::vector<JobOptionHelp> all;
    for (const Option& o : Options()) {
      all.push_back({std::string(o.name), std::string(o.default_value), std::string(o.valid),
                     std::string(o.help)});
    }
    return all;
  }();
  return descriptions;
}

}  // namespace weir
