#include "worker/operators/accumulator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "worker/operators/value_order.h"
#include "worker/state/dominant.h"

namespace weir {
namespace {

using Int128 = __int128;

// A signalling NaN, which no addition gives: the bits of a sum that has no value yet.
constexpr uint64_t kNoSum = 0x7ff4000000000001;

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void Store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// "This aggregate has a value" in the value of a key.
struct Flag {
  int byte = 0;
  uint8_t mask = 0;

  bool IsSet(const uint8_t* key) const { return (key[byte] & mask) != 0; }
  void Set(uint8_t* key) const { key[byte] |= mask; }
};

// What each aggregate does with the value of a key, `key`, and a value that is not null. Input: the
// type of the column's values; Result: that of the result's. Add is false when it would overflow,
// and changes nothing then. Result is only asked for when Has.

struct Count {
  struct Input {};
  using Result = int64_t;
  int offset;

  bool Add(uint8_t* key, Input) const {
    const int64_t count = Load<int64_t>(key + offset);
    Store(key + offset, count + 1);
    return count != std::numeric_limits<int64_t>::max();
  }
  bool Has(const uint8_t*) const { return true; }
  Result Get(const uint8_t* key) const { return Load<int64_t>(key + offset); }
  std::string Sum(const uint8_t* key, Input) const { return Concat(Get(key), " + 1"); }
  // Whether `rows` more of a key are sure not to overflow.
  bool HasRoom(const uint8_t* key, int64_t rows) const {
    return Get(key) <= std::numeric_limits<int64_t>::max() - rows;
  }
};

// A count of values that were counted elsewhere.
struct CountSum {
  using Input = int64_t;
  using Result = int64_t;
  int offset;

  bool Add(uint8_t* key, int64_t value) const {
    int64_t count;
    if (__builtin_add_overflow(Load<int64_t>(key + offset), value, &count)) return false;
    Store(key + offset, count);
    return true;
  }
  bool Has(const uint8_t*) const { return true; }
  Result Get(const uint8_t* key) const { return Load<int64_t>(key + offset); }
  std::string Sum(const uint8_t* key, int64_t value) const {
    return Concat(Get(key), " + ", value);
  }
};

template <typename T>
struct IntegerSum {
  using Input = T;
  using Result = int64_t;
  int offset;
  Flag flag;

  bool Add(uint8_t* key, T value) const {
    int64_t sum;
    if (__builtin_add_overflow(Load<int64_t>(key + offset), int64_t{value}, &sum)) return false;
    Store(key + offset, sum);
    flag.Set(key);
    return true;
  }
  bool Has(const uint8_t* key) const { return flag.IsSet(key); }
  Result Get(const uint8_t* key) const { return Load<int64_t>(key + offset); }
  std::string Sum(const uint8_t* key, T value) const { return Concat(Get(key), " + ", value); }
};

struct Float64Sum {
  using Input = double;
  using Result = double;
  int offset;

  bool Add(uint8_t* key, double value) const {
    const uint64_t stored = Load<uint64_t>(key + offset);
    const double sum = stored == 0 ? 0.0 : std::bit_cast<double>(stored ^ kNoSum);
    Store(key + offset, std::bit_cast<uint64_t>(sum + value) ^ kNoSum);
    return true;
  }
  bool Has(const uint8_t* key) const { return Load<uint64_t>(key + offset) != 0; }
  Result Get(const uint8_t* key) const {
    return std::bit_cast<double>(Load<uint64_t>(key + offset) ^ kNoSum);
  }
};

template <typename T>
struct Average {
  using Input = T;
  using Result = double;
  // Integers are summed exactly: neither sum nor count can overflow together.
  using Total = std::conditional_t<std::is_integral_v<T>, Int128, double>;
  static constexpr int kBytes = sizeof(Total) + sizeof(int64_t);
  int offset;

