#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/record/record_batch.h"
#include "common/record/schema.h"

namespace weir::internal {

enum class Operation {
  kColumn,
  kLiteral,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kNegate,
  kAbs,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,  // of all operands
  kOr,   // of all operands
  kNot,
  kIsNull,
  kIn,         // operand 0 among the others
  kInTexts,    // operand 0 among `texts`
  kInNumbers,  // operand 0 among `numbers`
  kLike,
  kCast,
  kLower,
  kUpper,
  kLength,
  kSubstr,
  kConcat,
  kCoalesce,
  kCase,  // condition, value, condition, value, …, value when no condition is true
};

// One typed operation. The operands of arithmetic and comparison have one type by the time the tree
// is complete: the parser puts casts where they differ. Thread: immutable once parsed.
struct ExpressionNode {
  Operation operation = Operation::kLiteral;
  Type type = Type::kInt64;
  bool is_null_literal = false;  // `null`, which takes the type that its place asks for
  size_t begin = 0, end = 0;     // where it stands in the text
  int depth = 1;                 // of the tree below
  bool can_fail = false;         // whether some row may make it an error, operands included
  std::vector<std::unique_ptr<ExpressionNode>> operands;
  int column = -1;                 // kColumn
  Column literal;                  // kLiteral: one row
  std::vector<std::string> texts;  // kInTexts: sorted
  std::vector<int64_t> numbers;    // kInNumbers: sorted
};

}  // namespace weir::internal
