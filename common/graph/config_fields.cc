#include "common/graph/config_fields.h"

#include <limits>

#include "common/base/concat.h"

namespace weir {

Status InvalidField(std::string_view name, const ConfigValue& value, std::string_view valid) {
  return InvalidArgumentError(Concat("config field '", name, "' is '", value.Shown(), "' (",
                                     value.KindName(), "): expected ", valid));
}

Status InvalidField(const Config& config, std::string_view name, std::string_view valid) {
  return InvalidField(name, *config.Find(name), valid);
}

bool Given(const Config& config, std::string_view name) {
  const ConfigValue* value = config.Find(name);
  return value != nullptr && !value->is_null();
}

StatusOr<int64_t> IntegerIn(const Config& config, std::string_view name, int64_t absent,
                            int64_t min, int64_t max) {
  WEIR_ASSIGN_OR_RETURN(int64_t value, config.Integer(name, absent));
  if (value >= min && value <= max) return value;
  return InvalidField(config, name,
                      max == std::numeric_limits<int64_t>::max()
                          ? Concat("an integer of at least ", min)
                          : Concat("an integer from ", min, " to ", max));
}

StatusOr<int64_t> DurationField(const Config& config, std::string_view name, int64_t absent_us,
                                int64_t min_us, std::string_view valid) {
  if (!Given(config, name)) return absent_us;
  WEIR_ASSIGN_OR_RETURN(std::string text, config.Text(name));
  StatusOr<int64_t> us = ParseDuration(text);
  if (!us.ok() || *us < min_us) return InvalidField(config, name, valid);
  return *us;
}

StatusOr<std::optional<double>> RateField(const Config& config) {
  if (!Given(config, "rate")) return std::optional<double>();
  WEIR_ASSIGN_OR_RETURN(double rate, config.Number("rate"));
  if (!(rate > 0)) return InvalidField(config, "rate", "a number of rows per second above 0");
  return std::optional<double>(rate);
}

StatusOr<std::optional<BadData>> BadDataField(const Config& config) {
  if (!Given(config, "bad_data")) return std::optional<BadData>();
  WEIR_ASSIGN_OR_RETURN(std::string text, config.Text("bad_data"));
  const std::optional<BadData> bad_data = ParseBadData(text);
  if (!bad_data.has_value()) return InvalidField(config, "bad_data", "fail, drop or dead_letter");
  return bad_data;
}

StatusOr<std::string> DeadLetterPathField(const Config& config) {
  if (!Given(config, "dead_letter_path")) return std::string();
  WEIR_ASSIGN_OR_RETURN(std::string path, config.Text("dead_letter_path"));
  if (path.empty()) return InvalidField(config, "dead_letter_path", "a directory");
  return path;
}

Status CheckDeadLetterPath(BadData bad_data, std::string_view dead_letter_path) {
  if (bad_data != BadData::kDeadLetter || !dead_letter_path.empty()) return {};
  return InvalidArgumentError(
      "config field 'dead_letter_path' is missing: bad_data is dead_letter, which needs a "
      "directory to put such rows into");
}

}  // namespace weir
