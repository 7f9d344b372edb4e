// Goal: rows that are put together before they are sent give the aggregates that they give one by
// one, and are only put together where that makes them fewer. Method: random rows, sent as the
// combiner says, into the aggregate operator, whose last row of each key is compared with a
// computation over all rows of the key; small tables worked out by hand.

#include "worker/operators/partial_aggregate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "tests/unit/worker/operators/operator_harness.h"
#include "worker/operators/aggregate_operator.h"

namespace weir {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

AggregateConfig ConfigOf(const std::string& json) {
  return std::move(ParseAggregateConfig(Config(std::move(ParseJson(json)).value()))).value();
}

// A combiner and the operator that it combines for.
struct Pair {
  Pair(const std::string& config, const SchemaPtr& schema, const std::vector<std::string>& keys,
       bool partials = true)
      : combiner(ConfigOf(config), *schema),
        aggregate(std::make_unique<AggregateOperator>(), config, schema, keys) {
    if (partials) {
      aggregate.TakePartials(
          std::make_shared<const Schema>(AggregatePartialsOf(ConfigOf(config), *schema).schema));
    }
    const Status status = aggregate.Open();
    EXPECT_TRUE(status.ok()) << status;
  }

  PartialAggregate combiner;
  OperatorHarness aggregate;
};

// A row of the random test, and what is expected of all rows of a key.
struct Row {
  std::optional<int32_t> small;
  std::optional<int64_t> big;
  std::optional<double> real;
  std::optional<std::string> text;
};

struct Expected {
  int64_t rows = 0;
  int64_t smalls = 0;
  int64_t small_sum = 0;
  __int128 big_sum = 0;
  std::vector<int64_t> bigs;
  std::vector<double> reals;
  std::vector<std::string> texts;

  void Add(const Row& row) {
    ++rows;
    if (row.small) {
      ++smalls;
      small_sum += *row.small;
    }
    if (row.big) {
      big_sum += *row.big;
      bigs.push_back(*row.big);
    }
    if (row.real) reals.push_back(*row.real);
    if (row.text) texts.push_back(*row.text);
  }
};

constexpr const char* kAggregates = R"("emit": "changed", "aggregates": [
    {"function": "count", "as": "rows"},
    {"function": "count", "column": "small", "as": "smalls"},
    {"function": "sum", "column": "small", "as": "small_sum"},
    {"function": "avg", "column": "small", "as": "small_avg"},
    {"function": "avg", "column": "big", "as": "big_avg"},
    {"function": "min", "column": "big", "as": "big_min"},
    {"function": "max", "column": "big", "as": "big_max"},
    {"function": "min", "column": "real", "as": "real_min"},
    {"function": "max", "column": "real", "as": "real_max"},
    {"function": "min", "column": "text", "as": "text_min"},
    {"function": "max", "column": "text", "as": "text_max"}]})";

// Columns behind the keys of one row that the operator emitted, against what is expected.
void ExpectRow(const RecordBatch& batch, int64_t row, int first, const Expected& expected) {
  auto column = [&](int i) -> const Column& { return batch.column(first + i); };
  EXPECT_EQ(column(0).Int64(row), expected.rows);
  EXPECT_EQ(column(1).Int64(row), expected.smalls);
  ASSERT_EQ(column(2).IsNull(row), expected.smalls == 0);
  ASSERT_EQ(column(3).IsNull(row), expected.smalls == 0);
  if (expected.smalls > 0) {
    EXPECT_EQ(column(2).Int64(row), expected.small_sum);
    EXPECT_EQ(column(3).Float64(row),
              static_cast<double>(expected.small_sum) / static_cast<double>(expected.smalls));
  }
  for (int i = 4; i <= 6; ++i) ASSERT_EQ(column(i).IsNull(row), expected.bigs.empty());
  if (!expected.bigs.empty()) {
    EXPECT_EQ(column(4).Float64(row),
              static_cast<double>(expected.big_sum) / static_cast<double>(expected.bigs.size()));
    EXPECT_EQ(column(5).Int64(row), *std::ranges::min_element(expected.bigs));
    EXPECT_EQ(column(6).Int64(row), *std::ranges::max_element(expected.bigs));
  }
  for (int i = 7; i <= 8; ++i) ASSERT_EQ(column(i).IsNull(row), expected.reals.empty());
  if (!expected.reals.empty()) {
    // NaN above all numbers.
    std::vector<double> numbers;
    for (const double real : expected.reals) {
      if (!std::isnan(real)) numbers.push_back(real);
    }
    const bool any_nan = numbers.size() < expected.reals.size();
    if (numbers.empty()) {
      EXPECT_TRUE(std::isnan(column(7).Float64(row)));
    } else {
      EXPECT_EQ(column(7).Float64(row), *std::ranges::min_element(numbers));
    }
    if (any_nan) {
      EXPECT_TRUE(std::isnan(column(8).Float64(row)));
    } else {
      EXPECT_EQ(column(8).Float64(row), *std::ranges::max_element(numbers));
    }
  }
  for (int i = 9; i <= 10; ++i) ASSERT_EQ(column(i).IsNull(row), expected.texts.empty());
  if (!expected.texts.empty()) {
    EXPECT_EQ(column(9).Text(row), *std::ranges::min_element(expected.texts));
    EXPECT_EQ(column(10).Text(row), *std::ranges::max_element(expected.texts));
  }
}

