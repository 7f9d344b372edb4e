#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/operator/registry.h"
#include "common/operator/source.h"
#include "common/threading/co.h"
#include "worker/connectors/generator/generated_rows.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

// The splits of a generator that belong to one subtask (split mod parallelism), in turn a batch at
// a time. A position is the offset of the next row of its split. Thread: the task's.
class GeneratorSource : public Source {
 public:
  Status Open(SourceContext& context, const std::vector<SplitState>& restored) override;
  StatusOr<PollResult> Poll(Output& output) override;
  std::vector<SplitState> SnapshotPositions() override;
  void Close() override;

 private:
  struct Split {
    int number = 0;
    int64_t offset = 0;
    int64_t rows = 0;  // of the whole split
  };
  RecordBatch WithDue(RecordBatch batch) const;
  Co<void> WakeLater(int64_t delay_us);

  SourceContext* context_ = nullptr;
  GeneratorConfig config_;
  std::unique_ptr<GeneratedRows> rows_;
  std::optional<RateLimiter> limiter_;
  SchemaPtr schema_with_due_;  // with due_time
  bool waking_ = false;
  int64_t batch_rows_max_ = 1;
  std::vector<Split> splits_;  // by number
  std::vector<size_t> live_;   // of splits_, those with rows left, in turn
  size_t next_ = 0;            // into live_
  CoScope scope_;
};

// Adds the source type "generator".
void RegisterGenerator(Registry& registry);

}  // namespace weir