  bool Add(uint8_t* key, T value) const {
    Store(key + offset, Load<Total>(key + offset) + static_cast<Total>(value));
    const int64_t count = Load<int64_t>(key + offset + sizeof(Total));
    Store(key + offset + sizeof(Total), count + 1);
    return count != std::numeric_limits<int64_t>::max();
  }
  bool Has(const uint8_t* key) const { return Load<int64_t>(key + offset + sizeof(Total)) != 0; }
  Result Get(const uint8_t* key) const {
    return static_cast<double>(Load<Total>(key + offset)) /
           static_cast<double>(Load<int64_t>(key + offset + sizeof(Total)));
  }
};

// The total of an average of integers: a sum that was made elsewhere.
struct AverageTotal {
  using Input = int64_t;
  using Result = double;
  using Total = Int128;
  int offset;

  bool Add(uint8_t* key, int64_t value) const {
    Store(key + offset, Load<Total>(key + offset) + value);
    return true;
  }
  bool Has(const uint8_t*) const { return true; }
  Result Get(const uint8_t* key) const { return static_cast<double>(Load<Total>(key + offset)); }
};

template <typename T, bool kMax>
struct Extreme {
  using Input = T;
  using Result = T;
  using Stored = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  int offset;
  Flag flag;

  bool Add(uint8_t* key, T value) const {
    const Stored old = Load<Stored>(key + offset);
    const Stored next = static_cast<Stored>(value);
    if (flag.IsSet(key) && !(kMax ? Less(old, next) : Less(next, old))) return true;
    Store(key + offset, next);
    flag.Set(key);
    return true;
  }
  bool Has(const uint8_t* key) const { return flag.IsSet(key); }
  Result Get(const uint8_t* key) const { return static_cast<Result>(Load<Stored>(key + offset)); }
};

// Makes a column of fixed width by rows; a validity bitmap only when there is a null.
template <typename T>
class ResultColumn {
 public:
  explicit ResultColumn(int64_t rows)
      : rows_(rows), data_(std::make_shared<Buffer>(rows * sizeof(T))) {}

  T* values() { return reinterpret_cast<T*>(data_->data()); }
  void SetNull(int64_t row) {
    if (validity_ == nullptr) {
      validity_ = std::make_shared<Buffer>((rows_ + 7) / 8);
      std::memset(validity_->data(), 0xff, validity_->size());
    }
    validity_->data()[row >> 3] &= static_cast<uint8_t>(~(1u << (row & 7)));
    values()[row] = T{};
  }
  Column Finish(Type type) && {
    return Column(type, rows_, std::move(validity_), std::move(data_));
  }

 private:
  int64_t rows_;
  BufferPtr validity_;
  BufferPtr data_;
};

template <typename Function>
class FixedAccumulator final : public Accumulator {
 public:
  // `column`: -1 for a count of rows.
  FixedAccumulator(Function function, int column, Type result, std::string name)
      : function_(function), column_(column), result_(result), name_(std::move(name)) {}

  Status Add(const AccumulatorInput& input, Column* results, int64_t* failed_row) override {
    const Column* column = column_ < 0 ? nullptr : &input.batch.column(column_);
    if (results == nullptr) {
      return column != nullptr && column->has_nulls()
                 ? AddNullable(input, *column, nullptr, failed_row)
                 : AddAll<false>(input, column, nullptr, failed_row);
    }
    if (input.begin == 0) after_rows_.emplace(input.batch.rows());
    if (column != nullptr && column->has_nulls()) {
      WEIR_RETURN_IF_ERROR(AddNullable(input, *column, &*after_rows_, failed_row));
    } else {
      WEIR_RETURN_IF_ERROR(AddAll<true>(input, column, after_rows_->values(), failed_row));
    }
    if (input.end == input.batch.rows()) *results = std::move(*after_rows_).Finish(result_);
    return {};
  }

  Column Results(const AccumulatorInput& input, std::span<const int32_t> rows) const override {
    ResultColumn<Result> out(static_cast<int64_t>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) SetResult(input.values[rows[i]], i, &out);
    return std::move(out).Finish(result_);
  }

 private:
  using Input = typename Function::Input;
  using Result = typename Function::Result;
  static constexpr bool kReadsValues = !std::is_empty_v<Input>;

