#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/names.h"
#include "common/base/status.h"

namespace weir {

class ConfigValue;
using ConfigList = std::vector<ConfigValue>;
// Members in the order they were written; names are unique.
using ConfigMembers = std::vector<std::pair<std::string, ConfigValue>>;

// A JSON value with integers kept apart from other numbers. Thread: immutable once shared.
class ConfigValue {
 public:
  ConfigValue() = default;                                        // null
  ConfigValue(bool value) : value_(value) {}                      // NOLINT
  ConfigValue(int value) : value_(int64_t{value}) {}              // NOLINT
  ConfigValue(int64_t value) : value_(value) {}                   // NOLINT
  ConfigValue(double value) : value_(value) {}                    // NOLINT
  ConfigValue(const char* value) : value_(std::string(value)) {}  // NOLINT
  ConfigValue(std::string value) : value_(std::move(value)) {}    // NOLINT
  ConfigValue(ConfigList value) : value_(std::move(value)) {}     // NOLINT
  ConfigValue(ConfigMembers value) : value_(std::move(value)) {}  // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<ConfigList>(value_); }
  bool is_object() const { return std::holds_alternative<ConfigMembers>(value_); }

  // REQUIRES: the matching is_…().
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_integer() const { return std::get<int64_t>(value_); }
  double as_number() const {
    return is_integer() ? static_cast<double>(as_integer()) : std::get<double>(value_);
  }
  const std::string& as_text() const { return std::get<std::string>(value_); }
  const ConfigList& as_list() const { return std::get<ConfigList>(value_); }
  const ConfigMembers& as_object() const { return std::get<ConfigMembers>(value_); }
  ConfigMembers& as_object() { return std::get<ConfigMembers>(value_); }

  // Member of an object; nullptr when absent or this is no object.
  const ConfigValue* Find(std::string_view name) const;
  // Sets or adds a member; null becomes an object first. REQUIRES: null or object.
  void Set(std::string_view name, ConfigValue value);

  // One line of JSON, members in order, doubles as the shortest text that reads back the same.
  std::string ToJson() const;
  // The same over several lines, indented by two blanks.
  std::string ToPrettyJson() const;
  // What kind of value it is, for messages: "a text", "an integer", …
  std::string_view KindName() const;
  // For messages: a text without quotes, else JSON; cut at the length of a line.
  std::string Shown() const;
  bool operator==(const ConfigValue&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, ConfigList, ConfigMembers>
      value_;
};

// Parses one JSON document; user error with line and column. Doubled member names are refused.
StatusOr<ConfigValue> ParseJson(std::string_view text);

// The config of a vertex: an object with typed look-ups whose errors name the field, the value and
// what is valid ("config field 'rate' is 'fast' (a text): expected a number").
class Config {
 public:
  Config() : value_(ConfigMembers{}) {}
  explicit Config(ConfigValue object);  // REQUIRES: is_object()
  Config(std::initializer_list<std::pair<std::string, ConfigValue>> members);

  const ConfigValue& value() const { return value_; }
  const ConfigValue* Find(std::string_view name) const { return value_.Find(name); }
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  void Set(std::string_view name, ConfigValue value) { value_.Set(name, std::move(value)); }

  // The field, or user error when it is absent or of another kind.
  StatusOr<std::string> Text(std::string_view name) const;
  StatusOr<int64_t> Integer(std::string_view name) const;
  StatusOr<double> Number(std::string_view name) const;
  StatusOr<bool> Bool(std::string_view name) const;
  StatusOr<std::vector<std::string>> TextList(std::string_view name) const;
  // As above with a value for an absent field.
  StatusOr<std::string> Text(std::string_view name, std::string absent) const;
  StatusOr<int64_t> Integer(std::string_view name, int64_t absent) const;
  StatusOr<double> Number(std::string_view name, double absent) const;
  StatusOr<bool> Bool(std::string_view name, bool absent) const;
  bool operator==(const Config&) const = default;

 private:
  ConfigValue value_;
};

}  // namespace weir
