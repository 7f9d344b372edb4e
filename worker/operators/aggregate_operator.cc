#include "worker/operators/aggregate_operator.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "common/base/concat.h"
#include "common/base/thread_scratch.h"
#include "worker/operators/described_schema.h"
#include "worker/operators/keyed_operator_context.h"

namespace weir {
namespace {

constexpr size_t kShownKeyBytesMax = 64;
// Values of so many keys are still in the nearest cache when the last one was found.
constexpr int64_t kNearRows = 512;
constexpr int kPartialsInput = 1;

// A value as messages show it.
std::string Shown(const Column& column, int64_t row) {
  if (column.IsNull(row)) return "null";
  switch (column.type()) {
    case Type::kBool:
      return column.Bool(row) ? "true" : "false";
    case Type::kInt32:
      return Concat(column.Int32(row));
    case Type::kInt64:
    case Type::kTimestamp:
      return Concat(column.Int64(row));
    case Type::kFloat64:
      return Concat(column.Float64(row));
    case Type::kString:
    case Type::kBytes: {
      std::string_view text = column.Text(row);
      const bool cut = text.size() > kShownKeyBytesMax;
      // Not within a UTF-8 sequence.
      size_t size = cut ? kShownKeyBytesMax : text.size();
      while (cut && size > 0 && (static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;
      return Concat("'", text.substr(0, size), cut ? "…'" : "'");
    }
  }
  return "?";
}

StatusOr<std::vector<int>> ColumnsOf(const std::vector<std::string>& names, const Schema& schema) {
  std::vector<int> columns;
  for (const std::string& name : names) {
    WEIR_ASSIGN_OR_RETURN(const int column, schema.Require(name));
    columns.push_back(column);
  }
  return columns;
}

}  // namespace

StatusOr<Schema> AggregateOperator::OutputSchema(const Config& config,
                                                 const std::vector<Schema>& inputs) {
  return DescribedSchema("aggregate", config, inputs);
}

Status AggregateOperator::Open(OperatorContext& context) {
  auto* keyed = dynamic_cast<KeyedOperatorContext*>(&context);
  if (keyed == nullptr) return InternalError("aggregate was opened without keyed state");
  uid_ = context.uid();
  schema_ = context.output_schema();
  const Schema& input = *context.input_schema(0);
  WEIR_RETURN_IF_ERROR(OutputSchema(context.config(), {input}).status());
  WEIR_ASSIGN_OR_RETURN(config_, ParseAggregateConfig(context.config()));
  WEIR_ASSIGN_OR_RETURN(key_columns_, ColumnsOf(config_.keys, input));
  WEIR_ASSIGN_OR_RETURN(kept_columns_, ColumnsOf(config_.keep, input));
  if (!std::ranges::is_permutation(key_columns_, context.key_columns(0))) {
    return FailedPreconditionError(
        Concat("aggregate '", uid_, "' has other keys than the HASH columns of the edge into it"));
  }
  std::vector<int> partial_columns;
  if (context.inputs() > kPartialsInput) {
    AggregatePartials partials = AggregatePartialsOf(config_, input);
    partial_key_columns_ = context.key_columns(kPartialsInput);
    if (config_.emit != AggregateEmit::kChanged ||
        partials.schema != *context.input_schema(kPartialsInput) ||
        partial_key_columns_.size() != key_columns_.size()) {
      return InternalError(Concat("aggregate '", uid_, "' takes other partial rows"));
    }
    // In the order of the config.
    std::iota(partial_key_columns_.begin(), partial_key_columns_.end(), 0);
    partial_columns = std::move(partials.columns);
  }
  WEIR_ASSIGN_OR_RETURN(
      accumulators_, MakeAccumulators(config_.aggregates, input, partial_columns, keyed->state()));
  return {};
}

Status AggregateOperator::ProcessBatch(int input, const RecordBatch& batch, Output& output) {
  if (batch.rows() == 0) return {};
  if (config_.emit == AggregateEmit::kEveryRow) return EmitEveryRow(batch, output);
  return input == kPartialsInput
             ? EmitChanged(batch, partial_key_columns_, accumulators_.mergers, output)
             : EmitChanged(batch, key_columns_, accumulators_.list, output);
}

Status AggregateOperator::EmitEveryRow(const RecordBatch& batch, Output& output) {
  std::vector<Column> results(accumulators_.list.size());
  ThreadScratch<uint8_t*> values;
  for (int64_t begin = 0; begin < batch.rows(); begin += kNearRows) {
    const int64_t end = std::min(batch.rows(), begin + kNearRows);
    WEIR_RETURN_IF_ERROR(accumulators_.table->LoadRows(begin, end, &*values));
    const AccumulatorInput input{batch, *values, begin, end};
    for (size_t i = 0; i < results.size(); ++i) {
      int64_t failed_row = 0;
      const Status status = accumulators_.list[i]->Add(input, &results[i], &failed_row);
      if (!status.ok()) return KeyError(status, batch, key_columns_, failed_row);
    }
  }
  std::vector<Column> columns;
  columns.reserve(schema_->size());
  for (const int column : key_columns_) columns.push_back(batch.column(column));
  for (const int column : kept_columns_) columns.push_back(batch.column(column));
  for (Column& result : results) columns.push_back(std::move(result));
  output.Emit(RecordBatch(schema_, batch.rows(), std::move(columns)));
  return {};
}

Status AggregateOperator::EmitChanged(const RecordBatch& batch, const std::vector<int>& key_columns,
                                      const std::vector<std::unique_ptr<Accumulator>>& accumulators,
                                      Output& output) {
  WEIR_RETURN_IF_ERROR(accumulators_.table->Load(&values_));
  const AccumulatorInput input{batch, values_};
  for (const auto& accumulator : accumulators) {
    int64_t failed_row = 0;
    const Status status = accumulator->Add(input, nullptr, &failed_row);
    if (!status.ok()) return KeyError(status, batch, key_columns, failed_row);
  }
  FindFirstRows();
  std::vector<Field> key_fields;
  std::vector<Column> columns;
  for (const int column : key_columns) {
    key_fields.push_back(batch.schema()->field(column));
    columns.push_back(batch.column(column));
  }
  const RecordBatch keys = RecordBatch(std::make_shared<const Schema>(std::move(key_fields)),
                                       batch.rows(), std::move(columns))
                               .Select(first_rows_);
  columns.clear();
  columns.reserve(schema_->size());
  for (int i = 0; i < keys.columns(); ++i) columns.push_back(keys.column(i));
  for (const auto& accumulator : accumulators_.list) {
    columns.push_back(accumulator->Results(input, first_rows_));
  }
  output.Emit(RecordBatch(schema_, keys.rows(), std::move(columns)));
  return {};
}

// Rows of one key have one pointer.
void AggregateOperator::FindFirstRows() {
  first_rows_.clear();
  const size_t capacity = std::bit_ceil(values_.size() * 2);
  const int shift = 64 - std::countr_zero(capacity);
  seen_.assign(capacity, -1);
  for (size_t row = 0; row < values_.size(); ++row) {
    const uint64_t mixed = reinterpret_cast<uint64_t>(values_[row]) * 0x9e3779b97f4a7c15;
    size_t slot = mixed >> shift;
    while (seen_[slot] >= 0 && values_[seen_[slot]] != values_[row]) {
      slot = (slot + 1) & (capacity - 1);
    }
    if (seen_[slot] >= 0) continue;
    seen_[slot] = static_cast<int32_t>(row);
    first_rows_.push_back(static_cast<int32_t>(row));
  }
}

Status AggregateOperator::KeyError(const Status& error, const RecordBatch& batch,
                                   const std::vector<int>& key_columns, int64_t row) const {
  std::string key;
  for (size_t i = 0; i < key_columns.size(); ++i) {
    if (i > 0) key += ", ";
    key += Concat(config_.keys[i], " = ", Shown(batch.column(key_columns[i]), row));
  }
  return error.WithContext(Concat("aggregate '", uid_, "', key ", key));
}

}  // namespace weir
