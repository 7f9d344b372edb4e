// Goal: JSON lines are read and written as promised, a line is refused exactly when it is not
// valid JSON or does not fit, and a bad one leaves nothing behind.
// Method: literals in chunks of several sizes; round trips; mutated lines judged by simdjson's DOM
// parser, which our decoder does not use.
#include "common/record/json_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <bit>
#include <cstdlib>

#include "tests/unit/record/text_reader.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchemaPtr SchemaOf(std::vector<Field> fields) {
  return std::make_shared<Schema>(std::move(fields));
}

ReadText Read(const SchemaPtr& schema, const std::string& text) {
  const auto read = [&](size_t chunk, int64_t rows_max) {
    const auto decoder = MakeJsonDecoder(schema);
    return ReadAll(decoder.get(), schema, text, chunk, rows_max);
  };
  const ReadText whole = read(text.size() + 1, 1000);
  for (const size_t chunk : {1, 5, 64}) {
    const ReadText cut = read(chunk, static_cast<int64_t>(chunk));
    EXPECT_EQ(cut.rows, whole.rows) << chunk;
    EXPECT_EQ(cut.bad_rows, whole.bad_rows) << chunk;
  }
  return whole;
}

const SchemaPtr kPair = SchemaOf({{"a", Type::kInt64}, {"b", Type::kString}});

TEST(JsonDecoderTest, ReadsFieldsInAnyOrderAndSkipsOthers) {
  EXPECT_THAT(Read(kPair,
                   "{\"a\":1,\"b\":\"x\"}\n"
                   "{\"b\":\"y\",\"other\":{\"a\":[1,{\"b\":2}]},\"a\":2}\r\n"
                   "{ \"z\" : null , \"a\" : 3 , \"b\" : \"\" }\n"
                   "\n"
                   "  \t\r\n"
                   "{\"a\":null}\n"
                   "{}\n"
                   "{\"a\":4,\"b\":\"last\"}")
                  .rows,
              ElementsAre("1|[x]", "2|[y]", "3|[]", "null|null", "null|null", "4|[last]"));
}

TEST(JsonDecoderTest, ReadsAllTypes) {
  const ReadText read =
      Read(SampleSchema(),
           "{\"flag\":false,\"small\":-2147483648,\"big\":9223372036854775807,\"ratio\":0.5,"
           "\"text\":\"a\\u00fc\\n\\\"\\ud83c\\udf0a\",\"bytes\":\"AP8=\","
           "\"time\":\"2013-01-01T10:00:00Z\"}\n"
           "{\"ratio\":2}\n{\"ratio\":\"Infinity\"}\n{\"ratio\":\"-Infinity\"}\n"
           "{\"ratio\":\"NaN\"}\n");
  ASSERT_THAT(read.bad_rows, IsEmpty());
  ASSERT_EQ(read.rows.size(), 5u);
  EXPECT_EQ(read.rows[0],
            "false|-2147483648|9223372036854775807|bits 4602678819172646912|[aü\n\"🌊]|[" +
                std::string("\0\xff", 2) + "]|1357034400000000");
  EXPECT_THAT(read.rows[1], HasSubstr("bits 4611686018427387904|"));
  EXPECT_THAT(read.rows[2], HasSubstr("bits 9218868437227405312|"));
  EXPECT_THAT(read.rows[3], HasSubstr("bits 18442240474082181120|"));
  EXPECT_THAT(read.rows[4], HasSubstr("bits 9221120237041090560|"));
}

TEST(JsonDecoderTest, FindsNamesThatAreEscaped) {
  const SchemaPtr schema = SchemaOf({{"a\"b\\", Type::kInt32}, {"ü", Type::kInt32}});
  EXPECT_THAT(Read(schema,
                   "{\"a\\\"b\\\\\":1,\"\\u00fc\":2}\n"
                   "{\"\\u00fc\":3,\"a\\\"b\\\\\":4}\n"
                   "{\"ü\":5,\"a\":6}\n")
                  .rows,
              ElementsAre("1|2", "4|3", "null|5"));
}

