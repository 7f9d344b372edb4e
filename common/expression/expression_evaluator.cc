#include "common/expression/expression_evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "common/record/text_values.h"

namespace weir::internal {
namespace {

// A text column has 32-bit offsets; far below that an expression has gone wrong.
constexpr int64_t kTextBytesMax = 1 << 30;

// One byte a row: whether an error of this row counts. No mask: all rows.
using Mask = std::vector<uint8_t>;

// What an operation gives: one value for each row, or one that stands for all rows.
struct Value {
  Column column;
  bool constant = false;
  int64_t size() const { return column.size(); }
  int64_t at(int64_t row) const { return constant ? 0 : row; }
  bool IsNull(int64_t row) const { return column.IsNull(at(row)); }
};

// Three-valued logic as numbers: `and` is the least, `or` the greatest, `not` 2 - x.
constexpr uint8_t kFalse = 0, kNull = 1, kTrue = 2;

BufferPtr MakeBuffer(int64_t bytes) { return std::make_shared<Buffer>(static_cast<size_t>(bytes)); }

template <typename T>
T* ValuesOf(const BufferPtr& buffer) {
  return reinterpret_cast<T*>(buffer->data());
}

size_t ValidityBytes(int64_t rows) { return static_cast<size_t>((rows + 7) / 8); }

// Validity of a result that is null where one of the operands is. Constants must not be null.
BufferPtr AndValidity(const BufferPtr& a, const BufferPtr& b, int64_t rows) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  BufferPtr out = MakeBuffer(static_cast<int64_t>(ValidityBytes(rows)));
  for (size_t i = 0; i < ValidityBytes(rows); ++i) out->data()[i] = a->data()[i] & b->data()[i];
  return out;
}

// Bit i set where is_valid(i); no buffer when all are.
template <typename F>
BufferPtr MakeValidity(int64_t rows, F is_valid) {
  BufferPtr bits = MakeBuffer(static_cast<int64_t>(ValidityBytes(rows)));
  bool all = true;
  for (int64_t begin = 0; begin < rows; begin += 8) {
    const int64_t end = std::min(begin + 8, rows);
    unsigned byte = 0;
    for (int64_t i = begin; i < end; ++i) byte |= (is_valid(i) ? 1U : 0U) << (i - begin);
    all = all && byte == (1U << (end - begin)) - 1;
    bits->data()[begin / 8] = static_cast<uint8_t>(byte);
  }
  return all ? nullptr : bits;
}

Value NullValue(Type type) {
  ColumnBuilder builder(type);
  builder.AppendNull();
  return {builder.Finish(), true};
}

template <typename T>
T At(const Column& column, int64_t row) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return column.Text(row);
  } else {
    return column.values<T>()[row];
  }
}

// Calls f(T{}) with the value type of `type`.
template <typename F>
auto WithValueType(Type type, F f) {
  switch (type) {
    case Type::kBool:
      return f(uint8_t{});
    case Type::kInt32:
      return f(int32_t{});
    case Type::kInt64:
    case Type::kTimestamp:
      return f(int64_t{});
    case Type::kFloat64:
      return f(double{});
    case Type::kString:
    case Type::kBytes:
      break;
  }
  return f(std::string_view{});
}

