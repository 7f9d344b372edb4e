#include "common/graph/config.h"

#include <charconv>
#include <cmath>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

void AppendQuoted(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          *out += "\\u00";
          *out += kHex[(c >> 4) & 15];
          *out += kHex[c & 15];
        } else {
          *out += c;
        }
    }
  }
  *out += '"';
}

// Reads back as a number that is no integer; NaN and infinities as texts (surface.md, "Formats").
void AppendDouble(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "\"NaN\"";
  } else if (std::isinf(value)) {
    *out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    std::string text = Concat(value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    *out += text;
  }
}

// `indent` < 0: all on one line.
void AppendJson(const ConfigValue& value, int indent, std::string* out) {
  auto new_line = [&](int depth) {
    if (indent < 0) return;
    *out += '\n';
    out->append(static_cast<size_t>(depth) * 2, ' ');
  };
  const int inner = indent < 0 ? -1 : indent + 1;
  if (value.is_null()) {
    *out += "null";
  } else if (value.is_bool()) {
    *out += value.as_bool() ? "true" : "false";
  } else if (value.is_integer()) {
    *out += Concat(value.as_integer());
  } else if (value.is_number()) {
    AppendDouble(value.as_number(), out);
  } else if (value.is_text()) {
    AppendQuoted(value.as_text(), out);
  } else if (value.is_list()) {
    *out += '[';
    bool first = true;
    for (const ConfigValue& item : value.as_list()) {
      if (!first) *out += ',';
      first = false;
      new_line(inner);
      AppendJson(item, inner, out);
    }
    if (!first) new_line(indent);
    *out += ']';
  } else {
    *out += '{';
    bool first = true;
    for (const auto& [name, member] : value.as_object()) {
      if (!first) *out += ',';
      first = false;
      new_line(inner);
      AppendQuoted(name, out);
      *out += indent < 0 ? ":" : ": ";
      AppendJson(member, inner, out);
    }
    if (!first) new_line(indent);
    *out += '}';
  }
}

// Length of the valid UTF-8 sequence at the front of `text`, 0 if there is none.
size_t Utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

