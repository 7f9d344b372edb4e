#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/operator/committable.h"
#include "common/operator/committable_owner.h"
#include "common/operator/sink_progress.h"
#include "common/operator/source.h"
#include "common/threading/executor.h"

namespace weir {

class SinkContext {
 public:
  virtual ~SinkContext() = default;
  virtual const Config& config() const = 0;
  virtual const JobOptions& options() const = 0;
  virtual const JobId& job() const = 0;
  virtual const std::string& job_name() const = 0;
  virtual const std::string& uid() const = 0;
  virtual Generation generation() const = 0;
  // The checkpoint of the same job that it goes on from; 0: none. What the sink set up outside
  // before that one completed has to be there, and nothing that was published later may be.
  virtual CheckpointId resumed_from() const = 0;
  // The checkpoint that it goes on from, its own or that of the job it was started from; 0: none.
  // Along a line of such jobs the numbers of checkpoints only grow.
  virtual CheckpointId restored_from() const = 0;
  virtual int subtask() const = 0;
  virtual int parallelism() const = 0;
  virtual const SchemaPtr& input_schema() const = 0;
  virtual FileSystem& files() = 0;
  virtual Timers& timers() = 0;
  virtual Executor& executor() = 0;  // the task's: mail from other threads goes through it
  virtual const Clock& clock() const = 0;
  // Absolute; for what is sealed and not published yet, of all vertices and subtasks of this job:
  // names must be unique. Made, durably, by whoever first writes there; nobody else removes from it
  // while the job is there.
  virtual const std::string& staging_directory() const = 0;
  // Asks the coordinator whether this generation is still the one that runs: what has one holder in
  // the outside world may be taken from the present one only after that. `done` as mail: kStale:
  // no, and never again; kUnavailable: no answer in time, ask again. Not called any more once the
  // task ends.
  virtual void ConfirmCurrent(std::function<void(Status)> done) = 0;
  // Makes the task go on after Ready() was false.
  virtual void Wake() = 0;
  // A request in the background failed: ends the generation with this error.
  virtual void Fail(Status status) = 0;
  // Counts rows that were left out because the output does not take them, as bad_data drop and
  // dead_letter do.
  virtual void CountDropped(int64_t rows) = 0;
  // Tells people what it cannot go on without, in their words ("cannot create /x: No space left on
  // device"); "": nothing any more. Several parts of one subtask, each under its own name, may wait
  // for something at the same time.
  virtual void SetWaiting(std::string_view part, std::string what) = 0;
};

// The writing side of a sink that commits. Thread: the task's.
class Sink : public CommittableOwner {
 public:
  // `done` once rows may be written; the task takes no element before.
  virtual void Open(SinkContext& context, std::function<void(Status)> done) = 0;
  // Takes the rows; bytes to disk may still be on their way when it returns.
  virtual Status Write(const RecordBatch& batch) = 0;
  // Where it stands; no value: it has nothing to tell. Asked often, between other calls, from the
  // end of Open on.
  virtual std::optional<SinkProgress> progress() const { return std::nullopt; }
  // The generation ends; requests in flight may be dropped. Nothing is published or removed.
  virtual void Close() {}
};

// The job that starts from the checkpoint that is settled.
struct JobSuccessor {
  JobId job;
  std::vector<Config> configs;  // of its vertices of the type that is settled
};

// The settling side, made from config alone, so that what a completed checkpoint lists can be
// committed by any worker without the task: at recovery, on cancel and failure, after a rescale.
// Both calls are idempotent and may be repeated from another worker at the same time.
class CommitterContext {
 public:
  virtual ~CommitterContext() = default;
  virtual const Config& config() const = 0;
  virtual const JobId& job() const = 0;
  virtual const std::string& job_name() const = 0;
  virtual const std::string& uid() const = 0;
  virtual FileSystem& files() = 0;
  virtual Timers& timers() = 0;
  virtual Executor& executor() = 0;  // mail from other threads goes through it
  // The staging_directory of the sinks that sealed the committables.
  virtual const std::string& staging_directory() const = 0;
  // nullptr: the job settles its own. Else that one has ended, and no other successor may go on
  // from its output, once this one has.
  virtual const JobSuccessor* successor() const = 0;
  // Nobody publishes any more: the job that sealed has ended, or the successor has without having
  // sealed anything, so that another one may go on.
  virtual bool ends() const = 0;
  // As in SinkContext, for this very call of the coordinator: kStale also when that one waits for
  // it no more, having perhaps told another worker to settle.
  virtual void ConfirmCurrent(std::function<void(Status)> done) = 0;
};

class Committer {
 public:
  virtual ~Committer() = default;
  virtual void Open(CommitterContext& context) = 0;
  // Whether Commit would refuse these for good, as far as it can be seen without taking anything
  // from anybody; OK where it cannot be seen now.
  virtual void Check(std::vector<Committable> committables, std::function<void(Status)> done) {
    (void)committables;
    done(Status());
  }
  // Publishes all of them, durably. kOutOfRange: where they go to refuses them for good, and not
  // for want of anything that is waited for; they are kept.
  virtual void Commit(std::vector<Committable> committables, std::function<void(Status)> done) = 0;
  // Removes what generations older than `generation` of this job and uid left behind, sealed or
  // not, except what is named in `listed`. Nothing of anybody else is touched.
  virtual void AbortOthers(Generation generation, std::vector<Committable> listed,
                           std::function<void(Status)> done) = 0;
  // What it cannot go on without at the moment, for people; "": nothing, or it is not known.
  virtual std::string waits_for() const { return ""; }
};

}  // namespace weir
