#include "worker/connectors/files/files_source.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/consume_text.h"
#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

constexpr size_t kOpenMax = 16;
constexpr int64_t kChunkBytes = 1 << 20;

// The last bytes of `front` and what stands behind it.
std::string TailOf(std::string_view front, std::string_view behind) {
  constexpr size_t kMax = kFileTailBytes;
  if (behind.size() >= kMax) return std::string(behind.substr(behind.size() - kMax));
  const size_t kept = std::min(front.size(), kMax - behind.size());
  std::string tail(front.substr(front.size() - kept));
  tail += behind;
  return tail;
}

Status Shrunk(const std::string& path, int64_t offset, int64_t size) {
  return FailedPreconditionError(
      Concat(path, " is read up to offset ", offset, ", but it has only ", size, " bytes now"));
}

Status Replaced(const std::string& path, int64_t offset) {
  return FailedPreconditionError(Concat(path, " is read up to offset ", offset,
                                        ", but other bytes stand in front of it now: the file was "
                                        "replaced or written over"));
}

Status Gone(const std::string& path, int64_t offset) {
  return FailedPreconditionError(
      Concat(path, " is read up to offset ", offset, ", but it is gone"));
}

}  // namespace

std::string EncodeFilePosition(const FilePosition& position) {
  std::string text = Concat(position.offset, ' ', position.line, position.ended ? " end" : "");
  if (position.tail_bytes > 0) {
    text += Concat(" tail ", position.tail_bytes, ' ', HexText(position.tail_hash));
  }
  return text;
}

std::optional<FilePosition> DecodeFilePosition(std::string_view text) {
  FilePosition position;
  if (!ConsumeNumber(&text, &position.offset) || !Consume(&text, " ")) return std::nullopt;
  if (!ConsumeNumber(&text, &position.line)) return std::nullopt;
  position.ended = Consume(&text, " end");
  if (Consume(&text, " tail ")) {
    if (!ConsumeNumber(&text, &position.tail_bytes) || !Consume(&text, " ") ||
        position.tail_bytes < 1 ||
        position.tail_bytes > std::min(position.offset, kFileTailBytes) ||
        !ConsumeHex(&text, &position.tail_hash)) {
      return std::nullopt;
    }
  }
  if (!text.empty()) return std::nullopt;
  return position;
}

