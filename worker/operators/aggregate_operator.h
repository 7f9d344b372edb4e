#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "common/operator/operator.h"
#include "worker/operators/accumulator.h"

namespace weir {

// `aggregate`: count, sum, min, max, avg of the values of each key. For every input row, in order,
// a row with the aggregates as they are after it; or for every batch a row for each key that rows
// of the batch have, in order of their first rows, with the aggregates as they are after the batch.
// Output columns: keys, keep, aggregates.
//
// Nulls add nothing. count is never null; the others are null as long as there was no value. An
// integer that leaves INT64 is a user error that names operator, key and values; the state is
// unusable then, as after every error of an operator. avg of integers is that of their exact sum.
// For min and max NaN is above all numbers, and texts are compared byte by byte.
//
// With `changed`, a second input number may bring partial rows (AggregatePartials), which a sender
// made of several rows of a key: an overflow is found then by what the rows sum up to.
//
// Works by columns: all keys of a batch are found first, then each aggregate goes over the rows.
// Thread: the task's.
class AggregateOperator final : public Operator {
 public:
  StatusOr<Schema> OutputSchema(const Config& config, const std::vector<Schema>& inputs) override;
  // REQUIRES: the context is a KeyedOperatorContext; anything else is an internal error.
  Status Open(OperatorContext& context) override;
  Status ProcessBatch(int input, const RecordBatch& batch, Output& output) override;

 private:
  Status EmitEveryRow(const RecordBatch& batch, Output& output);
  // `accumulators` take in the batch, the keys of which are its `key_columns`.
  Status EmitChanged(const RecordBatch& batch, const std::vector<int>& key_columns,
                     const std::vector<std::unique_ptr<Accumulator>>& accumulators, Output& output);
  // The first row of each key of the batch, ascending.
  void FindFirstRows();
  Status KeyError(const Status& error, const RecordBatch& batch,
                  const std::vector<int>& key_columns, int64_t row) const;

  std::string uid_;
  SchemaPtr schema_;
  AggregateConfig config_;
  std::vector<int> key_columns_;  // in the order of the config
  std::vector<int> kept_columns_;
  std::vector<int> partial_key_columns_;
  Accumulators accumulators_;
  // Of the batch in process.
  std::vector<uint8_t*> values_;
  std::vector<int32_t> first_rows_;
  std::vector<int32_t> seen_;  // a hash table of rows of different keys; -1: free
};

}  // namespace weir
