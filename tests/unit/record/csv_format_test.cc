// Goal: CSV is read and written as RFC 4180 says, positions lie between rows, and a bad row leaves
// nothing behind.
// Method: literals, each read in chunks of every size; round trips; noise with fixed seeds.
#include "common/record/csv_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>

#include "tests/unit/record/text_reader.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchemaPtr SchemaOf(std::vector<Field> fields) {
  return std::make_shared<Schema>(std::move(fields));
}

// Reads in one chunk and in chunks of several sizes, which must give the same.
ReadText Read(const SchemaPtr& schema, const std::string& text, bool header = true) {
  const auto read = [&](size_t chunk, int64_t rows_max) {
    const auto decoder = MakeCsvDecoder(schema, {.header = header});
    return ReadAll(decoder.get(), schema, text, chunk, rows_max);
  };
  const ReadText whole = read(text.size() + 1, 1000);
  for (const size_t chunk : {1, 2, 3, 7, 8, 9, 64}) {
    for (const int64_t rows_max : {1, 1000}) {
      const ReadText cut = read(chunk, rows_max);
      EXPECT_EQ(cut.rows, whole.rows) << chunk;
      EXPECT_EQ(cut.bad_rows, whole.bad_rows) << chunk;
      EXPECT_EQ(cut.error.ToString(), whole.error.ToString()) << chunk;
    }
  }
  return whole;
}

const SchemaPtr kTexts = SchemaOf({{"a", Type::kString}, {"b", Type::kString}});

TEST(CsvDecoderTest, PicksColumnsByHeaderNameInAnyOrder) {
  const SchemaPtr schema = SchemaOf({{"delay", Type::kInt32}, {"carrier", Type::kString}});
  const ReadText read = Read(schema, "carrier,flight,delay\nUA,1545,2\nAA,1141,\n");
  EXPECT_THAT(read.rows, ElementsAre("2|[UA]", "null|[AA]"));
  EXPECT_THAT(read.bad_rows, IsEmpty());
}

TEST(CsvDecoderTest, TakesColumnsByPlaceWithoutHeader) {
  EXPECT_THAT(Read(kTexts, "1,2\n3,4\n", false).rows, ElementsAre("[1]|[2]", "[3]|[4]"));
}

TEST(CsvDecoderTest, ReadsQuotesLineEndsAndNulls) {
  EXPECT_THAT(Read(kTexts,
                   "a,b\r\n"
                   "\"x,y\",\"line 1\nline 2\"\r\n"
                   "\"he said \"\"no\"\"\",\"\"\n"
                   ",\"\"\"\"\n"
                   "\"\r\n\",z\n"
                   "last,line")
                  .rows,
              ElementsAre("[x,y]|[line 1\nline 2]", "[he said \"no\"]|[]", "null|[\"]",
                          "[\r\n]|[z]", "[last]|[line]"));
}

TEST(CsvDecoderTest, ReadsALastLineWithoutLineEnd) {
  EXPECT_THAT(Read(kTexts, "a,b\n1,2").rows, ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts, "a,b\n1,").rows, ElementsAre("[1]|null"));
  EXPECT_THAT(Read(kTexts, "a,b\n1,\"2\"").rows, ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts, "a,b\n1,\"2\"\r").rows, ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts, "a,b\n1,2\r").rows, ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts, "a,b").rows, IsEmpty());
  EXPECT_THAT(Read(kTexts, "").rows, IsEmpty());
  EXPECT_THAT(Read(kTexts, "", false).rows, IsEmpty());
}

TEST(CsvDecoderTest, OverlooksAByteOrderMark) {
  EXPECT_THAT(Read(kTexts,
                   "\xEF\xBB\xBF"
                   "a,b\n1,2\n")
                  .rows,
              ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts,
                   "\xEF\xBB\xBF"
                   "1,2\n",
                   false)
                  .rows,
              ElementsAre("[1]|[2]"));
  EXPECT_THAT(Read(kTexts, "\xEF\xBB\xBF", false).rows, IsEmpty());
}

TEST(CsvDecoderTest, ReadsHeadersThatAreQuoted) {
  const SchemaPtr schema = SchemaOf({{"a \"b\",\nc", Type::kInt32}});
  EXPECT_THAT(Read(schema, "x,\"a \"\"b\"\",\nc\"\n1,2\n3,x\n").rows, ElementsAre("2"));
  const ReadText read = Read(schema, "x,\"a \"\"b\"\",\nc\"\n1,2\n3,x\n");
  ASSERT_EQ(read.bad_rows.size(), 1u);
  EXPECT_THAT(read.bad_rows[0], HasSubstr("4: "));
}

