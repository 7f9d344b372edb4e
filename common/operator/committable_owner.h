#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/operator/committable.h"

namespace weir {

// Who writes what is seen only when a checkpoint completed: a sink, or a source with dead letters.
// What was written before Prepare(n) is sealed by it and stays invisible until checkpoint n (or a
// later one that lists it) completed. What is sealed belongs to its owner: if its checkpoint is
// aborted it is listed again by every later Prepare until its commit is known to be durable. Never
// waits; effects are requests. Thread: the task's.
class CommittableOwner {
 public:
  virtual ~CommittableOwner() = default;
  // Whether more may be written now. When not, the context's Wake is called later; blocking_reason
  // says what it waits for ("bytes in flight", "publishing lags behind").
  virtual bool Ready() const { return true; }
  virtual std::string blocking_reason() const { return ""; }
  // Seals what was written; answers, once it is durable, every sealed and not yet published
  // committable. More may be written at once, before `done`. Calls may overlap.
  virtual void Prepare(CheckpointId checkpoint,
                       std::function<void(StatusOr<std::vector<Committable>>)> done) = 0;
  // `checkpoint` completed: publish exactly what its Prepare listed. May come late, twice or out of
  // order; a later one covers an earlier. `done` when all of it is published and durable; retried
  // inside for as long as the error may heal.
  virtual void Publish(CheckpointId checkpoint, std::function<void(Status)> done) = 0;
  // `checkpoint` will never complete. What it sealed stays.
  virtual void OnAborted(CheckpointId checkpoint) { (void)checkpoint; }
};

}  // namespace weir
