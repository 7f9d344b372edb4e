#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

#include "common/record/plain_rows.h"
#include "common/record/text_scan.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

const char* SkipBlanks(const char* at) {
  while (IsBlank(*at)) ++at;
  return at;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether a number that begins at `at` has a zero in front that JSON does not allow.
bool HasLeadingZero(const char* at) {
  if (*at == '-') ++at;
  return at[0] == '0' && IsDigit(at[1]);
}

// Whether a value may end in front of `c`.
bool EndsValue(char c) { return c == ',' || c == '}' || IsBlank(c); }

const char* SkipDigits(const char* at) {
  while (IsDigit(*at)) ++at;
  return at;
}

// Behind the number of JSON at `at`, whatever its size; nullptr: none is there.
const char* FindNumberEnd(const char* at) {
  if (HasLeadingZero(at)) return nullptr;
  if (*at == '-') ++at;
  const auto digits = [&at] {
    const char* end = SkipDigits(at);
    return std::exchange(at, end) != end;
  };
  if (!digits()) return nullptr;
  if (*at == '.') {
    ++at;
    if (!digits()) return nullptr;
  }
  if (*at == 'e' || *at == 'E') {
    ++at;
    if (*at == '+' || *at == '-') ++at;
    if (!digits()) return nullptr;
  }
  return at;
}

const char* ReadLiteral(const char* at, std::string_view literal) {
  return std::memcmp(at, literal.data(), literal.size()) == 0 ? at + literal.size() : nullptr;
}

const char* ReadInteger(const char* at, int64_t* value) {
  const char* end = ReadPlainInteger(at, value);
  return end == nullptr || HasLeadingZero(at) ? nullptr : end;
}

const char* ReadDouble(const char* at, double* value) {
  const char* end = ReadPlainDecimal(at, value);
  if (end != nullptr && EndsValue(*end)) return HasLeadingZero(at) ? nullptr : end;
  end = FindNumberEnd(at);
  if (end == nullptr) return nullptr;
  const auto [stop, error] = std::from_chars(at, end, *value);
  return error == std::errc() && stop == end ? end : nullptr;
}

// Passes a value that no column takes; objects and arrays are declined.
const char* SkipValue(const char* at) {
  switch (*at) {
    case '"':
      at = FindJsonTextEnd(at + 1);
      return *at == '"' ? at + 1 : nullptr;
    case 't':
      return ReadLiteral(at, "true");
    case 'f':
      return ReadLiteral(at, "false");
    case 'n':
      return ReadLiteral(at, "null");
    default:
      return FindNumberEnd(at);
  }
}

}  // namespace

PlainJsonReader::PlainJsonReader(const SchemaPtr& schema) {
  for (int i = 0; i < schema->size(); ++i) {
    names_.emplace_back(schema->field(i).name, i);
    types_.push_back(schema->field(i).type);
  }
  std::sort(names_.begin(), names_.end());
  seen_in_.resize(types_.size());
}