TEST(CsvDecoderTest, ReadsAllTypes) {
  const ReadText read = Read(SampleSchema(),
                             "flag,small,big,ratio,text,bytes,time\n"
                             "true,-7,9223372036854775807,0.5,weir,AP8=,2013-01-01T10:00:00+01:00\n"
                             ",,,,,,\n");
  EXPECT_THAT(read.rows,
              ElementsAre("true|-7|9223372036854775807|bits 4602678819172646912|[weir]|[" +
                              std::string("\0\xff", 2) + "]|1357030800000000",
                          "null|null|null|null|null|null|null"));
}

TEST(CsvDecoderTest, KeepsAnEmptyLineOfOneColumnAsNull) {
  EXPECT_THAT(Read(SchemaOf({{"a", Type::kString}}), "a\nx\n\n\"\"\n").rows,
              ElementsAre("[x]", "null", "[]"));
}

TEST(CsvDecoderTest, SaysWhatIsWrongWithARowAndGoesOnBehindIt) {
  const SchemaPtr schema =
      SchemaOf({{"id", Type::kInt64}, {"delay", Type::kInt32}, {"at", Type::kTimestamp}});
  const ReadText read = Read(schema,
                             "id,delay,at\n"
                             "1,2,2013-01-01T10:00:00Z\n"
                             "2,3000000000,2013-01-01T10:00:00Z\n"
                             "3,4\n"
                             "4,5,2013-01-01T10:00:00Z,6\n"
                             "5,6,yesterday\n"
                             "6,\"x\"y,2013-01-01T10:00:00Z\n"
                             "7,x\"y,2013-01-01T10:00:00Z\n"
                             "8,,\"\"\n"
                             "9,\xff,\n"
                             "10,-1,\n");
  EXPECT_THAT(read.rows, ElementsAre("1|2|1357034400000000", "10|-1|null"));
  EXPECT_THAT(
      read.bad_rows,
      ElementsAre("3: column 'delay': '3000000000' is no INT32: expected an integer from "
                  "-2147483648 to 2147483647",
                  "4: the row has 2 fields: expected 3", "5: the row has 4 fields: expected 3",
                  "6: column 'at': 'yesterday' is no TIMESTAMP: expected a time like "
                  "2013-01-01T10:00:00Z",
                  "7: text stands behind a closing quote",
                  "8: a quote stands in a field that does not begin with one",
                  "9: column 'at': '' is no TIMESTAMP: expected a time like 2013-01-01T10:00:00Z",
                  "10: the row is not valid UTF-8: '9,\\xff,\\x0a'"));
}

TEST(CsvDecoderTest, CountsLinesWithinQuotedFields) {
  const ReadText read = Read(SchemaOf({{"a", Type::kInt32}, {"b", Type::kString}}),
                             "a,b\n1,\"x\ny\nz\"\nbad,\"x\ny\"\n2,x\nworse,x\n");
  EXPECT_THAT(read.rows, ElementsAre("1|[x\ny\nz]", "2|[x]"));
  ASSERT_EQ(read.bad_rows.size(), 2u);
  EXPECT_THAT(read.bad_rows[0], HasSubstr("5: column 'a'"));
  EXPECT_THAT(read.bad_rows[1], HasSubstr("8: column 'a'"));
}

TEST(CsvDecoderTest, AQuoteThatIsNotClosedTakesNoOtherRowWithIt) {
  const ReadText never = Read(kTexts, "a,b\n1,2\n3,\"4\n5,6\n7,8");
  EXPECT_THAT(never.rows, ElementsAre("[1]|[2]", "[5]|[6]", "[7]|[8]"));
  EXPECT_THAT(never.bad_rows, ElementsAre("3: a quote is not closed"));

  const ReadText by_the_next = Read(kTexts, "a,b\n1,\"2\n3,\"4\"\n5,\"6\n\"\n");
  EXPECT_THAT(by_the_next.rows, ElementsAre("[3]|[4]", "[5]|[6\n]"));
  EXPECT_THAT(by_the_next.bad_rows, ElementsAre("2: text stands behind a closing quote"));

  // Each line of a broken field over several lines is looked at by itself.
  const ReadText field = Read(kTexts, "a,b\n1,\"x\ny\"z\n3,4\n");
  EXPECT_THAT(field.rows, ElementsAre("[3]|[4]"));
  EXPECT_THAT(field.bad_rows,
              ElementsAre("2: text stands behind a closing quote",
                          "3: a quote stands in a field that does not begin with one"));
}