  // No value is null, so no result is.
  template <bool kResults>
  Status AddAll(const AccumulatorInput& input, const Column* column, Result* results,
                int64_t* failed_row) {
    const Function function = function_;
    uint8_t* const* keys = input.values.data();
    const Input* values = nullptr;
    if constexpr (kReadsValues) values = column->values<Input>();
    if constexpr (std::is_same_v<Function, Count>) {
      const std::optional<uint8_t*> dominant =
          Dominant(input.values.subspan(input.begin, input.end - input.begin));
      if (dominant && function.HasRoom(*dominant, input.end - input.begin)) {
        return CountMostly<kResults>(input, *dominant, results, failed_row);
      }
    }
    for (int64_t row = input.begin; row < input.end; ++row) {
      uint8_t* key = keys[row];
      Input value{};
      if constexpr (kReadsValues) value = values[row];
      if (!function.Add(key, value)) [[unlikely]]
        return Overflow(key, value, row, failed_row);
      if constexpr (kResults) results[row] = function.Get(key);
    }
    return {};
  }

  // Most rows have one key. Its count stays in a register: each row would wait for the store of the
  // row before it. The other rows come after.
  template <bool kResults>
  Status CountMostly(const AccumulatorInput& input, uint8_t* dominant, Result* results,
                     int64_t* failed_row) {
    const std::span<uint8_t* const> keys =
        input.values.subspan(input.begin, input.end - input.begin);
    others_.resize(std::max(others_.size(), keys.size() + 1));
    int32_t* const others = others_.data();
    size_t other_count = 0;
    int64_t count = function_.Get(dominant);
    if constexpr (kResults) results += input.begin;
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t is_other = static_cast<size_t>(keys[i] != dominant);
      count += static_cast<int64_t>(1 - is_other);
      if constexpr (kResults) results[i] = count;
      others[other_count] = static_cast<int32_t>(i);
      other_count += is_other;
    }
    Store(dominant + function_.offset, count);
    for (size_t i = 0; i < other_count; ++i) {
      uint8_t* key = keys[others[i]];
      if (!function_.Add(key, {})) [[unlikely]]
        return Overflow(key, {}, input.begin + others[i], failed_row);
      if constexpr (kResults) results[others[i]] = function_.Get(key);
    }
    return {};
  }

  Status AddNullable(const AccumulatorInput& input, const Column& column, ResultColumn<Result>* out,
                     int64_t* failed_row) const {
    for (int64_t row = input.begin; row < input.end; ++row) {
      uint8_t* key = input.values[row];
      if (!column.IsNull(row)) {
        Input value{};
        if constexpr (kReadsValues) value = column.values<Input>()[row];
        if (!function_.Add(key, value)) return Overflow(key, value, row, failed_row);
      }
      if (out != nullptr) SetResult(key, row, out);
    }
    return {};
  }

  void SetResult(const uint8_t* key, int64_t at, ResultColumn<Result>* out) const {
    if (function_.Has(key)) {
      out->values()[at] = function_.Get(key);
    } else {
      out->SetNull(at);
    }
  }

  Status Overflow(const uint8_t* key, Input value, int64_t row, int64_t* failed_row) const {
    *failed_row = row;
    std::string sum;
    if constexpr (requires { function_.Sum(key, value); }) {
      sum = Concat(": ", function_.Sum(key, value), " is no INT64");
    }
    return OutOfRangeError(Concat(name_, " overflows", sum));
  }

  const Function function_;
  const int column_;
  const Type result_;
  const std::string name_;
  std::optional<ResultColumn<Result>> after_rows_;  // of the batch that is being taken in
  std::vector<int32_t> others_;                     // rows that do not have the dominant key
};

// min and max of texts, compared byte by byte (which is the order of code points).
class TextExtreme final : public Accumulator {
 public:
  TextExtreme(bool max, int column, Type type, KeyedBytes* state)
      : max_(max), column_(column), type_(type), state_(state), after_rows_(type) {}