TEST(PartialAggregateTest, WhatWasPutTogetherGivesTheSameAggregates) {
  struct Keys {
    std::vector<Field> fields;
    // Cells of key number `key`.
    std::function<std::vector<Cell>(int64_t key)> cells;
  };
  const Cell null = std::nullopt;
  const std::vector<Keys> kinds = {
      {{{"a", Type::kInt64}}, [](int64_t key) { return std::vector<Cell>{key * (kMax / 100)}; }},
      {{{"a", Type::kInt32}}, [](int64_t key) { return std::vector<Cell>{-key}; }},
      {{{"a", Type::kInt64}},
       [&](int64_t key) { return std::vector<Cell>{key == 0 ? null : Cell(key)}; }},
      // Every NaN is one key, and so are both zeros.
      {{{"a", Type::kFloat64}},
       [flip = false](int64_t key) mutable {
         flip = !flip;
         return std::vector<Cell>{key == 0   ? Cell(flip ? kNan : -kNan)
                                  : key == 1 ? Cell(flip ? 0.0 : -0.0)
                                             : Cell(static_cast<double>(key) / 8)};
       }},
      {{{"a", Type::kString}, {"b", Type::kBool}},
       [&](int64_t key) {
         return std::vector<Cell>{key == 0 ? null : Cell(std::string(key, 'k')),
                                  key % 2 == 0 ? "true" : "false"};
       }},
  };
  std::mt19937_64 random(20);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int put_together = 0, sent_as_they_are = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    SCOPED_TRACE(kind);
    const Keys& keys = kinds[kind];
    std::vector<Field> fields = keys.fields;
    std::vector<std::string> names;
    std::string list;
    for (const Field& field : fields) {
      names.push_back(field.name);
      list += (list.empty() ? "\"" : ", \"") + field.name + "\"";
    }
    const int key_count = static_cast<int>(fields.size());
    // Keys and values not in the order of the config.
    fields.insert(fields.begin(), {"text", Type::kString});
    for (Field field : {Field{"real", Type::kFloat64}, Field{"big", Type::kInt64},
                        Field{"small", Type::kInt32}}) {
      fields.push_back(std::move(field));
    }
    const SchemaPtr schema = MakeSchema(fields);
    const std::string config = "{\"keys\": [" + list + "], " + kAggregates;
    auto pair = std::make_unique<Pair>(config, schema, names);
    std::map<int64_t, Expected> expected;
    std::map<std::string, int64_t> key_of;  // by the canonical bytes of its cells
    std::vector<RecordBatch> emitted;
    std::map<int64_t, std::pair<size_t, int64_t>> last;  // batch and row that showed the key last
    for (int step = 0; step < 120; ++step) {
      // From many rows of few keys to few rows of many.
      const int64_t rows = 1 + below(step % 3 == 0 ? 5 : 300);
      const int64_t key_range = step % 4 == 3 ? 1000 : 1 + below(30);
      // Where there are many of them, sums do not fit.
      const int64_t extremes = step % 7 == 0 ? 10 : 1000;
      Rows cells;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t key = below(10) < 7 ? 0 : below(std::min<int64_t>(key_range, 99));
        Row row;
        if (below(4) != 0) row.small = static_cast<int32_t>(random());
        if (below(3) != 0) {
          row.big = below(extremes) != 0 ? below(99) - 49
                    : below(2) == 0      ? kMax - below(99)
                                         : kMin + below(99);
        }
        const double reals[] = {kNan, -kNan, kInfinity, -kInfinity, 0.0, -0.0, 2.5, -7.25};
        if (below(3) != 0) row.real = below(5) == 0 ? reals[below(8)] : 1.0 + below(50) / 4.0;
        if (below(3) != 0) row.text = std::string(below(12), static_cast<char>('a' + below(26)));
        std::vector<Cell> line{row.text ? Cell(*row.text) : null};
        for (Cell& cell : keys.cells(key)) line.push_back(std::move(cell));
        line.push_back(row.real ? Cell(*row.real) : null);
        line.push_back(row.big ? Cell(*row.big) : null);
        line.push_back(row.small ? Cell(int64_t{*row.small}) : null);
        cells.push_back(std::move(line));
        expected[key].Add(row);
        const RecordBatch one = MakeBatch(schema, {cells.back()});
        std::string bytes;
        for (int c = 1; c <= key_count; ++c) EncodeKey(one, std::vector<int>{c}, 0, &bytes);
        key_of[bytes] = key;
      }
      if (step == 40 || step == 80) {
        // State does not know whether rows come put together.
        auto next = std::make_unique<Pair>(config, schema, names, step == 80);
        next->aggregate.MoveStateFrom(pair->aggregate);
        pair = std::move(next);
      }
      const RecordBatch batch = MakeBatch(schema, cells);
      const RecordBatchPtr partials =
          step >= 40 && step < 80 ? nullptr : pair->combiner.Combine(batch);
      ++(partials != nullptr ? put_together : sent_as_they_are);
      if (partials != nullptr) {
        EXPECT_LE(partials->rows() * 2, batch.rows());
        int64_t stands_for = 0;
        for (int64_t i = 0; i < partials->rows(); ++i) {
          stands_for += partials->column(key_count).Int64(i);
        }
        EXPECT_EQ(stands_for, batch.rows());
      }
      auto out = partials != nullptr ? pair->aggregate.Process(*partials, 1)
                                     : pair->aggregate.Process(batch, 0);
      ASSERT_TRUE(out.ok()) << out.status();
      ASSERT_EQ(out->size(), 1u);
      emitted.push_back(std::move(out->at(0)));
      std::vector<int> columns;
      for (int c = 0; c < key_count; ++c) columns.push_back(c);
      for (int64_t i = 0; i < emitted.back().rows(); ++i) {
        std::string bytes;
        for (const int c : columns) EncodeKey(emitted.back(), std::vector<int>{c}, i, &bytes);
        ASSERT_TRUE(key_of.contains(bytes));
        last[key_of[bytes]] = {emitted.size() - 1, i};
        // What is emitted is the state behind this batch.
        ExpectRow(emitted.back(), i, key_count, expected[key_of[bytes]]);
      }
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    // Two key numbers that have one key would be a mistake of this test.
    EXPECT_EQ(last.size(), expected.size());
  }
  EXPECT_GT(put_together, 100);
  EXPECT_GT(sent_as_they_are, 100);
}