TEST(CsvDecoderTest, AQuoteThatIsNotClosedForTooLongTakesItsFirstLine) {
  std::string text = "1,\"2\n3,4\n";
  while (text.size() <= kTextRowBytesMax) text += std::string(1 << 20, 'x') + ",y\n";
  const size_t size = text.size();
  text.append(kTextPadding, '"');
  const auto decoder = MakeCsvDecoder(kTexts, {.header = false});
  ASSERT_TRUE(decoder->Start({text.data(), 10}, false).ok());
  for (const size_t have : {kTextRowBytesMax + 1, size}) {  // however much was read already
    BatchBuilder builder(kTexts);
    DecodeResult result = decoder->Decode({text.data(), have}, false, {}, &builder);
    EXPECT_EQ(result.bad_row.message(), "a row is longer than 67108864 bytes");
    EXPECT_EQ(result.done, (TextProgress{5, 1}));
    EXPECT_EQ(result.before_bad_row, (TextProgress{0, 0}));
    result = decoder->Decode({text.data() + 5, have - 5}, false, {.rows_max = 1}, &builder);
    EXPECT_EQ(result.done, (TextProgress{4, 1}));
    EXPECT_THAT(ShowRows(builder.Finish()), ElementsAre("[3]|[4]"));
  }
}

TEST(CsvDecoderTest, RefusesHeadersThatDoNotFit) {
  const auto error = [](const std::string& text) { return Read(kTexts, text).error.message(); };
  EXPECT_EQ(error("a,bb\n1,2\n"),
            "the header has no field 'b'; did you mean 'bb'? It names: a, bb");
  EXPECT_EQ(error("a,b,a\n1,2,3\n"), "the header names the field 'a' twice");
  EXPECT_THAT(error("a,\"b\n"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(error("a,b\xff\n"), HasSubstr("not valid UTF-8"));
}

TEST(CsvDecoderTest, StopsAtLimitsBetweenRows) {
  const std::string text = "1,2\n3,4\n5,6\n";
  const std::string padded = text + std::string(kTextPadding, '\n');
  const auto decoder = MakeCsvDecoder(kTexts, {.header = false});
  ASSERT_TRUE(decoder->Start(text, true).ok());
  BatchBuilder builder(kTexts);
  const std::string_view bytes(padded.data(), text.size());
  const DecodeResult two = decoder->Decode(bytes, false, {.rows_max = 2}, &builder);
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.done, (TextProgress{8, 2}));
  EXPECT_EQ(decoder->Decode(bytes, false, {.rows_max = 0}, &builder).done, (TextProgress{0, 0}));
  EXPECT_EQ(decoder->Decode(bytes, false, {.bytes_max = 1}, &builder).rows, 0);
  EXPECT_EQ(builder.rows(), 2);
  // A new decoder goes on at the position of the first.
  const auto next = MakeCsvDecoder(kTexts, {.header = false});
  ASSERT_TRUE(next->Start(text, true).ok());
  EXPECT_EQ(next->Decode(bytes.substr(8), true, {}, &builder).rows, 1);
  EXPECT_THAT(ShowRows(builder.Finish()), ElementsAre("[1]|[2]", "[3]|[4]", "[5]|[6]"));
}

TEST(CsvDecoderTest, StopsWhenTheBatchIsLarge) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::string(90, 'x') + ",y\n";
  const size_t size = text.size();
  text.append(kTextPadding, '\n');
  const auto decoder = MakeCsvDecoder(kTexts, {.header = false});
  ASSERT_TRUE(decoder->Start(text, true).ok());
  BatchBuilder builder(kTexts);
  const DecodeResult result =
      decoder->Decode({text.data(), size}, true, {.bytes_max = 20000}, &builder);
  EXPECT_GE(builder.byte_size(), 20000);
  EXPECT_LE(builder.byte_size(), 30000);
  EXPECT_EQ(result.done.bytes, static_cast<size_t>(result.rows) * 93);
}

