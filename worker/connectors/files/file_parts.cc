#include "worker/connectors/files/file_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/files/file_names.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr size_t kChunkBytes = 512 << 10;
constexpr int64_t kBytesInFlightMax = 8 << 20;
constexpr int64_t kPublishingPartsMax = 1000;
constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 5'000'000;

}  // namespace

void FileParts::Open(std::function<void(Status)> done) {
  scope_.Spawn(OpenDirectory(std::move(done)));
}

Co<void> FileParts::OpenDirectory(std::function<void(Status)> done) {
  HiddenName unique{.job = options_.directory.job,
                    .generation = options_.generation,
                    .subtask = options_.subtask,
                    .number = 0,
                    .uid = options_.directory.uid};
  StatusOr<std::string> maker = co_await MarkDirectory(*options_.files, options_.directory, unique,
                                                       options_.resumed_from.value() > 0);
  Status status = maker.status();
  // One subtask looks for all.
  if (status.ok() && options_.subtask == 0) status = co_await CheckNothingIsLater();
  if (status.ok()) mark_maker_ = *maker;
  opened_ = status.ok();
  opening_.Notify();
  Answer(std::move(done), status);
}

// Only what completed is published: a later file says that the checkpoint to go on from is not the
// newest one, whatever the completion log tells, and its rows would come out again.
Co<Status> FileParts::CheckNothingIsLater() {
  StatusOr<std::vector<FileInfo>> names =
      co_await ListDirectory(*options_.files, options_.directory.path);
  if (!names.ok()) co_return names.status();
  for (const FileInfo& info : *names) {
    std::optional<CheckpointId> published =
        CheckpointOfFinalName(info.name, options_.directory.job_name, options_.directory.uid);
    if (!published || *published <= options_.resumed_from) continue;
    co_return DataLossError(
        Concat(options_.directory.Owner(), ": ", JoinPath(options_.directory.path, info.name),
               " was published by checkpoint ", *published, ", and the job starts from checkpoint ",
               options_.resumed_from,
               ": its completion log has lost entries; going on would publish rows twice"))
        .WithRetry(false);
  }
  co_return Status();
}

template <typename T>
void FileParts::Answer(std::function<void(T)> done, T value) {
  if (closed()) return;
  options_.timers->After(
      0, [alive = std::weak_ptr<int>(alive_), done = std::move(done), value = std::move(value)] {
        if (!alive.expired()) done(value);
      });
}

void FileParts::AfterWrite() {
  if (buffer_.size() >= kChunkBytes) FlushPages();
  if (current_bytes_ + static_cast<int64_t>(buffer_.size()) >= options_.part_bytes_max) {
    complete_.push_back(current_);
    CompletePart();
  }
}

bool FileParts::Ready() const {
  waiting_ = bytes_in_flight_ > kBytesInFlightMax || publishing_parts_ > kPublishingPartsMax;
  return !waiting_;
}

std::string FileParts::blocking_reason() const {
  if (publishing_parts_ > kPublishingPartsMax) return "publishing lags behind";
  if (bytes_in_flight_ > kBytesInFlightMax) return "bytes in flight";
  return "";
}

void FileParts::WakeIfReady() {
  if (!closed() && waiting_ && Ready()) options_.wake();
}

void FileParts::BeginPart() {
  current_ = std::make_shared<Part>();
  current_->file.pending_name = PendingName({.job = options_.directory.job,
                                             .generation = options_.generation,
                                             .subtask = options_.subtask,
                                             .number = next_number_++,
                                             .uid = options_.directory.uid});
  current_bytes_ = 0;
  buffer_ += options_.head;
  scope_.Spawn(WritePart(current_));
}

void FileParts::FlushBuffer() {
  if (buffer_.empty()) return;
  int64_t bytes = static_cast<int64_t>(buffer_.size());
  bytes_in_flight_ += bytes;
  current_bytes_ += bytes;
  current_->chunks.push_back(std::exchange(buffer_, {}));
  buffer_.reserve(kChunkBytes + kChunkBytes / 4);
  current_->changed.Notify();
}

