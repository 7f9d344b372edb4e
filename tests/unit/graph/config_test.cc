// Goal: JSON of any origin becomes a ConfigValue or an error that says where, never a crash; values
// survive a round trip. Method: documents and expected values written by hand from RFC 8259.
#include "common/graph/config.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace weir {
namespace {

std::string ErrorOf(std::string_view json) {
  StatusOr<ConfigValue> value = ParseJson(json);
  if (value.ok()) return "no error: " + value->ToJson();
  EXPECT_EQ(value.status().domain(), ErrorDomain::kUser);
  return value.status().message();
}

std::string RoundTrip(std::string_view json) {
  StatusOr<ConfigValue> value = ParseJson(json);
  return value.ok() ? value->ToJson() : value.status().message();
}

TEST(ConfigTest, KeepsIntegersExactAndApartFromOtherNumbers) {
  StatusOr<ConfigValue> value = ParseJson("[9223372036854775807, -9223372036854775808, 1.0, 1e2]");
  ASSERT_TRUE(value.ok()) << value.status();
  const ConfigList& list = value->as_list();
  EXPECT_EQ(list[0].as_integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(list[1].as_integer(), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(list[2].is_integer());
  EXPECT_EQ(list[2].as_number(), 1.0);
  EXPECT_EQ(list[3].as_number(), 100.0);
  EXPECT_EQ(value->ToJson(), "[9223372036854775807,-9223372036854775808,1.0,100.0]");
}

TEST(ConfigTest, KeepsTheOrderOfMembers) {
  EXPECT_EQ(RoundTrip(R"( {"z": 1, "a": [true, null, "x"], "m": {"k": 0.1}} )"),
            R"({"z":1,"a":[true,null,"x"],"m":{"k":0.1}})");
}

TEST(ConfigTest, PrintsPretty) {
  StatusOr<ConfigValue> value = ParseJson(R"({"a":[1,{}],"b":[]})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->ToPrettyJson(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

TEST(ConfigTest, ReadsEscapesAndUtf8) {
  StatusOr<ConfigValue> value = ParseJson(R"("\u00e9\ud83d\ude00\n\"\\\/\u0000")");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->as_text(), std::string("\xc3\xa9\xf0\x9f\x98\x80\n\"\\/\0", 11));
  EXPECT_EQ(value->ToJson(), "\"\xc3\xa9\xf0\x9f\x98\x80\\n\\\"\\\\/\\u0000\"");
}

TEST(ConfigTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(ErrorOf("{\n  \"a\": 1,\n  \"a\": 2}"),
            "invalid JSON at line 3, column 3: doubled member \"a\"");
  EXPECT_EQ(ErrorOf("[1,\n 2,,]"), "invalid JSON at line 2, column 4: expected a value");
  EXPECT_EQ(ErrorOf(""), "invalid JSON at line 1, column 1: unexpected end, expected a value");
  EXPECT_EQ(ErrorOf("{} x"),
            "invalid JSON at line 1, column 4: unexpected text after the document");
  EXPECT_EQ(ErrorOf("9223372036854775808"),
            "invalid JSON at line 1, column 1: integer beyond 64 bits");
  EXPECT_EQ(ErrorOf("\"abc"), "invalid JSON at line 1, column 1: text without a closing quote");
}

TEST(ConfigTest, RefusesWhatIsNoJson) {
  for (std::string_view json : {"01",
                                "-",
                                "+1",
                                "1.",
                                ".5",
                                "1e",
                                "NaN",
                                "nul",
                                "tru",
                                "'a'",
                                "{a:1}",
                                "{\"a\"}",
                                "[1 2]",
                                "{\"a\":1,}",
                                "[1,]",
                                "[",
                                "{",
                                "\"\\x\"",
                                "\"\\u12\"",
                                "\"\\ud800\"",
                                "\"\\udc00\"",
                                "\"\\ud800\\u0041\"",
                                "\"\x01\"",
                                "\"\xff\"",
                                "\"\xc0\x80\"",
                                "\"\xed\xa0\x80\"",
                                "\"\xf4\x90\x80\x80\"",
                                "\"\xe2\x82\"",
                                "1e999",
                                "\"\\",
                                "\"\\u"}) {
    EXPECT_FALSE(ParseJson(json).ok()) << json;
  }
}

TEST(ConfigTest, LimitsNesting) {
  const std::string hundred = std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(ParseJson(hundred).ok());
  EXPECT_FALSE(ParseJson("[" + hundred + "]").ok());
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '[')).ok());
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\":";
  EXPECT_FALSE(ParseJson(objects).ok());
}

TEST(ConfigTest, SurvivesMutatedDocuments) {
  const std::string seed_document =
      R"({"name":"j","n":[1,-2.5e3,"t\u00e9\n",null,true],"o":{"k":{"a":[[]]}},"s":"\ud83d\ude00"})";
  std::mt19937 random(1);
  constexpr std::string_view kBytes = "{}[]\",:\\u0123e-+.\x00\xff\x80 tfn";
  for (int i = 0; i < 20'000; ++i) {
    std::string document = seed_document;
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % document.size();
      switch (random() % 3) {
        case 0:
          document[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          document.erase(at, random() % 5);
          break;
        default:
          document.insert(at, 1, kBytes[random() % kBytes.size()]);
      }
      if (document.empty()) document = "x";
    }
    StatusOr<ConfigValue> value = ParseJson(document);
    if (!value.ok()) continue;
    StatusOr<ConfigValue> again = ParseJson(value->ToJson());
    ASSERT_TRUE(again.ok()) << document;
    EXPECT_EQ(*again, *value) << document;
  }
}

TEST(ConfigTest, LookUpsNameFieldValueAndWhatIsValid) {
  const Config config{{"rate", "fast"}, {"rows", 5}, {"keys", ConfigList{"a", 1}}, {"none", {}}};
  EXPECT_EQ(config.Number("rate").status().message(),
            "config field 'rate' is 'fast' (a text): expected a number");
  EXPECT_EQ(config.Text("path").status().message(),
            "config field 'path' is missing: expected a text");
  EXPECT_EQ(config.TextList("keys").status().message(),
            "config field 'keys[1]' is '1' (an integer): expected a text");
  EXPECT_EQ(config.Integer("rows").value(), 5);
  EXPECT_EQ(config.Number("rows").value(), 5.0);
  EXPECT_EQ(config.Integer("none", 7).value(), 7);
  EXPECT_EQ(config.Bool("rows", true).status().message(),
            "config field 'rows' is '5' (an integer): expected true or false");
}

}  // namespace
}  // namespace weir