TEST(JsonDecoderTest, TheFirstOfADoubledFieldCounts) {
  EXPECT_THAT(Read(kPair, "{\"a\":1,\"a\":\"x\",\"b\":null,\"b\":\"y\"}\n").rows,
              ElementsAre("1|null"));
}

TEST(JsonDecoderTest, OverlooksAByteOrderMark) {
  EXPECT_THAT(Read(kPair, "\xEF\xBB\xBF{\"a\":1}\n").rows, ElementsAre("1|null"));
}

TEST(JsonDecoderTest, SaysWhatIsWrongWithARowAndGoesOnBehindIt) {
  const SchemaPtr schema = SchemaOf({{"id", Type::kInt64},
                                     {"n", Type::kInt32},
                                     {"f", Type::kFloat64},
                                     {"s", Type::kString},
                                     {"y", Type::kBool},
                                     {"t", Type::kTimestamp},
                                     {"b", Type::kBytes}});
  const ReadText read = Read(schema,
                             "{\"id\":1}\n"
                             "{\"id\":2,\"n\":2147483648}\n"
                             "{\"id\":3,\"n\":1.5}\n"
                             "{\"id\":9223372036854775808}\n"
                             "{\"id\":4,\"n\":\"7\"}\n"
                             "{\"id\":5,\"f\":\"1.5\"}\n"
                             "{\"id\":6,\"s\":7}\n"
                             "{\"id\":7,\"y\":1}\n"
                             "{\"id\":8,\"t\":\"now\"}\n"
                             "{\"id\":9,\"b\":\"!\"}\n"
                             "{\"id\":10,\"s\":{\"x\":1}}\n"
                             "{\"id\":11,\"n\":[1]}\n"
                             "[1,2]\n"
                             "7\n"
                             "{\"id\":12}\n");
  EXPECT_THAT(read.rows,
              ElementsAre("1|null|null|null|null|null|null", "12|null|null|null|null|null|null"));
  EXPECT_THAT(
      read.bad_rows,
      ElementsAre("2: column 'n': '2147483648' is no INT32: expected an integer from -2147483648 "
                  "to 2147483647",
                  "3: column 'n': '1.5' is no INT32: expected an integer from -2147483648 to "
                  "2147483647",
                  "4: column 'id': '9223372036854775808' is no INT64: expected an integer from "
                  "-9223372036854775808 to 9223372036854775807",
                  "5: column 'n': '\"7\"' is no INT32: expected an integer from -2147483648 to "
                  "2147483647",
                  "6: column 'f': '1.5' is no FLOAT64: expected a number, \"NaN\", \"Infinity\" or "
                  "\"-Infinity\"",
                  "7: column 's': '7' is no STRING: expected a text in valid UTF-8",
                  "8: column 'y': '1' is no BOOL: expected true or false",
                  "9: column 't': 'now' is no TIMESTAMP: expected a time like "
                  "2013-01-01T10:00:00Z",
                  "10: column 'b': '!' is no BYTES: expected base64",
                  "11: column 's': '{' is no STRING: expected a text in valid UTF-8",
                  "12: column 'n': '[' is no INT32: expected an integer from -2147483648 to "
                  "2147483647",
                  "13: the line is no JSON object: '[1,2]'",
                  "14: the line is no JSON object: '7'"));
}