int PlainJsonReader::ColumnOf(std::string_view name) const {
  const auto found = std::lower_bound(
      names_.begin(), names_.end(), name,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != names_.end() && found->first == name ? found->second : kNoColumn;
}

bool PlainJsonReader::Matches(const Place& place, const char* at) {
  uint64_t words[2];
  std::memcpy(words, at, sizeof(words));
  if ((((words[0] ^ place.words[0]) & place.masks[0]) |
       ((words[1] ^ place.words[1]) & place.masks[1])) != 0) {
    return false;
  }
  // No byte of the name is a line end: it is not compared behind the line.
  constexpr size_t kCompared = sizeof(words);
  return place.text.size() <= kCompared ||
         std::strncmp(at + kCompared, place.text.data() + kCompared,
                      place.text.size() - kCompared) == 0;
}

void PlainJsonReader::Remember(size_t place, std::string_view name, int column) {
  if (place >= kPlacesMax) return;
  if (place >= places_.size()) places_.resize(place + 1);
  Place& entry = places_[place];
  entry = Place();
  entry.text.append(1, '"').append(name).append("\":");
  const size_t compared = std::min(entry.text.size(), sizeof(entry.words));
  std::memcpy(entry.words, entry.text.data(), compared);
  std::memset(entry.masks, 0xff, compared);
  entry.column = column;
}

const char* PlainJsonReader::ReadName(const char* at, size_t place, int* column) {
  if (place < places_.size() && Matches(places_[place], at)) {
    *column = places_[place].column;
    return at + places_[place].text.size();
  }
  if (*at != '"') return nullptr;
  const char* name = at + 1;
  const char* end = FindJsonTextEnd(name);
  if (*end != '"') return nullptr;
  at = SkipBlanks(end + 1);
  if (*at != ':') return nullptr;
  const std::string_view text(name, static_cast<size_t>(end - name));
  *column = ColumnOf(text);
  Remember(place, text, *column);
  return at + 1;
}

const char* PlainJsonReader::ReadText(const char* at, ColumnBuilder* column) {
  const char* end = FindJsonTextEnd(at + 1);
  if (*end != '"') return nullptr;
  const std::string_view text(at + 1, static_cast<size_t>(end - at - 1));
  switch (column->type()) {
    case Type::kString:
      column->AppendText(text);
      return end + 1;
    case Type::kBytes:
      if (!ParseBase64(text, &bytes_)) return nullptr;
      column->AppendText(bytes_);
      return end + 1;
    case Type::kTimestamp: {
      int64_t timestamp_us = 0;
      if (!ParseTimestamp(text, &timestamp_us)) return nullptr;
      column->AppendInt64(timestamp_us);
      return end + 1;
    }
    default:
      return nullptr;
  }
}

const char* PlainJsonReader::ReadValue(const char* at, int index, BatchBuilder* out) {
  ColumnBuilder& column = out->column(index);
  if (*at == 'n') {
    at = ReadLiteral(at, "null");
    if (at != nullptr) column.AppendNull();
    return at;
  }
  switch (types_[static_cast<size_t>(index)]) {
    case Type::kBool: {
      const bool flag = *at == 't';
      at = ReadLiteral(at, flag ? "true" : "false");
      if (at != nullptr) column.AppendBool(flag);
      return at;
    }
    case Type::kInt32: {
      int64_t number = 0;
      at = ReadInteger(at, &number);
      if (at == nullptr || number != static_cast<int32_t>(number)) return nullptr;
      column.AppendInt32(static_cast<int32_t>(number));
      return at;
    }
    case Type::kInt64: {
      int64_t number = 0;
      at = ReadInteger(at, &number);
      if (at != nullptr) column.AppendInt64(number);
      return at;
    }
    case Type::kFloat64: {
      double number = 0;
      at = ReadDouble(at, &number);
      if (at != nullptr) column.AppendFloat64(number);
      return at;
    }
    case Type::kString:
    case Type::kBytes:
    case Type::kTimestamp:
      return *at == '"' ? ReadText(at, &column) : nullptr;
  }
  return nullptr;
}

const char* PlainJsonReader::Read(const char* at, BatchBuilder* out) {
  if (*at != '{') return nullptr;
  ++line_;
  size_t missing = types_.size();
  for (size_t place = 0;; ++place) {
    int index = kNoColumn;
    at = ReadName(SkipBlanks(at + 1), place, &index);
    if (at == nullptr) return nullptr;
    at = SkipBlanks(at);
    if (index == kNoColumn) {
      at = SkipValue(at);
    } else {
      if (std::exchange(seen_in_[static_cast<size_t>(index)], line_) == line_) return nullptr;
      --missing;
      at = ReadValue(at, index, out);
    }
    if (at == nullptr) return nullptr;
    at = SkipBlanks(at);
    if (*at == '}') break;
    if (*at != ',') return nullptr;
  }
  at = SkipBlanks(at + 1);
  if (*at != '\n') return nullptr;
  for (size_t i = 0; missing > 0; ++i) {
    if (seen_in_[i] == line_) continue;
    out->column(static_cast<int>(i)).AppendNull();
    --missing;
  }
  return at + 1;
}

}  // namespace weir