// Chunks of whole pages, so that the next one begins with a page, too.
void FileParts::FlushPages() {
  std::string rest = buffer_.substr(buffer_.size() - buffer_.size() % FileSystem::kPageBytes);
  buffer_.resize(buffer_.size() - rest.size());
  FlushBuffer();
  buffer_ += rest;
}

void FileParts::CompletePart() {
  FlushBuffer();
  current_->file.length = current_bytes_;
  current_->complete = true;
  PartPtr part = std::exchange(current_, nullptr);
  part->changed.Notify();
}

Co<void> FileParts::WritePart(PartPtr part) {
  std::string path = JoinPath(options_.directory.path, part->file.pending_name);
  int64_t offset = 0;
  while (true) {
    while (part->chunks.empty() && !part->complete) co_await part->changed.Wait();
    if (part->chunks.empty()) break;
    std::string bytes = std::move(part->chunks.front());
    part->chunks.pop_front();
    int64_t length = static_cast<int64_t>(bytes.size());
    Status status;
    if (offset == 0) {
      status = co_await CreateFile(*options_.files, path, std::move(bytes));
    } else {
      status = co_await WriteAt(*options_.files, path, offset, std::move(bytes));
    }
    if (!status.ok()) {
      Fail(status);
      co_return;
    }
    offset += length;
    bytes_in_flight_ -= length;
    WakeIfReady();
  }
  KillPoint("sink.before_prepare_sync");
  Status status = co_await SyncFile(*options_.files, path);
  if (!status.ok()) {
    Fail(status);
    co_return;
  }
  part->durable = true;
  part->changed.Notify();
}

void FileParts::Fail(Status status) {
  if (closed() || !failed_.ok()) return;
  std::string who = options_.directory.Owner();
  failed_ = status.message().starts_with(who) ? status : status.WithContext(who);
  // Those that wait for bytes to be durable see it and answer.
  for (const PartPtr& part : unpublished_) part->changed.Notify();
  options_.fail(failed_);
}

void FileParts::Prepare(CheckpointId checkpoint,
                        std::function<void(StatusOr<std::vector<Committable>>)> done) {
  if (!failed_.ok()) {
    done(failed_);
    return;
  }
  if (current_ != nullptr) {
    complete_.push_back(current_);
    CompletePart();
  }
  int index = 0;
  for (const PartPtr& part : complete_) {
    part->file.final_name = FinalName(options_.directory.job_name, options_.directory.uid,
                                      options_.subtask, checkpoint, index, options_.format);
    part->committable = {.uid = options_.directory.uid,
                         .subtask = options_.subtask,
                         .generation = options_.generation,
                         .checkpoint = checkpoint,
                         .part = index,
                         .payload = {}};
    unpublished_.push_back(part);
    ++index;
  }
  std::vector<PartPtr> sealed = std::exchange(complete_, {});
  listed_[checkpoint] = unpublished_;
  scope_.Spawn(FinishPrepare(checkpoint, std::move(sealed), unpublished_, std::move(done)));
}

