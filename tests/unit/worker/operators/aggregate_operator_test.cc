// The aggregate operator over small tables whose results are worked out by hand, and over random
// ones against a row at a time.

#include "worker/operators/aggregate_operator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <random>

#include "tests/unit/worker/operators/operator_harness.h"

namespace weir {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

SchemaPtr Flights() {
  return MakeSchema({{"row_id", Type::kInt64},
                     {"carrier", Type::kString},
                     {"delay", Type::kInt32},
                     {"distance", Type::kInt64},
                     {"air_time", Type::kFloat64},
                     {"tail", Type::kString},
                     {"at", Type::kTimestamp}});
}

std::unique_ptr<OperatorHarness> Aggregate(const std::string& config, SchemaPtr schema = Flights(),
                                           std::vector<std::string> keys = {"carrier"}) {
  auto harness = std::make_unique<OperatorHarness>(std::make_unique<AggregateOperator>(), config,
                                                   std::move(schema), keys);
  const Status status = harness->Open();
  EXPECT_TRUE(status.ok()) << status;
  return harness;
}

// (key INT64, value of `type`) with one aggregate `function` of value.
std::unique_ptr<OperatorHarness> OneAggregate(const std::string& function, Type type,
                                              const std::string& emit = "every_row") {
  return Aggregate(R"({"keys": ["key"], "emit": ")" + emit + R"(", "aggregates": [{"function": ")" +
                       function + R"(", "column": "value", "as": "result"}]})",
                   MakeSchema({{"key", Type::kInt64}, {"value", type}}), {"key"});
}

std::vector<Cell> Flight(int id, Cell carrier, Cell delay, Cell distance = 0, Cell air_time = 0.0,
                         Cell tail = "", Cell at = 0) {
  return {id, carrier, delay, distance, air_time, tail, at};
}

TEST(AggregateOperatorTest, EveryRowShowsCountAndSumAfterIt) {
  auto flights = Aggregate(R"({"keys": ["carrier"], "emit": "every_row", "keep": ["row_id"],
      "aggregates": [{"function": "count", "as": "flights"},
                     {"function": "sum", "column": "delay", "as": "delay"}]})");
  EXPECT_EQ(flights->output_schema()->ToString(),
            "(carrier STRING, row_id INT64, flights INT64, delay INT64)");
  EXPECT_EQ(flights->Shown({Flight(1, "AA", 5), Flight(2, "UA", -3), Flight(3, "AA", 10)}),
            "AA 1 1 5\n"
            "UA 2 1 -3\n"
            "AA 3 2 15\n");
  EXPECT_EQ(flights->Shown({Flight(4, "AA", -20)}), "AA 4 3 -5\n");
  EXPECT_EQ(flights->Shown({}), "");
}

TEST(AggregateOperatorTest, NullsAddNothingAndNoValueYetIsNull) {
  auto flights = Aggregate(R"({"keys": ["carrier"], "aggregates": [
      {"function": "count", "as": "rows"},
      {"function": "count", "column": "delay", "as": "delays"},
      {"function": "sum", "column": "delay", "as": "sum"},
      {"function": "avg", "column": "delay", "as": "avg"},
      {"function": "min", "column": "delay", "as": "min"},
      {"function": "max", "column": "delay", "as": "max"},
      {"function": "sum", "column": "air_time", "as": "sum_time"},
      {"function": "max", "column": "tail", "as": "tail"}]})");
  const Cell null = std::nullopt;
  EXPECT_EQ(flights->Shown({Flight(1, "AA", null, 0, null, null)}),
            "AA 1 0 null null null null null null\n");
  EXPECT_EQ(flights->Shown({Flight(2, "AA", 4, 0, 1.5, "N1"), Flight(3, "AA", null, 0, null, null),
                            Flight(4, "AA", -1, 0, 0.25, "N0"), Flight(5, null, 7, 0, null, "")}),
            "AA 2 1 4 4 4 4 1.5 N1\n"
            "AA 3 1 4 4 4 4 1.5 N1\n"
            "AA 4 2 3 1.5 -1 4 1.75 N1\n"
            "null 1 1 7 7 7 7 null \n");
  // A row without nulls after them.
  EXPECT_EQ(flights->Shown({Flight(6, "AA", 9, 0, 1.0, "Z")}), "AA 5 3 12 4 -1 9 2.75 Z\n");
}

