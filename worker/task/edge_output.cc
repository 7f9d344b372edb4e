#include "worker/task/edge_output.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/thread_scratch.h"
#include "common/record/key_group.h"

namespace weir {
namespace {

// Rows are scattered over so many channels, in batches of at least so many rows for each. To more
// the rows of each go at once: a page for each is more than the nearest TLB holds.
constexpr size_t kScatterChannelsMin = 9;
constexpr size_t kScatterChannelsMax = 64;
constexpr int64_t kScatterRowsPerChannelMin = 8;
// What a builder has room for when rows are scattered, unless fewer are left.
constexpr int64_t kScatterRoom = 256;

template <size_t kWidth>
void ScatterValues(const uint8_t* values, std::span<const uint16_t> subtask_of_row,
                   uint8_t** tails) {
  for (const uint16_t subtask : subtask_of_row) {
    uint8_t* const tail = tails[subtask];
    std::memcpy(tail, values, kWidth);
    tails[subtask] = tail + kWidth;
    values += kWidth;
  }
}

}  // namespace

EdgeOutput::EdgeOutput(const ExecutionPlan::Edge& edge, int receiver_max_parallelism,
                       const JobOptions& options, std::vector<ChannelSender*> senders)
    : partitioning_(edge.partitioning),
      columns_(edge.columns),
      schema_(edge.schema),
      key_columns_(edge.key_columns),
      max_parallelism_(receiver_max_parallelism),
      rows_max_(options.batch_rows_max),
      bytes_max_(options.batch_bytes_max),
      senders_(std::move(senders)) {
  WEIR_CHECK(!senders_.empty());
  if (partitioning_ == Partitioning::kHash && senders_.size() > 1) {
    rows_of_.emplace(static_cast<int>(senders_.size()), max_parallelism_);
    for (size_t i = 0; i < senders_.size(); ++i) {
      builders_.push_back(std::make_unique<BatchBuilder>(schema_));
    }
    expected_rows_.resize(senders_.size());
    int64_t row_bytes = 0;
    bool fixed = true;
    for (const Field& field : schema_->fields()) {
      row_bytes += FixedWidth(field.type);
      fixed = fixed && !IsVariableWidth(field.type);
    }
    if (fixed && row_bytes > 0 && senders_.size() >= kScatterChannelsMin &&
        senders_.size() <= kScatterChannelsMax) {
      const int64_t rows_max = std::min(rows_max_, bytes_max_ / row_bytes);
      if (rows_max >= 4 * kScatterRoom) scatter_rows_max_ = rows_max;
    }
  }
}

void EdgeOutput::Combine(std::unique_ptr<RowCombiner> combiner, SchemaPtr partial_schema,
                         const JobOptions& options) {
  ExecutionPlan::Edge edge;
  edge.partitioning = partitioning_;
  edge.schema = std::move(partial_schema);
  edge.key_columns.resize(key_columns_.size());
  std::iota(edge.key_columns.begin(), edge.key_columns.end(), 0);
  combiner_ = std::move(combiner);
  partials_ = std::make_unique<EdgeOutput>(edge, max_parallelism_, options, senders_);
}

Status CheckRowBytes(const RecordBatch& batch) {
  if (batch.ByteSize() <= kRowBytesMax) return {};
  for (int32_t row = 0; row < batch.rows(); ++row) {
    // A batch of one row is what it is said to hold; of several, each is looked at alone.
    const int64_t bytes = batch.rows() == 1
                              ? batch.ByteSize()
                              : batch.Select(std::span<const int32_t>(&row, 1)).ByteSize();
    if (bytes > kRowBytesMax) {
      return InvalidArgumentError(Concat("a row of ", bytes, " bytes is larger than ", kRowBytesMax,
                                         ", the most a row may have"));
    }
  }
  return {};
}

Status EdgeOutput::PushBounded(ChannelSender* sender, const RecordBatchPtr& batch) {
  if (batch->ByteSize() <= kRowBytesMax) {
    sender->Push(batch);
    return {};
  }
  if (batch->rows() == 1) return CheckRowBytes(*batch);
  std::vector<int32_t> rows(static_cast<size_t>(batch->rows()));
  std::iota(rows.begin(), rows.end(), 0);
  std::span<const int32_t> all(rows);
  size_t half = rows.size() / 2;
  WEIR_RETURN_IF_ERROR(PushBounded(
      sender, std::make_shared<const RecordBatch>(batch->Select(all.subspan(0, half)))));
  return PushBounded(sender, std::make_shared<const RecordBatch>(batch->Select(all.subspan(half))));
}

RecordBatchPtr EdgeOutput::Sent(const RecordBatchPtr& batch) const {
  if (columns_.empty()) return batch;
  std::vector<Column> columns;
  columns.reserve(columns_.size());
  for (const int column : columns_) columns.push_back(batch->column(column));
  return std::make_shared<const RecordBatch>(schema_, batch->rows(), std::move(columns));
}

Status EdgeOutput::Emit(const RecordBatchPtr& whole) {
  if (whole->rows() == 0) return {};
  const RecordBatchPtr batch = Sent(whole);
  if (combiner_ != nullptr) {
    const RecordBatchPtr partial_rows = combiner_->Combine(*batch);
    // Rows and partial rows of a key keep their order.
    if (partial_rows == nullptr) {
      partials_->Flush();
    } else {
      FlushRows();
      const Status status = partials_->Emit(partial_rows);
      emitted_bytes_ += partials_->TakeEmittedBytes();
      return status;
    }
  }
  emitted_bytes_ += batch->ByteSize();
  switch (partitioning_) {
    case Partitioning::kHash:
      if (senders_.size() > 1) return EmitByKey(batch);
      [[fallthrough]];
    case Partitioning::kForward:
      return PushBounded(senders_[0], batch);
    case Partitioning::kRebalance: {
      ChannelSender* sender = senders_[next_];
      next_ = (next_ + 1) % senders_.size();
      return PushBounded(sender, batch);
    }
    case Partitioning::kBroadcast:
      for (ChannelSender* sender : senders_) WEIR_RETURN_IF_ERROR(PushBounded(sender, batch));
      return {};
  }
  return {};
}

Status EdgeOutput::EmitByKey(const RecordBatchPtr& whole) {
  const RecordBatch& batch = *whole;
  // Rare: the bound on a single row is looked at before rows are gathered, and then that on what is
  // gathered.
  const bool large = batch.ByteSize() > kRowBytesMax;
  if (large) WEIR_RETURN_IF_ERROR(CheckRowBytes(batch));
  ThreadScratch<uint64_t> scratch;
  std::vector<uint64_t>& hashes = *scratch;
  HashKeys(batch, key_columns_, &hashes);
  if (!large && IsScattered(batch)) {
    ThreadScratch<uint16_t> subtask_of_row;
    subtask_of_row->resize(hashes.size());
    rows_of_->FindSubtasks(hashes, subtask_of_row->data());
    const uint16_t first = subtask_of_row->front();
    const auto is_first = [first](uint16_t subtask) { return subtask == first; };
    if (!IsNearlyFull(batch) || !std::ranges::all_of(*subtask_of_row, is_first)) {
      Scatter(batch, *subtask_of_row);
      return {};
    }
  }
  rows_of_->Assign(hashes);
  int64_t row_bytes = batch.ByteSize() / batch.rows() + 1;
  for (size_t i = 0; i < senders_.size(); ++i) {
    std::span<const int32_t> rows = rows_of_->rows(static_cast<int>(i));
    if (static_cast<int64_t>(rows.size()) == batch.rows() && IsNearlyFull(batch)) {
      // They have one key, say: the batch goes as it is.
      FlushChannel(static_cast<int>(i));
      return PushBounded(senders_[i], whole);
    }
    while (!rows.empty()) {
      BatchBuilder& builder = *builders_[i];
      int64_t room =
          std::min(rows_max_ - builder.rows(), (bytes_max_ - builder.byte_size()) / row_bytes + 1);
      size_t take =
          static_cast<size_t>(std::clamp<int64_t>(room, 1, static_cast<int64_t>(rows.size())));
      if (large) {
        take = 1;
        const int64_t bytes = batch.Select(rows.subspan(0, 1)).ByteSize();
        if (builder.byte_size() + bytes > kRowBytesMax) FlushChannel(static_cast<int>(i));
      }
      // A batch that will soon be full is made at its full size at once.
      if (builder.rows() == 0) {
        builder.Reserve(static_cast<int64_t>(take) >= room / 4 ? room
                                                               : std::min(room, ExpectedRows(i)));
      }
      builder.AppendRows(batch, rows.subspan(0, take));
      held_rows_ += static_cast<int64_t>(take);
      rows = rows.subspan(take);
      if (builder.rows() >= rows_max_ || builder.byte_size() >= bytes_max_) {
        FlushChannel(static_cast<int>(i));
      }
    }
  }
  return {};
}

int64_t EdgeOutput::ExpectedRows(size_t channel) const {
  return expected_rows_[channel] + expected_rows_[channel] / 2;
}

bool EdgeOutput::IsScattered(const RecordBatch& batch) const {
  if (scatter_rows_max_ == 0) return false;
  if (batch.rows() < kScatterRowsPerChannelMin * static_cast<int64_t>(senders_.size())) {
    return false;
  }
  for (int column = 0; column < batch.columns(); ++column) {
    if (batch.column(column).has_nulls()) return false;
  }
  return std::ranges::none_of(builders_, [](const auto& builder) { return builder->has_nulls(); });
}

void EdgeOutput::Scatter(const RecordBatch& batch, std::span<const uint16_t> subtask_of_row) {
  const size_t channels = senders_.size();
  tails_.resize(static_cast<size_t>(batch.columns()) * channels);
  starts_.resize(channels);
  ends_.resize(channels);
  for (size_t i = 0; i < channels; ++i) BeginScatter(i);
  const int64_t first_width = FixedWidth(batch.column(0).type());
  for (int64_t row = 0; row < batch.rows();) {
    const int64_t left = batch.rows() - row;
    int64_t block = left;
    for (size_t i = 0; i < channels; ++i) {
      const int64_t needed = std::min(left, kScatterRoom);
      if (ends_[i] - tails_[i] < needed * first_width) MakeRoom(i, needed);
      block = std::min(block, (ends_[i] - tails_[i]) / first_width);
    }
    const auto subtasks =
        subtask_of_row.subspan(static_cast<size_t>(row), static_cast<size_t>(block));
    for (int column = 0; column < batch.columns(); ++column) {
      const int width = FixedWidth(batch.column(column).type());
      const uint8_t* values = batch.column(column).data()->data() + row * width;
      uint8_t** const tails = tails_.data() + static_cast<size_t>(column) * channels;
      if (width == 8) {
        ScatterValues<8>(values, subtasks, tails);
      } else if (width == 4) {
        ScatterValues<4>(values, subtasks, tails);
      } else {
        ScatterValues<1>(values, subtasks, tails);
      }
    }
    row += block;
  }
  for (size_t i = 0; i < channels; ++i) EndScatter(i);
}

void EdgeOutput::BeginScatter(size_t channel) {
  BatchBuilder& builder = *builders_[channel];
  int64_t room = scatter_rows_max_ - builder.rows();
  for (int column = 0; column < schema_->size(); ++column) {
    ColumnBuilder& values = builder.column(column);
    tails_[static_cast<size_t>(column) * senders_.size() + channel] = values.tail();
    room = std::min(room, values.room());
  }
  starts_[channel] = tails_[channel];
  ends_[channel] =
      tails_[channel] + std::max<int64_t>(room, 0) * FixedWidth(schema_->field(0).type);
}

void EdgeOutput::EndScatter(size_t channel) {
  const int64_t rows = (tails_[channel] - starts_[channel]) / FixedWidth(schema_->field(0).type);
  for (int column = 0; column < schema_->size(); ++column) {
    builders_[channel]->column(column).Advance(rows);
  }
  held_rows_ += rows;
}

void EdgeOutput::MakeRoom(size_t channel, int64_t rows) {
  EndScatter(channel);
  BatchBuilder& builder = *builders_[channel];
  if (builder.rows() + rows > scatter_rows_max_) FlushChannel(static_cast<int>(channel));
  const int64_t expected =
      builder.rows() == 0 ? ExpectedRows(channel) + kScatterRoom : builder.rows();
  builder.Reserve(std::min(scatter_rows_max_ - builder.rows(), std::max(rows, expected)));
  BeginScatter(channel);
}

bool EdgeOutput::IsNearlyFull(const RecordBatch& batch) const {
  return 2 * batch.rows() >= rows_max_ || 2 * batch.ByteSize() >= bytes_max_;
}

void EdgeOutput::FlushChannel(int channel) {
  BatchBuilder& builder = *builders_[channel];
  if (builder.rows() == 0) return;
  held_rows_ -= builder.rows();
  int64_t& expected_rows = expected_rows_[channel];
  expected_rows = std::max(builder.rows(), expected_rows - expected_rows / 8);
  senders_[channel]->Push(std::make_shared<const RecordBatch>(builder.Finish()));
}

void EdgeOutput::Flush() {
  if (partials_ != nullptr) partials_->Flush();
  FlushRows();
}

void EdgeOutput::FlushRows() {
  if (held_rows_ == 0) return;
  for (size_t i = 0; i < builders_.size(); ++i) FlushChannel(static_cast<int>(i));
}

void EdgeOutput::Broadcast(const StreamElement& element) {
  Flush();
  for (ChannelSender* sender : senders_) sender->Push(element);
}

bool EdgeOutput::HasCredit() const {
  for (const ChannelSender* sender : senders_) {
    if (!sender->HasCredit()) return false;
  }
  return true;
}

void EdgeOutput::SetCreditWaker(const std::function<void()>& waker) {
  for (ChannelSender* sender : senders_) sender->SetCreditWaker(waker);
}

}  // namespace weir
