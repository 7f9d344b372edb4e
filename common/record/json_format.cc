#include "common/record/json_format.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "common/record/plain_rows.h"
#include "common/record/row_writer.h"
#include "common/record/text_scan.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(kTextPadding >= simdjson::SIMDJSON_PADDING);

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr int kDepthMax = 1000;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view TrimEnd(std::string_view text) {
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

// ---- the decoder -------------------------------------------------------------------------------

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether `text` is a number of JSON, of any size.
bool IsJsonNumber(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t first = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > first;
  };
  const auto next_is = [&](char c) { return at < text.size() && text[at] == c; };
  if (next_is('-')) ++at;
  if (next_is('0')) {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (next_is('.')) {
    ++at;
    if (!digits()) return false;
  }
  if (next_is('e') || next_is('E')) {
    ++at;
    if (next_is('+') || next_is('-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

class JsonDecoder : public TextDecoder {
 public:
  explicit JsonDecoder(SchemaPtr schema)
      : schema_(std::move(schema)), plain_(schema_), seen_(static_cast<size_t>(schema_->size())) {}

  StatusOr<std::optional<TextProgress>> Start(std::string_view bytes, bool last) override {
    const std::string_view mark = bytes.substr(0, kByteOrderMark.size());
    if (mark == kByteOrderMark) return std::optional<TextProgress>({mark.size(), 0});
    const bool unclear =
        !last && mark.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(mark);
    return unclear ? std::nullopt : std::optional<TextProgress>({0, 0});
  }

  DecodeResult Decode(std::string_view bytes, bool last, const DecodeLimits& limits,
                      BatchBuilder* out) override {
    DecodeResult result;
    const char* begin = bytes.data();
    const char* end = begin + bytes.size();
    const char* at = begin;
    const char* measure_at = at;
    const int64_t rows_before = out->rows();
    const char* last_line_end =
        static_cast<const char*>(::memrchr(begin, '\n', static_cast<size_t>(end - begin)));
    Utf8Check utf8(bytes);
    while (at < end && result.rows < limits.rows_max) {
      if (at >= measure_at) {
        if (out->byte_size() >= limits.bytes_max) break;
        measure_at = at + kMeasureEveryBytes;
      }
      if (last_line_end != nullptr && at <= last_line_end) {
        const char* next =
            ReadPlainRow(at, plain_, plain_tries_, utf8, rows_before + result.rows, out);
        if (next != nullptr) {
          at = next;
          ++result.done.lines;
          ++result.rows;
          continue;
        }
      }
      const bool more = static_cast<size_t>(end - at) > kTextRowBytesMax;
      const char* look_end = more ? at + kTextRowBytesMax : end;
      const char* line_end =
          static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(look_end - at)));
      if (line_end == nullptr && more) {
        result.error = InvalidArgumentError("a row is longer than " +
                                            std::to_string(kTextRowBytesMax) + " bytes");
        break;
      }
      if (line_end == nullptr && !last) break;
      const char* line_stop = line_end != nullptr ? line_end : end;
      const std::string_view line(at, static_cast<size_t>(line_stop - at));
      const TextProgress before{static_cast<size_t>(at - begin), result.done.lines};
      at = line_stop;
      if (line_end != nullptr) {
        ++at;
        ++result.done.lines;
      }
      if (std::all_of(line.begin(), line.end(), IsBlank)) continue;
      result.bad_row = AppendRow(line, out);
      if (!result.bad_row.ok()) {
        out->Truncate(rows_before + result.rows);
        result.before_bad_row = before;
        break;
      }
      ++result.rows;
    }
    result.done.bytes = static_cast<size_t>(at - begin);
    return result;
  }

 private:
  static constexpr size_t kMeasureEveryBytes = 4096;
  static constexpr int kSkipped = PlainJsonReader::kNoColumn;
  // Fields whose place in the line is remembered.
  static constexpr size_t kPlacesMax = 256;

  static Status NotValid(std::string_view line, std::string_view why) {
    return InvalidArgumentError("the line is not valid JSON: " + std::string(why) + ": " +
                                QuoteForMessage(line));
  }
  Status NotValid(simdjson::error_code error) const {
    std::string_view why = simdjson::error_message(error);
    while (why.ends_with('.')) why.remove_suffix(1);
    return NotValid(line_, why);
  }

  Status AppendRow(std::string_view line, BatchBuilder* out) {
    line_ = line;
    ondemand::document document;
    const simdjson::padded_string_view padded(line.data(), line.size(), line.size() + kTextPadding);
    if (const auto error = parser_.iterate(padded).get(document)) return NotValid(error);
    ondemand::object object;
    if (const auto error = document.get_object().get(object)) {
      if (error == simdjson::INCORRECT_TYPE) {
        return InvalidArgumentError("the line is no JSON object: " + QuoteForMessage(line));
      }
      return NotValid(error);
    }
    std::fill(seen_.begin(), seen_.end(), 0);
    size_t missing = seen_.size();
    size_t place = 0;
    for (auto next : object) {
      ondemand::field field;
      if (const auto error = std::move(next).get(field)) return NotValid(error);
      int index = kSkipped;
      WEIR_RETURN_IF_ERROR(FindColumn(&field, place++, &index));
      if (index != kSkipped && !seen_[static_cast<size_t>(index)]) {
        seen_[static_cast<size_t>(index)] = 1;
        --missing;
        WEIR_RETURN_IF_ERROR(AppendValue(index, &field.value(), &out->column(index)));
      } else {
        WEIR_RETURN_IF_ERROR(Skip(field.value(), 1));
      }
    }
    const char* rest = nullptr;
    if (document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS) {
      return NotValid(line, "text stands behind the object");
    }
    for (size_t i = 0; missing > 0 && i < seen_.size(); ++i) {
      if (seen_[i]) continue;
      out->column(static_cast<int>(i)).AppendNull();
      --missing;
    }
    return {};
  }

  // The column that the field names. Lines of a file mostly have the same fields in the same
  // order: what stood at this place in the line before is tried first.
  Status FindColumn(ondemand::field* field, size_t place, int* index) {
    const char* key = field->key().raw();
    const size_t left = static_cast<size_t>(line_.data() + line_.size() - key);
    if (place < places_.size()) {
      const std::string& known = places_[place].name;
      if (known.size() < left && key[known.size()] == '"' &&
          std::memcmp(key, known.data(), known.size()) == 0) {
        *index = places_[place].column;
        return {};
      }
    }
    size_t size = 0;
    while (key[size] != '"' && key[size] != '\\') ++size;
    if (key[size] == '\\') {
      std::string_view name;
      if (const auto error = field->unescaped_key().get(name)) return NotValid(error);
      *index = plain_.ColumnOf(name);
      return {};
    }
    const std::string_view name(key, size);
    *index = plain_.ColumnOf(name);
    if (place < places_.size()) {
      places_[place] = {std::string(name), *index};
    } else if (place == places_.size() && place < kPlacesMax) {
      places_.push_back({std::string(name), *index});
    }
    return {};
  }

  // Checks a value that no column takes. Fields of objects within are not looked up.
  Status Skip(ondemand::value value, int depth) {
    if (depth > kDepthMax) return NotValid(line_, "it is nested too deep");
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return NotValid(error);
    switch (type) {
      case ondemand::json_type::object: {
        ondemand::object object;
        if (const auto error = value.get_object().get(object)) return NotValid(error);
        for (auto next : object) {
          ondemand::field field;
          if (const auto error = std::move(next).get(field)) return NotValid(error);
          std::string_view name;
          if (const auto error = field.unescaped_key().get(name)) return NotValid(error);
          WEIR_RETURN_IF_ERROR(Skip(field.value(), depth + 1));
        }
        return {};
      }
      case ondemand::json_type::array: {
        ondemand::array array;
        if (const auto error = value.get_array().get(array)) return NotValid(error);
        for (auto next : array) {
          ondemand::value element;
          if (const auto error = std::move(next).get(element)) return NotValid(error);
          WEIR_RETURN_IF_ERROR(Skip(element, depth + 1));
        }
        return {};
      }
      case ondemand::json_type::string: {
        std::string_view text;
        if (const auto error = value.get_string().get(text)) return NotValid(error);
        return {};
      }
      case ondemand::json_type::number:
      case ondemand::json_type::boolean:
      case ondemand::json_type::null: {
        const std::string_view token = TrimEnd(value.raw_json_token());
        if (IsJsonNumber(token) || token == "true" || token == "false" || token == "null") {
          return {};
        }
        return NotValid(line_, "no value is written '" + std::string(token.substr(0, 32)) + "'");
      }
    }
    return {};
  }

  // REQUIRES: nothing of the value was read yet, its text aside.
  Status WrongValue(int index, ondemand::value* value, Type type) {
    const std::string_view token = TrimEnd(value->raw_json_token());
    return InvalidArgumentError(
        "column '" + schema_->field(index).name + "': " + QuoteForMessage(token) + " is no " +
        std::string(ToString(type)) + ": expected " + std::string(ExpectedText(type)));
  }
  Status WrongText(int index, std::string_view text, Type type) {
    return InvalidArgumentError(
        "column '" + schema_->field(index).name + "': " + QuoteForMessage(text) + " is no " +
        std::string(ToString(type)) + ": expected " + std::string(ExpectedText(type)));
  }

  // null, or what is wrong with a value of another kind than the column's.
  Status AppendNullOr(int index, ondemand::value* value, ColumnBuilder* column) {
    if (TrimEnd(value->raw_json_token()) != "null") {
      return WrongValue(index, value, column->type());
    }
    column->AppendNull();
    return {};
  }

  Status AppendValue(int index, ondemand::value* value, ColumnBuilder* column) {
    switch (column->type()) {
      case Type::kBool: {
        bool flag = false;
        if (value->get_bool().get(flag)) return AppendNullOr(index, value, column);
        column->AppendBool(flag);
        return {};
      }
      case Type::kInt32:
      case Type::kInt64: {
        int64_t number = 0;
        if (value->get_int64().get(number)) return AppendNullOr(index, value, column);
        if (column->type() == Type::kInt64) {
          column->AppendInt64(number);
        } else if (number == static_cast<int32_t>(number)) {
          column->AppendInt32(static_cast<int32_t>(number));
        } else {
          return WrongText(index, std::to_string(number), Type::kInt32);
        }
        return {};
      }
      case Type::kFloat64: {
        // The parser takes 20 digits for 19, and what they make is cut to 64 bits.
        constexpr size_t kTokenBytesMax = 18;
        const std::string_view token = TrimEnd(value->raw_json_token());
        double number = 0;
        if (!value->get_double().get(number)) {
          if (token.size() > kTokenBytesMax && !ParseFloat64(token, &number)) {
            return WrongText(index, token, Type::kFloat64);
          }
          column->AppendFloat64(number);
          return {};
        }
        std::string_view text;
        if (const auto error = value->get_string().get(text)) {
          if (error != simdjson::INCORRECT_TYPE) return NotValid(error);
          return AppendNullOr(index, value, column);
        }
        if (text != "NaN" && text != "Infinity" && text != "-Infinity") {
          return WrongText(index, text, Type::kFloat64);
        }
        ParseFloat64(text, &number);
        column->AppendFloat64(number);
        return {};
      }
      case Type::kString:
      case Type::kBytes:
      case Type::kTimestamp: {
        std::string_view text;
        if (const auto error = value->get_string().get(text)) {
          if (error != simdjson::INCORRECT_TYPE) return NotValid(error);
          return AppendNullOr(index, value, column);
        }
        return AppendTextValue(index, text, column);
      }
    }
    return {};
  }

  Status AppendTextValue(int index, std::string_view text, ColumnBuilder* column) {
    if (column->type() == Type::kString) {
      column->AppendText(text);
    } else if (column->type() == Type::kBytes) {
      if (!ParseBase64(text, &bytes_)) return WrongText(index, text, Type::kBytes);
      column->AppendText(bytes_);
    } else {
      int64_t timestamp_us = 0;
      if (!ParseTimestamp(text, &timestamp_us)) return WrongText(index, text, Type::kTimestamp);
      column->AppendInt64(timestamp_us);
    }
    return {};
  }

  struct Place {
    std::string name;  // as written between the quotes, without escapes
    int column;
  };

  const SchemaPtr schema_;
  PlainJsonReader plain_;  // tried first
  PlainTries plain_tries_;
  ondemand::parser parser_;
  std::vector<Place> places_;
  std::vector<uint8_t> seen_;  // per column, in the line at hand
  std::string_view line_;
  std::string bytes_;
};

// ---- the encoder -------------------------------------------------------------------------------

// How a byte of a text is written: 0 as it is, 'u' as \u00xx, else a backslash and this letter.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> escapes{};
  for (size_t i = 0; i < 0x20; ++i) escapes[i] = 'u';
  escapes['\b'] = 'b';
  escapes['\f'] = 'f';
  escapes['\n'] = 'n';
  escapes['\r'] = 'r';
  escapes['\t'] = 't';
  escapes['"'] = '"';
  escapes['\\'] = '\\';
  return escapes;
}();

// Whether one of the 8 bytes must be escaped.
bool AnyEscape(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const auto any_zero = [](uint64_t bytes) { return (bytes - kOnes) & ~bytes & kHighBits; };
  const uint64_t any_below_space = (word - kOnes * 0x20) & ~word & kHighBits;
  return (any_below_space | any_zero(word ^ (kOnes * '"')) | any_zero(word ^ (kOnes * '\\'))) != 0;
}

// Bytes that a text may become, its quotes included; the last is read and written by eights.
constexpr size_t JsonTextBytesMax(size_t bytes) { return 6 * bytes + 2 + sizeof(uint64_t); }

char* WriteJsonText(std::string_view text, char* out) {
  *out++ = '"';
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    if (static_cast<size_t>(end - at) >= sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, at, sizeof(word));
      if (!AnyEscape(word)) {
        std::memcpy(out, &word, sizeof(word));
        at += sizeof(word);
        out += sizeof(word);
        continue;
      }
    }
    const char* stop = std::min(end, at + sizeof(uint64_t));
    for (; at < stop; ++at) {
      const char escape = kEscapes[static_cast<uint8_t>(*at)];
      if (escape == 0) {
        *out++ = *at;
        continue;
      }
      *out++ = '\\';
      *out++ = escape;
      if (escape != 'u') continue;
      constexpr std::string_view kHexDigits = "0123456789abcdef";
      *out++ = '0';
      *out++ = '0';
      *out++ = kHexDigits[static_cast<uint8_t>(*at) >> 4];
      *out++ = kHexDigits[static_cast<uint8_t>(*at) & 0xf];
    }
  }
  *out++ = '"';
  return out;
}