TEST(AggregateOperatorTest, ALargeBatchShowsEveryRowAsRowsOnTheirOwnDo) {
  const std::string config = R"({"keys": ["key"], "emit": "every_row", "aggregates": [
      {"function": "count", "as": "rows"},
      {"function": "sum", "column": "value", "as": "sum"},
      {"function": "max", "column": "text", "as": "text"}]})";
  const SchemaPtr schema =
      MakeSchema({{"key", Type::kInt64}, {"value", Type::kInt32}, {"text", Type::kString}});
  std::mt19937 random(5);
  Rows rows;
  for (int i = 0; i < 1100; ++i) {
    Cell value = random() % 4 == 0 ? Cell(std::nullopt) : Cell(static_cast<int>(random() % 1000));
    Cell text = random() % 4 == 0 ? Cell(std::nullopt) : Cell(Concat("t", random() % 1000));
    rows.push_back({static_cast<int>(random() % 300), value, text});
  }
  std::string expected;
  auto alone = Aggregate(config, schema, {"key"});
  for (const auto& row : rows) expected += alone->Shown({row});
  auto together = Aggregate(config, schema, {"key"});
  EXPECT_EQ(together->Shown(rows), expected);
}

// Each thousand rows another key has most of them, and keys that are new among the rest make tables
// grow meanwhile, also the one that holds the key of most.
TEST(AggregateOperatorTest, AKeyThatMostRowsHaveIsCountedLikeOthers) {
  auto counts = Aggregate(R"({"keys": ["key"], "emit": "every_row", "keep": ["row_id"],
      "aggregates": [{"function": "count", "as": "rows"}]})",
                          MakeSchema({{"row_id", Type::kInt64}, {"key", Type::kInt64}}), {"key"});
  std::mt19937 random(7);
  std::map<int, int> count_of;
  for (const int others_in_ten : {1, 3, 5}) {
    Rows rows;
    std::string expected;
    for (int i = 0; i < 5000; ++i) {
      const bool other = static_cast<int>(random() % 10) < others_in_ten;
      const int key = other ? static_cast<int>(random() % 3000) : -(i / 1000);
      rows.push_back({i, key});
      expected += Concat(key, " ", i, " ", ++count_of[key], "\n");
    }
    EXPECT_EQ(counts->Shown(rows), expected);
  }
}

TEST(AggregateOperatorTest, MinAndMaxKeepTheTypeOfTheirColumn) {
  auto flights = Aggregate(R"({"keys": ["carrier"], "aggregates": [
      {"function": "min", "column": "delay", "as": "a"},
      {"function": "max", "column": "distance", "as": "b"},
      {"function": "min", "column": "air_time", "as": "c"},
      {"function": "min", "column": "tail", "as": "d"},
      {"function": "max", "column": "at", "as": "e"}]})");
  EXPECT_EQ(flights->output_schema()->ToString(),
            "(carrier STRING, a INT32, b INT64, c FLOAT64, d STRING, e TIMESTAMP)");
  EXPECT_EQ(
      flights->Shown({Flight(1, "AA", 3, kMin, 2.5, "b", -5),
                      Flight(2, "AA", std::numeric_limits<int32_t>::min(), kMax, -0.5, "a", -9),
                      Flight(3, "AA", 0, 0, 7.0, "\xc3\xa9", kMax)}),
      Concat("AA 3 ", kMin, " 2.5 b -5\n", "AA -2147483648 ", kMax, " -0.5 a -5\n",
             "AA -2147483648 ", kMax, " -0.5 a ", kMax, "\n"));
}

TEST(AggregateOperatorTest, NanIsAboveAllNumbersAndSumsKeepIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Rows rows = {{1, nan}, {1, infinity}, {1, 2.0}, {1, nan}};
  EXPECT_EQ(OneAggregate("min", Type::kFloat64)->Shown(rows), "1 nan\n1 inf\n1 2\n1 2\n");
  EXPECT_EQ(OneAggregate("max", Type::kFloat64)->Shown(rows), "1 nan\n1 nan\n1 nan\n1 nan\n");
  EXPECT_EQ(OneAggregate("max", Type::kFloat64)->Shown({{1, 2.0}, {1, nan}}), "1 2\n1 nan\n");
  EXPECT_EQ(OneAggregate("sum", Type::kFloat64)->Shown({{1, infinity}, {1, -infinity}, {1, 1.0}}),
            "1 inf\n1 -nan\n1 -nan\n");
}

