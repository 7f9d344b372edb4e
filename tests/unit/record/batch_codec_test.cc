// Goal: a batch survives its wire form bit by bit, and no bytes whatever break the decoder.
// Method: one encoding written by hand; round trips; every prefix, bit flips and noise with fixed
// seeds (the sanitizer build is what would notice a read out of bounds).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/record/sample_batch.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Truly;

// Reads every value, so that a wrong offset is noticed.
size_t Touch(const RecordBatch& batch) {
  size_t sum = 0;
  for (int64_t row = 0; row < batch.rows(); ++row) sum += Show(batch, row).size();
  return sum;
}

TEST(BatchCodecTest, WritesTheBytesOfTheContract) {
  const auto schema = std::make_shared<Schema>(
      std::vector<Field>{{"n", Type::kInt32}, {"t", Type::kString}, {"b", Type::kBool}});
  BatchBuilder builder(schema);
  builder.column(0).AppendInt32(1);
  builder.column(0).AppendNull();
  builder.column(0).AppendInt32(-1);
  builder.column(1).AppendText("ab");
  builder.column(1).AppendText("");
  builder.column(1).AppendText("c");
  builder.column(2).AppendBool(true);
  builder.column(2).AppendBool(false);
  builder.column(2).AppendBool(true);
  const std::string expected(
      "\x03\x00\x00\x00\x01\x00\x00\x00"                          // rows, has_nulls, padding
      "\x05\x00\x00\x00\x00\x00\x00\x00"                          // n: which are valid
      "\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\0\0\0\0"  // 1, null, -1
      "\x00\x00\x00\x00\x02\x00\x00\x00"                          // t: offsets
      "\x02\x00\x00\x00\x03\x00\x00\x00"
      "abc\0\0\0\0\0"
      "\x01\x00\x01",  // b
      8 + 8 + 16 + 16 + 8 + 3);
  EXPECT_EQ(Encode(builder.Finish()), expected);
}

TEST(BatchCodecTest, BringsBackWhatWasEncoded) {
  for (const int rows : {0, 1, 7, 8, 9, 64, 1000}) {
    for (const bool nulls : {false, true}) {
      const RecordBatch batch = RandomBatch(rows, static_cast<uint64_t>(rows) + 10, nulls);
      const std::string bytes = Encode(batch);
      const StatusOr<RecordBatch> decoded = Decode(batch.schema(), bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(ShowRows(*decoded), ShowRows(batch));
      EXPECT_EQ(decoded->ByteSize(), batch.ByteSize());
      EXPECT_EQ(Encode(*decoded), bytes);
    }
  }
}

TEST(BatchCodecTest, PartialRowsAreKnownFromRows) {
  const auto rows = std::make_shared<const Schema>(Schema({{"k", Type::kInt64}}));
  const auto partials =
      std::make_shared<const Schema>(Schema({{"k", Type::kInt64}, {"rows", Type::kInt64}}, 1));
  BatchBuilder builder(partials);
  builder.column(0).AppendInt64(5);
  builder.column(1).AppendInt64(300);
  const std::string bytes = Encode(builder.Finish());
  EXPECT_EQ(bytes.substr(0, 4), std::string("\x01\0\0\x80", 4));
  const StatusOr<RecordBatch> decoded = Decode(rows, bytes, partials);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->schema(), partials);
  EXPECT_EQ(ShowRows(*decoded), ShowRows(*Decode(partials, bytes, partials)));
  EXPECT_EQ(decoded->column(1).Int64(0), 300);
  EXPECT_EQ(Encode(*decoded), bytes);
  EXPECT_EQ(Decode(partials, bytes).status().code(), StatusCode::kDataLoss);

  BatchBuilder row(rows);
  row.column(0).AppendInt64(6);
  const StatusOr<RecordBatch> plain = Decode(rows, Encode(row.Finish()), partials);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->schema(), rows);
}

TEST(BatchCodecTest, CopiesNothingLarge) {
  const RecordBatchPtr batch = std::make_shared<const RecordBatch>(RandomBatch(1000, 11));
  const EncodedBatch encoded(batch);
  const Column& big = batch->column(2);
  const std::string_view values(big.values<char>(), 8000);
  EXPECT_THAT(encoded.pieces(), Contains(Truly([&](std::string_view piece) {
                return piece.data() == values.data() && piece.size() == values.size();
              })));

  const auto buffer = std::make_shared<Buffer>(encoded.size());
  uint8_t* out = buffer->data();
  for (const std::string_view piece : encoded.pieces())
    out = std::copy(piece.begin(), piece.end(), out);
  const StatusOr<RecordBatch> decoded = DecodeBatch(batch->schema(), buffer);
  ASSERT_TRUE(decoded.ok());
  const uint8_t* lies = decoded->column(2).data()->data();
  EXPECT_TRUE(buffer->data() <= lies && lies + 8000 <= buffer->data() + buffer->size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(lies) % 8, 0u);
}

