#include "worker/connectors/files/files_source.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

constexpr size_t kOpenMax = 16;
constexpr int64_t kChunkBytes = 1 << 20;

bool ConsumeNumber(std::string_view* text, int64_t* value) {
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || *value < 0) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

std::string EncodeFilePosition(const FilePosition& position) {
  return Concat(position.offset, ' ', position.line, position.ended ? " end" : "");
}

std::optional<FilePosition> DecodeFilePosition(std::string_view text) {
  FilePosition position;
  if (!ConsumeNumber(&text, &position.offset) || !text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  if (!ConsumeNumber(&text, &position.line)) return std::nullopt;
  position.ended = text == " end";
  if (!position.ended && !text.empty()) return std::nullopt;
  return position;
}

Status FilesSource::Open(SourceContext& context, const std::vector<SplitState>& restored) {
  context_ = &context;
  WEIR_ASSIGN_OR_RETURN(config_, ParseFilesSourceConfig(context.config()));
  bad_data_ = config_.bad_data.value_or(context.options().bad_data);
  int64_t subtasks = context.parallelism();
  if (!config_.follow) {
    if (!config_.files.has_value()) {
      return InvalidArgumentError(Concat("files.source '", context.uid(),
                                         "': its files have not been looked up at submission"));
    }
    int64_t count = static_cast<int64_t>(config_.files->size());
    for (int64_t i = context.subtask(); i < count; i += context.parallelism()) {
      AddSplit((*config_.files)[static_cast<size_t>(i)]);
    }
    subtasks = std::min(subtasks, std::max<int64_t>(count, 1));
  }
  if (config_.rate.has_value()) {
    limiter_.emplace(*config_.rate / static_cast<double>(subtasks),
                     context.clock().MonotonicMicros());
  }
  for (const SplitState& state : restored) {
    Split* split = nullptr;
    if (auto it = splits_.find(state.split); it != splits_.end()) {
      split = it->second.get();
    } else if (config_.follow && OwnsPath(state.split)) {
      split = AddSplit(state.split);
    } else {
      continue;
    }
    std::optional<FilePosition> position = DecodeFilePosition(state.position);
    if (!position.has_value()) {
      return DataLossError(Concat("files.source '", context.uid(), "': cannot restore ",
                                  state.split, " at '", state.position, "'"));
    }
    split->position = *position;
    if (config_.follow) split->position.ended = false;
  }
  if (config_.follow) {
    scope_.Spawn(Follow());
  } else {
    for (auto& [path, split] : splits_) {
      if (!split->position.ended) Enqueue(split.get());
    }
    OpenQueued();
  }
  return {};
}

bool FilesSource::OwnsPath(const std::string& path) const {
  uint64_t hash = XXH3_64bits(path.data(), path.size());
  return hash % static_cast<uint64_t>(context_->parallelism()) ==
         static_cast<uint64_t>(context_->subtask());
}

FilesSource::Split* FilesSource::AddSplit(const std::string& path) {
  std::unique_ptr<Split>& split = splits_[path];
  if (split == nullptr) {
    split = std::make_unique<Split>();
    split->path = path;
  }
  return split.get();
}

void FilesSource::Enqueue(Split* split) {
  if (split->open || split->queued) return;
  split->queued = true;
  queue_.push_back(split);
}

void FilesSource::OpenQueued() {
  while (open_.size() < kOpenMax && !queue_.empty()) {
    Split* split = queue_.front();
    queue_.pop_front();
    split->queued = false;
    split->open = true;
    open_.push_back(split);
    scope_.Spawn(ReadSplit(split));
  }
}

void FilesSource::CloseSplit(Split* split) {
  auto it = std::find(open_.begin(), open_.end(), split);
  if (static_cast<size_t>(it - open_.begin()) < next_) --next_;
  open_.erase(it);
  split->open = false;
  split->buffer = std::string();
  split->begin = split->end = 0;
  split->at_end = false;
  if (!config_.follow) {
    split->position.ended = true;
    split->decoder.reset();
  }
}

std::unique_ptr<TextDecoder> FilesSource::MakeDecoder() const {
  if (config_.format == FileFormat::kJson) return MakeJsonDecoder(context_->output_schema());
  return MakeCsvDecoder(context_->output_schema(), {.header = config_.header});
}

void FilesSource::Fail(Status status) {
  if (closed_ || !failed_.ok()) return;
  failed_ = status.WithContext(Concat("files.source '", context_->uid(), "'"));
  context_->Wake();
}

// Reads the head of the file until the decoder knows what it needs of it. `head`: the bytes read.
// Without a decoder afterwards the file is too short yet.
Co<Status> FilesSource::StartDecoder(Split* split, std::string* head) {
  int64_t length = kChunkBytes;
  while (true) {
    StatusOr<std::string> bytes = co_await ReadAt(context_->files(), split->path, 0, length);
    if (!bytes.ok()) co_return bytes.status();
    *head = *std::move(bytes);
    bool whole = static_cast<int64_t>(head->size()) < length;
    bool last = whole && !config_.follow;
    if (head->empty()) co_return Status();  // no header, and no row either
    std::unique_ptr<TextDecoder> decoder = MakeDecoder();
    StatusOr<std::optional<TextProgress>> start = decoder->Start(*head, last);
    if (!start.ok()) co_return start.status().WithContext(split->path);
    if (start->has_value()) {
      const TextProgress& done = **start;
      if (split->position.offset < static_cast<int64_t>(done.bytes)) {
        split->position.offset = static_cast<int64_t>(done.bytes);
        split->position.line = 1 + done.lines;
      }
      split->decoder = std::move(decoder);
      co_return Status();
    }
    if (whole) co_return Status();
    if (length > static_cast<int64_t>(kTextRowBytesMax)) {
      co_return InvalidArgumentError(
          Concat(split->path, ": the header is longer than ", kTextRowBytesMax, " bytes"));
    }
    length *= 2;
  }
}

Co<void> FilesSource::ReadSplit(Split* split) {
  StatusOr<FileInfo> info = co_await StatFile(context_->files(), split->path);
  if (!info.ok() || info->size < split->position.offset) {
    if (!info.ok() && info.status().code() != StatusCode::kNotFound) {
      Fail(info.status());
    } else {
      Fail(FailedPreconditionError(Concat(
          split->path, " is read up to offset ", split->position.offset, ", but it ",
          info.ok() ? Concat("has only ", info->size, " bytes now") : std::string("is gone"))));
    }
    co_return;
  }
  split->size_seen = std::max(split->size_seen, info->size);
  std::string head;
  if (split->decoder == nullptr) {
    Status status = co_await StartDecoder(split, &head);
    if (!status.ok()) {
      Fail(status);
      co_return;
    }
  }
  int64_t offset = split->position.offset;  // of what is read next
  bool last = split->decoder == nullptr;    // nothing to decode
  if (last) head.clear();
  if (static_cast<int64_t>(head.size()) > offset) {
    head.erase(0, static_cast<size_t>(offset));
    offset += static_cast<int64_t>(head.size());
    split->ahead = std::move(head);
    split->ahead_is_last = false;
    if (!closed_) context_->Wake();
  }
  while (!last) {
    // Longer rows are read in longer pieces, so that the decoder does not start over too often.
    while (split->ahead.has_value()) co_await split->room.Wait();
    int64_t length = std::max(kChunkBytes, static_cast<int64_t>(split->end - split->begin));
    StatusOr<std::string> bytes = co_await ReadAt(context_->files(), split->path, offset, length);
    if (!bytes.ok()) {
      Fail(bytes.status());
      co_return;
    }
    last = static_cast<int64_t>(bytes->size()) < length;
    offset += static_cast<int64_t>(bytes->size());
    split->ahead = *std::move(bytes);
    split->ahead_is_last = last;
    if (!closed_) context_->Wake();
  }
  if (split->decoder == nullptr) {
    split->ahead = std::string();
    split->ahead_is_last = true;
    if (!closed_) context_->Wake();
  }
}

void FilesSource::TakeAhead(Split* split) {
  split->buffer.resize(split->end);
  split->buffer.erase(0, split->begin);
  split->begin = 0;
  split->buffer += *split->ahead;
  split->end = split->buffer.size();
  split->buffer.append(kTextPadding, '\0');
  split->at_end = split->ahead_is_last;
  split->ahead.reset();
  if (!split->at_end) split->room.Notify();
}

StatusOr<PollResult> FilesSource::Poll(Output& output) {
  if (!failed_.ok()) return failed_;
  int64_t rows_max = std::max<int64_t>(1, context_->options().batch_rows_max);
  if (limiter_.has_value()) {
    int64_t due = limiter_->Due(context_->clock().MonotonicMicros());
    if (due == 0) {
      if (!waking_ && (config_.follow || !open_.empty() || !queue_.empty())) {
        waking_ = true;
        scope_.Spawn(WakeLater(limiter_->WaitMicros()));
      }
      if (config_.follow || !open_.empty()) return PollResult::kIdle;
    }
    rows_max = std::min(rows_max, due);
  }
  BatchBuilder builder(context_->output_schema());
  // Each open file once: the first that has rows is the one whose turn it is.
  for (size_t left = open_.size(); left > 0 && !open_.empty(); --left) {
    if (next_ >= open_.size()) next_ = 0;
    Split* split = open_[next_++];
    StatusOr<int64_t> rows = DecodeSplit(split, rows_max, &builder);
    if (!rows.ok()) return rows.status();
    if (!split->open) OpenQueued();
    if (*rows == 0) continue;
    if (limiter_.has_value()) limiter_->Take(*rows);
    if (builder.rows() > 0) output.Emit(builder.Finish());
    return PollResult::kRows;
  }
  if (!config_.follow && open_.empty() && queue_.empty()) return PollResult::kEnded;
  return PollResult::kIdle;
}

StatusOr<int64_t> FilesSource::DecodeSplit(Split* split, int64_t rows_max, BatchBuilder* builder) {
  const int64_t bytes_max = std::max<int64_t>(1, context_->options().batch_bytes_max);
  int64_t rows = 0;  // appended or dropped
  while (rows < rows_max && builder->byte_size() < bytes_max) {
    if (split->begin < split->end) {
      std::string_view bytes(split->buffer.data() + split->begin, split->end - split->begin);
      bool last = split->at_end && !config_.follow;
      DecodeResult result = split->decoder->Decode(
          bytes, last, {.rows_max = rows_max - rows, .bytes_max = bytes_max}, builder);
      rows += result.rows;
      if (!result.bad_row.ok()) {
        if (bad_data_ != BadData::kDrop) {
          return BadRow(*split, bytes, result.lines_before_bad_row, result.bad_row);
        }
        context_->CountDropped(1);
        ++rows;
      }
      split->begin += result.done.bytes;
      split->position.offset += static_cast<int64_t>(result.done.bytes);
      split->position.line += result.done.lines;
      if (!result.error.ok()) {
        return BadRow(*split, bytes.substr(result.done.bytes), 0, result.error);
      }
      if (result.done.bytes > 0) continue;
    }
    // No whole row is left in the buffer.
    if (split->ahead.has_value()) {
      TakeAhead(split);
      continue;
    }
    if (split->at_end) {
      WEIR_CHECK_MESSAGE(config_.follow || split->begin == split->end, split->path);
      CloseSplit(split);
    }
    break;
  }
  return rows;
}

Status FilesSource::BadRow(const Split& split, std::string_view bytes, int64_t lines_before,
                           const Status& status) const {
  size_t begin = 0;
  for (int64_t i = 0; i < lines_before; ++i) {
    begin = std::min(bytes.find('\n', begin), bytes.size() - 1) + 1;
  }
  return status.WithContext(Concat("files.source '", context_->uid(), "': ", split.path, " line ",
                                   split.position.line + lines_before, " (offset ",
                                   split.position.offset + static_cast<int64_t>(begin), ")"));
}

Co<void> FilesSource::Follow() {
  while (true) {
    StatusOr<std::vector<FoundFile>> found = co_await FindFiles(context_->files(), config_.path);
    Status status = found.ok() ? NoteFound(*found) : found.status();
    if (!status.ok()) {
      Fail(status);
      co_return;
    }
    co_await Sleep(context_->timers(), config_.follow_interval_us);
  }
}

Status FilesSource::NoteFound(const std::vector<FoundFile>& found) {
  std::map<std::string_view, int64_t> sizes;
  for (const FoundFile& file : found) {
    if (!OwnsPath(file.path)) continue;
    sizes[file.path] = file.size;
    Split* split = AddSplit(file.path);
    if (file.size < split->position.offset) {
      return FailedPreconditionError(Concat(file.path, " is read up to offset ",
                                            split->position.offset, ", but it has only ", file.size,
                                            " bytes now"));
    }
    if (file.size > split->size_seen) {
      // While it is open its reader may have seen less: it is looked at again when that is done.
      if (split->open || split->queued) continue;
      split->size_seen = file.size;
      Enqueue(split);
    }
  }
  for (auto it = splits_.begin(); it != splits_.end();) {
    Split* split = it->second.get();
    if (sizes.count(split->path) > 0) {
      ++it;
      continue;
    }
    if (split->position.offset > 0) {
      return FailedPreconditionError(Concat(split->path, " is read up to offset ",
                                            split->position.offset, ", but it is gone"));
    }
    // Nothing of it was read: as if it had never been there.
    if (split->open || split->queued) {
      ++it;
    } else {
      it = splits_.erase(it);
    }
  }
  OpenQueued();
  return {};
}

Co<void> FilesSource::WakeLater(int64_t delay_us) {
  co_await Sleep(context_->timers(), delay_us);
  waking_ = false;
  if (!closed_) context_->Wake();
}

std::vector<SplitState> FilesSource::SnapshotPositions() {
  std::vector<SplitState> positions;
  positions.reserve(splits_.size());
  for (const auto& [path, split] : splits_) {
    positions.push_back({path, EncodeFilePosition(split->position)});
  }
  return positions;
}

void FilesSource::Close() { closed_ = true; }

}  // namespace weir