TEST(JsonDecoderTest, RefusesWhatIsNotValidAlsoInFieldsThatItSkips) {
  for (const char* line : {"{",
                           "}",
                           "{\"a\":1",
                           "{\"a\":1}}",
                           "{\"a\":1} x",
                           "{\"a\":1}{\"a\":2}",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "{\"a\":}",
                           "{a:1}",
                           "{'a':1}",
                           "{,}",
                           "{\"a\":1 \"b\":\"x\"}",
                           "{\"z\":tru}",
                           "{\"z\":truee}",
                           "{\"z\":nul}",
                           "{\"z\":01}",
                           "{\"z\":1.}",
                           "{\"z\":.5}",
                           "{\"z\":-}",
                           "{\"z\":+1}",
                           "{\"z\":1e}",
                           "{\"z\":NaN}",
                           "{\"z\":[1,]}",
                           "{\"z\":[1 2]}",
                           "{\"z\":[}",
                           "{\"z\":[1}",
                           "{\"z\":{\"y\":1]}",
                           "{\"z\":{\"y\"}}",
                           "{\"z\":\"\\x\"}",
                           "{\"z\":\"\\u12\"}",
                           "{\"z\":\"\\ud800\"}",
                           "{\"z\\x\":1}",
                           "{\"z\":{\"\\q\":1}}",
                           "{\"z\":\"a\tb\"}",
                           "{\"z\":\"\xff\"}",
                           "{\"z\":\"open}",
                           "{\"z\":1,\"y\"}",
                           "{\"z\":1,2}",
                           "{\"a\":1x}",
                           "{\"a\":nulll}",
                           "{\"b\":\"x\"y}",
                           "nonsense",
                           "{\"z\":\"x\" : 1}",
                           "{\"z\"::1}",
                           "{\"a\":01}",
                           "{\"z\":1 2}",
                           "{\"z\":[[]}",
                           "{\"z\":{}",
                           "{\"z\": \"x\" \"y\"}"}) {
    const ReadText read = Read(kPair, std::string(line) + "\n{\"a\":1}\n");
    EXPECT_THAT(read.rows, ElementsAre("1|null")) << line;
    EXPECT_EQ(read.bad_rows.size(), 1u) << line;
  }
}

TEST(JsonDecoderTest, AcceptsValidValuesOfAnySizeInFieldsThatItSkips) {
  for (const char* value :
       {"123456789012345678901234567890", "-0", "1e999", "0.00000000000000000000000000001E-400",
        "\"\\u00fc\\/\\b\\f\\n\\r\\t\\\\\\\"\"", "[]", "{}", "[[[]],{\"\":{}}]", "true", "false",
        "null", "\"\"", "[1, 2 ,3]", "{ \"x\" : [ ] }"}) {
    const ReadText read = Read(kPair, std::string("{\"z\": ") + value + " ,\"a\":1}\n");
    EXPECT_THAT(read.rows, ElementsAre("1|null")) << value;
    EXPECT_THAT(read.bad_rows, IsEmpty()) << value;
  }
}

TEST(JsonDecoderTest, RefusesDeepNesting) {
  const auto nested = [](size_t depth) {
    return "{\"z\":" + std::string(depth, '[') + std::string(depth, ']') + ",\"a\":1}\n";
  };
  EXPECT_THAT(Read(kPair, nested(1000)).rows, ElementsAre("1|null"));
  const ReadText read = Read(kPair, nested(1001));
  EXPECT_THAT(read.rows, IsEmpty());
  ASSERT_EQ(read.bad_rows.size(), 1u);
  EXPECT_THAT(read.bad_rows[0], HasSubstr("nested too deep"));
}

TEST(JsonDecoderTest, StopsAtLimitsBetweenRows) {
  const std::string text = "{\"a\":1}\n\n{\"a\":2}\n{\"a\":3}";
  const std::string padded = text + std::string(kTextPadding, '}');
  const std::string_view bytes(padded.data(), text.size());
  const auto decoder = MakeJsonDecoder(kPair);
  ASSERT_TRUE(decoder->Start(bytes, true).ok());
  BatchBuilder builder(kPair);
  const DecodeResult one = decoder->Decode(bytes, false, {.rows_max = 1}, &builder);
  EXPECT_EQ(one.done, (TextProgress{8, 1}));
  const DecodeResult whole = decoder->Decode(bytes, false, {}, &builder);
  EXPECT_EQ(whole.done, (TextProgress{17, 3}));
  EXPECT_EQ(whole.rows, 2);
  const DecodeResult last = decoder->Decode(bytes.substr(17), true, {}, &builder);
  EXPECT_EQ(last.done, (TextProgress{7, 0}));
  EXPECT_THAT(ShowRows(builder.Finish()), ElementsAre("1|null", "1|null", "2|null", "3|null"));
}

