// Goal: what is no expression is refused at the right place, and no text makes the parser or the
// evaluator crash. Method: one text per rule with the message by hand; random texts of a fixed
// seed.
#include <gtest/gtest.h>

#include <random>

#include "common/expression/expression.h"
#include "common/record/batch_builder.h"

namespace weir {
namespace {

const Schema& TestSchema() {
  static const Schema schema({{"delay", Type::kInt32},
                              {"carrier", Type::kString},
                              {"at", Type::kTimestamp},
                              {"ratio", Type::kFloat64}});
  return schema;
}

std::string ErrorOf(std::string_view text) {
  StatusOr<Expression> expression = ParseExpression(text, TestSchema());
  if (expression.ok()) return "no error";
  EXPECT_EQ(expression.status().domain(), ErrorDomain::kUser);
  return expression.status().message();
}

std::string At(std::string_view text, int column, std::string_view what) {
  return "expression '" + std::string(text) + "' at column " + std::to_string(column) + ": " +
         std::string(what);
}

TEST(ExpressionParserTest, ErrorsNameTheColumn) {
  auto expect = [](std::string_view text, int column, std::string_view what) {
    EXPECT_EQ(ErrorOf(text), At(text, column, what));
  };
  expect("delay >", 8, "expected a value, found the end");
  expect("", 1, "expected a value, found the end");
  expect("delay > 5 5", 11, "unexpected '5'");
  expect("(delay > 5", 11, "expected ')', found the end");
  expect("delay > and", 9, "expected a value, found 'and'");
  expect("delay ! 5", 7, "unexpected '!'");
  expect("'abc", 1, "no closing '");
  expect("\xc3\xa9 = 1", 1, "unexpected '\\xc3'");
  expect("carrier = '\xc3\xa9' 7", 15, "unexpected '7'");
  expect("12ab", 1, "'12ab' is no number");
  expect("9223372036854775808", 1, "integer 9223372036854775808 does not fit INT64");
  expect("1e999", 1, "number 1e999 does not fit FLOAT64");
  expect("delay is 5", 10, "expected 'null', found '5'");
  expect("delay not 5", 11, "expected 'in' or 'like' after 'not', found '5'");
  expect("delay in 5", 10, "expected '(', found '5'");
  expect("delay in ()", 11, "expected a value, found ')'");
  expect("case delay when 1 then 2 end", 6, "expected 'when', found 'delay'");
  expect("cast(delay as INT)", 15,
         "unknown type 'INT'; valid: BOOL, INT32, INT64, FLOAT64, STRING, "
         "BYTES, TIMESTAMP");
  expect("cast(at as BOOL)", 1, "no cast from TIMESTAMP to BOOL");
  expect("lenght(carrier)", 1, "unknown function 'lenght': did you mean 'length'?");
  expect("length()", 1, "'length' has 0 arguments: expected length(text)");
  expect("timestamp 'today'", 11,
         ErrorOf("timestamp 'today'").substr(ErrorOf("timestamp 'today'").find("'today' is")));
}

TEST(ExpressionParserTest, ErrorsNameTheTypes) {
  auto expect = [](std::string_view text, int column, std::string_view what) {
    EXPECT_EQ(ErrorOf(text), At(text, column, what));
  };
  expect("delay = 'x'", 7, "'=' compares INT32 with STRING: expected one type");
  expect("at > '2013-01-01T10:00:00Z'", 4,
         "'>' compares TIMESTAMP with STRING: expected one type, like timestamp "
         "'2013-01-01T10:00:00Z'");
  expect("carrier + 1", 1, "an operand is STRING: expected a number");
  expect("not delay", 5, "the operand of 'not' is INT32: expected BOOL");
  expect("delay and true", 1, "an operand of 'and' is INT32: expected BOOL");
  expect("delay like 'x'", 1, "the left side of 'like' is INT32: expected STRING");
  expect("delay in (1, 'x')", 14,
         "the values of 'in' have the types INT64 and STRING: expected one "
         "type");
  expect("if(delay, 1, 2)", 4, "the condition is INT32: expected BOOL");
  expect("case when true then 1 else 'x' end", 28,
         "the values have the types INT64 and STRING: expected one type");
  expect("null", 1, "a null needs a type here: cast(null as \xe2\x80\xa6)");
  expect("coalesce(null, null)", 1,
         "all values are null: one needs a type, cast(null as \xe2\x80\xa6)");
  EXPECT_EQ(ErrorOf("dely > 5").rfind("expression 'dely > 5' at column 1: ", 0), 0u);
  EXPECT_NE(ErrorOf("dely > 5").find("'delay'"), std::string::npos);
}

TEST(ExpressionParserTest, BoundsTheStack) {
  EXPECT_EQ(ErrorOf(std::string(100, '(') + "delay" + std::string(100, ')') + " > 1"), "no error");
  for (std::string_view piece :
       {"(", "-", "not ", "abs(", "case when ", "if(true, ", "delay in ("}) {
    std::string text;
    while (text.size() + piece.size() < 60'000) text += piece;
    EXPECT_NE(ErrorOf(text), "no error");
  }
  std::string sum = "delay";
  for (int i = 0; i < 10'000; ++i) sum += "+1";
  EXPECT_NE(ErrorOf(sum).find("nested too deeply"), std::string::npos);
  std::string any = "delay = 0";
  for (int i = 0; i < 3'000; ++i) any += " or delay = 1";
  EXPECT_EQ(ErrorOf(any), "no error");
  EXPECT_NE(ErrorOf(std::string(70'000, ' ') + "true"), "no error");
}

TEST(ExpressionParserTest, SurvivesRandomTexts) {
  constexpr std::string_view kPieces[] = {
      "delay",     "carrier", "at",      "ratio",      "1",     "2.5",     "'x'",
      "null",      "true",    "(",       ")",          ",",     "+",       "-",
      "*",         "/",       "%",       "=",          "<",     "and ",    "or ",
      "not ",      " is ",    " in ",    "like",       "case ", "when ",   " then ",
      " else ",    " end",    "cast(",   " as INT64)", "abs(",  "substr(", "concat(",
      "coalesce(", "if(",     "length(", "\"",         "'",     "\xff",    "timestamp "};
  BatchBuilder builder(std::make_shared<const Schema>(TestSchema()));
  for (int i = 0; i < 3; ++i) {
    builder.column(0).AppendInt32(i - 1);
    builder.column(1).AppendText("x");
    builder.column(2).AppendNull();
    builder.column(3).AppendFloat64(i);
  }
  const RecordBatch batch = builder.Finish();
  std::mt19937 random(3);
  int evaluated = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (unsigned k = random() % 9 + 1; k > 0; --k) {
      text += kPieces[random() % std::size(kPieces)];
      if (random() % 2 == 0) text += ' ';
    }
    StatusOr<Expression> expression = ParseExpression(text, TestSchema());
    if (!expression.ok()) continue;
    StatusOr<Column> column = expression->Evaluate(batch);
    if (!column.ok()) continue;
    ASSERT_EQ(column->size(), 3) << text;
    ASSERT_EQ(column->type(), expression->type()) << text;
    ++evaluated;
  }
  EXPECT_GT(evaluated, 1000);
}

}  // namespace
}  // namespace weir