Co<void> FileParts::FinishPrepare(CheckpointId checkpoint, std::vector<PartPtr> sealed,
                                  std::vector<PartPtr> listed,
                                  std::function<void(StatusOr<std::vector<Committable>>)> done) {
  // No checkpoint completes without the mark, by which the next generation knows the directory.
  while (!opened_ && failed_.ok() && !closed()) co_await opening_.Wait();
  for (const PartPtr& part : listed) {
    part->file.mark_maker = mark_maker_;
    part->committable.payload = EncodeFilePart(part->file);
  }
  // All that are listed: an earlier Prepare may still be under way.
  for (const PartPtr& part : listed) {
    while (!part->durable && failed_.ok() && !closed() && !PlantedBug("undurable_seal")) {
      co_await part->changed.Wait();
    }
  }
  if (failed_.ok() && !listed.empty()) {
    Status status = co_await SyncDirectory(*options_.files, options_.directory.path);
    if (!status.ok()) Fail(status);
  }
  while (failed_.ok() && !closed()) {
    // Also those of an earlier Prepare that is still at it. What is to be published was found by
    // the Prepare of a later checkpoint, which completed meanwhile; it may have its final name now.
    auto is_unseen = [](const PartPtr& part) { return !part->found && !part->publish_asked; };
    std::vector<PartPtr> unseen;
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(unseen), is_unseen);
    if (unseen.empty()) break;
    std::vector<FilePart> parts;
    for (const PartPtr& part : unseen) parts.push_back(part->file);
    Status status = co_await CheckSealed(*options_.files, options_.directory, std::move(parts));
    if (status.ok()) {
      for (const PartPtr& part : unseen) part->found = true;
    } else if (std::all_of(unseen.begin(), unseen.end(), is_unseen)) {
      Fail(status);
    }
  }
  if (closed()) co_return;
  if (!failed_.ok()) {
    Answer<StatusOr<std::vector<Committable>>>(std::move(done), failed_);
    co_return;
  }
  std::vector<Committable> committables;
  committables.reserve(listed.size());
  for (const PartPtr& part : listed) committables.push_back(part->committable);
  if (!sealed.empty()) {
    log::Debug(options_.directory.Owner(), " sealed parts=", sealed.size(),
               " checkpoint=", checkpoint, " subtask=", options_.subtask);
  }
  KillPoint("sink.after_prepare");
  if (PlantedBug("early_rename")) Publish(checkpoint, [](const Status&) {});
  Answer<StatusOr<std::vector<Committable>>>(std::move(done), std::move(committables));
}

void FileParts::Publish(CheckpointId checkpoint, std::function<void(Status)> done) {
  PublishRequest request{.checkpoint = checkpoint, .parts = {}, .done = std::move(done)};
  if (auto it = listed_.find(checkpoint); it != listed_.end()) {
    for (const PartPtr& part : it->second) {
      if (part->published) continue;
      request.parts.push_back(part);
      if (!std::exchange(part->publish_asked, true)) ++publishing_parts_;
    }
    // Earlier ones list a part of this, and nothing else that is not published.
    listed_.erase(listed_.begin(), std::next(it));
  }
  publish_requests_.push_back(std::move(request));
  if (!std::exchange(publishing_, true)) scope_.Spawn(PublishInOrder());
}

Co<void> FileParts::PublishInOrder() {
  int64_t retry_us = kRetryFirstMicros;
  while (!publish_requests_.empty()) {
    // One request after the other: a doubled or late one is answered when its parts are out.
    std::vector<FilePart> parts;
    bool tried = false;
    for (const PartPtr& part : publish_requests_.front().parts) {
      if (part->published) continue;
      parts.push_back(part->file);
      tried = std::exchange(part->publish_tried, true) || tried;
    }
    Status status =
        co_await PublishParts(*options_.files, options_.directory, std::move(parts), tried);
    if (closed()) co_return;
    if (status.retryable()) {
      log::Warning(options_.directory.Owner(), " cannot publish yet: ", status.message(),
                   " checkpoint=", publish_requests_.front().checkpoint,
                   " subtask=", options_.subtask, " retry_ms=", retry_us / 1000);
      co_await Sleep(*options_.timers, retry_us);
      if (closed()) co_return;
      retry_us = std::min(2 * retry_us, kRetryMaxMicros);
      continue;
    }
    retry_us = kRetryFirstMicros;
    PublishRequest request = std::move(publish_requests_.front());
    publish_requests_.pop_front();
    if (status.ok()) {
      for (const PartPtr& part : request.parts) {
        if (!std::exchange(part->published, true)) --publishing_parts_;
      }
      std::erase_if(unpublished_, [](const PartPtr& part) { return part->published; });
      WakeIfReady();
    } else {
      Fail(status);
    }
    Answer(std::move(request.done), status);
  }
  publishing_ = false;
}

void FileParts::OnAborted(CheckpointId checkpoint) { listed_.erase(checkpoint); }

void FileParts::Close() {
  // What is under way may end as it likes: nobody is told any more.
  alive_ = nullptr;
}

}  // namespace weir
