#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/operator/operator.h"
#include "common/record/key_group.h"
#include "common/record/record_batch.h"

namespace weir {

// Accumulators of one fixed width a key. Thread: the task's.
class FixedTable {
 public:
  virtual ~FixedTable() = default;
  virtual int value_width() const = 0;
  // The values of the keys of all rows of the batch in process, one pointer a row, each aligned to
  // 8 bytes: equal keys, equal pointers. A key that had no value has one of zeros from now on. The
  // bytes may be changed in place; pointers hold until EndBatch, also across further calls.
  virtual Status Load(std::vector<uint8_t*>* values) = 0;
  // As Load for the rows [begin, end) alone: `values` is made at least as large as the batch, and
  // these rows of it hold until the next call. For loops that use up the values of some rows, while
  // they are near, before they look up the next. REQUIRES: the rows are of the batch.
  virtual Status LoadRows(int64_t begin, int64_t end, std::vector<uint8_t*>* values) = 0;
};

// A chunk of the state of one key group: see state_format.h.
struct KeyGroupState {
  int key_group = 0;
  std::string bytes;
};

// The keyed state of one operator subtask: named tables, each split by key group, for the keys of
// one batch at a time. Owns the tables; pointers to them live as long as the backend.
//
// A batch is in process from BeginBatch to EndBatch. Its keys are hashed and looked up when a
// table is first used in it, so that an operator which uses none pays nothing. Between batches the
// state is consistent and a snapshot can begin, which is written down while further batches come.
//
// What an operator does wrong with its state (use outside a batch, a row that is not in it) cannot
// be returned by KeyedBytes: reads find nothing, writes do nothing, and the next EndBatch or
// BeginSnapshot returns the error. The task has to fail then.
//
// Thread: the task's.
class StateBackend {
 public:
  virtual ~StateBackend() = default;

  // Key groups whose rows and state this subtask holds.
  virtual KeyGroupRange range() const = 0;

  // The table `name`, made when there is none. One that was made or restored as another kind, width
  // or layout is a user error that names it.
  virtual StatusOr<KeyedBytes*> BytesTable(const std::string& name) = 0;
  // `layout` says what the bytes mean: state of another layout is refused at restore even when its
  // width is the same. REQUIRES: 0 < value_width <= kStateValueWidthMax (state_format.h).
  virtual StatusOr<FixedTable*> AccumulatorTable(const std::string& name, int value_width,
                                                 const std::string& layout) = 0;

  // `batch` and `key_columns` must stay until EndBatch. REQUIRES: no batch is in process.
  virtual void BeginBatch(const RecordBatch& batch, std::span<const int> key_columns) = 0;
  // Ends the batch; what was changed is in the state. REQUIRES: a batch is in process.
  virtual Status EndBatch() = 0;

  // A snapshot holds the contents at its begin, whatever changes while it is written down bit by
  // bit: what changes is written down first. What an operator is about to change is, so that a
  // batch takes longer meanwhile.
  // REQUIRES: no batch is in process and no snapshot in progress.
  virtual Status BeginSnapshot() = 0;
  // Writes down what about so many bytes of memory hold; the last bit ends the snapshot.
  // REQUIRES: no batch is in process.
  virtual void ContinueSnapshot(int64_t bytes) = 0;
  virtual bool in_snapshot() const = 0;
  // The chunks that have been filled since the last call, also by batches: all of them once the
  // snapshot has ended. A key group has several, in no order (state_format.h).
  virtual std::vector<KeyGroupState> TakeChunks() = 0;
  // Ends a snapshot half-way: what of it has not been taken is dropped.
  virtual void AbortSnapshot() = 0;
  // A whole snapshot at once. REQUIRES: as BeginSnapshot.
  StatusOr<std::vector<KeyGroupState>> Snapshot();

  // Takes in a chunk of a snapshot, by any backend, at any parallelism. May come before or after
  // the tables are asked for. kDataLoss for damaged bytes; user error for a table that was asked
  // for as another kind, width or layout; nothing is taken in then. kDataLoss also for a key that
  // is there already: then the state is of no use any more. REQUIRES: no batch is in process and
  // no snapshot in progress, and the key group is in range.
  virtual Status Restore(int key_group, std::string_view bytes) = 0;

  // Memory that the tables hold.
  virtual int64_t bytes() const = 0;
};

// The backend that the job option state.backend names ("memory"); user error that lists the valid
// names for another one.
StatusOr<std::unique_ptr<StateBackend>> MakeStateBackend(std::string_view name, KeyGroupRange range,
                                                         int max_parallelism);

}  // namespace weir