  Status Add(const AccumulatorInput& input, Column* results, int64_t*) override {
    const Column& column = input.batch.column(column_);
    if (results != nullptr && input.begin == 0) after_rows_.Reserve(input.batch.rows());
    for (int64_t row = input.begin; row < input.end; ++row) {
      std::string_view best;
      bool has = state_->Get(row, &best);
      if (!column.IsNull(row)) {
        const std::string_view value = column.Text(row);
        if (!has || (max_ ? best < value : value < best)) {
          state_->Set(row, value);
          best = value;
          has = true;
        }
      }
      if (results != nullptr) Append(has, best, &after_rows_);
    }
    if (results != nullptr && input.end == input.batch.rows()) *results = after_rows_.Finish();
    return {};
  }

  Column Results(const AccumulatorInput&, std::span<const int32_t> rows) const override {
    ColumnBuilder out(type_);
    for (const int32_t row : rows) {
      std::string_view best;
      const bool has = state_->Get(row, &best);
      Append(has, best, &out);
    }
    return out.Finish();
  }

 private:
  static void Append(bool has, std::string_view text, ColumnBuilder* out) {
    if (has) {
      out->AppendText(text);
    } else {
      out->AppendNull();
    }
  }

  const bool max_;
  const int column_;
  const Type type_;
  KeyedBytes* const state_;
  ColumnBuilder after_rows_;  // of the batch that is being taken in
};

// Places of the aggregates in the value of a key.
class ValueLayout {
 public:
  explicit ValueLayout(int flags) : size_((flags + 63) / 64 * 8) {}

  int Take(int bytes) { return std::exchange(size_, size_ + bytes); }
  // The flag that TakeFlag gives out next.
  Flag NextFlag() const { return {next_flag_ / 8, static_cast<uint8_t>(1 << (next_flag_ % 8))}; }
  Flag TakeFlag() {
    const Flag flag = NextFlag();
    ++next_flag_;
    return flag;
  }
  int size() const { return size_; }

 private:
  int size_;
  int next_flag_ = 0;
};

bool NeedsFlag(const Aggregate& aggregate, Type type) {
  switch (aggregate.function) {
    case AggregateFunction::kCount:
    case AggregateFunction::kAvg:
      return false;
    case AggregateFunction::kSum:
      return type != Type::kFloat64;
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      return !IsVariableWidth(type);
  }
  return false;
}

template <typename Function>
std::unique_ptr<Accumulator> Fixed(Function function, int column, Type result,
                                   const std::string& name) {
  return std::make_unique<FixedAccumulator<Function>>(function, column, result, name);
}

// What a value of the column's type is in memory.
template <typename Make>
std::unique_ptr<Accumulator> WithNumber(Type type, Make make) {
  switch (type) {
    case Type::kInt32:
      return make(int32_t{});
    case Type::kInt64:
    case Type::kTimestamp:
      return make(int64_t{});
    case Type::kFloat64:
      return make(double{});
    default:
      break;
  }
  CheckFailed(__FILE__, __LINE__, "type", Concat("an aggregate of ", ToString(type)));
}

template <bool kMax>
std::unique_ptr<Accumulator> MakeExtreme(int column, Type type, const std::string& name,
                                         ValueLayout* layout) {
  return WithNumber(type, [&]<typename T>(T) {
    return Fixed(Extreme<T, kMax>{layout->Take(8), layout->TakeFlag()}, column, type, name);
  });
}

// What takes partial rows into the value that `MakeFixed` lays out at `offset` with `flag`.
void AddMergers(AggregateFunction function, int column, Type type, const std::string& name,
                int offset, Flag flag, std::vector<std::unique_ptr<Accumulator>>* mergers) {
  switch (function) {
    case AggregateFunction::kCount:
      mergers->push_back(Fixed(CountSum{offset}, column, Type::kInt64, name));
      return;
    case AggregateFunction::kSum:
      mergers->push_back(Fixed(IntegerSum<int64_t>{offset, flag}, column, Type::kInt64, name));
      return;
    case AggregateFunction::kAvg: {
      const int count_offset = offset + static_cast<int>(sizeof(AverageTotal::Total));
      mergers->push_back(Fixed(AverageTotal{offset}, column, Type::kFloat64, name));
      mergers->push_back(Fixed(CountSum{count_offset}, column + 1, Type::kInt64, name));
      return;
    }
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      mergers->push_back(WithNumber(type, [&]<typename T>(T) {
        return function == AggregateFunction::kMax
                   ? Fixed(Extreme<T, true>{offset, flag}, column, type, name)
                   : Fixed(Extreme<T, false>{offset, flag}, column, type, name);
      }));
      return;
  }
}

std::unique_ptr<Accumulator> MakeFixed(AggregateFunction function, int column, Type type,
                                       const std::string& name, ValueLayout* layout) {
  switch (function) {
    case AggregateFunction::kCount:
      return Fixed(Count{layout->Take(8)}, column, Type::kInt64, name);
    case AggregateFunction::kSum:
      return WithNumber(type, [&]<typename T>(T) {
        if constexpr (std::is_integral_v<T>) {
          return Fixed(IntegerSum<T>{layout->Take(8), layout->TakeFlag()}, column, Type::kInt64,
                       name);
        } else {
          return Fixed(Float64Sum{layout->Take(8)}, column, Type::kFloat64, name);
        }
      });
    case AggregateFunction::kAvg:
      return WithNumber(type, [&]<typename T>(T) {
        return Fixed(Average<T>{layout->Take(Average<T>::kBytes)}, column, Type::kFloat64, name);
      });
    case AggregateFunction::kMin:
      return MakeExtreme<false>(column, type, name, layout);
    case AggregateFunction::kMax:
      return MakeExtreme<true>(column, type, name, layout);
  }
  CheckFailed(__FILE__, __LINE__, "function", "no aggregate function");
}

}  // namespace

