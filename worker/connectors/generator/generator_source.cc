#include "worker/connectors/generator/generator_source.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "common/base/concat.h"

namespace weir {
namespace {

template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

}  // namespace

Status GeneratorSource::Open(SourceContext& context, const std::vector<SplitState>& restored) {
  context_ = &context;
  WEIR_ASSIGN_OR_RETURN(config_, ParseGeneratorConfig(context.config()));
  GeneratorConfig pure = config_;
  pure.due_time = false;
  rows_ = std::make_unique<GeneratedRows>(pure);
  if (config_.due_time) schema_with_due_ = std::make_shared<const Schema>(GeneratorSchema(config_));
  // The source's whole rate over the subtasks that have a split.
  int subtasks = std::min(context.parallelism(), config_.splits);
  if (config_.rate.has_value()) {
    limiter_.emplace(*config_.rate / subtasks, context.clock().MonotonicMicros());
  }
  constexpr int64_t kBatchBytesMax = int64_t{1} << 30;  // offsets of a column are int32
  int64_t bytes_max = std::min(context.options().batch_bytes_max, kBatchBytesMax);
  batch_rows_max_ = std::clamp<int64_t>(bytes_max / (24 + config_.payload_bytes), 1,
                                        std::max<int64_t>(1, context.options().batch_rows_max));

  for (int number = context.subtask(); number < config_.splits; number += context.parallelism()) {
    int64_t rows = std::numeric_limits<int64_t>::max();
    if (config_.rows.has_value()) {
      int64_t all = *config_.rows;
      rows = all / config_.splits + (number < all % config_.splits ? 1 : 0);
    }
    splits_.push_back({.number = number, .rows = rows});
  }
  for (const SplitState& state : restored) {
    int number = 0;
    int64_t offset = 0;
    if (!ParseNumber(state.split, &number) || !ParseNumber(state.position, &offset)) {
      return DataLossError(Concat("generator '", context.uid(), "': cannot restore split '",
                                  state.split, "' at '", state.position, "'"));
    }
    if (number >= config_.splits) {
      return InvalidArgumentError(
          Concat("generator '", context.uid(), "': the checkpoint holds split ", number,
                 ", but splits is ", config_.splits, ": it must not change"));
    }
    if (number % context.parallelism() != context.subtask()) continue;
    splits_[static_cast<size_t>(number / context.parallelism())].offset = offset;
  }
  for (size_t i = 0; i < splits_.size(); ++i) {
    if (splits_[i].offset < splits_[i].rows) live_.push_back(i);
  }
  return {};
}

StatusOr<PollResult> GeneratorSource::Poll(Output& output) {
  if (live_.empty()) return PollResult::kEnded;
  int64_t rows = batch_rows_max_;
  if (limiter_.has_value()) {
    int64_t due = limiter_->Due(context_->clock().MonotonicMicros());
    if (due == 0) {
      if (!waking_) {
        waking_ = true;
        scope_.Spawn(WakeLater(limiter_->WaitMicros()));
      }
      return PollResult::kIdle;
    }
    rows = std::min(rows, due);
  }
  if (next_ >= live_.size()) next_ = 0;
  Split& split = splits_[live_[next_]];
  rows = std::min(rows, split.rows - split.offset);
  RecordBatch batch = rows_->Make(split.number, split.offset, rows);
  split.offset += rows;
  if (config_.due_time) batch = WithDue(std::move(batch));
  if (limiter_.has_value()) limiter_->Take(rows);
  if (split.offset == split.rows) {
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(next_));
  } else {
    ++next_;
  }
  output.Emit(std::move(batch));
  return PollResult::kRows;
}

// By the rate, not by when the source came to make the row: whoever takes the time from `due` on
// counts what the source was late, too.
RecordBatch GeneratorSource::WithDue(RecordBatch batch) const {
  const double first_us =
      static_cast<double>(context_->clock().WallMicros()) - limiter_->NextAgeMicros();
  const double row_us = limiter_->row_micros();
  auto due = std::make_shared<Buffer>(static_cast<size_t>(batch.rows()) * 8);
  int64_t* due_us = reinterpret_cast<int64_t*>(due->data());
  for (int64_t i = 0; i < batch.rows(); ++i) {
    due_us[i] = static_cast<int64_t>(first_us + static_cast<double>(i) * row_us);
  }
  std::vector<Column> columns;
  columns.reserve(static_cast<size_t>(batch.columns()) + 1);
  for (int i = 0; i < batch.columns(); ++i) columns.push_back(batch.column(i));
  columns.emplace_back(Type::kTimestamp, batch.rows(), nullptr, std::move(due));
  return RecordBatch(schema_with_due_, batch.rows(), std::move(columns));
}

Co<void> GeneratorSource::WakeLater(int64_t delay_us) {
  co_await Sleep(context_->timers(), delay_us);
  waking_ = false;
  context_->Wake();
}

std::vector<SplitState> GeneratorSource::SnapshotPositions() {
  std::vector<SplitState> positions;
  positions.reserve(splits_.size());
  for (const Split& split : splits_) {
    positions.push_back({Concat(split.number), Concat(split.offset)});
  }
  return positions;
}

void GeneratorSource::Close() { scope_.Clear(); }

void RegisterGenerator(Registry& registry) {
  registry.AddSource("generator", [] { return std::make_unique<GeneratorSource>(); });
}

}  // namespace weir
