#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/graph/execution_plan.h"
#include "common/graph/job_options.h"
#include "common/record/batch_builder.h"
#include "common/record/key_kernels.h"
#include "common/record/stream_element.h"
#include "worker/network/channel.h"
#include "worker/operators/row_combiner.h"

namespace weir {

// One row may be this large, wherever it goes.
inline constexpr int64_t kRowBytesMax = int64_t{64} << 20;

// User error that names the limit when a row is larger than kRowBytesMax.
Status CheckRowBytes(const RecordBatch& batch);

// One outgoing edge of a task: distributes rows over the channels to the receiving subtasks and
// gathers small pieces into batches. Thread: the task's.
// Where the receiver takes partial rows, a combiner may put together the rows of a batch.
// Invariant: what is pushed into a channel keeps the order of Emit and Broadcast; rows held back
// here are flushed before any other element, and before partial rows; these before rows.
class EdgeOutput {
 public:
  // `senders`: one for each receiving subtask, in order; FORWARD: the one channel of this subtask.
  // `receiver_max_parallelism` decides the key group of a row.
  EdgeOutput(const ExecutionPlan::Edge& edge, int receiver_max_parallelism,
             const JobOptions& options, std::vector<ChannelSender*> senders);

  // From now on `combiner` may make partial rows of what is sent. REQUIRES: HASH.
  void Combine(std::unique_ptr<RowCombiner> combiner, SchemaPtr partial_schema,
               const JobOptions& options);

  // Takes a batch of the sender's output and sends the columns that the edge sends. User error for
  // a row above kRowBytesMax.
  Status Emit(const RecordBatchPtr& whole);
  // Pushes what is held back.
  void Flush();
  // Flushes, then puts the element into every channel.
  void Broadcast(const StreamElement& element);
  // Whether every channel has credit left.
  bool HasCredit() const;
  // Bytes of what was emitted since the last call, as far as the edge sends it.
  int64_t TakeEmittedBytes() { return std::exchange(emitted_bytes_, 0); }
  bool holds_rows() const {
    return held_rows_ > 0 || (partials_ != nullptr && partials_->holds_rows());
  }
  void SetCreditWaker(const std::function<void()>& waker);

 private:
  Status PushBounded(ChannelSender* sender, const RecordBatchPtr& batch);
  Status EmitByKey(const RecordBatchPtr& whole);
  // Whether the rows of a batch are written one after another to the builders of their subtasks:
  // with many of these, lists of the rows of each would cost more than the rows.
  bool IsScattered(const RecordBatch& batch) const;
  void Scatter(const RecordBatch& batch, std::span<const uint16_t> subtask_of_row);
  // Between these the rows of a builder are written at its tails_.
  void BeginScatter(size_t channel);
  void EndScatter(size_t channel);
  // Makes room in a builder for at least min(rows, kScatterRoom) more.
  void MakeRoom(size_t channel, int64_t rows);
  // A builder is made with room for so many rows as batches for the channel lately had, or more.
  int64_t ExpectedRows(size_t channel) const;
  // Whether a batch is large enough to go on its own.
  bool IsNearlyFull(const RecordBatch& batch) const;
  void FlushRows();
  void FlushChannel(int channel);

  // The columns of `batch` that the edge sends; shares their buffers.
  RecordBatchPtr Sent(const RecordBatchPtr& batch) const;

  const Partitioning partitioning_;
  const std::vector<int> columns_;  // of the sender's output; empty: all
  const SchemaPtr schema_;
  const std::vector<int> key_columns_;  // in schema_
  const int max_parallelism_;
  const int64_t rows_max_;
  const int64_t bytes_max_;
  std::vector<ChannelSender*> senders_;
  std::vector<std::unique_ptr<BatchBuilder>> builders_;  // HASH over several channels only
  std::optional<RowsBySubtask> rows_of_;                 // likewise
  std::vector<int64_t> expected_rows_;                   // likewise: of a batch, from those pushed
  int64_t scatter_rows_max_ = 0;  // of a builder; 0: rows of these columns are not scattered
  // Of Scatter, by column and channel: where the next value goes.
  std::vector<uint8_t*> tails_;
  std::vector<uint8_t*> starts_;  // by channel: where the first column's tail was
  std::vector<uint8_t*> ends_;    // by channel: up to where it may go
  std::unique_ptr<RowCombiner> combiner_;
  std::unique_ptr<EdgeOutput> partials_;  // with a combiner: partial rows for the same channels
  int64_t held_rows_ = 0;
  int64_t emitted_bytes_ = 0;
  size_t next_ = 0;  // REBALANCE
};

}  // namespace weir
