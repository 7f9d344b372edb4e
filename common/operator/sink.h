#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/operator/committable.h"
#include "common/operator/source.h"

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
  // Whether it goes on from a checkpoint of the same job: what the sink set up outside before that
  // one completed has to be there.
  virtual bool resumes() const = 0;
  virtual int subtask() const = 0;
  virtual int parallelism() const = 0;
  virtual const SchemaPtr& input_schema() const = 0;
  virtual FileSystem& files() = 0;
  virtual Timers& timers() = 0;
  virtual const Clock& clock() const = 0;
  // Makes the task go on after Ready() was false.
  virtual void Wake() = 0;
  // A request in the background failed: ends the generation with this error.
  virtual void Fail(Status status) = 0;
};

// The writing side of a sink that commits. Rows written before Prepare(n) are sealed by it and
// stay invisible until checkpoint n (or a later one that lists them) completed. Sealed rows belong
// to the sink: if their checkpoint is aborted they are listed again by every later Prepare until
// their commit is known to be durable. Never waits; effects are requests. Thread: the task's.
class Sink {
 public:
  virtual ~Sink() = default;
  // `done` once rows may be written; the task takes no element before.
  virtual void Open(SinkContext& context, std::function<void(Status)> done) = 0;
  // Takes the rows; bytes to disk may still be on their way when it returns.
  virtual Status Write(const RecordBatch& batch) = 0;
  // Whether another batch may be written now. When not, Wake is called later; blocking_reason says
  // what it waits for ("bytes in flight", "publishing lags behind").
  virtual bool Ready() const { return true; }
  virtual std::string blocking_reason() const { return ""; }
  // Seals what was written; answers, once it is durable, every sealed and not yet published
  // committable. Rows may be written again at once, before `done`. Calls may overlap.
  virtual void Prepare(CheckpointId checkpoint,
                       std::function<void(StatusOr<std::vector<Committable>>)> done) = 0;
  // `checkpoint` completed: publish exactly what its Prepare listed. May come late, twice or out of
  // order; a later one covers an earlier. `done` when all of it is published and durable; retried
  // inside for as long as the error may heal.
  virtual void Publish(CheckpointId checkpoint, std::function<void(Status)> done) = 0;
  // `checkpoint` will never complete. Its sealed rows stay.
  virtual void OnAborted(CheckpointId checkpoint) { (void)checkpoint; }
  // The generation ends; requests in flight may be dropped. Nothing is published or removed.
  virtual void Close() {}
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
};

class Committer {
 public:
  virtual ~Committer() = default;
  virtual void Open(CommitterContext& context) = 0;
  // Publishes all of them, durably.
  virtual void Commit(std::vector<Committable> committables, std::function<void(Status)> done) = 0;
  // Removes what generations older than `generation` of this job and uid left behind, sealed or
  // not, except what is named in `listed`. Nothing of anybody else is touched.
  virtual void AbortOthers(Generation generation, std::vector<Committable> listed,
                           std::function<void(Status)> done) = 0;
};

}  // namespace weir
