#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "worker/operators/row_combiner.h"

namespace weir {

// Aggregates the rows of one batch by key, ahead of the `aggregate` that they are sent to.
//
// Whether that pays depends on the data, so it looks: a batch whose keys are more than half its
// rows is sent as it is, and so are more and more batches behind it, until one that is tried again
// shrinks.
//
// What it computes is what the aggregate would: nulls add nothing, min and max have the same order
// and keep the first of equal values. A batch in which a sum of integers leaves INT64, which the
// rows behind it may bring back, is sent as it is.
//
// Thread: the sending task's. Scratch memory belongs to the thread, for one has many such edges.
class PartialAggregate final : public RowCombiner {
 public:
  // REQUIRES: as AggregatePartialsOf.
  PartialAggregate(AggregateConfig config, const Schema& input);

  RecordBatchPtr Combine(const RecordBatch& batch) override;

 private:
  // Columns of one aggregate, appended; false when a sum does not fit.
  bool AppendAggregate(const Aggregate& aggregate, int column, const RecordBatch& batch,
                       std::vector<Column>* columns) const;

  const AggregateConfig config_;
  const SchemaPtr schema_;  // of the partial rows
  std::vector<int> key_columns_;
  std::vector<int> columns_;  // by aggregate; -1: a count of rows
  int skipped_max_ = 0;       // batches to let pass after the next one that does not shrink
  int to_skip_ = 0;
};

}  // namespace weir
