#include "worker/operators/partial_aggregate.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "common/record/key_group.h"
#include "worker/operators/value_order.h"
#include "worker/state/batch_keys.h"

namespace weir {
namespace {

// At most so many batches are let pass before one is tried again: a try costs about what a row's
// way to its receiver does, and data changes.
constexpr int kSkippedMax = 64;
// Larger partial rows are texts, of which there is nothing to gain.
constexpr int64_t kPartialBytesMax = 1 << 20;

// The keys of one batch.
struct Groups {
  std::vector<int32_t> of_row;      // the group of each row
  std::vector<int32_t> first_rows;  // the first row of each group, ascending
  std::vector<int64_t> rows;        // in each group
  std::vector<int32_t> slots;       // a hash table of groups; -1: free
  std::vector<uint64_t> words;      // one-word keys: of each group
  BatchKeys keys{{0, 1}, 1};        // others

  size_t size() const { return first_rows.size(); }
};
thread_local Groups groups;

// Fills `groups`; false as soon as there are more than one for two rows, or keys that lie so badly
// in the table that it takes too long. `mixed_of` gives the hash of a row in its upper bits,
// `same(row, group)` compares, `add(row)` notes a new group.
template <typename Mixed, typename Same, typename Add>
bool GroupRows(int64_t rows, Mixed mixed_of, Same same, Add add) {
  const size_t groups_max = static_cast<size_t>(rows / 2);
  const size_t capacity = std::bit_ceil(static_cast<size_t>(rows));
  const int shift = 64 - std::countr_zero(capacity);
  int64_t probes_left = 8 * rows;
  groups.of_row.resize(rows);
  groups.first_rows.clear();
  groups.rows.clear();
  groups.slots.assign(capacity, -1);
  for (int64_t row = 0; row < rows; ++row) {
    size_t slot = mixed_of(row) >> shift;
    int32_t group;
    while ((group = groups.slots[slot]) >= 0 && !same(row, group)) {
      slot = (slot + 1) & (capacity - 1);
      if (--probes_left == 0) return false;
    }
    if (group < 0) {
      if (groups.size() == groups_max) return false;
      group = static_cast<int32_t>(groups.size());
      groups.slots[slot] = group;
      groups.first_rows.push_back(static_cast<int32_t>(row));
      groups.rows.push_back(0);
      add(row);
    }
    groups.of_row[row] = group;
    ++groups.rows[group];
  }
  return true;
}

template <typename Word>
bool GroupWords(int64_t rows, Word word_of) {
  groups.words.clear();
  return GroupRows(
      rows,
      [&](int64_t row) {
        const uint64_t word = word_of(row);
        return (word ^ word >> 32) * 0x9e3779b97f4a7c15;
      },
      [&](int64_t row, int32_t group) { return groups.words[group] == word_of(row); },
      [&](int64_t row) { groups.words.push_back(word_of(row)); });
}

bool GroupBatch(const RecordBatch& batch, std::span<const int> key_columns) {
  const int64_t rows = batch.rows();
  if (rows < 2) return false;
  const Column& column = batch.column(key_columns[0]);
  if (key_columns.size() == 1 && !column.has_nulls()) {
    switch (column.type()) {
      case Type::kInt32:
        return GroupWords(rows, [values = column.values<int32_t>()](int64_t row) {
          return static_cast<uint64_t>(int64_t{values[row]});
        });
      case Type::kInt64:
      case Type::kTimestamp:
        return GroupWords(rows, [values = column.values<int64_t>()](int64_t row) {
          return static_cast<uint64_t>(values[row]);
        });
      case Type::kFloat64:
        return GroupWords(rows, [values = column.values<double>()](int64_t row) {
          return CanonicalBits(values[row]);
        });
      default:
        break;
    }
  }
  if (!groups.keys.Load(batch, key_columns).ok()) return false;
  return GroupRows(
      rows, [&](int64_t row) { return groups.keys.key(row).tag; },
      [&](int64_t row, int32_t group) {
        const TableKey key = groups.keys.key(row);
        const TableKey other = groups.keys.key(groups.first_rows[group]);
        if (key.tag != other.tag) return false;
        return key.word == other.word || (key.IsLong() && key.LongBytes() == other.LongBytes());
      },
      [](int64_t) {});
}

// Calls `take(row, group)` for the rows that have a value.
template <typename Take>
void ForEachValue(const Column& column, Take take) {
  const int32_t* of_row = groups.of_row.data();
  if (!column.has_nulls()) {
    for (int64_t row = 0; row < column.size(); ++row) take(row, of_row[row]);
    return;
  }
  for (int64_t row = 0; row < column.size(); ++row) {
    if (!column.IsNull(row)) take(row, of_row[row]);
  }
}

Column CountColumn(const std::vector<int64_t>& counts) {
  ColumnBuilder builder(Type::kInt64);
  builder.Reserve(static_cast<int64_t>(counts.size()));
  for (const int64_t count : counts) builder.AppendInt64(count);
  return builder.Finish();
}

std::vector<int64_t> CountValues(const Column& column) {
  if (!column.has_nulls()) return groups.rows;
  std::vector<int64_t> counts(groups.size());
  ForEachValue(column, [&](int64_t, int32_t group) { ++counts[group]; });
  return counts;
}

// Null for a group without values. False when a sum leaves INT64, even for a while.
template <typename T>
bool AppendSum(const Column& column, const std::vector<int64_t>& counts,
               std::vector<Column>* columns) {
  std::vector<int64_t> sums(groups.size());
  bool fits = true;
  ForEachValue(column, [&, values = column.values<T>()](int64_t row, int32_t group) {
    fits &= !__builtin_add_overflow(sums[group], int64_t{values[row]}, &sums[group]);
  });
  if (!fits) return false;
  ColumnBuilder builder(Type::kInt64);
  builder.Reserve(static_cast<int64_t>(sums.size()));
  for (size_t group = 0; group < sums.size(); ++group) {
    if (counts[group] > 0) {
      builder.AppendInt64(sums[group]);
    } else {
      builder.AppendNull();
    }
  }
  columns->push_back(builder.Finish());
  return true;
}

bool AppendSum(const Column& column, const std::vector<int64_t>& counts,
               std::vector<Column>* columns) {
  return column.type() == Type::kInt32 ? AppendSum<int32_t>(column, counts, columns)
                                       : AppendSum<int64_t>(column, counts, columns);
}

// The row of the least or greatest value of each group; -1: it has none.
template <typename ValueOf>
std::vector<int32_t> BestRows(const Column& column, bool max, ValueOf value_of) {
  std::vector<int32_t> best(groups.size(), -1);
  ForEachValue(column, [&](int64_t row, int32_t group) {
    int32_t& old = best[group];
    if (old < 0 ||
        (max ? Less(value_of(old), value_of(row)) : Less(value_of(row), value_of(old)))) {
      old = static_cast<int32_t>(row);
    }
  });
  return best;
}

Column ExtremeColumn(const Column& column, bool max) {
  std::vector<int32_t> best;
  switch (column.type()) {
    case Type::kInt32:
      best = BestRows(column, max, [v = column.values<int32_t>()](int64_t row) { return v[row]; });
      break;
    case Type::kInt64:
    case Type::kTimestamp:
      best = BestRows(column, max, [v = column.values<int64_t>()](int64_t row) { return v[row]; });
      break;
    case Type::kFloat64:
      best = BestRows(column, max, [v = column.values<double>()](int64_t row) { return v[row]; });
      break;
    default:
      best = BestRows(column, max, [&](int64_t row) { return column.Text(row); });
      break;
  }
  ColumnBuilder builder(column.type());
  builder.Reserve(static_cast<int64_t>(best.size()));
  for (const int32_t row : best) {
    if (row < 0) {
      builder.AppendNull();
    } else {
      builder.AppendFrom(column, row);
    }
  }
  return builder.Finish();
}

}  // namespace

PartialAggregate::PartialAggregate(AggregateConfig config, const Schema& input)
    : config_(std::move(config)),
      schema_(std::make_shared<const Schema>(AggregatePartialsOf(config_, input).schema)) {
  for (const std::string& key : config_.keys) key_columns_.push_back(input.IndexOf(key));
  for (const Aggregate& aggregate : config_.aggregates) {
    columns_.push_back(aggregate.column.empty() ? -1 : input.IndexOf(aggregate.column));
  }
}

RecordBatchPtr PartialAggregate::Combine(const RecordBatch& batch) {
  if (to_skip_ > 0) {
    --to_skip_;
    return nullptr;
  }
  // Until it turns out that it shrinks.
  to_skip_ = std::exchange(skipped_max_, std::min(2 * skipped_max_ + 1, kSkippedMax));
  if (!GroupBatch(batch, key_columns_)) return nullptr;
  std::vector<Column> columns;
  columns.reserve(schema_->size());
  for (const int column : key_columns_) {
    ColumnBuilder builder(batch.column(column).type());
    builder.AppendFrom(batch.column(column), groups.first_rows);
    columns.push_back(builder.Finish());
  }
  columns.push_back(CountColumn(groups.rows));
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i] < 0) continue;
    if (!AppendAggregate(config_.aggregates[i], columns_[i], batch, &columns)) return nullptr;
  }
  auto partials = std::make_shared<const RecordBatch>(schema_, static_cast<int64_t>(groups.size()),
                                                      std::move(columns));
  if (partials->ByteSize() > kPartialBytesMax) return nullptr;
  to_skip_ = skipped_max_ = 0;
  return partials;
}

