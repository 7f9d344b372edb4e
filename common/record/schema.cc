#include "common/record/schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/names.h"

namespace weir {
namespace {

constexpr std::array<std::pair<Type, std::string_view>, 7> kTypeNames = {{
    {Type::kBool, "BOOL"},
    {Type::kInt32, "INT32"},
    {Type::kInt64, "INT64"},
    {Type::kFloat64, "FLOAT64"},
    {Type::kString, "STRING"},
    {Type::kBytes, "BYTES"},
    {Type::kTimestamp, "TIMESTAMP"},
}};

std::string Join(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace

std::string_view ToString(Type type) {
  for (const auto& [known, name] : kTypeNames) {
    if (known == type) return name;
  }
  return "unknown type";
}

StatusOr<Type> ParseType(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [type, known] : kTypeNames) {
    if (known == name) return type;
    names.emplace_back(known);
  }
  return InvalidArgumentError("unknown type '" + std::string(name) + "'; valid: " + Join(names) +
                              DidYouMean(name, names));
}

int FixedWidth(Type type) {
  switch (type) {
    case Type::kBool:
      return 1;
    case Type::kInt32:
      return 4;
    case Type::kInt64:
    case Type::kFloat64:
    case Type::kTimestamp:
      return 8;
    case Type::kString:
    case Type::kBytes:
      return 0;
  }
  return 0;
}

StatusOr<Schema> Schema::Make(std::vector<Field> fields) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name.empty()) {
      return InvalidArgumentError("column " + std::to_string(i + 1) + " has an empty name");
    }
    names.push_back(fields[i].name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidArgumentError("two columns are named '" + std::string(*twice) + "'");
  }
  return Schema(std::move(fields));
}

int Schema::IndexOf(std::string_view name) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

StatusOr<int> Schema::Require(std::string_view name) const {
  if (const int index = IndexOf(name); index >= 0) return index;
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.name);
  return InvalidArgumentError("there is no column '" + std::string(name) + "' in " + ToString() +
                              DidYouMean(name, names));
}

std::string Schema::ToString() const {
  std::string out = "(";
  for (const Field& field : fields_) {
    if (out.size() > 1) out += ", ";
    out += field.name;
    out += ' ';
    out += weir::ToString(field.type);
  }
  out += ')';
  return out;
}

}  // namespace weir
