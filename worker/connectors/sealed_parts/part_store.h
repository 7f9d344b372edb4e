#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/threading/co.h"

namespace weir {

// Rows of one subtask that are published together: a file in the store's directory, or nothing.
struct SealedPart {
  std::string name;  // of the file; "": a part without rows, which has none
  int64_t bytes = 0;
  int64_t rows = 0;
  // At whose barrier it was sealed, and which of the parts sealed there it is.
  CheckpointId checkpoint;
  int index = 0;
  int parts = 1;
};

// Where the parts of one subtask lie and what it means to publish them: the part of SealedParts
// that differs between connectors. Called by one SealedParts, which owns it and may destroy it, and
// with it every flow, at any time. Thread: the task's.
class PartStore {
 public:
  virtual ~PartStore() = default;
  // Whose parts these are, for messages: "files.sink 'out'".
  virtual const std::string& owner() const = 0;
  // A directory that is made, durably, by Open or before.
  virtual const std::string& directory() const = 0;
  // Called once. No Prepare is answered before it succeeded, and nothing is published.
  virtual Co<Status> Open() = 0;
  // The name of file number `number`, counted from 0 in this generation.
  virtual std::string NameOf(int64_t number) const = 0;
  // Whether the parts, sealed and durable, lie where they can be published. An error fails the
  // generation.
  virtual Co<Status> CheckSealed(std::vector<SealedPart> parts) = 0;
  // What the Committer needs to know of it. Open has succeeded.
  virtual std::string PayloadOf(const SealedPart& part) const = 0;
  // Publishes them in this order, durably; what is published already stays as it is. Retryable: it
  // is called again with the same parts, after a while. Any other error fails the generation.
  // `tried`: was called with some of them before.
  virtual Co<Status> Publish(std::vector<SealedPart> parts, bool tried) = 0;
};

}  // namespace weir