void AppendUtf8(uint32_t point, std::string* out) {
  if (point < 0x80) {
    *out += static_cast<char>(point);
  } else if (point < 0x800) {
    *out += static_cast<char>(0xc0 | (point >> 6));
    *out += static_cast<char>(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    *out += static_cast<char>(0xe0 | (point >> 12));
    *out += static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    *out += static_cast<char>(0x80 | (point & 0x3f));
  } else {
    *out += static_cast<char>(0xf0 | (point >> 18));
    *out += static_cast<char>(0x80 | ((point >> 12) & 0x3f));
    *out += static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    *out += static_cast<char>(0x80 | (point & 0x3f));
  }
}

// Recursive descent over RFC 8259, as deep as kNestingMax. Thread: confined to the call.
class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  StatusOr<ConfigValue> Parse() {
    WEIR_ASSIGN_OR_RETURN(ConfigValue value, ParseValue(0));
    SkipSpace();
    if (position_ != text_.size()) return Error(position_, "unexpected text after the document");
    return value;
  }

 private:
  static constexpr int kNestingMax = 100;

  Status Error(size_t at, std::string_view what) const {
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < at; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_start = i + 1;
    }
    return InvalidArgumentError(
        Concat("invalid JSON at line ", line, ", column ", at - line_start + 1, ": ", what));
  }

  void SkipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' ||
                                        text_[position_] == '\r' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  bool Take(char c) {
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  StatusOr<ConfigValue> ParseValue(int depth) {
    SkipSpace();
    if (position_ >= text_.size()) return Error(position_, "unexpected end, expected a value");
    switch (text_[position_]) {
      case '{':
        return ParseObject(depth);
      case '[':
        return ParseList(depth);
      case '"': {
        WEIR_ASSIGN_OR_RETURN(std::string text, ParseText());
        return ConfigValue(std::move(text));
      }
      case 't':
        return ParseWord("true", true);
      case 'f':
        return ParseWord("false", false);
      case 'n':
        return ParseWord("null", ConfigValue());
      default:
        return ParseNumber();
    }
  }

  StatusOr<ConfigValue> ParseWord(std::string_view word, ConfigValue value) {
    if (text_.substr(position_, word.size()) != word) return Error(position_, "expected a value");
    position_ += word.size();
    return value;
  }

  StatusOr<ConfigValue> ParseObject(int depth) {
    if (depth >= kNestingMax) return Error(position_, "nested too deeply, at most 100 levels");
    ++position_;
    ConfigMembers members;
    // Sorted names: doubled ones are found in O(log n) whatever the document holds.
    std::map<std::string, bool, std::less<>> names;
    SkipSpace();
    if (Take('}')) return ConfigValue(std::move(members));
    while (true) {
      SkipSpace();
      const size_t name_position = position_;
      if (position_ >= text_.size() || text_[position_] != '"') {
        return Error(position_, "expected a member name in double quotes");
      }
      WEIR_ASSIGN_OR_RETURN(std::string name, ParseText());
      if (!names.emplace(name, true).second) {
        return Error(name_position, Concat("doubled member \"", name, "\""));
      }
      SkipSpace();
      if (!Take(':')) return Error(position_, "expected ':'");
      WEIR_ASSIGN_OR_RETURN(ConfigValue value, ParseValue(depth + 1));
      members.emplace_back(std::move(name), std::move(value));
      SkipSpace();
      if (Take('}')) return ConfigValue(std::move(members));
      if (!Take(',')) return Error(position_, "expected ',' or '}'");
    }
  }

  StatusOr<ConfigValue> ParseList(int depth) {
    if (depth >= kNestingMax) return Error(position_, "nested too deeply, at most 100 levels");
    ++position_;
    ConfigList items;
    SkipSpace();
    if (Take(']')) return ConfigValue(std::move(items));
    while (true) {
      WEIR_ASSIGN_OR_RETURN(ConfigValue value, ParseValue(depth + 1));
      items.push_back(std::move(value));
      SkipSpace();
      if (Take(']')) return ConfigValue(std::move(items));
      if (!Take(',')) return Error(position_, "expected ',' or ']'");
    }
  }

  // Four hexadecimal digits at position_.
  bool ParseHex4(uint32_t* value) {
    if (text_.size() - position_ < 4) return false;
    const char* begin = text_.data() + position_;
    auto [end, error] = std::from_chars(begin, begin + 4, *value, 16);
    if (error != std::errc() || end != begin + 4) return false;
    position_ += 4;
    return true;
  }

  Status ParseEscape(size_t start, std::string* out) {
    if (position_ >= text_.size()) return Error(start, "text without a closing quote");
    const size_t at = position_ - 1;
    const char c = text_[position_++];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        *out += c;
        return {};
      case 'b':
        *out += '\b';
        return {};
      case 'f':
        *out += '\f';
        return {};
      case 'n':
        *out += '\n';
        return {};
      case 'r':
        *out += '\r';
        return {};
      case 't':
        *out += '\t';
        return {};
      case 'u':
        break;
      default:
        return Error(at, "unknown escape in a text");
    }
    uint32_t point = 0;
    if (!ParseHex4(&point)) return Error(at, "\\u needs four hexadecimal digits");
    if (point >= 0xd800 && point <= 0xdbff) {
      uint32_t low = 0;
      if (text_.substr(position_, 2) != "\\u") return Error(at, "half of a surrogate pair");
      position_ += 2;
      if (!ParseHex4(&low) || low < 0xdc00 || low > 0xdfff) {
        return Error(at, "half of a surrogate pair");
      }
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point <= 0xdfff) {
      return Error(at, "half of a surrogate pair");
    }
    AppendUtf8(point, out);
    return {};
  }

  StatusOr<std::string> ParseText() {
    const size_t start = position_++;
    std::string out;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '"') {
        ++position_;
        return out;
      }
      if (c == '\\') {
        ++position_;
        WEIR_RETURN_IF_ERROR(ParseEscape(start, &out));
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Error(position_, "control character in a text, write it as \\u00XX");
      }
      const size_t length = Utf8Length(text_.substr(position_));
      if (length == 0) return Error(position_, "invalid UTF-8");
      out.append(text_, position_, length);
      position_ += length;
    }
    return Error(start, "text without a closing quote");
  }

  size_t CountDigits() {
    const size_t start = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      ++position_;
    }
    return position_ - start;
  }

  StatusOr<ConfigValue> ParseNumber() {
    const size_t start = position_;
    bool integer = true;
    Take('-');
    const bool zero = position_ < text_.size() && text_[position_] == '0';
    const size_t digits = CountDigits();
    if (digits == 0) return Error(start, "expected a value");
    if (zero && digits > 1) return Error(start, "a number begins with no extra 0");
    if (Take('.')) {
      integer = false;
      if (CountDigits() == 0) return Error(position_, "expected a digit after '.'");
    }
    if (Take('e') || Take('E')) {
      integer = false;
      if (!Take('+')) Take('-');
      if (CountDigits() == 0) return Error(position_, "expected a digit in the exponent");
    }
    const char* begin = text_.data() + start;
    const char* end = text_.data() + position_;
    if (integer) {
      int64_t value = 0;
      if (std::from_chars(begin, end, value).ec != std::errc()) {
        return Error(start, "integer beyond 64 bits");
      }
      return ConfigValue(value);
    }
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      return Error(start, "number beyond the range of a double");
    }
    return ConfigValue(value);
  }

  std::string_view text_;
  size_t position_ = 0;
};