StatusOr<Accumulators> MakeAccumulators(const std::vector<Aggregate>& aggregates,
                                        const Schema& input,
                                        const std::vector<int>& partial_columns,
                                        StateBackend& state) {
  std::vector<int> columns;
  std::vector<Type> types;
  std::string description;
  int flags = 0;
  for (const Aggregate& aggregate : aggregates) {
    const std::string_view function = ToString(aggregate.function);
    if (!description.empty()) description += ", ";
    if (aggregate.column.empty()) {
      columns.push_back(-1);
      types.push_back(Type::kInt64);
      description += Concat(function, "(*)");
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(const int column, input.Require(aggregate.column));
    columns.push_back(column);
    types.push_back(input.field(column).type);
    description += Concat(function, "(", aggregate.column, " ", ToString(types.back()), ")");
    flags += NeedsFlag(aggregate, types.back());
  }

  Accumulators made;
  ValueLayout layout(flags);
  for (size_t i = 0; i < aggregates.size(); ++i) {
    const Aggregate& aggregate = aggregates[i];
    const bool max = aggregate.function == AggregateFunction::kMax;
    const std::string name =
        Concat(ToString(aggregate.function), "(",
               aggregate.column.empty() ? std::string_view("*") : aggregate.column, ")");
    if (IsVariableWidth(types[i]) && (max || aggregate.function == AggregateFunction::kMin)) {
      WEIR_ASSIGN_OR_RETURN(KeyedBytes * table, state.BytesTable(name));
      made.list.push_back(std::make_unique<TextExtreme>(max, columns[i], types[i], table));
      if (!partial_columns.empty()) {
        made.mergers.push_back(
            std::make_unique<TextExtreme>(max, partial_columns[i], types[i], table));
      }
    } else {
      if (!partial_columns.empty()) {
        AddMergers(aggregate.function, partial_columns[i], types[i], name, layout.size(),
                   layout.NextFlag(), &made.mergers);
      }
      made.list.push_back(MakeFixed(aggregate.function, columns[i], types[i], name, &layout));
    }
  }
  WEIR_ASSIGN_OR_RETURN(
      made.table, state.AccumulatorTable("aggregates", std::max(layout.size(), 8), description));
  return made;
}

}  // namespace weir
