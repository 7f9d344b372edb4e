#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/operator/registry.h"
#include "common/operator/sink.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

// Counts rows and bytes (the task reports its rows in). Commits nothing: every checkpoint is
// prepared at once. With a rate it takes no batch before the rows of the last one are due, as a
// slow system behind a sink would. Thread: the task's.
class BlackholeSink : public Sink {
 public:
  void Open(SinkContext& context, std::function<void(Status)> done) override;
  Status Write(const RecordBatch& batch) override;
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Close() override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;

  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  SinkContext* context_ = nullptr;
  mutable std::optional<RateLimiter> limiter_;
  mutable TimerId timer_ = 0;  // wakes the task when rows are due; 0: none
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