Status WrongKind(std::string_view name, const ConfigValue& value, std::string_view expected) {
  return InvalidArgumentError(Concat("config field '", name, "' is '", value.Shown(), "' (",
                                     value.KindName(), "): expected ", expected));
}

Status Missing(std::string_view name, std::string_view expected) {
  return InvalidArgumentError(Concat("config field '", name, "' is missing: expected ", expected));
}

// The field if it is there and holds something; null counts as absent.
const ConfigValue* Given(const ConfigValue& object, std::string_view name) {
  const ConfigValue* value = object.Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

const ConfigValue* ConfigValue::Find(std::string_view name) const {
  if (!is_object()) return nullptr;
  for (const auto& [member_name, value] : as_object()) {
    if (member_name == name) return &value;
  }
  return nullptr;
}

void ConfigValue::Set(std::string_view name, ConfigValue value) {
  if (is_null()) value_ = ConfigMembers{};
  WEIR_CHECK(is_object());
  for (auto& [member_name, member] : as_object()) {
    if (member_name == name) {
      member = std::move(value);
      return;
    }
  }
  as_object().emplace_back(std::string(name), std::move(value));
}

std::string ConfigValue::ToJson() const {
  std::string out;
  AppendJson(*this, -1, &out);
  return out;
}

std::string ConfigValue::ToPrettyJson() const {
  std::string out;
  AppendJson(*this, 0, &out);
  return out;
}

std::string_view ConfigValue::KindName() const {
  if (is_null()) return "null";
  if (is_bool()) return "a bool";
  if (is_integer()) return "an integer";
  if (is_number()) return "a number";
  if (is_text()) return "a text";
  if (is_list()) return "a list";
  return "an object";
}

std::string ConfigValue::Shown() const {
  std::string text = is_text() ? as_text() : ToJson();
  if (text.size() <= 80) return text;
  size_t cut = 77;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  text.resize(cut);
  return text + "...";
}

StatusOr<ConfigValue> ParseJson(std::string_view text) { return JsonParser(text).Parse(); }

Config::Config(ConfigValue object) : value_(std::move(object)) { WEIR_CHECK(value_.is_object()); }

Config::Config(std::initializer_list<std::pair<std::string, ConfigValue>> members)
    : value_(ConfigMembers{}) {
  for (const auto& [name, value] : members) value_.Set(name, value);
}

StatusOr<std::string> Config::Text(std::string_view name) const {
  const ConfigValue* value = Given(value_, name);
  if (value == nullptr) return Missing(name, "a text");
  if (!value->is_text()) return WrongKind(name, *value, "a text");
  return value->as_text();
}

StatusOr<int64_t> Config::Integer(std::string_view name) const {
  const ConfigValue* value = Given(value_, name);
  if (value == nullptr) return Missing(name, "an integer");
  if (!value->is_integer()) return WrongKind(name, *value, "an integer");
  return value->as_integer();
}

StatusOr<double> Config::Number(std::string_view name) const {
  const ConfigValue* value = Given(value_, name);
  if (value == nullptr) return Missing(name, "a number");
  if (!value->is_number()) return WrongKind(name, *value, "a number");
  return value->as_number();
}

StatusOr<bool> Config::Bool(std::string_view name) const {
  const ConfigValue* value = Given(value_, name);
  if (value == nullptr) return Missing(name, "true or false");
  if (!value->is_bool()) return WrongKind(name, *value, "true or false");
  return value->as_bool();
}

StatusOr<std::vector<std::string>> Config::TextList(std::string_view name) const {
  const ConfigValue* value = Given(value_, name);
  if (value == nullptr) return Missing(name, "a list of texts");
  if (!value->is_list()) return WrongKind(name, *value, "a list of texts");
  std::vector<std::string> texts;
  for (const ConfigValue& item : value->as_list()) {
    if (!item.is_text()) {
      return WrongKind(Concat(name, "[", texts.size(), "]"), item, "a text");
    }
    texts.push_back(item.as_text());
  }
  return texts;
}

StatusOr<std::string> Config::Text(std::string_view name, std::string absent) const {
  if (Given(value_, name) == nullptr) return absent;
  return Text(name);
}

StatusOr<int64_t> Config::Integer(std::string_view name, int64_t absent) const {
  if (Given(value_, name) == nullptr) return absent;
  return Integer(name);
}

StatusOr<double> Config::Number(std::string_view name, double absent) const {
  if (Given(value_, name) == nullptr) return absent;
  return Number(name);
}

StatusOr<bool> Config::Bool(std::string_view name, bool absent) const {
  if (Given(value_, name) == nullptr) return absent;
  return Bool(name);
}

}  // namespace weir
