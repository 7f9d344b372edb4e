#pragma once

#include "common/operator/operator.h"
#include "worker/state/state_backend.h"

namespace weir {

// The context that the task runtime gives to every operator of the worker. Built-in operators
// reach it from Open by a dynamic_cast, for tables that user operators do not have; the latter see
// OperatorContext alone. Thread: the task's.
class KeyedOperatorContext : public OperatorContext {
 public:
  // The state of this subtask. Tables may be asked for only in Open, and be used only in
  // ProcessBatch, around which the task calls BeginBatch and EndBatch. REQUIRES: the inputs are
  // keyed.
  virtual StateBackend& state() = 0;
};

}  // namespace weir
