#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/graph/job_graph.h"
#include "common/record/record_batch.h"

namespace weir {

// Puts rows of one key together before they are sent to a vertex that takes partial rows. Holds
// nothing from batch to batch. Thread: the sending task's.
class RowCombiner {
 public:
  virtual ~RowCombiner() = default;

  // Partial rows that stand for all rows of `batch`, one for each key, in order of their first
  // rows. nullptr when the rows had better be sent as they are: few of them have a key in common,
  // or a sum is too large for a partial row.
  virtual RecordBatchPtr Combine(const RecordBatch& batch) = 0;
};

// The combiner for rows of `input` that go to `receiver`. REQUIRES: the descriptor of its type
// gives partial rows for it.
StatusOr<std::unique_ptr<RowCombiner>> MakeRowCombiner(const JobVertex& receiver,
                                                       const Schema& input);

}  // namespace weir