// Whether `c` begins a code point of UTF-8.
bool IsCodePointStart(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The bytes of `count` code points of `text` from the `skip`-th on.
std::string_view CodePoints(std::string_view text, int64_t skip, int64_t count) {
  size_t begin = 0;
  auto next = [&](size_t i) {
    do {
      ++i;
    } while (i < text.size() && !IsCodePointStart(text[i]));
    return i;
  };
  for (; skip > 0 && begin < text.size(); --skip) begin = next(begin);
  size_t end = begin;
  for (; count > 0 && end < text.size(); --count) end = next(end);
  return text.substr(begin, end - begin);
}

// `%`: any text; `_`: one code point; a backslash takes the special meaning from what follows.
// Greedy with one point to go back to: O(text · pattern) at worst.
bool Like(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0;
  size_t retry_t = std::string_view::npos, retry_p = 0;
  while (true) {
    bool matched = false;
    if (p < pattern.size() && pattern[p] == '%') {
      retry_p = ++p;
      retry_t = t;
      continue;
    }
    if (t == text.size() && p == pattern.size()) return true;
    if (p < pattern.size() && t < text.size()) {
      if (pattern[p] == '_') {
        matched = true;
        ++p;
        t += CodePoints(text.substr(t), 0, 1).size();
      } else {
        const bool escaped = pattern[p] == '\\' && p + 1 < pattern.size();
        if (pattern[p + (escaped ? 1 : 0)] == text[t]) {
          matched = true;
          p += escaped ? 2 : 1;
          ++t;
        }
      }
    }
    if (matched) continue;
    if (retry_t >= text.size()) return false;  // npos included
    t = ++retry_t;
    p = retry_p;
  }
}

// One evaluation over one batch. Operations run over all rows; what fails counts only where the
// mask says that the row asked for it. Thread: confined to the call.
class Evaluator {
 public:
  Evaluator(std::string_view text, const RecordBatch& batch) : text_(text), batch_(batch) {}

  StatusOr<Value> Evaluate(const ExpressionNode& node, const Mask* mask) {
    switch (node.operation) {
      case Operation::kColumn:
        return Value{batch_.column(node.column), false};
      case Operation::kLiteral:
        return Value{node.literal, true};
      case Operation::kAnd:
      case Operation::kOr:
        return Logic(node, mask);
      case Operation::kCase:
        return Case(node, mask);
      case Operation::kCoalesce:
        return Coalesce(node, mask);
      case Operation::kConcat:
      case Operation::kSubstr:
      case Operation::kIn: {
        std::vector<Value> operands;
        for (const auto& operand : node.operands) {
          WEIR_ASSIGN_OR_RETURN(Value value, Evaluate(*operand, mask));
          operands.push_back(std::move(value));
        }
        if (node.operation == Operation::kConcat) return Concatenate(node, operands, mask);
        if (node.operation == Operation::kSubstr) return Substring(node, operands, mask);
        return In(operands);
      }
      default:
        break;
    }
    WEIR_ASSIGN_OR_RETURN(Value left, Evaluate(*node.operands[0], mask));
    if (node.operands.size() == 1) return Unary(node, left, mask);
    WEIR_ASSIGN_OR_RETURN(Value right, Evaluate(*node.operands[1], mask));
    return Binary(node, left, right, mask);
  }

  // `value` with one row for each of the batch.
  StatusOr<Column> Expand(const ExpressionNode& node, const Value& value) {
    if (!value.constant) return value.column;
    if (IsVariableWidth(node.type) && !value.column.IsNull(0) &&
        static_cast<int64_t>(value.column.Text(0).size()) > kTextBytesMax / batch_.rows()) {
      return TooLarge(node);
    }
    ColumnBuilder builder(node.type);
    builder.Reserve(batch_.rows());
    for (int64_t i = 0; i < batch_.rows(); ++i) builder.AppendFrom(value.column, 0);
    return builder.Finish();
  }

 private:
  Status Failed(const ExpressionNode& node, StatusCode code, std::string_view what) const {
    const std::string part(text_.substr(node.begin, node.end - node.begin));
    return Status(code, ErrorDomain::kUser,
                  part == text_ ? Concat("expression ", QuoteForMessage(text_), ": ", what)
                                : Concat("expression ", QuoteForMessage(text_), ": ",
                                         QuoteForMessage(part), ": ", what));
  }
  Status TooLarge(const ExpressionNode& node) const {
    return Failed(node, StatusCode::kOutOfRange, "the texts of one batch take more than 1GiB");
  }

  // Whether an error in row `row` of a result counts.
  bool Counts(const Mask* mask, int64_t row, bool constant) const {
    if (mask == nullptr) return true;
    if (!constant) return (*mask)[static_cast<size_t>(row)] != 0;
    return std::find_if(mask->begin(), mask->end(), [](uint8_t m) { return m != 0; }) !=
           mask->end();
  }

  // The first row of `rows` for which `failed` holds and that counts and is not null; -1: none.
  template <typename F>
  int64_t FindFailed(int64_t rows, const BufferPtr& validity, const Mask* mask, bool constant,
                     F failed) const {
    for (int64_t i = 0; i < rows; ++i) {
      const bool null = validity != nullptr && ((validity->data()[i >> 3] >> (i & 7)) & 1) == 0;
      if (!null && failed(i) && Counts(mask, i, constant)) return i;
    }
    return -1;
  }

  static int64_t RowsOf(const Value& a, const Value& b) { return a.constant ? b.size() : a.size(); }

  // out[i] = f(a, b) over all rows; the operands' values as T.
  template <typename T, typename R, typename F>
  static void Fill(const Value& left, const Value& right, R* out, F f) {
    const int64_t rows = RowsOf(left, right);
    if constexpr (std::is_same_v<T, std::string_view>) {
      for (int64_t i = 0; i < rows; ++i) {
        out[i] = f(left.column.Text(left.at(i)), right.column.Text(right.at(i)));
      }
    } else {
      const T* a = left.column.values<T>();
      const T* b = right.column.values<T>();
      if (left.constant && right.constant) {
        out[0] = f(a[0], b[0]);
      } else if (right.constant) {
        const T constant = b[0];
        for (int64_t i = 0; i < rows; ++i) out[i] = f(a[i], constant);
      } else if (left.constant) {
        const T constant = a[0];
        for (int64_t i = 0; i < rows; ++i) out[i] = f(constant, b[i]);
      } else {
        for (int64_t i = 0; i < rows; ++i) out[i] = f(a[i], b[i]);
      }
    }
  }

  StatusOr<Value> Binary(const ExpressionNode& node, const Value& left, const Value& right,
                         const Mask* mask) {
    if ((left.constant && left.IsNull(0)) || (right.constant && right.IsNull(0))) {
      return NullValue(node.type);
    }
    const int64_t rows = RowsOf(left, right);
    const bool constant = left.constant && right.constant;
    BufferPtr validity = AndValidity(left.constant ? nullptr : left.column.validity(),
                                     right.constant ? nullptr : right.column.validity(), rows);
    BufferPtr data = MakeBuffer(rows * FixedWidth(node.type));
    switch (node.operation) {
      case Operation::kEqual:
      case Operation::kNotEqual:
      case Operation::kLess:
      case Operation::kLessOrEqual:
      case Operation::kGreater:
      case Operation::kGreaterOrEqual:
        Compare(node, left, right, ValuesOf<uint8_t>(data));
        break;
      case Operation::kLike:
        Fill<std::string_view>(left, right, ValuesOf<uint8_t>(data),
                               [](std::string_view a, std::string_view b) { return Like(a, b); });
        break;
      default:
        if (node.type == Type::kFloat64) {
          WEIR_RETURN_IF_ERROR(
              FloatArithmetic(node, left, right, validity, mask, ValuesOf<double>(data)));
        } else {
          WEIR_RETURN_IF_ERROR(
              IntegerArithmetic(node, left, right, validity, mask, ValuesOf<int64_t>(data)));
        }
    }
    return Value{Column(node.type, rows, std::move(validity), std::move(data)), constant};
  }

  static void Compare(const ExpressionNode& node, const Value& left, const Value& right,
                      uint8_t* out) {
    WithValueType(node.operands[0]->type, [&](auto type) {
      using T = decltype(type);
      switch (node.operation) {
        case Operation::kEqual:
          return Fill<T>(left, right, out, [](T a, T b) { return a == b; });
        case Operation::kNotEqual:
          return Fill<T>(left, right, out, [](T a, T b) { return a != b; });
        case Operation::kLess:
          return Fill<T>(left, right, out, [](T a, T b) { return a < b; });
        case Operation::kLessOrEqual:
          return Fill<T>(left, right, out, [](T a, T b) { return a <= b; });
        case Operation::kGreater:
          return Fill<T>(left, right, out, [](T a, T b) { return a > b; });
        default:
          return Fill<T>(left, right, out, [](T a, T b) { return a >= b; });
      }
    });
  }

  Status IntegerArithmetic(const ExpressionNode& node, const Value& left, const Value& right,
                           const BufferPtr& validity, const Mask* mask, int64_t* out) {
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    bool any = false;  // some row overflowed: then which, and does it count
    auto add = [&any](int64_t a, int64_t b) {
      int64_t result;
      any |= __builtin_add_overflow(a, b, &result);
      return result;
    };
    auto subtract = [&any](int64_t a, int64_t b) {
      int64_t result;
      any |= __builtin_sub_overflow(a, b, &result);
      return result;
    };
    auto multiply = [&any](int64_t a, int64_t b) {
      int64_t result;
      any |= __builtin_mul_overflow(a, b, &result);
      return result;
    };
    auto divide = [&any](int64_t a, int64_t b) {
      const bool bad = b == 0 || (b == -1 && a == kMin);
      any |= bad;
      return bad ? 0 : a / b;
    };
    auto remainder = [&any](int64_t a, int64_t b) {
      any |= b == 0;
      return b == 0 || b == -1 ? 0 : a % b;
    };
    std::string_view symbol;
    auto run = [&](std::string_view name, auto f) {
      symbol = name;
      Fill<int64_t>(left, right, out, f);
      if (!any) return int64_t{-1};
      return FindFailed(RowsOf(left, right), validity, mask, left.constant && right.constant,
                        [&](int64_t i) {
                          any = false;
                          f(left.column.Int64(left.at(i)), right.column.Int64(right.at(i)));
                          return any;
                        });
    };
    int64_t failed = -1;
    switch (node.operation) {
      case Operation::kAdd:
        failed = run("+", add);
        break;
      case Operation::kSubtract:
        failed = run("-", subtract);
        break;
      case Operation::kMultiply:
        failed = run("*", multiply);
        break;
      case Operation::kDivide:
        failed = run("/", divide);
        break;
      default:
        WEIR_CHECK(node.operation == Operation::kRemainder);
        failed = run("%", remainder);
    }
    if (failed < 0) return {};
    const int64_t a = left.column.Int64(left.at(failed));
    const int64_t b = right.column.Int64(right.at(failed));
    const bool division =
        node.operation == Operation::kDivide || node.operation == Operation::kRemainder;
    return Failed(node, StatusCode::kOutOfRange,
                  Concat(division && b == 0 ? "division by zero: " : "overflow of INT64: ", a, " ",
                         symbol, " ", b));
  }

  Status FloatArithmetic(const ExpressionNode& node, const Value& left, const Value& right,
                         const BufferPtr& validity, const Mask* mask, double* out) {
    switch (node.operation) {
      case Operation::kAdd:
        Fill<double>(left, right, out, [](double a, double b) { return a + b; });
        return {};
      case Operation::kSubtract:
        Fill<double>(left, right, out, [](double a, double b) { return a - b; });
        return {};
      case Operation::kMultiply:
        Fill<double>(left, right, out, [](double a, double b) { return a * b; });
        return {};
      case Operation::kDivide:
        Fill<double>(left, right, out, [](double a, double b) { return b == 0 ? 0 : a / b; });
        break;
      default:
        WEIR_CHECK(node.operation == Operation::kRemainder);
        Fill<double>(left, right, out,
                     [](double a, double b) { return b == 0 ? 0 : std::fmod(a, b); });
    }
    const bool constant = left.constant && right.constant;
    const int64_t failed =
        FindFailed(RowsOf(left, right), validity, mask, constant,
                   [&](int64_t i) { return right.column.Float64(right.at(i)) == 0; });
    if (failed < 0) return {};
    return Failed(node, StatusCode::kOutOfRange,
                  Concat("division by zero: ", left.column.Float64(left.at(failed)), " ",
                         node.operation == Operation::kDivide ? "/" : "%", " ",
                         right.column.Float64(right.at(failed))));
  }

  StatusOr<Value> Unary(const ExpressionNode& node, const Value& operand, const Mask* mask) {
    const Column& column = operand.column;
    const int64_t rows = column.size();
    if (node.operation == Operation::kIsNull) {
      BufferPtr data = MakeBuffer(rows);
      for (int64_t i = 0; i < rows; ++i) data->data()[i] = column.IsNull(i) ? 1 : 0;
      return Value{Column(Type::kBool, rows, nullptr, std::move(data)), operand.constant};
    }
    if (operand.constant && operand.IsNull(0)) return NullValue(node.type);
    switch (node.operation) {
      case Operation::kCast:
        return Cast(node, operand, mask);
      case Operation::kLower:
      case Operation::kUpper:
        return ChangeCase(node, operand);
      case Operation::kNegate:
      case Operation::kAbs:
        return Sign(node, operand, mask);
      default:
        break;
    }
    BufferPtr data = MakeBuffer(rows * FixedWidth(node.type));
    switch (node.operation) {
      case Operation::kNot:
        for (int64_t i = 0; i < rows; ++i) data->data()[i] = column.values<uint8_t>()[i] == 0;
        break;
      case Operation::kLength:
        for (int64_t i = 0; i < rows; ++i) {
          const std::string_view text = column.Text(i);
          ValuesOf<int64_t>(data)[i] =
              column.type() == Type::kBytes
                  ? static_cast<int64_t>(text.size())
                  : std::count_if(text.begin(), text.end(), IsCodePointStart);
        }
        break;
      case Operation::kInTexts:
        for (int64_t i = 0; i < rows; ++i) {
          data->data()[i] =
              std::binary_search(node.texts.begin(), node.texts.end(), column.Text(i));
        }
        break;
      default:
        WEIR_CHECK(node.operation == Operation::kInNumbers);
        for (int64_t i = 0; i < rows; ++i) {
          data->data()[i] =
              std::binary_search(node.numbers.begin(), node.numbers.end(), column.Int64(i));
        }
    }
    return Value{Column(node.type, rows, column.validity(), std::move(data)), operand.constant};
  }

  StatusOr<Value> Sign(const ExpressionNode& node, const Value& operand, const Mask* mask) {
    const Column& column = operand.column;
    const int64_t rows = column.size();
    const bool absolute = node.operation == Operation::kAbs;
    BufferPtr data = MakeBuffer(rows * FixedWidth(node.type));
    if (node.type == Type::kFloat64) {
      for (int64_t i = 0; i < rows; ++i) {
        const double value = column.Float64(i);
        ValuesOf<double>(data)[i] = absolute ? std::fabs(value) : -value;
      }
    } else {
      constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
      bool any = false;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t value = column.Int64(i);
        any |= value == kMin;
        const auto negated = static_cast<int64_t>(0 - static_cast<uint64_t>(value));
        ValuesOf<int64_t>(data)[i] = absolute && value >= 0 ? value : negated;
      }
      if (any && FindFailed(rows, column.validity(), mask, operand.constant,
                            [&](int64_t i) { return column.Int64(i) == kMin; }) >= 0) {
        return Failed(node, StatusCode::kOutOfRange, Concat("overflow of INT64: -(", kMin, ")"));
      }
    }
    return Value{Column(node.type, rows, column.validity(), std::move(data)), operand.constant};
  }

  // Letters A to Z alone: the others have no case that all locales agree on.
  StatusOr<Value> ChangeCase(const ExpressionNode& node, const Value& operand) {
    const Column& column = operand.column;
    const int64_t rows = column.size();
    const int32_t* offsets = column.offset_values();
    BufferPtr data = MakeBuffer(std::max<int64_t>(offsets[rows], 1));
    const uint8_t* in = column.data()->data();
    const bool lower = node.operation == Operation::kLower;
    for (int32_t i = offsets[0]; i < offsets[rows]; ++i) {
      const uint8_t c = in[i];
      const bool change = lower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
      data->data()[i] = change ? c ^ 0x20 : c;
    }
    return Value{Column(node.type, rows, column.validity(), std::move(data), column.offsets()),
                 operand.constant};
  }

  StatusOr<Value> Cast(const ExpressionNode& node, const Value& operand, const Mask* mask) {
    const Column& column = operand.column;
    const Type from = column.type(), to = node.type;
    const int64_t rows = column.size();
    if (to == Type::kString) return CastToText(node, operand, mask);
    if (to == Type::kBytes || (from == Type::kInt64 && to == Type::kTimestamp) ||
        (from == Type::kTimestamp && to == Type::kInt64)) {
      // The same bytes.
      return Value{Column(to, rows, column.validity(), column.data(), column.offsets()),
                   operand.constant};
    }
    BufferPtr data = MakeBuffer(rows * FixedWidth(to));
    std::vector<int64_t> failed;  // rows, nulls included
    auto convert = [&](auto in, auto out, auto f) {
      using In = decltype(in);
      using Out = decltype(out);
      Out* values = ValuesOf<Out>(data);
      for (int64_t i = 0; i < rows; ++i) {
        Out result{};
        if (!f(At<In>(column, i), &result)) failed.push_back(i);
        values[i] = result;
      }
    };
    auto widen = [](auto value, auto* result) {
      *result = static_cast<std::decay_t<decltype(*result)>>(value);
      return true;
    };
    if (from == Type::kBool) {
      if (to == Type::kInt32) convert(uint8_t{}, int32_t{}, widen);
      if (to == Type::kInt64) convert(uint8_t{}, int64_t{}, widen);
    } else if (from == Type::kInt32 || from == Type::kInt64) {
      auto from_integer = [&](auto in) {
        if (to == Type::kInt64) convert(in, int64_t{}, widen);
        if (to == Type::kFloat64) convert(in, double{}, widen);
        if (to == Type::kBool) {
          convert(in, uint8_t{}, [](auto value, uint8_t* result) {
            *result = value != 0;
            return true;
          });
        }
        if (to == Type::kInt32) {
          convert(in, int32_t{}, [](auto value, int32_t* result) {
            *result = static_cast<int32_t>(value);
            return *result == value;
          });
        }
      };
      if (from == Type::kInt32) from_integer(int32_t{});
      if (from == Type::kInt64) from_integer(int64_t{});
    } else if (from == Type::kFloat64) {
      // Towards zero. Both bounds are exact as doubles, the upper one is beyond the range.
      auto truncate = [](double low, double high) {
        return [low, high](double value, auto* result) {
          const double whole = std::trunc(value);
          if (!(whole >= low && whole < high)) return false;
          *result = static_cast<std::decay_t<decltype(*result)>>(whole);
          return true;
        };
      };
      if (to == Type::kInt32) convert(double{}, int32_t{}, truncate(-0x1p31, 0x1p31));
      if (to == Type::kInt64) convert(double{}, int64_t{}, truncate(-0x1p63, 0x1p63));
    } else if (from == Type::kString) {
      constexpr std::string_view kText;
      switch (to) {
        case Type::kBool:
          convert(kText, uint8_t{}, [](std::string_view text, uint8_t* result) {
            bool value = false;
            if (!ParseBool(text, &value)) return false;
            *result = value ? 1 : 0;
            return true;
          });
          break;
        case Type::kInt32:
          convert(kText, int32_t{}, ParseInt32);
          break;
        case Type::kInt64:
          convert(kText, int64_t{}, ParseInt64);
          break;
        case Type::kFloat64:
          convert(kText, double{}, ParseFloat64);
          break;
        default:
          convert(kText, int64_t{}, ParseTimestamp);
      }
    }
    for (int64_t row : failed) {
      if (column.IsNull(row) || !Counts(mask, row, operand.constant)) continue;
      return CastFailed(node, column, row);
    }
    return Value{Column(to, rows, column.validity(), std::move(data)), operand.constant};
  }

  Status CastFailed(const ExpressionNode& node, const Column& column, int64_t row) const {
    std::string shown;
    if (IsVariableWidth(column.type())) {
      shown = QuoteForMessage(column.Text(row));
    } else {
      AppendValue(column, row, &shown);
    }
    return Failed(node, StatusCode::kInvalidArgument,
                  Concat("cannot cast ", shown, " from ", ToString(column.type()), " to ",
                         ToString(node.type), ": expected ", ExpectedText(node.type)));
  }

  // The text of a value of fixed width.
  static void AppendValue(const Column& column, int64_t row, std::string* out) {
    char buffer[std::max({kIntegerTextBytesMax, kFloat64TextBytesMax, kTimestampTextBytesMax})];
    char* end = buffer;
    switch (column.type()) {
      case Type::kBool:
        *out += column.Bool(row) ? "true" : "false";
        return;
      case Type::kInt32:
        end = WriteInteger(column.Int32(row), buffer);
        break;
      case Type::kInt64:
        end = WriteInteger(column.Int64(row), buffer);
        break;
      case Type::kFloat64:
        end = WriteFloat64(column.Float64(row), buffer);
        break;
      case Type::kTimestamp:
        end = WriteTimestamp(column.Int64(row), buffer);
        break;
      case Type::kString:
      case Type::kBytes:
        break;
    }
    out->append(buffer, end);
  }

  StatusOr<Value> CastToText(const ExpressionNode& node, const Value& operand, const Mask* mask) {
    const Column& column = operand.column;
    if (column.type() == Type::kBytes) {
      bool all_valid = true;
      for (int64_t i = 0; i < column.size(); ++i) {
        if (column.IsNull(i) || IsValidUtf8(column.Text(i))) continue;
        if (Counts(mask, i, operand.constant)) return CastFailed(node, column, i);
        all_valid = false;
      }
      if (all_valid && !column.has_nulls()) {
        return Value{Column(node.type, column.size(), nullptr, column.data(), column.offsets()),
                     operand.constant};
      }
    }
    ColumnBuilder builder(Type::kString);
    builder.Reserve(column.size());
    std::string text;
    for (int64_t i = 0; i < column.size(); ++i) {
      if (column.IsNull(i)) {
        builder.AppendNull();
      } else if (column.type() == Type::kBytes) {
        // What is no text belongs to a row that does not ask for it.
        builder.AppendText(IsValidUtf8(column.Text(i)) ? column.Text(i) : std::string_view());
      } else {
        text.clear();
        AppendValue(column, i, &text);
        builder.AppendText(text);
      }
    }
    return Value{builder.Finish(), operand.constant};
  }

  // Rows of an operation over several operands: one when all are constants.
  int64_t RowsOf(const std::vector<Value>& operands) const {
    for (const Value& operand : operands) {
      if (!operand.constant) return batch_.rows();
    }
    return 1;
  }
  static bool AllConstant(const std::vector<Value>& operands) {
    return std::all_of(operands.begin(), operands.end(),
                       [](const Value& operand) { return operand.constant; });
  }

  StatusOr<Value> Concatenate(const ExpressionNode& node, const std::vector<Value>& operands,
                              const Mask* mask) {
    ColumnBuilder builder(Type::kString);
    std::string text;
    int64_t bytes = 0;
    const bool constant = AllConstant(operands);
    for (int64_t i = 0; i < RowsOf(operands); ++i) {
      text.clear();
      bool null = false;
      for (const Value& operand : operands) null = null || operand.IsNull(i);
      if (!null && !Counts(mask, i, constant)) null = true;  // nobody looks at it
      if (null) {
        builder.AppendNull();
        continue;
      }
      for (const Value& operand : operands) {
        const std::string_view part = operand.column.Text(operand.at(i));
        bytes += static_cast<int64_t>(part.size());
        if (bytes > kTextBytesMax) return TooLarge(node);
        text += part;
      }
      builder.AppendText(text);
    }
    return Value{builder.Finish(), constant};
  }

  // SQL: positions from 1; those before 1 count, and hold nothing.
  StatusOr<Value> Substring(const ExpressionNode& node, const std::vector<Value>& operands,
                            const Mask* mask) {
    ColumnBuilder builder(Type::kString);
    const bool constant = AllConstant(operands);
    int64_t bytes = 0;
    for (int64_t i = 0; i < RowsOf(operands); ++i) {
      bool null = false;
      for (const Value& operand : operands) null = null || operand.IsNull(i);
      if (null || !Counts(mask, i, constant)) {
        builder.AppendNull();
        continue;
      }
      const Value& first = operands[0];
      const int64_t start = operands[1].column.Int64(operands[1].at(i));
      int64_t end = std::numeric_limits<int64_t>::max();  // the position behind the last
      if (operands.size() == 3) {
        const int64_t count = operands[2].column.Int64(operands[2].at(i));
        if (count < 0) {
          return Failed(node, StatusCode::kInvalidArgument,
                        Concat("count is ", count, ": expected 0 or more"));
        }
        if (__builtin_add_overflow(start, count, &end)) end = std::numeric_limits<int64_t>::max();
      }
      const int64_t begin = std::max<int64_t>(start, 1);
      const std::string_view part =
          end <= begin ? std::string_view()
                       : CodePoints(first.column.Text(first.at(i)), begin - 1, end - begin);
      bytes += static_cast<int64_t>(part.size());
      if (bytes > kTextBytesMax) return TooLarge(node);
      builder.AppendText(part);
    }
    return Value{builder.Finish(), constant};
  }

  static std::vector<uint8_t> ToLogic(const Value& value) {
    const Column& column = value.column;
    std::vector<uint8_t> logic(static_cast<size_t>(column.size()));
    const uint8_t* values = column.values<uint8_t>();
    for (size_t i = 0; i < logic.size(); ++i) logic[i] = static_cast<uint8_t>(values[i] << 1);
    if (column.has_nulls()) {
      for (size_t i = 0; i < logic.size(); ++i) {
        if (column.IsNull(static_cast<int64_t>(i))) logic[i] = kNull;
      }
    }
    return logic;
  }

  static Value FromLogic(const std::vector<uint8_t>& logic, bool constant) {
    const auto rows = static_cast<int64_t>(logic.size());
    BufferPtr data = MakeBuffer(rows);
    bool nulls = false;
    for (size_t i = 0; i < logic.size(); ++i) {
      data->data()[i] = logic[i] >> 1;
      nulls |= logic[i] == kNull;
    }
    BufferPtr validity;
    if (nulls) {
      validity =
          MakeValidity(rows, [&](int64_t i) { return logic[static_cast<size_t>(i)] != kNull; });
    }
    return {Column(Type::kBool, rows, std::move(validity), std::move(data)), constant};
  }

  StatusOr<Value> Logic(const ExpressionNode& node, const Mask* mask) {
    const bool is_and = node.operation == Operation::kAnd;
    std::vector<uint8_t> result = {is_and ? kTrue : kFalse};
    bool constant = true;
    Mask open;
    for (const auto& operand : node.operands) {
      // A row that is settled by what stands before raises no errors any more.
      const Mask* operand_mask = mask;
      if (operand->can_fail) {
        const uint8_t settled = is_and ? kFalse : kTrue;
        open.resize(static_cast<size_t>(batch_.rows()));
        bool any = false;
        for (size_t i = 0; i < open.size(); ++i) {
          open[i] = result[constant ? 0 : i] != settled && (mask == nullptr || (*mask)[i] != 0);
          any |= open[i] != 0;
        }
        if (!any) continue;
        operand_mask = &open;
      }
      WEIR_ASSIGN_OR_RETURN(Value value, Evaluate(*operand, operand_mask));
      const std::vector<uint8_t> logic = ToLogic(value);
      if (constant && !value.constant) {
        result.resize(static_cast<size_t>(batch_.rows()), result[0]);
        constant = false;
      }
      auto combine = [&](auto pick) {
        if (value.constant) {
          for (uint8_t& r : result) r = pick(r, logic[0]);
        } else {
          for (size_t i = 0; i < result.size(); ++i) result[i] = pick(result[i], logic[i]);
        }
      };
      if (is_and) {
        combine([](uint8_t a, uint8_t b) { return std::min(a, b); });
      } else {
        combine([](uint8_t a, uint8_t b) { return std::max(a, b); });
      }
    }
    return FromLogic(result, constant);
  }

  StatusOr<Value> In(const std::vector<Value>& operands) {
    const bool constant = AllConstant(operands);
    const int64_t rows = RowsOf(operands);
    std::vector<uint8_t> result(static_cast<size_t>(rows), kFalse);
    const Value& left = operands[0];
    WithValueType(left.column.type(), [&](auto type) {
      using T = decltype(type);
      for (size_t k = 1; k < operands.size(); ++k) {
        const Value& right = operands[k];
        for (int64_t i = 0; i < rows; ++i) {
          const uint8_t equal = left.IsNull(i) || right.IsNull(i) ? kNull
                                : At<T>(left.column, left.at(i)) == At<T>(right.column, right.at(i))
                                    ? kTrue
                                    : kFalse;
          uint8_t& r = result[static_cast<size_t>(i)];
          r = std::max(r, equal);
        }
      }
    });
    return FromLogic(result, constant);
  }

  // Row i takes row i of values[choice[i]]; -1: null.
  StatusOr<Value> Choose(const ExpressionNode& node, const std::vector<int32_t>& choice,
                         const std::vector<Value>& values) {
    const auto rows = static_cast<int64_t>(choice.size());
    auto is_null = [&](int64_t i) {
      const int32_t c = choice[static_cast<size_t>(i)];
      return c < 0 || values[static_cast<size_t>(c)].IsNull(i);
    };
    if (IsVariableWidth(node.type)) {
      ColumnBuilder builder(node.type);
      int64_t bytes = 0;
      for (int64_t i = 0; i < rows; ++i) {
        if (is_null(i)) {
          builder.AppendNull();
          continue;
        }
        const Value& value = values[static_cast<size_t>(choice[static_cast<size_t>(i)])];
        const std::string_view text = value.column.Text(value.at(i));
        bytes += static_cast<int64_t>(text.size());
        if (bytes > kTextBytesMax) return TooLarge(node);
        builder.AppendText(text);
      }
      return Value{builder.Finish(), false};
    }
    const auto width = static_cast<size_t>(FixedWidth(node.type));
    BufferPtr data = MakeBuffer(rows * static_cast<int64_t>(width));
    WithValueType(node.type, [&](auto type) {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, std::string_view>) {
        T* out = ValuesOf<T>(data);
        for (int64_t i = 0; i < rows; ++i) {
          const int32_t c = choice[static_cast<size_t>(i)];
          if (c < 0) {
            out[i] = T{};
          } else {
            const Value& value = values[static_cast<size_t>(c)];
            out[i] = value.column.template values<T>()[value.at(i)];
          }
        }
      }
    });
    return Value{Column(node.type, rows, MakeValidity(rows, [&](int64_t i) { return !is_null(i); }),
                        std::move(data)),
                 false};
  }

  // `open`: rows that ask for the next branch. False: none does.
  static bool AnyOpen(const Mask& open) {
    return std::find_if(open.begin(), open.end(), [](uint8_t m) { return m != 0; }) != open.end();
  }

  Mask AllOpen(const Mask* mask) const {
    return mask != nullptr ? *mask : Mask(static_cast<size_t>(batch_.rows()), 1);
  }

  StatusOr<Value> Case(const ExpressionNode& node, const Mask* mask) {
    Mask open = AllOpen(mask);
    std::vector<int32_t> choice(open.size(), -1);
    std::vector<Value> values;
    const size_t count = node.operands.size();
    for (size_t k = 0; k < count && AnyOpen(open); k += 2) {
      Mask taken = open;
      if (k + 1 < count) {
        WEIR_ASSIGN_OR_RETURN(Value condition, Evaluate(*node.operands[k], &open));
        for (size_t i = 0; i < open.size(); ++i) {
          const auto row = static_cast<int64_t>(i);
          taken[i] =
              open[i] != 0 && !condition.IsNull(row) && condition.column.Bool(condition.at(row));
        }
        if (!AnyOpen(taken)) continue;
      }
      WEIR_ASSIGN_OR_RETURN(Value value,
                            Evaluate(*node.operands[std::min(k + 1, count - 1)], &taken));
      for (size_t i = 0; i < open.size(); ++i) {
        if (taken[i] == 0) continue;
        choice[i] = static_cast<int32_t>(values.size());
        open[i] = 0;
      }
      values.push_back(std::move(value));
    }
    return Choose(node, choice, values);
  }

  StatusOr<Value> Coalesce(const ExpressionNode& node, const Mask* mask) {
    Mask open = AllOpen(mask);
    std::vector<int32_t> choice(open.size(), -1);
    std::vector<Value> values;
    for (const auto& operand : node.operands) {
      if (!AnyOpen(open)) break;
      WEIR_ASSIGN_OR_RETURN(Value value, Evaluate(*operand, &open));
      for (size_t i = 0; i < open.size(); ++i) {
        if (open[i] == 0 || value.IsNull(static_cast<int64_t>(i))) continue;
        choice[i] = static_cast<int32_t>(values.size());
        open[i] = 0;
      }
      values.push_back(std::move(value));
    }
    return Choose(node, choice, values);
  }

  const std::string_view text_;
  const RecordBatch& batch_;
};

}  // namespace

StatusOr<Column> EvaluateExpressionTree(const ExpressionNode& root, std::string_view text,
                                        const RecordBatch& batch) {
  if (batch.rows() == 0) return ColumnBuilder(root.type).Finish();
  Evaluator evaluator(text, batch);
  WEIR_ASSIGN_OR_RETURN(Value value, evaluator.Evaluate(root, nullptr));
  return evaluator.Expand(root, value);
}

}  // namespace weir::internal