char* Write(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* WriteJsonValue(const Column& column, int64_t row, char* out) {
  if (column.IsNull(row)) return Write("null", out);
  switch (column.type()) {
    case Type::kBool:
      return Write(column.Bool(row) ? "true" : "false", out);
    case Type::kInt32:
      return WriteInteger(column.Int32(row), out);
    case Type::kInt64:
      return WriteInteger(column.Int64(row), out);
    case Type::kFloat64: {
      const double value = column.Float64(row);
      if (value - value == 0) return WriteFloat64(value, out);  // finite
      *out++ = '"';
      out = WriteFloat64(value, out);
      break;
    }
    case Type::kString:
      return WriteJsonText(column.Text(row), out);
    case Type::kBytes:
      *out++ = '"';
      out = WriteBase64(column.Text(row), out);
      break;
    case Type::kTimestamp:
      *out++ = '"';
      out = WriteTimestamp(column.Int64(row), out);
      break;
  }
  *out++ = '"';
  return out;
}

}  // namespace

std::unique_ptr<TextDecoder> MakeJsonDecoder(SchemaPtr schema) {
  return std::make_unique<JsonDecoder>(std::move(schema));
}

void AppendJsonRows(const RecordBatch& batch, std::string* out, std::vector<size_t>* row_ends) {
  // Of each value of fixed width or null, its quotes included.
  constexpr size_t kValueBytesMax = kTimestampTextBytesMax + 2;
  constexpr size_t kPrefixBlock = 16;
  static_assert(kFloat64TextBytesMax <= kTimestampTextBytesMax);
  static_assert(kIntegerTextBytesMax <= kTimestampTextBytesMax);
  const size_t columns = static_cast<size_t>(batch.columns());
  std::vector<std::string> prefixes;  // what stands in front of each value, and a block of zeros
  std::vector<int> texts;
  const size_t rows = static_cast<size_t>(batch.rows());
  size_t fixed_bytes = 3;  // braces and line end
  size_t bytes_hint = static_cast<size_t>(batch.ByteSize());
  for (size_t i = 0; i < columns; ++i) {
    const std::string& name = batch.schema()->field(static_cast<int>(i)).name;
    std::string prefix(1 + JsonTextBytesMax(name.size()) + 1, '\0');
    char* at = prefix.data();
    *at++ = i == 0 ? '{' : ',';
    at = WriteJsonText(name, at);
    *at++ = ':';
    prefix.resize(static_cast<size_t>(at - prefix.data()));
    fixed_bytes += prefix.size() + kPrefixBlock + kValueBytesMax + JsonTextBytesMax(0);
    bytes_hint += rows * prefix.size();
    prefix.append(kPrefixBlock, '\0');
    prefixes.push_back(std::move(prefix));
    const Type type = batch.column(static_cast<int>(i)).type();
    if (IsVariableWidth(type)) texts.push_back(static_cast<int>(i));
  }
  RowWriter writer(out, bytes_hint + fixed_bytes);
  for (int64_t row = 0; row < batch.rows(); ++row) {
    size_t bytes = fixed_bytes;
    for (const int i : texts) bytes += JsonTextBytesMax(batch.column(i).Text(row).size());
    char* at = writer.Reserve(bytes);
    if (columns == 0) *at++ = '{';
    for (size_t i = 0; i < columns; ++i) {
      const std::string& prefix = prefixes[i];
      const size_t prefix_bytes = prefix.size() - kPrefixBlock;
      // A block of fixed size takes no call; its rest is written over.
      std::memcpy(at, prefix.data(), kPrefixBlock);
      if (prefix_bytes > kPrefixBlock) std::memcpy(at, prefix.data(), prefix_bytes);
      at = WriteJsonValue(batch.column(static_cast<int>(i)), row, at + prefix_bytes);
    }
    *at++ = '}';
    *at++ = '\n';
    writer.Commit(at);
    if (row_ends != nullptr) row_ends->push_back(writer.used());
  }
  writer.Close();
}

}  // namespace weir