TEST(AggregateOperatorTest, ASumOfZeroIsAValue) {
  EXPECT_EQ(OneAggregate("sum", Type::kFloat64)->Shown({{1, 0.0}, {1, 1.5}, {1, -1.5}}),
            "1 0\n1 1.5\n1 0\n");
  EXPECT_EQ(OneAggregate("sum", Type::kInt64)->Shown({{1, 0}, {1, std::nullopt}}), "1 0\n1 0\n");
}

TEST(AggregateOperatorTest, AverageOfIntegersIsThatOfTheirExactSum) {
  // The sum leaves INT64 in between, which is no overflow of an average.
  EXPECT_EQ(OneAggregate("avg", Type::kInt64)->Shown({{1, kMax}, {1, kMax}, {1, kMin}, {1, kMin}}),
            "1 9223372036854775808\n"  // the FLOAT64 next to 2^63 - 1
            "1 9223372036854775808\n"
            "1 3074457345618258432\n"  // that next to (2^63 - 2) / 3
            "1 -0.5\n");
}

TEST(AggregateOperatorTest, OverflowOfASumNamesOperatorKeyAndValues) {
  for (const char* emit : {"every_row", "changed"}) {
    auto sum = OneAggregate("sum", Type::kInt64, emit);
    ASSERT_TRUE(sum->Process(Rows{{7, kMax}, {8, 1}, {7, std::nullopt}}).ok());
    auto result = sum->Process(Rows{{8, 1}, {7, 2}});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().domain(), ErrorDomain::kUser);
    EXPECT_EQ(result.status().message(),
              "aggregate 'step', key key = 7: sum(value) overflows: 9223372036854775807 + 2 is no "
              "INT64");
  }
  auto below = OneAggregate("sum", Type::kInt64);
  EXPECT_EQ(below->Shown({{7, kMin}, {7, std::nullopt}, {7, -1}}),
            "error: aggregate 'step', key key = 7: sum(value) overflows: -9223372036854775808 + -1 "
            "is no INT64");
}

TEST(AggregateOperatorTest, AllColumnsOfTheKeyAreInTheMessageCutToALine) {
  const SchemaPtr schema =
      MakeSchema({{"a", Type::kString}, {"b", Type::kString}, {"n", Type::kInt64}});
  auto sum = Aggregate(R"({"keys": ["b", "a"], "aggregates": [
      {"function": "sum", "column": "n", "as": "s"}]})",
                       schema, {"a", "b"});
  const std::string text = std::string(63, 'x') + "\xc3\xa9" + std::string(100, 'x');
  EXPECT_EQ(sum->Shown({{std::nullopt, text, kMax}, {std::nullopt, text, 1}}),
            "error: aggregate 'step', key b = '" + std::string(63, 'x') +
                "…', a = null: sum(n) overflows: 9223372036854775807 + 1 is no INT64");
}

TEST(AggregateOperatorTest, ChangedEmitsEachKeyOfABatchOnceAsItIsAfterIt) {
  auto flights = Aggregate(R"({"keys": ["carrier"], "emit": "changed", "aggregates": [
      {"function": "count", "as": "flights"},
      {"function": "sum", "column": "delay", "as": "delay"},
      {"function": "min", "column": "tail", "as": "tail"}]})");
  const Cell null = std::nullopt;
  EXPECT_EQ(flights->Shown({Flight(1, "UA", 1, 0, 0.0, "u"), Flight(2, "AA", null, 0, 0.0, null),
                            Flight(3, "UA", 2, 0, 0.0, "t"), Flight(4, null, 3, 0, 0.0, "n")}),
            "UA 2 3 t\n"
            "AA 1 null null\n"
            "null 1 3 n\n");
  EXPECT_EQ(flights->Shown({Flight(5, "AA", 4, 0, 0.0, "a")}), "AA 2 4 a\n");
}