bool PartialAggregate::AppendAggregate(const Aggregate& aggregate, int column,
                                       const RecordBatch& batch,
                                       std::vector<Column>* columns) const {
  const Column& values = batch.column(column);
  switch (aggregate.function) {
    case AggregateFunction::kCount:
      columns->push_back(CountColumn(CountValues(values)));
      return true;
    case AggregateFunction::kSum:
      return AppendSum(values, CountValues(values), columns);
    case AggregateFunction::kAvg: {
      const std::vector<int64_t> counts = CountValues(values);
      if (!AppendSum(values, counts, columns)) return false;
      columns->push_back(CountColumn(counts));
      return true;
    }
    case AggregateFunction::kMin:
    case AggregateFunction::kMax:
      columns->push_back(ExtremeColumn(values, aggregate.function == AggregateFunction::kMax));
      return true;
  }
  return false;
}

StatusOr<std::unique_ptr<RowCombiner>> MakeRowCombiner(const JobVertex& receiver,
                                                       const Schema& input) {
  if (receiver.type != "aggregate") {
    return InternalError(Concat("no rows are combined for type '", receiver.type, "'"));
  }
  WEIR_ASSIGN_OR_RETURN(AggregateConfig config, ParseAggregateConfig(receiver.config));
  std::unique_ptr<RowCombiner> made = std::make_unique<PartialAggregate>(std::move(config), input);
  return made;
}

}  // namespace weir
