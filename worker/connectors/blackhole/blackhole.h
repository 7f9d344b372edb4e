#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/operator/registry.h"
#include "common/operator/sink.h"

namespace weir {

// Counts rows and bytes (the task reports its rows in). Commits nothing: every checkpoint is
// prepared at once. Thread: the task's.
class BlackholeSink : public Sink {
 public:
  void Open(SinkContext& context, std::function<void(Status)> done) override;
  Status Write(const RecordBatch& batch) override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;

  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

// Has nothing to settle.
class BlackholeCommitter : public Committer {
 public:
  void Open(CommitterContext& context) override;
  void Commit(std::vector<Committable> committables, std::function<void(Status)> done) override;
  void AbortOthers(Generation generation, std::vector<Committable> listed,
                   std::function<void(Status)> done) override;
};

// Adds the sink type "blackhole".
void RegisterBlackhole(Registry& registry);

}  // namespace weir