TEST(AggregateOperatorTest, ManyAggregatesHaveAPlaceEach) {
  // More than a word of flags: 70 minima, each of another column.
  std::vector<Field> fields = {{"key", Type::kInt64}};
  std::string aggregates;
  std::vector<Cell> row = {1};
  std::vector<Cell> next = {1};
  std::string first = "1";
  std::string second = "1";
  for (int i = 0; i < 70; ++i) {
    fields.push_back({Concat("c", i), Type::kInt64});
    aggregates += Concat(i == 0 ? "" : ",", R"({"function": "min", "column": "c)", i,
                         R"(", "as": "m)", i, "\"}");
    row.push_back(i % 3 == 0 ? Cell(std::nullopt) : Cell(i));
    next.push_back(i % 2 == 0 ? Cell(std::nullopt) : Cell(i - 1));
    first += i % 3 == 0 ? " null" : Concat(" ", i);
    second += i % 2 != 0 ? Concat(" ", i - 1) : i % 3 == 0 ? " null" : Concat(" ", i);
  }
  auto minima = Aggregate(R"({"keys": ["key"], "aggregates": [)" + aggregates + "]}",
                          MakeSchema(fields), {"key"});
  EXPECT_EQ(minima->Shown({row, next}), first + "\n" + second + "\n");
}

TEST(AggregateOperatorTest, GoesOnFromRestoredState) {
  const std::string config = R"({"keys": ["carrier"], "aggregates": [
      {"function": "count", "as": "n"}, {"function": "avg", "column": "air_time", "as": "t"},
      {"function": "max", "column": "tail", "as": "tail"}]})";
  auto before = Aggregate(config);
  ASSERT_TRUE(before->Process(Rows{Flight(1, "AA", 0, 0, 1.0, "m"), Flight(2, "B6", 0)}).ok());
  auto after = Aggregate(config);
  after->MoveStateFrom(*before);
  EXPECT_EQ(after->Shown({Flight(3, "AA", 0, 0, 2.0, "k")}), "AA 2 1.5 m\n");
}

TEST(AggregateOperatorTest, StateOfOtherAggregatesIsRefused) {
  auto before = OneAggregate("sum", Type::kInt64);
  ASSERT_TRUE(before->Process(Rows{{1, 1}}).ok());
  StatusOr<std::vector<KeyGroupState>> snapshot = before->state().Snapshot();
  ASSERT_TRUE(snapshot.ok());
  auto after = OneAggregate("min", Type::kInt64);
  const Status status = after->state().Restore((*snapshot)[0].key_group, (*snapshot)[0].bytes);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_NE(status.message().find("sum(value INT64)"), std::string::npos) << status;
  EXPECT_NE(status.message().find("min(value INT64)"), std::string::npos) << status;
}

TEST(AggregateOperatorTest, KeysOtherThanThoseOfTheEdgeAreRefused) {
  OperatorHarness harness(
      std::make_unique<AggregateOperator>(),
      R"({"keys": ["carrier"], "aggregates": [{"function": "count", "as": "n"}]})", Flights(),
      {"tail"});
  EXPECT_EQ(harness.Open().domain(), ErrorDomain::kUser);
}

TEST(AggregateOperatorTest, KeptColumnsAreNotCopied) {
  auto flights = Aggregate(R"({"keys": ["carrier"], "keep": ["tail"],
      "aggregates": [{"function": "count", "as": "n"}]})");
  const RecordBatch batch = MakeBatch(Flights(), {Flight(1, "AA", 0)});
  auto result = flights->Process(batch);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)[0].column(0).data(), batch.column(1).data());
  EXPECT_EQ((*result)[0].column(1).data(), batch.column(5).data());
}

TEST(AggregateOperatorTest, ManyKeysInLargeBatchesAgreeWithARowAtATime) {
  auto every_row = Aggregate(R"({"keys": ["key"], "aggregates": [
      {"function": "count", "as": "n"}, {"function": "sum", "column": "value", "as": "s"}]})",
                             MakeSchema({{"key", Type::kInt64}, {"value", Type::kInt64}}), {"key"});
  std::mt19937_64 random(5);
  std::map<int64_t, std::pair<int64_t, int64_t>> expected;
  for (int round = 0; round < 10; ++round) {
    Rows rows;
    std::string text;
    for (int i = 0; i < 4096; ++i) {
      const int64_t key = static_cast<int64_t>(random() % 5000);
      const int64_t value = static_cast<int64_t>(random() % 2001) - 1000;
      rows.push_back({key, value});
      auto& [count, sum] = expected[key];
      ++count;
      sum += value;
      text += Concat(key, " ", count, " ", sum, "\n");
    }
    ASSERT_EQ(every_row->Shown(rows), text);
  }
}

}  // namespace
}  // namespace weir