TEST(BatchCodecTest, SlicesMakeUpTheWhole) {
  const EncodedBatch encoded(std::make_shared<const RecordBatch>(RandomBatch(1000, 16)));
  std::string whole;
  for (const std::string_view piece : encoded.pieces()) whole += piece;
  EXPECT_EQ(whole.size(), encoded.size());
  for (const size_t size : {size_t{1}, size_t{7}, size_t{1000}, size_t{30'000}, whole.size()}) {
    std::string sum;
    for (size_t at = 0; at < whole.size(); at += size) {
      std::vector<std::string_view> pieces;
      const size_t left = std::min(size, whole.size() - at);
      encoded.Slice(at, left, &pieces);
      size_t sliced = 0;
      for (const std::string_view piece : pieces) {
        EXPECT_FALSE(piece.empty());
        sum += piece;
        sliced += piece.size();
      }
      ASSERT_EQ(sliced, left);
    }
    EXPECT_EQ(sum, whole);
  }
}

TEST(BatchCodecTest, ShiftsOffsetsThatDoNotBeginAtZero) {
  const auto data = std::make_shared<Buffer>(6);
  std::memcpy(data->data(), "xxabcd", 6);
  const auto offsets = std::make_shared<Buffer>(3 * sizeof(int32_t));
  const int32_t values[] = {2, 3, 6};
  std::memcpy(offsets->data(), values, sizeof(values));
  const auto schema = std::make_shared<Schema>(std::vector<Field>{{"t", Type::kString}});
  const RecordBatch batch(schema, 2, {Column(Type::kString, 2, nullptr, data, offsets)});
  const StatusOr<RecordBatch> decoded = Decode(schema, Encode(batch));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(ShowRows(*decoded), ShowRows(batch));
}

TEST(BatchCodecTest, KeepsRowsWithoutColumns) {
  const auto schema = std::make_shared<Schema>();
  const StatusOr<RecordBatch> decoded = Decode(schema, Encode(RecordBatch(schema, 4, {})));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->rows(), 4);
}

TEST(BatchCodecTest, RefusesEveryPrefixAndEverythingLonger) {
  const RecordBatch batch = RandomBatch(40, 12);
  const std::string bytes = Encode(batch);
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that size, so that reading on is noticed.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<int64_t>(size));
    const Status status = Decode(batch.schema(), {cut.data(), cut.size()}).status();
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(Decode(batch.schema(), bytes + '\0').status().code(), StatusCode::kDataLoss);
}

TEST(BatchCodecTest, NamesTheColumnThatIsDamaged) {
  const auto schema = std::make_shared<Schema>(std::vector<Field>{{"b", Type::kBool}});
  const auto text = std::make_shared<Schema>(std::vector<Field>{{"t", Type::kString}});
  const auto refused = [](const SchemaPtr& of, std::string_view bytes) {
    const Status status = Decode(of, bytes).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    return status.message();
  };
  using std::string_literals::operator""s;
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(refused(schema, "\x01\0\0\0"sv), HasSubstr("'b' (BOOL): the bytes end early"));
  EXPECT_THAT(refused(schema, "\x01\0\0\0\0\0\0\0\x02"sv), HasSubstr("a value is neither"));
  EXPECT_THAT(refused(schema, "\x01\0\0\0\0\0\0\x01\x01"sv), HasSubstr("end in the values"));
  EXPECT_THAT(refused(schema, "\x01\0\0\0\x02\0\0\0\x01"sv), HasSubstr("null mark"));
  EXPECT_THAT(refused(schema, "\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x01"sv),
              HasSubstr("behind the last row"));
  EXPECT_THAT(refused(schema, "\xff\xff\xff\xff\0"sv),
              HasSubstr("partial rows where there are none"));
  EXPECT_THAT(refused(schema, "\xff\xff\xff\x7f\0\0\0\0\x01"sv), HasSubstr("end in the values"));
  const std::string text_head = "\x01\0\0\0\0\0\0\0"s;
  EXPECT_THAT(refused(text, "\xff\xff\xff\x7f\0\0\0\0\x01"sv), HasSubstr("end in the offsets"));
  EXPECT_THAT(refused(text, text_head + "\x01\0\0\0\x02\0\0\0abc"s), HasSubstr("do not rise"));
  EXPECT_THAT(refused(text, text_head + "\0\0\0\0\xff\xff\xff\xff"s), HasSubstr("do not rise"));
  EXPECT_THAT(refused(text, text_head + "\0\0\0\0\xff\xff\xff\x7f"s),
              HasSubstr("end in the texts"));
  EXPECT_THAT(refused(text, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x"sv),
              HasSubstr("follow its last column"));
}

TEST(BatchCodecTest, SurvivesFlippedBits) {
  const RecordBatch batch = RandomBatch(60, 13);
  const std::string bytes = Encode(batch);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<char> flipped(bytes.begin(), bytes.end());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const StatusOr<RecordBatch> decoded = Decode(batch.schema(), {flipped.data(), flipped.size()});
    if (decoded.ok()) {
      Touch(*decoded);
    } else {
      ASSERT_EQ(decoded.status().code(), StatusCode::kDataLoss);
    }
  }
}

TEST(BatchCodecTest, SurvivesNoise) {
  std::mt19937_64 random(14);
  const RecordBatch batch = RandomBatch(20, 15);
  const std::string bytes = Encode(batch);
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> noise(bytes.begin(), bytes.end());
    for (uint64_t i = random() % 8; i > 0; --i) {
      noise[random() % noise.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) noise.resize(random() % noise.size());
    const StatusOr<RecordBatch> decoded = Decode(batch.schema(), {noise.data(), noise.size()});
    if (decoded.ok()) Touch(*decoded);
  }
}

}  // namespace
}  // namespace weir