TEST(JsonDecoderTest, RefusesARowThatIsTooLong) {
  for (const size_t row_bytes : {kTextRowBytesMax, kTextRowBytesMax + 1}) {
    std::string text = "{\"b\":\"" + std::string(row_bytes - 9, 'x') + "\"}\n{\"a\":1}\n";
    const size_t size = text.size();
    text.append(kTextPadding, '\0');
    const auto decoder = MakeJsonDecoder(kPair);
    ASSERT_TRUE(decoder->Start({text.data(), 100}, false).ok());
    BatchBuilder builder(kPair);
    const DecodeResult result = decoder->Decode({text.data(), size}, false, {}, &builder);
    if (row_bytes == kTextRowBytesMax) {
      EXPECT_TRUE(result.error.ok());
      EXPECT_EQ(builder.rows(), 2);
    } else {
      EXPECT_EQ(result.done.bytes, 0u);
      EXPECT_EQ(result.error.message(), "a row is longer than 67108864 bytes");
    }
  }
}

TEST(JsonDecoderTest, AgreesWithAnotherParserOnWhatIsValid) {
  const SchemaPtr none = SchemaOf({{"no such field", Type::kInt32}});
  const std::string seeds[] = {
      R"({"a":1,"b":"x\"y","c":[1,2.5e3,{"d":null}],"e":true,"f":{"g":[],"h":"\u00fc"}})",
      R"({"k":-0.5,"l":[[],[false,"\\"]],"m":{}})"};
  const std::string letters = R"({}[]",:\ 0123.eE-+truefalsn)";
  std::mt19937_64 random(5);
  simdjson::dom::parser parser;
  int valid = 0;
  for (int round = 0; round < 40000; ++round) {
    std::string line = seeds[random() % 2];
    for (uint64_t i = 1 + random() % 3; i > 0; --i) {
      const size_t at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = letters[random() % letters.size()];
          break;
        case 1:
          line.erase(at, 1);
          break;
        default:
          line.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    simdjson::dom::object object;
    const auto error = parser.parse(line).get(object);
    // Numbers of any size are valid to us.
    if (error == simdjson::NUMBER_ERROR) continue;
    for (const std::string& text : {line, line + "\n"}) {  // lines without an end are never plain
      const auto decoder = MakeJsonDecoder(none);
      const ReadText read = ReadAll(decoder.get(), none, text, text.size());
      ASSERT_EQ(read.rows.size(), error ? 0u : 1u) << line;
      ASSERT_EQ(read.bad_rows.size(), error ? 1u : 0u) << line;
    }
    valid += error ? 0 : 1;
  }
  EXPECT_GT(valid, 1000);
}

// A line without an end is never read as a plain one: what is read must not depend on that.
TEST(JsonDecoderTest, ReadsPlainLinesAsAllOthers) {
  const std::string seeds[] = {
      R"({"flag":true,"small":-7,"big":1700000000000,"ratio":586.07,"text":"hülle","x":"y"})",
      R"({"ratio":1.7976931348623157e308,"big":-9223372036854775808,"small":0,"x":-12.5E+3})",
      R"({ "time" : "2013-01-01T10:00:00Z" , "bytes" : "AP8=" , "flag" : null , "y" : false })",
      R"({"ratio":0.1234567890123456789,"big":123456789012345678,"text":"","small":2147483648})",
      R"({"a rather long name of a field":1,"ratio":9007199254740993,"ratio":1})"};
  const std::string letters = R"({}[]",:\ 0123456789.eE-+truefalsn)"
                              "\t\xc3\xbc";
  std::mt19937_64 random(7);
  int rows = 0;
  for (int round = 0; round < 15000; ++round) {
    const std::string& seed = seeds[random() % 5];
    std::string line = seed;
    for (uint64_t i = random() % 3; i > 0; --i) {
      const size_t at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = letters[random() % letters.size()];
          break;
        case 1:
          line.erase(at, 1 + random() % 3);
          break;
        default:
          line.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    const auto decoder = MakeJsonDecoder(SampleSchema());
    const ReadText whole = ReadAll(decoder.get(), SampleSchema(), line, line.size() + 1);
    ReadAll(decoder.get(), SampleSchema(), seed + "\n", seed.size() + 1);  // it knows the names
    const ReadText plain = ReadAll(decoder.get(), SampleSchema(), line + "\n", line.size() + 1);
    ASSERT_EQ(plain.rows, whole.rows) << line;
    ASSERT_EQ(plain.bad_rows, whole.bad_rows) << line;
    rows += static_cast<int>(plain.rows.size());
  }
  EXPECT_GT(rows, 4000);
}

