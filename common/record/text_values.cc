#include "common/record/text_values.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace weir {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kSecondsPerDay = 86'400;
constexpr int64_t kMicrosPerDay = kSecondsPerDay * kMicrosPerSecond;
constexpr int kFractionDigitsMax = 6;
constexpr int kLongYearDigits = 6;
constexpr int64_t kExponentMax = 1'000'000'000;  // far beyond what the longest mantissa shifts

constexpr std::string_view kNan = "NaN";
constexpr std::string_view kInfinity = "Infinity";
constexpr std::string_view kMinusInfinity = "-Infinity";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

template <typename T>
bool ParseInteger(std::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

// Whether a decimal number beyond the range of a double is too small rather than too large.
// REQUIRES: a number that is not zero.
bool IsBelowRange(std::string_view number) {
  const size_t exponent_mark = std::min(number.find_first_of("eE"), number.size());
  int64_t exponent = 0;
  if (exponent_mark < number.size()) {
    std::string_view digits = number.substr(exponent_mark + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (!ParseInteger(digits, &exponent) || exponent < -kExponentMax || exponent > kExponentMax) {
      return digits.starts_with('-');
    }
  }
  const std::string_view mantissa = number.substr(0, exponent_mark);
  const int64_t point = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const int64_t first = static_cast<int64_t>(mantissa.find_first_of("123456789"));
  const int64_t power = first < point ? point - first - 1 : point - first;
  return power + exponent < 0;
}

// Takes parts of a text from its front.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool Take(char expected) {
    if (rest_.empty() || rest_[0] != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Exactly `digits` decimal digits.
  bool Number(int digits, int* value) {
    if (rest_.size() < static_cast<size_t>(digits)) return false;
    int number = 0;
    for (int i = 0; i < digits; ++i) {
      if (!IsDigit(rest_[static_cast<size_t>(i)])) return false;
      number = number * 10 + (rest_[static_cast<size_t>(i)] - '0');
    }
    rest_.remove_prefix(static_cast<size_t>(digits));
    *value = number;
    return true;
  }
  bool NextIsDigit() const { return !rest_.empty() && IsDigit(rest_[0]); }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool IsLeapYear(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int DaysInMonth(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeapYear(year) ? 29 : kDays[static_cast<size_t>(month - 1)];
}

constexpr int64_t FloorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// The calendar is counted in eras of 400 years that begin on 1 March, so that the leap day is the
// last of its year. Day 0 is 1970-01-01, which is day 719468 of era 0.
constexpr int64_t kDaysPerEra = 146'097;
constexpr int64_t kEpochDay = 719'468;

int64_t DaysFromDate(int64_t year, int month, int day) {
  if (month <= 2) --year;
  const int64_t era = FloorDivide(year, 400);
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * kDaysPerEra + day_of_era - kEpochDay;
}

void DateFromDays(int64_t days, int64_t* year, int* month, int* day) {
  days += kEpochDay;
  const int64_t era = FloorDivide(days, kDaysPerEra);
  const int64_t day_of_era = days - era * kDaysPerEra;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted_month = (5 * day_of_year + 2) / 153;
  *day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  *month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  *year = year_of_era + era * 400 + (*month <= 2 ? 1 : 0);
}

bool ParseDate(Cursor* cursor, int64_t* days) {
  int year = 0;
  int month = 0;
  int day = 0;
  if (cursor->Take('+')) {
    if (!cursor->Number(kLongYearDigits, &year)) return false;
  } else if (cursor->Take('-')) {
    if (!cursor->Number(kLongYearDigits, &year) || year == 0) return false;
    year = -year;
  } else if (!cursor->Number(4, &year)) {
    return false;
  }
  if (!cursor->Take('-') || !cursor->Number(2, &month) || !cursor->Take('-') ||
      !cursor->Number(2, &day)) {
    return false;
  }
  if (month < 1 || month > 12 || day < 1 || day > DaysInMonth(year, month)) return false;
  *days = DaysFromDate(year, month, day);
  return true;
}

bool ParseTimeOfDay(Cursor* cursor, int64_t* time_us) {
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!cursor->Number(2, &hour) || !cursor->Take(':') || !cursor->Number(2, &minute) ||
      !cursor->Take(':') || !cursor->Number(2, &second)) {
    return false;
  }
  if (hour > 23 || minute > 59 || second > 59) return false;
  *time_us = ((hour * 60 + minute) * 60 + second) * kMicrosPerSecond;
  if (!cursor->Take('.')) return true;
  int64_t unit = kMicrosPerSecond;
  int digits = 0;
  int digit = 0;
  for (; cursor->NextIsDigit() && cursor->Number(1, &digit); ++digits) {
    if (digits == kFractionDigitsMax) return false;
    unit /= 10;
    *time_us += digit * unit;
  }
  return digits > 0;
}

bool ParseZone(Cursor* cursor, int64_t* offset_us) {
  *offset_us = 0;
  if (cursor->Take('Z')) return true;
  int64_t sign = 1;
  if (cursor->Take('-')) {
    sign = -1;
  } else if (!cursor->Take('+')) {
    return false;
  }
  int hours = 0;
  int minutes = 0;
  if (!cursor->Number(2, &hours) || !cursor->Take(':') || !cursor->Number(2, &minutes)) {
    return false;
  }
  if (hours > 23 || minutes > 59) return false;
  *offset_us = sign * (hours * 60 + minutes) * 60 * kMicrosPerSecond;
  return true;
}

// `digits` decimal digits of `value`, zeros in front.
char* WriteDigits(int64_t value, int digits, char* out) {
  for (int i = digits - 1; i >= 0; --i) {
    out[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  return out + digits;
}

constexpr uint64_t kHundredMillion = 100'000'000;

// The 8 decimal digits of `value`, the first one in the lowest byte. REQUIRES: less than 10^8.
// All of them are had at once: halves, then pairs, then digits side by side in one word.
uint64_t EightDigits(uint64_t value) {
  const uint64_t front = value / 10'000;
  const uint64_t halves = front | ((value - front * 10'000) << 32);
  const uint64_t hundreds = ((halves * 10'486) >> 20) & 0x0000007f0000007f;
  const uint64_t pairs = hundreds | ((halves - hundreds * 100) << 16);
  const uint64_t tens = ((pairs * 103) >> 10) & 0x000f000f000f000f;
  return tens | ((pairs - tens * 10) << 8);
}

constexpr uint64_t kZeroDigits = 0x3030303030303030;

void StoreDigits(uint64_t digits, char* out) {
  digits |= kZeroDigits;
  std::memcpy(out, &digits, sizeof(digits));
}

// Writes up to 8 bytes, those behind the end are of no use. REQUIRES: less than 10^8.
char* WriteShortNumber(uint64_t value, char* out) {
  const uint64_t digits = EightDigits(value);
  const int zeros = std::min(std::countr_zero(digits) >> 3, 7);  // in front
  StoreDigits(digits >> (8 * zeros), out);
  return out + (8 - zeros);
}

// The decimal digits of `value`: 8 bytes at least are written, and not more than 20 in all.
char* WriteNumber(uint64_t value, char* out) {
  if (value < kHundredMillion) return WriteShortNumber(value, out);
  const uint64_t front = value / kHundredMillion;
  out = WriteNumber(front, out);
  StoreDigits(EightDigits(value - front * kHundredMillion), out);
  return out + 8;
}

// Writes a number that is a decimal of few digits, such as 7, 7.5 or 0.25, as std::to_chars would;
// nullptr: it is none with that many behind the point. A decimal of up to 15 digits that a double
// was rounded from is the shortest text of it: no two of them are rounded to the same one.
template <int kPlaces>
char* WriteShortDecimal(double value, char* out) {
  constexpr uint64_t kScale = [] {
    uint64_t scale = 1;
    for (int i = 0; i < kPlaces; ++i) scale *= 10;
    return scale;
  }();
  constexpr double kMantissaMax = 1e15;
  constexpr double kFixedMin = 0.001;      // below it the form with an exponent may be shorter
  constexpr uint64_t kRoundMin = 100'000;  // as for whole multiples of it
  const double size = std::fabs(value);
  const double scaled = size * static_cast<double>(kScale);
  if (!(scaled < kMantissaMax)) return nullptr;
  const int64_t mantissa = static_cast<int64_t>(scaled + 0.5);
  if (static_cast<double>(mantissa) / static_cast<double>(kScale) != size) return nullptr;
  const uint64_t whole = static_cast<uint64_t>(mantissa) / kScale;
  const uint64_t fraction = static_cast<uint64_t>(mantissa) - whole * kScale;
  if (fraction == 0 ? whole % kRoundMin == 0 && whole != 0 : size < kFixedMin) return nullptr;
  *out = '-';
  out += std::signbit(value) ? 1 : 0;
  out = WriteNumber(whole, out);
  if (fraction == 0) return out;
  *out++ = '.';
  const uint64_t digits = EightDigits(fraction * (kHundredMillion / kScale));
  StoreDigits(digits, out);
  return out + (8 - (std::countl_zero(digits) >> 3));
}

char* Write(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNoBase64Digit = 0xff;

constexpr std::array<uint8_t, 256> kBase64Values = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNoBase64Digit);
  for (size_t i = 0; i < kBase64Digits.size(); ++i) {
    values[static_cast<uint8_t>(kBase64Digits[i])] = static_cast<uint8_t>(i);
  }
  return values;
}();

uint8_t Base64Value(char c) { return kBase64Values[static_cast<uint8_t>(c)]; }

}  // namespace

bool ParseBool(std::string_view text, bool* value) {
  *value = text == "true";
  return *value || text == "false";
}

bool ParseInt32(std::string_view text, int32_t* value) { return ParseInteger(text, value); }
bool ParseInt64(std::string_view text, int64_t* value) { return ParseInteger(text, value); }

bool ParseFloat64(std::string_view text, double* value) {
  if (text.empty()) return false;
  const char first = text[0] == '-' && text.size() > 1 ? text[1] : text[0];
  if (IsDigit(first) || first == '.') {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, *value);
    if (stop != end) return false;
    if (error != std::errc::result_out_of_range) return error == std::errc();
    *value = text[0] == '-' ? -0.0 : 0.0;
    return IsBelowRange(text);
  }
  if (text == kNan) {
    *value = std::numeric_limits<double>::quiet_NaN();
  } else if (text == kInfinity) {
    *value = std::numeric_limits<double>::infinity();
  } else if (text == kMinusInfinity) {
    *value = -std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  return true;
}

bool ParseTimestamp(std::string_view text, int64_t* timestamp_us) {
  Cursor cursor(text);
  int64_t days = 0;
  int64_t time_us = 0;
  int64_t offset_us = 0;
  if (!ParseDate(&cursor, &days) || !cursor.Take('T') || !ParseTimeOfDay(&cursor, &time_us) ||
      !ParseZone(&cursor, &offset_us) || !cursor.empty()) {
    return false;
  }
  // Far from the epoch the start of the day may be out of range although the instant is not.
  const __int128 instant = static_cast<__int128>(days) * kMicrosPerDay + time_us - offset_us;
  *timestamp_us = static_cast<int64_t>(instant);
  return *timestamp_us == instant;
}

bool ParseBase64(std::string_view text, std::string* value) {
  value->clear();
  if (text.size() % 4 != 0) return false;
  if (text.empty()) return true;
  value->reserve(text.size() / 4 * 3);
  size_t padding = 0;
  if (text.back() == '=') padding = text[text.size() - 2] == '=' ? 2 : 1;
  const size_t digits = text.size() - padding;
  uint32_t bits = 0;
  for (size_t i = 0; i < digits; ++i) {
    const uint8_t digit = Base64Value(text[i]);
    if (digit == kNoBase64Digit) return false;
    bits = (bits << 6) | digit;
    if (i % 4 == 3) {
      value->push_back(static_cast<char>(bits >> 16));
      value->push_back(static_cast<char>(bits >> 8));
      value->push_back(static_cast<char>(bits));
      bits = 0;
    }
  }
  // The bits of the last digit that stand for no byte are zero, so that a value has one text.
  if (padding == 1) {
    if ((bits & 0x3) != 0) return false;
    value->push_back(static_cast<char>(bits >> 10));
    value->push_back(static_cast<char>(bits >> 2));
  } else if (padding == 2) {
    if ((bits & 0xf) != 0) return false;
    value->push_back(static_cast<char>(bits >> 4));
  }
  return true;
}

char* WriteInteger(int64_t value, char* out) {
  *out = '-';
  out += value < 0 ? 1 : 0;
  const uint64_t number = static_cast<uint64_t>(value);
  return WriteNumber(value < 0 ? 0 - number : number, out);
}

char* WriteFloat64(double value, char* out) {
  if (char* end = WriteShortDecimal<3>(value, out); end != nullptr) return end;
  if (char* end = WriteShortDecimal<7>(value, out); end != nullptr) return end;
  if (std::isnan(value)) return Write(kNan, out);
  if (std::isinf(value)) return Write(value > 0 ? kInfinity : kMinusInfinity, out);
  return std::to_chars(out, out + kFloat64TextBytesMax, value).ptr;
}

char* WriteTimestamp(int64_t timestamp_us, char* out) {
  const int64_t days = FloorDivide(timestamp_us, kMicrosPerDay);
  // Unsigned, for the start of the first day is out of range.
  const int64_t time_us =
      static_cast<int64_t>(static_cast<uint64_t>(timestamp_us) -
                           static_cast<uint64_t>(days) * static_cast<uint64_t>(kMicrosPerDay));
  int64_t year = 0;
  int month = 0;
  int day = 0;
  DateFromDays(days, &year, &month, &day);
  if (year >= 0 && year <= 9999) {
    out = WriteDigits(year, 4, out);
  } else {
    *out++ = year < 0 ? '-' : '+';
    out = WriteDigits(year < 0 ? -year : year, kLongYearDigits, out);
  }
  *out++ = '-';
  out = WriteDigits(month, 2, out);
  *out++ = '-';
  out = WriteDigits(day, 2, out);
  *out++ = 'T';
  const int64_t second_of_day = time_us / kMicrosPerSecond;
  out = WriteDigits(second_of_day / 3600, 2, out);
  *out++ = ':';
  out = WriteDigits(second_of_day / 60 % 60, 2, out);
  *out++ = ':';
  out = WriteDigits(second_of_day % 60, 2, out);
  if (const int64_t fraction_us = time_us % kMicrosPerSecond; fraction_us != 0) {
    *out++ = '.';
    out = WriteDigits(fraction_us, kFractionDigitsMax, out);
    while (out[-1] == '0') --out;
  }
  *out++ = 'Z';
  return out;
}

char* WriteBase64(std::string_view value, char* out) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(value[i])}; };
  size_t i = 0;
  for (; i + 3 <= value.size(); i += 3) {
    const uint32_t bits = (byte(i) << 16) | (byte(i + 1) << 8) | byte(i + 2);
    *out++ = kBase64Digits[bits >> 18];
    *out++ = kBase64Digits[(bits >> 12) & 0x3f];
    *out++ = kBase64Digits[(bits >> 6) & 0x3f];
    *out++ = kBase64Digits[bits & 0x3f];
  }
  if (i == value.size()) return out;
  const bool two = i + 2 == value.size();
  const uint32_t bits = (byte(i) << 16) | (two ? byte(i + 1) << 8 : 0);
  *out++ = kBase64Digits[bits >> 18];
  *out++ = kBase64Digits[(bits >> 12) & 0x3f];
  *out++ = two ? kBase64Digits[(bits >> 6) & 0x3f] : '=';
  *out++ = '=';
  return out;
}

std::string_view ExpectedText(Type type) {
  switch (type) {
    case Type::kBool:
      return "true or false";
    case Type::kInt32:
      return "an integer from -2147483648 to 2147483647";
    case Type::kInt64:
      return "an integer from -9223372036854775808 to 9223372036854775807";
    case Type::kFloat64:
      return "a number, \"NaN\", \"Infinity\" or \"-Infinity\"";
    case Type::kString:
      return "a text in valid UTF-8";
    case Type::kBytes:
      return "base64";
    case Type::kTimestamp:
      return "a time like 2013-01-01T10:00:00Z";
  }
  return "a value";
}

std::string QuoteForMessage(std::string_view text) {
  constexpr size_t kTextBytesMax = 64;
  std::string_view shown = text;
  if (text.size() > kTextBytesMax) {
    shown = text.substr(0, kTextBytesMax);
    // Do not cut a UTF-8 sequence in two.
    for (int i = 0; i < 3 && !shown.empty() && !IsValidUtf8(shown); ++i) shown.remove_suffix(1);
  }
  const bool keep_high = IsValidUtf8(shown);
  std::string out = "'";
  // Valid, and seen by nobody.
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (keep_high && shown.starts_with(kByteOrderMark)) {
    out += "\\xef\\xbb\\xbf";
    shown.remove_prefix(kByteOrderMark.size());
    text.remove_prefix(kByteOrderMark.size());
  }
  for (const char c : shown) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte != 0x7f && (byte < 0x80 || keep_high)) {
      out += c;
      continue;
    }
    constexpr std::string_view kHexDigits = "0123456789abcdef";
    out += "\\x";
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 0xf];
  }
  if (shown.size() < text.size()) out += "…";
  out += "'";
  return out;
}

bool IsValidUtf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const char* at = text.data();
  size_t left = text.size();
  uint64_t bits = 0;
  for (; left >= sizeof(bits); at += sizeof(bits), left -= sizeof(bits)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    bits |= word;
  }
  for (; left > 0; ++at, --left) bits |= static_cast<uint8_t>(*at);
  return (bits & kHighBits) == 0 || simdjson::validate_utf8(text.data(), text.size());
}

}  // namespace weir
