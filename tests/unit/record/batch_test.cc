// Goal: what is appended, gathered, selected and taken back is what a batch holds.
// Method: batches against rows kept as plain texts; sizes and values by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "common/record/batch_builder.h"
#include "tests/unit/record/sample_batch.h"

namespace weir {
namespace {

TEST(ColumnBuilderTest, KeepsValuesAndNulls) {
  ColumnBuilder builder(Type::kInt32);
  builder.AppendInt32(7);
  builder.AppendNull();
  builder.AppendInt32(-1);
  EXPECT_EQ(builder.size(), 3);
  EXPECT_EQ(builder.byte_size(), 3 * 4 + 1);
  const Column column = builder.Finish();
  EXPECT_EQ(column.size(), 3);
  EXPECT_TRUE(column.has_nulls());
  EXPECT_EQ(column.Int32(0), 7);
  EXPECT_TRUE(column.IsNull(1));
  EXPECT_EQ(column.Int32(2), -1);
  EXPECT_EQ(builder.size(), 0);
  EXPECT_EQ(builder.Finish().size(), 0);
}

TEST(ColumnBuilderTest, HasNoValidityWithoutNulls) {
  ColumnBuilder builder(Type::kString);
  builder.AppendText("");
  builder.AppendText("weir");
  const Column column = builder.Finish();
  EXPECT_FALSE(column.has_nulls());
  EXPECT_EQ(column.Text(0), "");
  EXPECT_EQ(column.Text(1), "weir");
  EXPECT_EQ(column.ByteSize(), 2 * 4 + 4);
}

TEST(ColumnBuilderTest, TakesBackNulls) {
  ColumnBuilder builder(Type::kString);
  builder.AppendText("a");
  builder.AppendNull();
  builder.AppendText("b");
  builder.Truncate(1);
  EXPECT_EQ(builder.size(), 1);
  builder.AppendText("c");
  const Column column = builder.Finish();
  EXPECT_FALSE(column.has_nulls());
  EXPECT_EQ(column.Text(0), "a");
  EXPECT_EQ(column.Text(1), "c");
}

TEST(BatchBuilderTest, TakesBackAHalfAppendedRow) {
  const RecordBatch source = RandomBatch(100, 1);
  BatchBuilder builder(source.schema());
  for (int row = 0; row < 100; ++row) {
    builder.AppendRow(source, row);
    for (int i = 0; i <= row % 7; ++i) builder.column(i).AppendFrom(source.column(i), 99 - row);
    builder.Truncate(row + 1);
  }
  EXPECT_EQ(ShowRows(builder.Finish()), ShowRows(source));
}

TEST(BatchBuilderTest, GathersRowsOneByOneAndInSpansAndWhole) {
  for (const bool nulls : {false, true}) {
    const RecordBatch first = RandomBatch(300, 2, nulls);
    const RecordBatch second = RandomBatch(77, 3, !nulls);
    BatchBuilder builder(first.schema());
    std::vector<std::string> expected;
    std::mt19937_64 random(4);
    for (int round = 0; round < 50; ++round) {
      const RecordBatch& source = random() % 2 == 0 ? first : second;
      std::vector<int32_t> picked(random() % 40);
      for (int32_t& row : picked) {
        row = static_cast<int32_t>(random() % static_cast<uint64_t>(source.rows()));
      }
      for (const int32_t row : picked) expected.push_back(Show(source, row));
      if (round % 3 == 0) {
        for (const int32_t row : picked) builder.AppendRow(source, row);
      } else {
        builder.AppendRows(source, picked);
      }
      if (round % 10 == 9) {
        builder.AppendAll(source);
        for (const std::string& row : ShowRows(source)) expected.push_back(row);
      }
    }
    EXPECT_EQ(builder.rows(), static_cast<int64_t>(expected.size()));
    const int64_t bytes = builder.byte_size();
    const RecordBatch batch = builder.Finish();
    EXPECT_EQ(ShowRows(batch), expected);
    EXPECT_EQ(batch.ByteSize(), bytes);
    EXPECT_EQ(builder.rows(), 0);
  }
}

TEST(BatchBuilderTest, GathersFromColumnsWhoseOffsetsDoNotBeginAtZero) {
  const auto data = std::make_shared<Buffer>(6);
  std::memcpy(data->data(), "xxabcd", 6);
  const auto offsets = std::make_shared<Buffer>(3 * sizeof(int32_t));
  const int32_t values[] = {2, 3, 6};
  std::memcpy(offsets->data(), values, sizeof(values));
  const Column column(Type::kString, 2, nullptr, data, offsets);
  EXPECT_EQ(column.ByteSize(), 2 * 4 + 4);
  ColumnBuilder builder(Type::kString);
  builder.AppendText("before");
  builder.AppendAll(column);
  builder.AppendFrom(column, std::vector<int32_t>{1, 0});
  const Column built = builder.Finish();
  EXPECT_EQ(built.Text(1), "a");
  EXPECT_EQ(built.Text(2), "bcd");
  EXPECT_EQ(built.Text(3), "bcd");
  EXPECT_EQ(built.Text(4), "a");
}

TEST(BatchBuilderTest, GathersEmptyTextsAndNulls) {
  ColumnBuilder source(Type::kString);
  for (int i = 0; i < 3; ++i) source.AppendText("");
  source.AppendNull();
  const Column column = source.Finish();
  ColumnBuilder builder(Type::kString);
  builder.AppendFrom(column, std::vector<int32_t>{3, 0});
  builder.AppendAll(column);
  const Column built = builder.Finish();
  ASSERT_EQ(built.size(), 6);
  EXPECT_TRUE(built.IsNull(0));
  EXPECT_EQ(Show(built, 1), "[]");
  EXPECT_TRUE(built.IsNull(5));
}

TEST(RecordBatchTest, SelectsRowsInOrderWithRepeats) {
  const RecordBatch batch = RandomBatch(50, 5);
  const std::vector<int32_t> picked = {49, 0, 7, 7, 31};
  const RecordBatch selected = batch.Select(picked);
  ASSERT_EQ(selected.rows(), 5);
  for (size_t i = 0; i < picked.size(); ++i) {
    EXPECT_EQ(Show(selected, static_cast<int64_t>(i)), Show(batch, picked[i]));
  }
  EXPECT_EQ(selected.schema(), batch.schema());
  EXPECT_EQ(batch.Select({}).rows(), 0);
  std::vector<int32_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ShowRows(batch.Select(all)), ShowRows(batch));
  EXPECT_EQ(batch.Select(all).ByteSize(), batch.ByteSize());
}

TEST(RecordBatchTest, CountsTheBytesOfItsValues) {
  EXPECT_EQ(EmptyBatch(SampleSchema()).ByteSize(), 0);
  BatchBuilder builder(SampleSchema());
  builder.column(0).AppendBool(true);   // 1
  builder.column(1).AppendInt32(1);     // 4
  builder.column(2).AppendInt64(1);     // 8
  builder.column(3).AppendFloat64(1);   // 8
  builder.column(4).AppendText("abc");  // 4 + 3
  builder.column(5).AppendNull();       // 4 + 1 for validity
  builder.column(6).AppendInt64(1);     // 8
  EXPECT_EQ(builder.Finish().ByteSize(), 41);
  const RecordBatch no_columns(std::make_shared<Schema>(), 3, {});
  EXPECT_EQ(no_columns.ByteSize(), 1);
  EXPECT_EQ(no_columns.rows(), 3);
}

TEST(BatchBuilderTest, GrowsTextsBeyondTheirFirstBuffers) {
  ColumnBuilder builder(Type::kBytes);
  builder.Reserve(10);
  std::vector<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    expected.push_back(std::string(static_cast<size_t>(i % 97), static_cast<char>(i)));
    builder.AppendText(expected.back());
  }
  const Column column = builder.Finish();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(column.Text(i), expected[static_cast<size_t>(i)]);
  }
}

}  // namespace
}  // namespace weir
