// Goal: single values are read and written as the formats promise, and nothing else is accepted.
// Method: literals; times computed with Python's datetime, base64 from RFC 4648, extreme instants
// from java.time.
#include "common/record/text_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

namespace weir {
namespace {

template <typename Value>
std::string Written(char* (*write)(Value, char*), Value value) {
  char out[64];
  return std::string(out, write(value, out));
}

TEST(TextValuesTest, ReadsBools) {
  bool value = false;
  EXPECT_TRUE(ParseBool("true", &value));
  EXPECT_TRUE(value);
  EXPECT_TRUE(ParseBool("false", &value));
  EXPECT_FALSE(value);
  for (const char* text : {"", "True", "1", "0", "yes", "true ", "fals"}) {
    EXPECT_FALSE(ParseBool(text, &value)) << text;
  }
}

TEST(TextValuesTest, ReadsIntegersInRangeOnly) {
  int32_t small = 0;
  int64_t big = 0;
  EXPECT_TRUE(ParseInt32("-2147483648", &small));
  EXPECT_EQ(small, std::numeric_limits<int32_t>::min());
  EXPECT_TRUE(ParseInt32("2147483647", &small));
  EXPECT_EQ(small, std::numeric_limits<int32_t>::max());
  EXPECT_TRUE(ParseInt64("-9223372036854775808", &big));
  EXPECT_EQ(big, std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(ParseInt64("9223372036854775807", &big));
  EXPECT_EQ(big, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(ParseInt64("007", &big));
  EXPECT_EQ(big, 7);
  EXPECT_FALSE(ParseInt32("2147483648", &small));
  EXPECT_FALSE(ParseInt32("-2147483649", &small));
  EXPECT_FALSE(ParseInt64("9223372036854775808", &big));
  for (const char* text :
       {"", "-", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "--1", "NaN"}) {
    EXPECT_FALSE(ParseInt64(text, &big)) << text;
  }
}

TEST(TextValuesTest, ReadsFloats) {
  const std::pair<const char*, double> expected[] = {
      {"0", 0.0},
      {"1", 1.0},
      {"-1.5", -1.5},
      {"1e3", 1000.0},
      {"2.5E-1", 0.25},
      {".5", 0.5},
      {"0.1", 0.1},
      {"1e+05", 1e5},
      {"1.7976931348623157e308", 1.7976931348623157e308},
      {"5e-324", 5e-324},
      {"Infinity", INFINITY},
      {"-Infinity", -INFINITY}};
  for (const auto& [text, value] : expected) {
    double read = 42;
    EXPECT_TRUE(ParseFloat64(text, &read)) << text;
    EXPECT_EQ(read, value) << text;
  }
  double value = 0;
  for (const char* text : {"1e-400", "-2e-324", "0.00000000001e-320", "123e-9999999999999999999"}) {
    value = 42;
    EXPECT_TRUE(ParseFloat64(text, &value)) << text;
    EXPECT_EQ(value, 0.0) << text;
    EXPECT_EQ(std::signbit(value), text[0] == '-') << text;
  }
  EXPECT_TRUE(ParseFloat64("-0", &value));
  EXPECT_TRUE(std::signbit(value));
  EXPECT_TRUE(ParseFloat64("NaN", &value));
  EXPECT_TRUE(std::isnan(value));
  for (const char* text : {"",       "-",        "nan",       "inf",      "-inf",
                           "-NaN",   "infinity", "+1",        "1,5",      "1e999",
                           "-1e999", "1e+999",   "0.001e312", "1000e306", "1e99999999999999999999",
                           "0x1p3",  "1 ",       " 1",        "1e",       "."}) {
    EXPECT_FALSE(ParseFloat64(text, &value)) << text;
  }
}

TEST(TextValuesTest, WritesFloatsThatReadBackTheSame) {
  EXPECT_EQ(Written(WriteFloat64, 0.1), "0.1");
  EXPECT_EQ(Written(WriteFloat64, 0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(Written(WriteFloat64, 100.0), "100");
  EXPECT_EQ(Written(WriteFloat64, -0.0), "-0");
  EXPECT_EQ(Written(WriteFloat64, 5e-324), "5e-324");
  EXPECT_EQ(Written(WriteFloat64, std::nan("")), "NaN");
  EXPECT_EQ(Written(WriteFloat64, double{INFINITY}), "Infinity");
  EXPECT_EQ(Written(WriteFloat64, -double{INFINITY}), "-Infinity");
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    const std::string text = Written(WriteFloat64, value);
    ASSERT_LE(text.size(), kFloat64TextBytesMax);
    double read = 0;
    ASSERT_TRUE(ParseFloat64(text, &read)) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(read), std::bit_cast<uint64_t>(value)) << text;
  }
}

// The library's text is the shortest one, decimals of few digits are written by code of our own.
TEST(TextValuesTest, WritesDecimalsAsTheLibraryDoes) {
  std::mt19937_64 random(2);
  const auto check = [](double value) {
    char wanted[64];
    const char* end = std::to_chars(wanted, wanted + sizeof(wanted), value).ptr;
    ASSERT_EQ(Written(WriteFloat64, value), std::string(wanted, static_cast<size_t>(end - wanted)));
  };
  for (int i = 0; i < 100000; ++i) {
    double power = 1;
    for (uint64_t k = random() % 12; k > 0; --k) power *= 10;
    const double number = static_cast<double>(random() >> (random() % 64));
    const double decimal = (random() % 2 == 0 ? -number : number) / power;
    for (const double value : {decimal, std::nextafter(decimal, 0.0), number * power,
                               static_cast<double>(i) / 1000, static_cast<double>(i) / power}) {
      check(value);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TextValuesTest, WritesIntegers) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const int64_t value = static_cast<int64_t>(random()) >> (random() % 64);
    ASSERT_EQ(Written(WriteInteger, value), std::to_string(value));
  }
  EXPECT_EQ(Written(WriteInteger, int64_t{0}), "0");
  EXPECT_EQ(Written(WriteInteger, std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(Written(WriteInteger, std::numeric_limits<int64_t>::max()), "9223372036854775807");
}

struct Instant {
  const char* text;
  int64_t timestamp_us;
};

constexpr Instant kInstants[] = {
    {"1970-01-01T00:00:00Z", 0},
    {"2013-01-01T10:00:00Z", 1357034400000000},
    {"2000-02-29T23:59:59.999999Z", 951868799999999},
    {"1900-02-28T12:00:00Z", -2203934400000000},
    {"1900-03-01T00:00:00Z", -2203891200000000},
    {"2024-12-31T23:59:59.5Z", 1735689599500000},
    {"0001-01-01T00:00:00Z", -62135596800000000},
    {"9999-12-31T23:59:59.999999Z", 253402300799999999},
    {"1969-12-31T23:59:59.999999Z", -1},
    {"1600-02-29T00:00:00Z", -11670998400000000},
    {"2100-03-01T00:00:00.000001Z", 4107542400000001},
    {"1582-10-15T00:00:00Z", -12219292800000000},
    {"2038-01-19T03:14:08Z", 2147483648000000},
    {"1999-12-31T00:00:00.00012Z", 946598400000120},
    {"0000-01-01T00:00:00Z", -62167219200000000},
    {"+294247-01-10T04:00:54.775807Z", std::numeric_limits<int64_t>::max()},
    {"-290308-12-21T19:59:05.224192Z", std::numeric_limits<int64_t>::min()},
};

TEST(TextValuesTest, ReadsAndWritesTimes) {
  for (const auto& [text, timestamp_us] : kInstants) {
    int64_t read = 42;
    EXPECT_TRUE(ParseTimestamp(text, &read)) << text;
    EXPECT_EQ(read, timestamp_us) << text;
    EXPECT_EQ(Written(WriteTimestamp, timestamp_us), text);
  }
}

TEST(TextValuesTest, TurnsOffsetsIntoUtc) {
  const Instant instants[] = {{"2013-01-01T10:00:00-05:30", 1357054200000000},
                              {"2013-01-01T00:00:00+14:00", 1356948000000000},
                              {"2012-12-31T23:00:00-00:01", 1356994860000000},
                              {"2013-01-01T10:00:00+00:00", 1357034400000000},
                              {"2013-01-01T10:00:00.250000Z", 1357034400250000}};
  for (const auto& [text, timestamp_us] : instants) {
    int64_t read = 42;
    EXPECT_TRUE(ParseTimestamp(text, &read)) << text;
    EXPECT_EQ(read, timestamp_us) << text;
  }
}

TEST(TextValuesTest, RefusesWhatIsNoTime) {
  for (const char* text : {"",
                           "2013",
                           "2013-01-01",
                           "2013-01-01T10:00:00",
                           "2013-01-01 10:00:00Z",
                           "2013-01-01t10:00:00z",
                           "2013-1-1T10:00:00Z",
                           "2013-13-01T10:00:00Z",
                           "2013-00-01T10:00:00Z",
                           "2013-02-29T10:00:00Z",
                           "1900-02-29T10:00:00Z",
                           "2013-04-31T10:00:00Z",
                           "2013-01-00T10:00:00Z",
                           "2013-01-01T24:00:00Z",
                           "2013-01-01T10:60:00Z",
                           "2013-01-01T10:00:60Z",
                           "2013-01-01T10:00Z",
                           "2013-01-01T10:00:00.Z",
                           "2013-01-01T10:00:00.1234567Z",
                           "2013-01-01T10:00:00ZZ",
                           "2013-01-01T10:00:00+5:00",
                           "2013-01-01T10:00:00+0500",
                           "2013-01-01T10:00:00+24:00",
                           "2013-01-01T10:00:00+05:60",
                           "12013-01-01T10:00:00Z",
                           "-0001-01-01T10:00:00Z",
                           "-000000-01-01T10:00:00Z",
                           "+294247-01-10T04:00:54.775808Z",
                           "-290308-12-21T19:59:05.224191Z",
                           "+999999-01-01T00:00:00Z",
                           " 2013-01-01T10:00:00Z"}) {
    int64_t read = 42;
    EXPECT_FALSE(ParseTimestamp(text, &read)) << text;
  }
}

TEST(TextValuesTest, EveryTimeReadsBackTheSame) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const int64_t timestamp_us = static_cast<int64_t>(random()) >> (random() % 64);
    const std::string text = Written(WriteTimestamp, timestamp_us);
    ASSERT_LE(text.size(), kTimestampTextBytesMax);
    int64_t read = 0;
    ASSERT_TRUE(ParseTimestamp(text, &read)) << text;
    ASSERT_EQ(read, timestamp_us) << text;
  }
}

TEST(TextValuesTest, ReadsAndWritesBase64) {
  const std::pair<const char*, const char*> expected[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : expected) {
    std::string read = "before";
    EXPECT_TRUE(ParseBase64(text, &read)) << text;
    EXPECT_EQ(read, bytes);
    char out[64];
    EXPECT_EQ(std::string(out, WriteBase64(bytes, out)), text);
    EXPECT_EQ(Base64TextBytes(read.size()), std::string(text).size());
  }
  std::string read;
  EXPECT_TRUE(ParseBase64("+/+/AP8=", &read));
  EXPECT_EQ(read, std::string("\xfb\xff\xbf\x00\xff", 5));
  for (const char* text : {"Z", "Zg", "Zg=", "Zg=a", "=", "====", "Z===", "Zh==", "Zm9=", "Zm 9v",
                           "Zm9v\n", "-_-_", "Zg==Zg=="}) {
    EXPECT_FALSE(ParseBase64(text, &read)) << text;
  }
}

TEST(TextValuesTest, EveryByteSurvivesBase64) {
  std::mt19937_64 random(3);
  for (size_t size = 0; size < 300; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    std::string text(Base64TextBytes(size), '\0');
    ASSERT_EQ(WriteBase64(bytes, text.data()), text.data() + text.size());
    std::string read;
    ASSERT_TRUE(ParseBase64(text, &read));
    ASSERT_EQ(read, bytes);
  }
}

TEST(TextValuesTest, KnowsUtf8) {
  for (const char* text : {"", "a", "plain and long enough for words", "München",
                           "\xF0\x9F\x8C\x8A", "eight...\xC3\xBC"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
  for (const char* text :
       {"\xff", "\xC3", "12345678\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

TEST(TextValuesTest, QuotesWhatAMessageShows) {
  EXPECT_EQ(QuoteForMessage("abc"), "'abc'");
  EXPECT_EQ(QuoteForMessage("a\tb\n"), "'a\\x09b\\x0a'");
  EXPECT_EQ(QuoteForMessage("ü"), "'ü'");
  EXPECT_EQ(QuoteForMessage("\xff"), "'\\xff'");
  EXPECT_EQ(QuoteForMessage("\xef\xbb\xbf{}ü"), "'\\xef\\xbb\\xbf{}ü'");
  EXPECT_EQ(QuoteForMessage(std::string(100, 'x')), "'" + std::string(64, 'x') + "…'");
  EXPECT_EQ(QuoteForMessage(std::string(63, 'x') + "üü"), "'" + std::string(63, 'x') + "…'");
}

}  // namespace
}  // namespace weir
