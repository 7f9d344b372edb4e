#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/record/record_batch.h"
#include "common/record/schema.h"

namespace weir {

namespace internal {
struct ExpressionNode;
}

// A typed expression over the columns of one schema, evaluated a batch at a time (see README.md for
// the language). Three-valued logic as in SQL: a null operand gives null, except where `and`, `or`,
// `is null`, `coalesce` and `case` say otherwise. Integer overflow, division by zero and casts that
// fail are user errors that name expression and value. A branch of `and`, `or`, `case`, `coalesce`
// that a row does not take raises no error for that row.
// Thread: immutable.
class Expression {
 public:
  Type type() const;
  // As it was written.
  const std::string& text() const { return text_; }
  // Indices of the columns it reads, ascending, each once.
  std::vector<int> Columns() const;
  // One value for each row. REQUIRES: batch has the columns of the schema it was parsed for.
  StatusOr<Column> Evaluate(const RecordBatch& batch) const;

 private:
  friend StatusOr<Expression> ParseExpression(std::string_view text, const Schema& schema);
  Expression(std::string text, std::shared_ptr<const internal::ExpressionNode> root)
      : text_(std::move(text)), root_(std::move(root)) {}

  std::string text_;
  std::shared_ptr<const internal::ExpressionNode> root_;
};

// User error that names the position (column, from 1) for bad syntax, unknown columns or functions
// (with the nearest known name) and operands of the wrong type.
StatusOr<Expression> ParseExpression(std::string_view text, const Schema& schema);

// The rows for which `predicate` is true (neither false nor null), ascending.
// REQUIRES: predicate.type() == Type::kBool.
StatusOr<std::vector<int32_t>> FilterRows(const RecordBatch& batch, const Expression& predicate);

}  // namespace weir