// With a line end and without one: plain lines are read by other code.
TEST(JsonDecoderTest, ReadsNumbersAsTheLibraryOfCDoes) {
  const SchemaPtr schema = SchemaOf({{"d", Type::kFloat64}, {"i", Type::kInt64}});
  std::mt19937_64 random(8);
  for (int round = 0; round < 15000; ++round) {
    std::string number = std::to_string(random() >> (random() % 64));
    if (const size_t digits = random() % 19; digits < number.size() && random() % 4 != 0) {
      number.insert(digits, digits == 0 ? "0." : ".");
    }
    if (random() % 2 == 0) number.insert(0, "-");
    if (random() % 8 == 0) number += "e" + std::to_string(static_cast<int>(random() % 40) - 20);
    const std::string integer = std::to_string(static_cast<int64_t>(random()) >> (random() % 64));
    const double wanted = std::strtod(number.c_str(), nullptr);
    for (const char* end : {"", "\n"}) {
      const std::string line = "{\"d\":" + number + ",\"i\":" + integer + "}" + end;
      const std::string padded = line + std::string(kTextPadding, '7');
      const auto decoder = MakeJsonDecoder(schema);
      ASSERT_TRUE(decoder->Start(line, true).ok());
      BatchBuilder builder(schema);
      decoder->Decode({padded.data(), line.size()}, true, {}, &builder);
      const RecordBatch batch = builder.Finish();
      ASSERT_EQ(batch.rows(), 1) << line;
      ASSERT_EQ(std::bit_cast<uint64_t>(batch.column(0).Float64(0)),
                std::bit_cast<uint64_t>(wanted))
          << line;
      ASSERT_EQ(std::to_string(batch.column(1).Int64(0)), integer);
    }
  }
}

TEST(JsonDecoderTest, RefusesWhatIsNoUtf8AmongManyRows) {
  const SchemaPtr schema = SchemaOf({{"s", Type::kString}, {"i", Type::kInt64}});
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    const bool bad = i % 700 == 699;
    text += std::string("{\"s\":\"") +
            (bad           ? "\xff"
             : i % 50 == 0 ? "ü"
                           : "u") +
            "\",\"i\":" + std::to_string(i) + "}\n";
  }
  const auto decoder = MakeJsonDecoder(schema);
  const ReadText read = ReadAll(decoder.get(), schema, text, text.size() + 1, 10000);
  EXPECT_EQ(read.rows.size(), 1998u);
  ASSERT_EQ(read.bad_rows.size(), 2u);
  EXPECT_THAT(read.bad_rows[0], HasSubstr("700: the line is not valid JSON"));
  EXPECT_THAT(read.bad_rows[1], HasSubstr("1400: the line is not valid JSON"));
}