TEST(CsvDecoderTest, RefusesARowThatIsTooLong) {
  for (const size_t row_bytes : {kTextRowBytesMax, kTextRowBytesMax + 1}) {
    std::string text = "1," + std::string(row_bytes - 3, 'x') + "\n3,4\n";
    const size_t size = text.size();
    text.append(kTextPadding, '\0');
    const auto decoder = MakeCsvDecoder(kTexts, {.header = false});
    ASSERT_TRUE(decoder->Start({text.data(), 100}, false).ok());
    BatchBuilder builder(kTexts);
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

// A row without a line end is never read as a plain one: what is read must not depend on that.
TEST(CsvDecoderTest, ReadsPlainRowsAsAllOthers) {
  const std::string seeds[] = {"true,-7,1700000000000,586.07,hülle,AP8=,2013-01-01T10:00:00Z",
                               "false,007,-9223372036854775808,1.7976931348623157e308,,,",
                               ",2147483648,123456789012345678901,-0.125,\"x\",AA==,",
                               "true,2147483647,-0,.5,\"\",,2013-01-01T10:00:00.5+01:00\r",
                               "true,0,9223372036854775807,7.,NaN,,\r"};
  const std::string letters = ",,\"\r 0123456789.eE-+truefalsn\t\xc3\xbc";
  std::mt19937_64 random(7);
  int rows = 0;
  for (int round = 0; round < 15000; ++round) {
    std::string row = seeds[random() % 5];
    for (uint64_t i = random() % 3; i > 0; --i) {
      const size_t at = random() % row.size();
      switch (random() % 3) {
        case 0:
          row[at] = letters[random() % letters.size()];
          break;
        case 1:
          row.erase(at, 1 + random() % 3);
          break;
        default:
          row.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    const auto read = [](const std::string& text) {
      const auto decoder = MakeCsvDecoder(SampleSchema(), {.header = false});
      return ReadAll(decoder.get(), SampleSchema(), text, text.size() + 1);
    };
    const ReadText whole = read(row);
    ReadText plain = read(row + "\n");
    ASSERT_EQ(plain.rows, whole.rows) << row;
    for (std::string& message : plain.bad_rows) {  // one that shows the row shows its end
      if (const size_t at = message.find("\\x0a'"); at != std::string::npos) message.erase(at, 4);
    }
    ASSERT_EQ(plain.bad_rows, whole.bad_rows) << row;
    rows += static_cast<int>(plain.rows.size());
  }
  EXPECT_GT(rows, 4000);
}

TEST(CsvDecoderTest, ReadsNumbersAsTheLibraryOfCDoes) {
  const SchemaPtr schema = SchemaOf({{"d", Type::kFloat64}, {"i", Type::kInt64}});
  std::mt19937_64 random(8);
  for (int round = 0; round < 15000; ++round) {
    std::string number = std::to_string(random() >> (random() % 64));
    if (const size_t digits = random() % 19; digits < number.size()) number.insert(digits, ".");
    if (random() % 2 == 0) number.insert(0, "-");
    const std::string integer = std::to_string(static_cast<int64_t>(random()) >> (random() % 64));
    const std::string text = number + "," + integer + "\n" + std::string(kTextPadding, '7');
    const auto decoder = MakeCsvDecoder(schema, {.header = false});
    ASSERT_TRUE(decoder->Start(text, true).ok());
    BatchBuilder builder(schema);
    decoder->Decode({text.data(), text.size() - kTextPadding}, true, {}, &builder);
    const RecordBatch batch = builder.Finish();
    ASSERT_EQ(batch.rows(), 1) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(batch.column(0).Float64(0)),
              std::bit_cast<uint64_t>(std::strtod(number.c_str(), nullptr)))
        << text;
    ASSERT_EQ(std::to_string(batch.column(1).Int64(0)), integer);
  }
}

TEST(CsvDecoderTest, RefusesWhatIsNoUtf8AmongManyRows) {
  const SchemaPtr schema = SchemaOf({{"s", Type::kString}, {"i", Type::kInt64}});
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += std::string(i % 700 == 699 ? "\xff"
                        : i % 50 == 0  ? "ü"
                                       : "u") +
            "," + std::to_string(i) + "\n";
  }
  const auto decoder = MakeCsvDecoder(schema, {.header = false});
  const ReadText read = ReadAll(decoder.get(), schema, text, text.size() + 1, 10000);
  EXPECT_EQ(read.rows.size(), 1998u);
  ASSERT_EQ(read.bad_rows.size(), 2u);
  EXPECT_THAT(read.bad_rows[0], HasSubstr("700: the row is not valid UTF-8"));
  EXPECT_THAT(read.bad_rows[1], HasSubstr("1400: the row is not valid UTF-8"));
}

TEST(CsvSchemaTest, NamesAllFieldsAsStrings) {
  EXPECT_EQ(ReadCsvSchema("row_id,\"a b\"\n1,2\n", false).value().value().ToString(),
            "(row_id STRING, a b STRING)");
  EXPECT_FALSE(ReadCsvSchema("row_id,carr", false).value().has_value());
  EXPECT_EQ(ReadCsvSchema("row_id,carr", true).value().value().ToString(),
            "(row_id STRING, carr STRING)");
  EXPECT_THAT(ReadCsvSchema("", true).status().message(), HasSubstr("no bytes"));
  EXPECT_THAT(ReadCsvSchema("a,b,a\n", true).status().message(), HasSubstr("named 'a'"));
  EXPECT_THAT(ReadCsvSchema("a,,b\n", true).status().message(), HasSubstr("empty name"));
}

TEST(CsvEncoderTest, WritesColumnsInOrder) {
  BatchBuilder builder(SampleSchema());
  builder.column(0).AppendBool(true);
  builder.column(1).AppendInt32(-7);
  builder.column(2).AppendInt64(std::numeric_limits<int64_t>::min());
  builder.column(3).AppendFloat64(0.1);
  builder.column(4).AppendText("say \"x\", y");
  builder.column(5).AppendText(std::string("\0\xff", 2));
  builder.column(6).AppendInt64(1357034400500000);
  for (int i = 0; i < 7; ++i) builder.column(i).AppendNull();
  builder.column(0).AppendBool(false);
  builder.column(1).AppendInt32(0);
  builder.column(2).AppendInt64(0);
  builder.column(3).AppendFloat64(std::numeric_limits<double>::quiet_NaN());
  builder.column(4).AppendText("");
  builder.column(5).AppendText("");
  builder.column(6).AppendInt64(0);
  std::string out = "before\n";
  AppendCsvHeader(*SampleSchema(), &out);
  AppendCsvRows(builder.Finish(), &out);
  EXPECT_EQ(out,
            "before\n"
            "flag,small,big,ratio,text,bytes,time\n"
            "true,-7,-9223372036854775808,0.1,\"say \"\"x\"\", y\",AP8=,2013-01-01T10:00:00.5Z\n"
            ",,,,,,\n"
            "false,0,0,NaN,\"\",\"\",1970-01-01T00:00:00Z\n");
}

TEST(CsvEncoderTest, QuotesOnlyWhatNeedsQuotes) {
  const SchemaPtr schema = SchemaOf({{"a,b", Type::kString}, {"c", Type::kString}});
  BatchBuilder builder(schema);
  for (const char* text : {"x y", "x\ny", "x\ry", "'", ";", "ü"})
    builder.column(0).AppendText(text);
  for (int i = 0; i < 6; ++i) builder.column(1).AppendNull();
  std::string out;
  AppendCsvHeader(*schema, &out);
  AppendCsvRows(builder.Finish(), &out);
  EXPECT_EQ(out, "\"a,b\",c\nx y,\n\"x\ny\",\n\"x\ry\",\n',\n;,\nü,\n");
}

TEST(CsvEncoderTest, WhatItWritesReadsBackTheSame) {
  for (const uint64_t seed : {1, 2, 3}) {
    const RecordBatch batch = RandomBatch(500, seed);
    std::string out;
    AppendCsvHeader(*batch.schema(), &out);
    AppendCsvRows(batch, &out);
    const ReadText read = Read(batch.schema(), out);
    EXPECT_EQ(read.rows, ShowRows(batch));
    EXPECT_THAT(read.bad_rows, IsEmpty());
  }
}

TEST(CsvDecoderTest, SurvivesNoise) {
  std::mt19937_64 random(4);
  const std::string letters = "\",\n\r1a\xff,,\"\"\n";
  for (int round = 0; round < 3000; ++round) {
    std::string text = "a,b\n";
    for (uint64_t i = random() % 60; i > 0; --i) text += letters[random() % letters.size()];
    const auto read = [&](size_t chunk) {
      const auto decoder = MakeCsvDecoder(kTexts, {});
      return ReadAll(decoder.get(), kTexts, text, chunk);
    };
    const ReadText whole = read(text.size());
    const ReadText cut = read(1 + random() % 9);
    ASSERT_TRUE(whole.error.ok());
    ASSERT_EQ(whole.rows, cut.rows) << text;
    ASSERT_EQ(whole.bad_rows, cut.bad_rows) << text;
    ASSERT_EQ(whole.positions.back(), text.size());
  }
}

}  // namespace
}  // namespace weir
