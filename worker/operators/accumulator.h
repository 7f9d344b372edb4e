#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/builtin_configs.h"
#include "common/record/record_batch.h"
#include "worker/state/state_backend.h"

namespace weir {

// The rows [begin, end) of a batch.
struct AccumulatorInput {
  const RecordBatch& batch;
  std::span<uint8_t* const> values;  // of the keys of all rows, as FixedTable gives them
  int64_t begin = 0;
  int64_t end = batch.rows();
};

// One aggregate over the values of a key: count, sum, min, max or avg. Its state is a part of the
// value that all aggregates of a key share, or a table of its own for texts. Nulls add nothing.
// Thread: the task's.
class Accumulator {
 public:
  virtual ~Accumulator() = default;

  // Takes in the rows, which follow those of the last call when they are not the first of the
  // batch. `results`, unless nullptr, becomes the aggregate as it is after each row of the batch
  // when its last row was taken in; it is given for all of its rows or for none.
  // An overflow is a user error that says the sum which failed; `failed_row` is its row.
  virtual Status Add(const AccumulatorInput& input, Column* results, int64_t* failed_row) = 0;
  // The aggregate as it is now, for some of the rows.
  virtual Column Results(const AccumulatorInput& input, std::span<const int32_t> rows) const = 0;
};

// The accumulators of one aggregate operator and the table they share.
//
// Value of a key, zeros when it is new, numbers little endian:
//   a bit for each sum of integers, min and max that is not of texts, in the order of the config
//     (bit 0 of byte 0 first): it has a value; padded to a multiple of 8 bytes; none: no byte
//   then for each aggregate, in the order of the config:
//     count                     int64
//     sum of integers           int64
//     sum of FLOAT64            the bits of the double, xor kNoSum; 0: no value yet
//     avg of integers           int128 exact sum, int64 count
//     avg of FLOAT64            double sum, int64 count
//     min, max                  int64 (INT32, INT64, TIMESTAMP) or double
//     min, max of STRING        nothing; in the bytes table "min(column)", "max(column)"
struct Accumulators {
  std::vector<std::unique_ptr<Accumulator>> list;
  // Take in partial rows: only Add without results.
  std::vector<std::unique_ptr<Accumulator>> mergers;
  FixedTable* table = nullptr;
};

// `partial_columns`: where partial rows have what each aggregate takes from them
// (AggregatePartials); empty: there are none. REQUIRES: AggregateSchema has accepted the config for
// `input`.
StatusOr<Accumulators> MakeAccumulators(const std::vector<Aggregate>& aggregates,
                                        const Schema& input,
                                        const std::vector<int>& partial_columns,
                                        StateBackend& state);

}  // namespace weir
