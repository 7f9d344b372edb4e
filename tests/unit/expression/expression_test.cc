// Goal: expressions give what SQL says, over all rows at once, and fail only for rows that ask for
// what fails. Method: one small batch with nulls; the values expected of each expression are worked
// out by hand (numbers with Python).
#include "common/expression/expression.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "common/record/batch_builder.h"

namespace weir {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Schema TestSchema() {
  return Schema({{"i", Type::kInt32},
                 {"n", Type::kInt64},
                 {"f", Type::kFloat64},
                 {"s", Type::kString},
                 {"b", Type::kBool},
                 {"t", Type::kTimestamp},
                 {"y", Type::kBytes},
                 {"odd name", Type::kInt64}});
}

// Row 0: 1, 10, 0.5, "AA", true, 0, "\xff", 5
// Row 1: -2, kMax, -1.5, "bé_c", false, 1356998400000001, "xy", 6
// Row 2: null in every column
// Row 3: 0, 0, 0, "", true, -1, "", 7
RecordBatch TestBatch() {
  BatchBuilder builder(std::make_shared<const Schema>(TestSchema()));
  auto row = [&](int32_t i, int64_t n, double f, std::string_view s, bool b, int64_t t,
                 std::string_view y, int64_t odd) {
    builder.column(0).AppendInt32(i);
    builder.column(1).AppendInt64(n);
    builder.column(2).AppendFloat64(f);
    builder.column(3).AppendText(s);
    builder.column(4).AppendBool(b);
    builder.column(5).AppendInt64(t);
    builder.column(6).AppendText(y);
    builder.column(7).AppendInt64(odd);
  };
  row(1, 10, 0.5, "AA", true, 0, "\xff", 5);
  row(-2, kMax, -1.5, "b\xc3\xa9_c", false, 1356998400000001, "xy", 6);
  for (int c = 0; c < 8; ++c) builder.column(c).AppendNull();
  row(0, 0, 0.0, "", true, -1, "", 7);
  return builder.Finish();
}

std::string Show(const Column& column, int64_t row) {
  if (column.IsNull(row)) return "null";
  switch (column.type()) {
    case Type::kBool:
      return column.Bool(row) ? "true" : "false";
    case Type::kInt32:
      return std::to_string(column.Int32(row));
    case Type::kInt64:
    case Type::kTimestamp:
      return std::to_string(column.Int64(row));
    case Type::kFloat64: {
      char text[40];
      std::snprintf(text, sizeof(text), "%g", column.Float64(row));
      return text;
    }
    case Type::kString:
    case Type::kBytes:
      return "'" + std::string(column.Text(row)) + "'";
  }
  return "?";
}

// The four values, or the error.
std::string Values(std::string_view text) {
  StatusOr<Expression> expression = ParseExpression(text, TestSchema());
  if (!expression.ok()) return expression.status().message();
  const RecordBatch batch = TestBatch();
  StatusOr<Column> column = expression->Evaluate(batch);
  if (!column.ok()) {
    EXPECT_EQ(column.status().domain(), ErrorDomain::kUser);
    return column.status().message();
  }
  EXPECT_EQ(column->type(), expression->type());
  EXPECT_EQ(column->size(), batch.rows());
  std::string shown;
  for (int64_t i = 0; i < column->size(); ++i) shown += (i > 0 ? " " : "") + Show(*column, i);
  return shown;
}

Type TypeOf(std::string_view text) { return ParseExpression(text, TestSchema()).value().type(); }

TEST(ExpressionTest, ColumnsAndLiterals) {
  EXPECT_EQ(Values("i"), "1 -2 null 0");
  EXPECT_EQ(Values("\"odd name\""), "5 6 null 7");
  EXPECT_EQ(Values("'it''s'"), "'it's' 'it's' 'it's' 'it's'");
  EXPECT_EQ(Values("-9223372036854775808"),
            "-9223372036854775808 -9223372036854775808 "
            "-9223372036854775808 -9223372036854775808");
  EXPECT_EQ(Values("1.5e3"), "1500 1500 1500 1500");
  EXPECT_EQ(Values("timestamp '2013-01-01T00:00:00.000001Z'"),
            "1356998400000001 1356998400000001 1356998400000001 1356998400000001");
  EXPECT_EQ(Values("cast(null as STRING)"), "null null null null");
}

TEST(ExpressionTest, Comparison) {
  EXPECT_EQ(Values("i > 0"), "true false null false");
  EXPECT_EQ(Values("0 <= i"), "true false null true");
  EXPECT_EQ(Values("i = 1.0"), "true false null false");
  EXPECT_EQ(Values("i == 1"), "true false null false");
  EXPECT_EQ(Values("i <> 1"), "false true null true");
  EXPECT_EQ(Values("i != n"), "true true null false");
  EXPECT_EQ(Values("s < 'b'"), "true false null true");
  EXPECT_EQ(Values("b = false"), "false true null false");
  EXPECT_EQ(Values("t >= timestamp '1970-01-01T00:00:00Z'"), "true true null false");
  EXPECT_EQ(Values("i = null"), "null null null null");
  EXPECT_EQ(Values("1 < 2"), "true true true true");
}

TEST(ExpressionTest, ThreeValuedLogic) {
  EXPECT_EQ(Values("b and i > 0"), "true false null false");
  EXPECT_EQ(Values("b or i > 0"), "true false null true");
  EXPECT_EQ(Values("b and false"), "false false false false");
  EXPECT_EQ(Values("b or true"), "true true true true");
  EXPECT_EQ(Values("b and null"), "null false null null");
  EXPECT_EQ(Values("b or null"), "true null null true");
  EXPECT_EQ(Values("not b"), "false true null false");
  EXPECT_EQ(Values("not not b"), "true false null true");
  EXPECT_EQ(Values("not b = false or i = 1 and b"), "true false null true");
  EXPECT_EQ(Values("b is null"), "false false true false");
  EXPECT_EQ(Values("b is not null and true"), "true true false true");
  EXPECT_EQ(Values("null is null"), "true true true true");
  EXPECT_EQ(Values("true and true and b and true"), "true false null true");
}

TEST(ExpressionTest, Arithmetic) {
  EXPECT_EQ(TypeOf("i + i"), Type::kInt64);
  EXPECT_EQ(TypeOf("i + f"), Type::kFloat64);
  EXPECT_EQ(Values("i + 2 * 3"), "7 4 null 6");
  EXPECT_EQ(Values("(i + 2) * 3"), "9 0 null 6");
  EXPECT_EQ(Values("10 - i - 1"), "8 11 null 9");
  EXPECT_EQ(Values("i / 2"), "0 -1 null 0");
  EXPECT_EQ(Values("-7 / 2"), "-3 -3 -3 -3");
  EXPECT_EQ(Values("-7 % 3"), "-1 -1 -1 -1");
  EXPECT_EQ(Values("(i - 5) % 3"), "-1 -1 null -2");
  EXPECT_EQ(Values("-i"), "-1 2 null 0");
  EXPECT_EQ(Values("- - i"), "1 -2 null 0");
  EXPECT_EQ(Values("abs(i)"), "1 2 null 0");
  EXPECT_EQ(Values("abs(f)"), "0.5 1.5 null 0");
  EXPECT_EQ(Values("f * 2"), "1 -3 null 0");
  EXPECT_EQ(Values("f / 2"), "0.25 -0.75 null 0");
  EXPECT_EQ(Values("7.5 % 2"), "1.5 1.5 1.5 1.5");
  EXPECT_EQ(Values("i + null"), "null null null null");
  EXPECT_EQ(Values("n % -1"), "0 0 null 0");
}

TEST(ExpressionTest, OverflowAndDivisionByZeroAreErrors) {
  EXPECT_EQ(Values("n + 1"), "expression 'n + 1': overflow of INT64: 9223372036854775807 + 1");
  EXPECT_EQ(Values("(n * 2) > 5"),
            "expression '(n * 2) > 5': '(n * 2)': overflow of INT64: 9223372036854775807 * 2");
  EXPECT_EQ(Values("-2 - n"), "expression '-2 - n': overflow of INT64: -2 - 9223372036854775807");
  EXPECT_EQ(Values("10 / n"), "expression '10 / n': division by zero: 10 / 0");
  EXPECT_EQ(Values("10 % i"), "expression '10 % i': division by zero: 10 % 0");
  EXPECT_EQ(Values("1.0 / f"), "expression '1.0 / f': division by zero: 1 / 0");
  EXPECT_EQ(Values("-9223372036854775808 / -1"),
            "expression '-9223372036854775808 / -1': overflow of INT64: -9223372036854775808 / -1");
  EXPECT_EQ(Values("abs(-9223372036854775808)"),
            "expression 'abs(-9223372036854775808)': overflow of INT64: -(-9223372036854775808)");
  EXPECT_EQ(Values("1 / 0"), "expression '1 / 0': division by zero: 1 / 0");
}

TEST(ExpressionTest, WhatARowDoesNotAskForDoesNotFailIt) {
  EXPECT_EQ(Values("n <> 0 and 10 / n >= 1"), "true false null false");
  EXPECT_EQ(Values("n = 0 or 10 / n >= 1"), "true false null true");
  EXPECT_EQ(Values("case when n = 0 then -1 when i > 0 then 10 / n else i end"), "1 -2 null -1");
  EXPECT_EQ(Values("if(n = 0, 0, 100 / n)"), "10 0 null 0");
  EXPECT_EQ(Values("coalesce(i, 1 / 0)"),
            "expression 'coalesce(i, 1 / 0)': '1 / 0': division by zero: 1 / 0");
  EXPECT_EQ(Values("coalesce(i, n, 7, 1 / 0)"), "1 -2 7 0");
  EXPECT_EQ(Values("false and 1 / 0 = 1"), "false false false false");
  EXPECT_EQ(
      Values("if(s = 'AA', 1, cast('x' as INT64)) = 1 and false"),
      "expression 'if(s = 'AA', 1, cast('x' as INT64)) = 1 and false': 'cast('x' as INT64)': "
      "cannot cast 'x' from STRING to INT64: expected " +
          Values("cast('x' as INT64)").substr(Values("cast('x' as INT64)").find("expected ") + 9));
}

TEST(ExpressionTest, InAndLike) {
  EXPECT_EQ(Values("i in (1, 5)"), "true false null false");
  EXPECT_EQ(Values("i not in (1, 5)"), "false true null true");
  EXPECT_EQ(Values("s in ('AA', '')"), "true false null true");
  EXPECT_EQ(Values("i in (1, null)"), "true null null null");
  EXPECT_EQ(Values("f in (0.5, 0)"), "true false null true");
  EXPECT_EQ(Values("i in (n, 1)"), "true false null true");
  EXPECT_EQ(Values("b in (true)"), "true false null true");
  EXPECT_EQ(Values("s like 'A%'"), "true false null false");
  EXPECT_EQ(Values("s like '%'"), "true true null true");
  EXPECT_EQ(Values("s like 'b__c'"), "false true null false");
  EXPECT_EQ(Values("s like '_\xc3\xa9\\_%'"), "false true null false");
  EXPECT_EQ(Values("s like '%A'"), "true false null false");
  EXPECT_EQ(Values("s like '%_c%'"), "false true null false");
  EXPECT_EQ(Values("s not like ''"), "true true null false");
  EXPECT_EQ(Values("'a%b' like 'a\\%b'"), "true true true true");
  EXPECT_EQ(Values("'axb' like 'a\\%b'"), "false false false false");
  EXPECT_EQ(Values("'abcabd' like '%ab_'"), "true true true true");
  EXPECT_EQ(Values("'mississippi' like '%iss%pi'"), "true true true true");
  EXPECT_EQ(Values("'mississippi' like '%iss%si'"), "false false false false");
}

TEST(ExpressionTest, Texts) {
  EXPECT_EQ(Values("lower(s)"), "'aa' 'b\xc3\xa9_c' null ''");
  EXPECT_EQ(Values("upper(s)"), "'AA' 'B\xc3\xa9_C' null ''");
  EXPECT_EQ(Values("length(s)"), "2 4 null 0");
  EXPECT_EQ(Values("length(y)"), "1 2 null 0");
  EXPECT_EQ(Values("substr(s, 2)"), "'A' '\xc3\xa9_c' null ''");
  EXPECT_EQ(Values("substr(s, 2, 1)"), "'A' '\xc3\xa9' null ''");
  EXPECT_EQ(Values("substr('abc', 0, 2)"), "'a' 'a' 'a' 'a'");
  EXPECT_EQ(Values("substr('abc', -5, 7)"), "'a' 'a' 'a' 'a'");
  EXPECT_EQ(Values("substr('abc', 2, 9223372036854775807)"), "'bc' 'bc' 'bc' 'bc'");
  EXPECT_EQ(Values("substr(s, 1, i)"),
            "expression 'substr(s, 1, i)': count is -2: expected 0 or more");
  EXPECT_EQ(Values("concat(s, '-', i, b)"), "'AA-1true' 'b\xc3\xa9_c--2false' null '-0true'");
  EXPECT_EQ(Values("concat(s, null)"), "null null null null");
  EXPECT_EQ(Values("coalesce(s, 'none')"), "'AA' 'b\xc3\xa9_c' 'none' ''");
  EXPECT_EQ(Values("case when b then s end"), "'AA' null null ''");
}

TEST(ExpressionTest, Casts) {
  EXPECT_EQ(Values("cast(f as INT64)"), "0 -1 null 0");
  EXPECT_EQ(Values("cast(f as int32)"), "0 -1 null 0");
  EXPECT_EQ(Values("cast(i as STRING)"), "'1' '-2' null '0'");
  EXPECT_EQ(Values("cast(f as STRING)"), "'0.5' '-1.5' null '0'");
  EXPECT_EQ(Values("cast(t as INT64)"), "0 1356998400000001 null -1");
  EXPECT_EQ(
      Values("cast(t as STRING)"),
      "'1970-01-01T00:00:00Z' '2013-01-01T00:00:00.000001Z' null '1969-12-31T23:59:59.999999Z'");
  EXPECT_EQ(Values("cast('2013-01-01T01:00:00+01:00' as TIMESTAMP)"),
            "1356998400000000 1356998400000000 1356998400000000 1356998400000000");
  EXPECT_EQ(Values("cast(i as BOOL)"), "true true null false");
  EXPECT_EQ(Values("cast(b as INT64)"), "1 0 null 1");
  EXPECT_EQ(Values("cast('12' as INT32) + 1"), "13 13 13 13");
  EXPECT_EQ(Values("cast('NaN' as FLOAT64) = cast('NaN' as FLOAT64)"), "false false false false");
  EXPECT_EQ(Values("cast(s as BYTES)"), "'AA' 'b\xc3\xa9_c' null ''");
  EXPECT_EQ(
      Values("cast(n as INT32)")
          .rfind("expression 'cast(n as INT32)': cannot cast 9223372036854775807 from INT64 to "
                 "INT32: expected ",
                 0),
      0u);
  EXPECT_EQ(
      Values("cast(s as INT64)")
          .rfind("expression 'cast(s as INT64)': cannot cast 'AA' from STRING to INT64: expected ",
                 0),
      0u);
  EXPECT_NE(Values("cast(1e19 as INT64)").find("cannot cast 1e+19 from FLOAT64"),
            std::string::npos);
  EXPECT_NE(Values("cast(9223372036854775808.0 as INT64)").find("cannot cast"), std::string::npos);
  EXPECT_EQ(Values("cast(-9223372036854775808.0 as INT64)").find("cannot cast"), std::string::npos);
  EXPECT_NE(Values("cast(y as STRING)").find("cannot cast"), std::string::npos);
  EXPECT_EQ(Values("if(i = 1, '', cast(y as STRING))"), "'' 'xy' null ''");
}

TEST(ExpressionTest, SaysWhichColumnsItReads) {
  const Schema schema({{"a", Type::kInt64}, {"b", Type::kString}, {"c", Type::kInt64}});
  auto columns = [&](std::string_view text) {
    StatusOr<Expression> expression = ParseExpression(text, schema);
    EXPECT_TRUE(expression.ok()) << expression.status();
    return expression.ok() ? expression->Columns() : std::vector<int>();
  };
  EXPECT_EQ(columns("1 + 2"), std::vector<int>());
  EXPECT_EQ(columns("c"), std::vector<int>{2});
  EXPECT_EQ(columns("c > 1 and (a = c or a in (1, 2))"), (std::vector<int>{0, 2}));
  EXPECT_EQ(columns("case when b like 'x%' then cast(a as STRING) else lower(b) end"),
            (std::vector<int>{0, 1}));
}

TEST(ExpressionTest, FiltersRows) {
  const RecordBatch batch = TestBatch();
  auto rows = [&](std::string_view text) {
    return FilterRows(batch, ParseExpression(text, TestSchema()).value()).value();
  };
  EXPECT_EQ(rows("b"), (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(rows("b is null or not b"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(rows("false"), (std::vector<int32_t>{}));
  EXPECT_EQ(rows("true"), (std::vector<int32_t>{0, 1, 2, 3}));
  BatchBuilder empty(std::make_shared<const Schema>(TestSchema()));
  EXPECT_EQ(FilterRows(empty.Finish(), ParseExpression("1 / 0 = 1", TestSchema()).value()).value(),
            (std::vector<int32_t>{}));
  EXPECT_FALSE(FilterRows(batch, ParseExpression("10 / n = 1", TestSchema()).value()).ok());
}

// More rows than a validity byte, a cache line and a vector register hold, nulls in between.
TEST(ExpressionTest, LongBatchesAreAsShortOnes) {
  const Schema schema({{"a", Type::kInt64}, {"b", Type::kInt32}});
  BatchBuilder builder(std::make_shared<const Schema>(schema));
  for (int64_t i = 0; i < 1003; ++i) {
    builder.column(0).AppendInt64(i);
    if (i % 7 == 3) {
      builder.column(1).AppendNull();
    } else {
      builder.column(1).AppendInt32(static_cast<int32_t>(-i));
    }
  }
  const RecordBatch batch = builder.Finish();
  Column sum = ParseExpression("a * 2 + b", schema)->Evaluate(batch).value();
  Column chosen =
      ParseExpression("case when a % 2 = 0 then b else a end", schema)->Evaluate(batch).value();
  Column logic = ParseExpression("b < -500 or a = 3", schema)->Evaluate(batch).value();
  for (int64_t i = 0; i < 1003; ++i) {
    const bool null = i % 7 == 3;
    ASSERT_EQ(sum.IsNull(i), null) << i;
    if (!null) {
      ASSERT_EQ(sum.Int64(i), i);
    }
    ASSERT_EQ(chosen.IsNull(i), null && i % 2 == 0) << i;
    if (!chosen.IsNull(i)) {
      ASSERT_EQ(chosen.Int64(i), i % 2 == 0 ? -i : i);
    }
    ASSERT_EQ(logic.IsNull(i), null && i != 3) << i;
    if (!logic.IsNull(i)) {
      ASSERT_EQ(logic.Bool(i), i > 500 || i == 3) << i;
    }
  }
}

}  // namespace
}  // namespace weir