constexpr const char* kSums =
    R"({"keys": ["key"], "emit": "changed", "aggregates": [
       {"function": "sum", "column": "value", "as": "sum"},
       {"function": "avg", "column": "value", "as": "avg"}]})";

SchemaPtr KeyAndValue() { return MakeSchema({{"key", Type::kInt64}, {"value", Type::kInt64}}); }

TEST(PartialAggregateTest, ShowsARowOfEachKeyInOrderOfTheirFirstRows) {
  Pair pair(kSums, KeyAndValue(), {"key"});
  const Cell null = std::nullopt;
  const RecordBatchPtr partials = pair.combiner.Combine(MakeBatch(
      KeyAndValue(), {{7, 1}, {5, null}, {7, 2}, {7, null}, {5, null}, {7, -10}, {9, 4}, {9, 4}}));
  ASSERT_NE(partials, nullptr);
  // key, rows, sum, sum of avg, values of avg
  EXPECT_EQ(Show(*partials),
            "7 4 -7 -7 3\n"
            "5 2 null null 0\n"
            "9 2 8 8 2\n");
  auto out = pair.aggregate.Process(*partials, 1);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Show(out->at(0)), "7 -7 -2.3333333333333335\n5 null null\n9 8 4\n");
}

TEST(PartialAggregateTest, ASumThatLeavesInt64ForAWhileIsSentRowByRow) {
  Pair pair(kSums, KeyAndValue(), {"key"});
  EXPECT_EQ(pair.combiner.Combine(MakeBatch(KeyAndValue(), {{1, kMax}, {1, 1}, {1, -1}, {1, 0}})),
            nullptr);
  EXPECT_EQ(pair.combiner.Combine(MakeBatch(KeyAndValue(), {{1, kMin}, {1, -1}, {2, 1}, {2, 1}})),
            nullptr);
}

