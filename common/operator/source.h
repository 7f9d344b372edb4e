#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/graph/job_options.h"
#include "common/operator/committable_owner.h"
#include "common/operator/operator.h"
#include "common/record/record_batch.h"
#include "common/storage/file_system.h"
#include "common/threading/executor.h"

namespace weir {

// Where reading of one split stands: `split` names it (unique in the source), `position` is the
// source's own encoding of the offset next to read and what else it needs to go on.
struct SplitState {
  std::string split;
  std::string position;
  bool operator==(const SplitState&) const = default;
};

// What a source subtask works with. Callbacks of `files` and `timers` run on the task's thread.
class SourceContext {
 public:
  virtual ~SourceContext() = default;
  virtual const Config& config() const = 0;
  virtual const JobOptions& options() const = 0;
  virtual const JobId& job() const = 0;
  virtual const std::string& job_name() const = 0;
  virtual const std::string& uid() const = 0;
  virtual Generation generation() const = 0;
  // The checkpoint of the same job that it goes on from; 0: none.
  virtual CheckpointId resumed_from() const = 0;
  virtual int subtask() const = 0;
  virtual int parallelism() const = 0;
  virtual const SchemaPtr& output_schema() const = 0;
  virtual FileSystem& files() = 0;
  virtual Timers& timers() = 0;
  virtual Executor& executor() = 0;  // the task's: mail from other threads goes through it
  virtual const Clock& clock() const = 0;
  // As in SinkContext.
  virtual const std::string& staging_directory() const = 0;
  // Makes the task call Poll again after it answered kIdle. From the task's thread.
  virtual void Wake() = 0;
  // A request in the background failed: ends the generation with this error.
  virtual void Fail(Status status) = 0;
  // Counts bad rows that were left out, as bad_data drop and dead_letter do.
  virtual void CountDropped(int64_t rows) = 0;
  // Counts rows that were gone before they could be read, where the user chose to go on without.
  virtual void CountLost(int64_t rows) = 0;
  // As in SinkContext.
  virtual void SetWaiting(std::string_view part, std::string what) = 0;
};

enum class PollResult {
  kRows,   // emitted rows; more may be there at once
  kIdle,   // nothing now; Wake will say when
  kEnded,  // bounded source: all splits of this subtask are read. Said again at every later Poll
};

// Reads splits. A split belongs to exactly one subtask by a deterministic rule of the source
// (split and parallelism alone), so that restoring at another parallelism redistributes the union
// of positions without a central enumerator. Never waits: what it waits for it requests, answers
// kIdle and calls Wake from the callback. Thread: the task's.
class Source {
 public:
  virtual ~Source() = default;
  // `restored`: the positions of all subtasks of the checkpoint, or empty for a fresh start; the
  // source keeps those of its own splits.
  virtual Status Open(SourceContext& context, const std::vector<SplitState>& restored) = 0;
  // Emits at most one batch of up to batch.rows_max rows.
  virtual StatusOr<PollResult> Poll(Output& output) = 0;
  // Positions of this subtask's splits, those read to their end included: exactly behind the rows
  // emitted so far.
  virtual std::vector<SplitState> SnapshotPositions() = 0;
  // The positions just asked for are those of `checkpoint`.
  virtual void OnSnapshot(uint64_t checkpoint) { (void)checkpoint; }
  // False: idle because what it reads from does not answer. The source calls Wake when that
  // changes.
  virtual bool Reachable() const { return true; }
  // What it writes beside its rows (dead letters), if anything: prepared at the very place of
  // SnapshotPositions, published when that checkpoint completed. Asked after Open; stays the same.
  virtual CommittableOwner* committable_owner() { return nullptr; }
  // The checkpoint that holds these positions completed (external bookkeeping only).
  virtual void OnCompleted(uint64_t checkpoint) { (void)checkpoint; }
  virtual void Close() {}
};

}  // namespace weir