Status FilesSource::Open(SourceContext& context, const std::vector<SplitState>& restored) {
  context_ = &context;
  WEIR_ASSIGN_OR_RETURN(config_, ParseFilesSourceConfig(context.config()));
  bad_data_ = BadDataOf(config_, context.options());
  if (bad_data_ == BadData::kDeadLetter) {
    WEIR_RETURN_IF_ERROR(CheckDeadLetters(config_, context.options()));
    dead_letters_ = std::make_unique<DeadLetters>(context, config_.dead_letter_path);
    dead_letters_->Open([this](Status status) {
      dead_letters_open_ = status.ok();
      if (!status.ok() && failed_.ok()) failed_ = status.WithContext("dead letters");
      context_->Wake();
    });
  }
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
  // A long row whose end has not come yet is read again from its beginning.
  split->tail = split->skipped.has_value()
                    ? split->position_tail
                    : TailOf(*split->tail, {split->buffer.data(), split->begin});
  split->skipped.reset();
  split->buffer = std::string();
  split->spare = std::string();
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

Status FilesSource::CheckTail(Split* split, std::string_view tail, int64_t offset) {
  const FilePosition& position = split->position;
  bool same = true;
  if (split->tail.has_value() && !split->tail->empty()) {
    same = *split->tail == tail;
  } else if (position.tail_bytes > 0) {
    const std::string_view known =
        tail.substr(tail.size() - static_cast<size_t>(position.tail_bytes));
    same = XXH3_64bits(known.data(), known.size()) == position.tail_hash;
  }
  if (same) return {};
  return Replaced(split->path, offset);
}

Co<void> FilesSource::ReadSplit(Split* split) {
  StatusOr<FileInfo> info = co_await StatFile(context_->files(), split->path);
  if (!info.ok()) {
    Fail(info.status().code() == StatusCode::kNotFound ? Gone(split->path, split->position.offset)
                                                       : info.status());
    co_return;
  }
  if (info->size < split->position.offset) {
    Fail(Shrunk(split->path, split->position.offset, info->size));
    co_return;
  }
  split->size_seen = std::max(split->size_seen, info->size);
  split->version_seen = info->version;
  std::string head;
  if (split->decoder == nullptr) {
    Status status = co_await StartDecoder(split, &head);
    if (!status.ok()) {
      Fail(status);
      co_return;
    }
  }
  int64_t offset = split->position.offset;  // of what is read next
  int64_t tail_bytes = std::min(offset, kFileTailBytes);
  std::string tail;                       // in front of it, as read by this flow
  bool first = true;                      // nothing was read by it yet
  bool last = split->decoder == nullptr;  // nothing to decode
  if (last && offset > 0) {
    Fail(Replaced(split->path, offset));
    co_return;
  }
  if (last) split->tail = std::string();
  while (!last) {
    // Longer rows are read in longer pieces, so that the decoder does not start over too often.
    while (split->ahead.has_value()) co_await split->room.Wait();
    int64_t length = std::max(kChunkBytes, static_cast<int64_t>(split->end - split->begin));
    int64_t from = offset - tail_bytes;
    std::string bytes;
    if (static_cast<int64_t>(head.size()) > offset) {
      bytes = std::exchange(head, {});
      bytes.erase(0, static_cast<size_t>(from));
    } else {
      StatusOr<std::string> read =
          co_await ReadAt(context_->files(), split->path, from, tail_bytes + length,
                          std::exchange(split->spare, {}));
      if (!read.ok()) {
        Fail(read.status());
        co_return;
      }
      bytes = *std::move(read);
      last = static_cast<int64_t>(bytes.size()) < tail_bytes + length;
    }
    if (static_cast<int64_t>(bytes.size()) < tail_bytes) {
      info = co_await StatFile(context_->files(), split->path);
      Fail(info.ok() ? Shrunk(split->path, offset, info->size) : info.status());
      co_return;
    }
    const std::string_view front(bytes.data(), static_cast<size_t>(tail_bytes));
    if (first) {
      Status status = CheckTail(split, front, offset);
      if (!status.ok()) {
        Fail(status);
        co_return;
      }
      split->tail = std::string(front);
      first = false;
    } else if (front != tail) {
      Fail(Replaced(split->path, offset));
      co_return;
    }
    offset = from + static_cast<int64_t>(bytes.size());
    split->ahead_begin = static_cast<size_t>(tail_bytes);
    tail = TailOf({}, bytes);
    tail_bytes = static_cast<int64_t>(tail.size());
    split->ahead = std::move(bytes);
    split->ahead_is_last = last;
    if (!closed_) context_->Wake();
  }
  if (split->decoder == nullptr) {
    split->ahead = std::string();
    split->ahead_begin = 0;
    split->ahead_is_last = true;
    if (!closed_) context_->Wake();
  }
}

void FilesSource::TakeAhead(Split* split) {
  const size_t left = split->end - split->begin;
  const size_t doubled = split->ahead_begin;  // so many bytes of `ahead` are in the buffer as well
  if (left <= doubled && (split->end == 0 || split->end >= doubled)) {
    // What is left of the buffer stands in front of the new bytes, too: they become the buffer.
    split->tail = split->end == 0
                      ? std::string()
                      : TailOf(*split->tail, {split->buffer.data(), split->end - doubled});
    split->spare = std::exchange(split->buffer, *std::move(split->ahead));
    split->begin = doubled - left;
  } else {
    split->tail = TailOf(*split->tail, {split->buffer.data(), split->begin});
    split->buffer.resize(split->end);
    split->buffer.erase(0, split->begin);
    split->begin = 0;
    split->buffer.append(*split->ahead, doubled, std::string::npos);
  }
  split->end = split->buffer.size();
  split->buffer.append(kTextPadding, '\0');
  split->at_end = split->ahead_is_last;
  split->ahead.reset();
  if (!split->at_end) split->room.Notify();
}

StatusOr<PollResult> FilesSource::Poll(Output& output) {
  if (!failed_.ok()) return failed_;
  if (!MayLeaveOut()) return PollResult::kIdle;
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
  int64_t rows = 0;  // appended or bad
  while (rows < rows_max && builder->byte_size() < bytes_max && MayLeaveOut()) {
    if (split->skipped.has_value()) {
      if (SkipLongRow(split)) {
        ++rows;
        continue;
      }
    } else if (split->begin < split->end) {
      std::string_view bytes(split->buffer.data() + split->begin, split->end - split->begin);
      bool last = split->at_end && !config_.follow;
      DecodeResult result = split->decoder->Decode(
          bytes, last, {.rows_max = rows_max - rows, .bytes_max = bytes_max}, builder);
      rows += result.rows;
      if (!result.bad_row.ok()) {
        if (bad_data_ == BadData::kFail) {
          return BadRow(*split, result.before_bad_row, result.bad_row);
        }
        const size_t begin = result.before_bad_row.bytes;
        const std::string_view row = bytes.substr(begin, result.done.bytes - begin);
        LeaveOut(*split, result.before_bad_row, static_cast<int64_t>(row.size()), row,
                 result.bad_row);
        ++rows;
      }
      split->begin += result.done.bytes;
      split->position.offset += static_cast<int64_t>(result.done.bytes);
      split->position.line += result.done.lines;
      if (!result.error.ok()) {
        if (bad_data_ == BadData::kFail) return BadRow(*split, {}, result.error);
        split->position_tail = TailOf(*split->tail, {split->buffer.data(), split->begin});
        split->skipped = 0;
        split->skipped_error = result.error;
        continue;
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

bool FilesSource::SkipLongRow(Split* split) {
  const std::string_view bytes(split->buffer.data() + split->begin, split->end - split->begin);
  const size_t line_end = bytes.find('\n');
  const bool found = line_end != std::string_view::npos;
  const size_t skipped = found ? line_end + 1 : bytes.size();
  split->begin += skipped;
  *split->skipped += static_cast<int64_t>(skipped);
  const bool file_ends = split->at_end && split->begin == split->end && !config_.follow;
  if (!found && !file_ends) return false;
  LeaveOut(*split, {}, *split->skipped, std::nullopt, split->skipped_error);
  split->position.offset += *split->skipped;
  split->position.line += found ? 1 : 0;
  split->skipped.reset();
  return true;
}

// Whether there is room for another bad row, whatever rows come.
bool FilesSource::MayLeaveOut() const {
  return dead_letters_ == nullptr || (dead_letters_open_ && dead_letters_->parts().Ready());
}

void FilesSource::LeaveOut(const Split& split, const TextProgress& before, int64_t length,
                           std::optional<std::string_view> bytes, const Status& status) {
  context_->CountDropped(1);
  if (dead_letters_ == nullptr) return;
  dead_letters_->Add({.file = split.path,
                      .line = split.position.line + before.lines,
                      .offset = split.position.offset + static_cast<int64_t>(before.bytes),
                      .length = length,
                      .reason = status.message(),
                      .bytes = bytes});
}

Status FilesSource::BadRow(const Split& split, const TextProgress& before,
                           const Status& status) const {
  return status.WithContext(Concat("files.source '", context_->uid(), "': ", split.path, " line ",
                                   split.position.line + before.lines, " (offset ",
                                   split.position.offset + static_cast<int64_t>(before.bytes),
                                   ")"));
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
      return Shrunk(file.path, split->position.offset, file.size);
    }
    // While it is open its reader may have seen less: it is looked at again when that is done.
    if (split->open || split->queued) continue;
    if (file.size > split->size_seen || file.version != split->version_seen) {
      split->size_seen = std::max(split->size_seen, file.size);
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
      return Gone(split->path, split->position.offset);
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

FilePosition FilesSource::PositionOf(const Split& split) const {
  FilePosition position = split.position;
  if (!split.tail.has_value()) return position;
  const std::string tail = split.skipped.has_value()
                               ? split.position_tail
                               : TailOf(*split.tail, {split.buffer.data(), split.begin});
  position.tail_bytes = static_cast<int64_t>(tail.size());
  position.tail_hash = XXH3_64bits(tail.data(), tail.size());
  return position;
}

std::vector<SplitState> FilesSource::SnapshotPositions() {
  std::vector<SplitState> positions;
  positions.reserve(splits_.size());
  for (const auto& [path, split] : splits_) {
    positions.push_back({path, EncodeFilePosition(PositionOf(*split))});
  }
  return positions;
}

CommittableOwner* FilesSource::committable_owner() {
  return dead_letters_ == nullptr ? nullptr : &dead_letters_->parts();
}

void FilesSource::Close() {
  closed_ = true;
  if (dead_letters_ != nullptr) dead_letters_->parts().Close();
}

}  // namespace weir