TEST(JsonDecoderTest, SurvivesNoise) {
  std::mt19937_64 random(6);
  const RecordBatch batch = RandomBatch(3, 7);
  std::string seed;
  AppendJsonRows(batch, &seed);
  for (int round = 0; round < 10000; ++round) {
    std::string text = seed;
    for (uint64_t i = 1 + random() % 5; i > 0; --i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(random() % 4 == 0 ? random() % text.size() : text.size());
    const auto decoder = MakeJsonDecoder(batch.schema());
    const ReadText read = ReadAll(decoder.get(), batch.schema(), text, text.size() + 1);
    ASSERT_TRUE(read.error.ok());
    ASSERT_EQ(read.positions.back(), text.size());
  }
}

TEST(JsonEncoderTest, WritesColumnsInOrder) {
  BatchBuilder builder(SampleSchema());
  builder.column(0).AppendBool(true);
  builder.column(1).AppendInt32(-7);
  builder.column(2).AppendInt64(std::numeric_limits<int64_t>::max());
  builder.column(3).AppendFloat64(-0.25);
  builder.column(4).AppendText("say \"x\" \\ / \b\f\n\r\t\x01\x1f\x7f ü");
  builder.column(5).AppendText(std::string("\0\xff", 2));
  builder.column(6).AppendInt64(1357034400120000);
  for (int i = 0; i < 7; ++i) builder.column(i).AppendNull();
  std::string out = "before\n";
  AppendJsonRows(builder.Finish(), &out);
  EXPECT_EQ(out,
            "before\n"
            "{\"flag\":true,\"small\":-7,\"big\":9223372036854775807,\"ratio\":-0.25,"
            "\"text\":\"say \\\"x\\\" \\\\ / \\b\\f\\n\\r\\t\\u0001\\u001f\x7f ü\","
            "\"bytes\":\"AP8=\",\"time\":\"2013-01-01T10:00:00.12Z\"}\n"
            "{\"flag\":null,\"small\":null,\"big\":null,\"ratio\":null,\"text\":null,"
            "\"bytes\":null,\"time\":null}\n");
}

TEST(JsonEncoderTest, WritesNamesAndFloatsThatJsonHasNot) {
  const SchemaPtr schema = SchemaOf({{"a \"b\"", Type::kFloat64}});
  BatchBuilder builder(schema);
  builder.column(0).AppendFloat64(std::numeric_limits<double>::quiet_NaN());
  builder.column(0).AppendFloat64(std::numeric_limits<double>::infinity());
  builder.column(0).AppendFloat64(-std::numeric_limits<double>::infinity());
  builder.column(0).AppendFloat64(3);
  std::string out;
  AppendJsonRows(builder.Finish(), &out);
  EXPECT_EQ(out,
            "{\"a \\\"b\\\"\":\"NaN\"}\n{\"a \\\"b\\\"\":\"Infinity\"}\n"
            "{\"a \\\"b\\\"\":\"-Infinity\"}\n{\"a \\\"b\\\"\":3}\n");
}

TEST(JsonEncoderTest, EscapesWhereverInAText) {
  const SchemaPtr schema = SchemaOf({{"s", Type::kString}});
  for (const char special : {'"', '\\', '\x00', '\x1f'}) {
    for (size_t size = 1; size < 40; ++size) {
      for (size_t at = 0; at < size; ++at) {
        std::string text(size, 'x');
        text[at] = special;
        BatchBuilder builder(schema);
        builder.column(0).AppendText(text);
        const RecordBatch batch = builder.Finish();
        std::string out;
        AppendJsonRows(batch, &out);
        const auto decoder = MakeJsonDecoder(schema);
        ASSERT_EQ(ReadAll(decoder.get(), schema, out, out.size()).rows, ShowRows(batch)) << out;
      }
    }
  }
}

TEST(JsonEncoderTest, WhatItWritesReadsBackTheSame) {
  for (const uint64_t seed : {1, 2, 3}) {
    const RecordBatch batch = RandomBatch(500, seed);
    std::string out;
    AppendJsonRows(batch, &out);
    const ReadText read = Read(batch.schema(), out);
    EXPECT_EQ(read.rows, ShowRows(batch));
    EXPECT_THAT(read.bad_rows, IsEmpty());
  }
}

}  // namespace
}  // namespace weir