TEST(PartialAggregateTest, OverflowIsFoundByWhatTheRowsSumUpTo) {
  Pair pair(kSums, KeyAndValue(), {"key"});
  auto process = [&](const Rows& rows) {
    RecordBatchPtr partials;
    while (partials == nullptr) partials = pair.combiner.Combine(MakeBatch(KeyAndValue(), rows));
    return pair.aggregate.Process(*partials, 1).status();
  };
  ASSERT_TRUE(process({{1, kMax - 5}, {1, 5}}).ok());
  ASSERT_TRUE(process({{1, 3}, {1, -3}}).ok());
  EXPECT_EQ(process({{1, 2}, {1, 5}}).message(),
            "aggregate 'step', key key = 1: sum(value) overflows: 9223372036854775807 + 7 is no "
            "INT64");
}

TEST(PartialAggregateTest, BatchesOfManyKeysAreLetPassAndTriedAgainNowAndThen) {
  Pair pair(kSums, KeyAndValue(), {"key"});
  Rows different, equal;
  for (int i = 0; i < 100; ++i) {
    different.push_back({i % 51, 1});
    equal.push_back({i % 50, 1});
  }
  const RecordBatch many = MakeBatch(KeyAndValue(), different);
  const RecordBatch few = MakeBatch(KeyAndValue(), equal);
  EXPECT_NE(pair.combiner.Combine(few), nullptr);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(pair.combiner.Combine(many), nullptr);
  int waited = 0;
  while (pair.combiner.Combine(few) == nullptr) ++waited;
  EXPECT_LE(waited, 64);
  for (int i = 0; i < 100; ++i) ASSERT_NE(pair.combiner.Combine(few), nullptr);
}

TEST(PartialAggregateTest, LongTextsAreSentAsTheyAre) {
  const SchemaPtr schema = MakeSchema({{"key", Type::kInt64}, {"value", Type::kString}});
  Pair pair(R"({"keys": ["key"], "emit": "changed", "aggregates": [
      {"function": "min", "column": "value", "as": "min"},
      {"function": "max", "column": "value", "as": "max"}]})",
            schema, {"key"});
  auto combined = [&](size_t bytes) {
    return pair.combiner.Combine(
        MakeBatch(schema, {{1, std::string(bytes, 'a')}, {1, std::string(bytes, 'b')}}));
  };
  // Both would be in one row.
  EXPECT_EQ(combined(600'000), nullptr);
  EXPECT_NE(combined(400'000), nullptr);
}

TEST(PartialAggregateTest, OddKeysDoNotTakeLong) {
  // Keys whose products with the multiplier of the table differ only in their lowest bits.
  Rows rows;
  const uint64_t inverse = [] {
    uint64_t x = 1;
    for (int i = 0; i < 6; ++i) x *= 2 - 0x9e3779b97f4a7c15 * x;
    return x;
  }();
  for (uint64_t i = 0; i < 4096; ++i) {
    uint64_t word = (1 + i % 2000) * inverse;
    word ^= word >> 32;  // undoes what the table does first
    rows.push_back({static_cast<int64_t>(word), 1});
  }
  Pair pair(kSums, KeyAndValue(), {"key"});
  EXPECT_EQ(pair.combiner.Combine(MakeBatch(KeyAndValue(), rows)), nullptr);
}

}  // namespace
}  // namespace weir
