#include "worker/connectors/sealed_parts/sealed_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr size_t kChunkBytes = 512 << 10;
constexpr int64_t kBytesInFlightMax = 8 << 20;
constexpr int64_t kPublishingPartsMax = 1000;
constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 5'000'000;
constexpr int64_t kRoomMaxMicros = 1'000'000;

// A full disk, one that is read-only, a missing right: the bytes can be written once that is over.
// Whatever else fails leaves it open what is in the file.
bool IsWithoutRoom(const Status& status) {
  return status.domain() == ErrorDomain::kExternal &&
         (status.code() == StatusCode::kResourceExhausted ||
          status.code() == StatusCode::kFailedPrecondition);
}

}  // namespace

// Lifetime: shared by the lists it is in and the flow that writes it.
struct SealedParts::Part {
  SealedPart sealed;               // complete when a Prepare has sealed it
  std::deque<std::string> chunks;  // bytes not yet asked to be written
  bool complete = false;           // no more chunks will come
  bool durable = false;            // all bytes, the name not
  bool found = false;              // sealed, and seen to be in its place
  bool listed = false;             // in an answer of Prepare: a checkpoint may have it
  bool publish_asked = false;      // its checkpoint completed
  bool publish_tried = false;
  bool published = false;  // durably
  CoSignal changed;        // chunks, complete, durable
};

void SealedParts::Open(std::function<void(Status)> done) {
  scope_.Spawn(OpenStore(std::move(done)));
}

Co<void> SealedParts::OpenStore(std::function<void(Status)> done) {
  Status status = co_await store_->Open();
  opened_ = status.ok();
  opening_.Notify();
  Answer(std::move(done), status);
}

template <typename T>
void SealedParts::Answer(std::function<void(T)> done, T value) {
  if (closed()) return;
  options_.timers->After(
      0, [alive = std::weak_ptr<int>(alive_), done = std::move(done), value = std::move(value)] {
        if (!alive.expired()) done(value);
      });
}

void SealedParts::AfterWrite(int64_t rows) {
  current_->sealed.rows += rows;
  progress_.staged_rows += rows;
  if (buffer_.size() >= kChunkBytes) FlushPages();
  const int64_t bytes = current_->sealed.bytes + static_cast<int64_t>(buffer_.size());
  if (bytes >= options_.part_bytes_max) {
    complete_.push_back(current_);
    CompletePart();
  }
}

bool SealedParts::Ready() const {
  waiting_ = bytes_in_flight_ > kBytesInFlightMax || publishing_lags();
  return !waiting_;
}

bool SealedParts::publishing_lags() const {
  return publishing_parts_ > kPublishingPartsMax ||
         progress_.publishing_bytes > options_.publishing_bytes_max;
}

std::string SealedParts::blocking_reason() const {
  if (publishing_lags()) return "publishing lags behind";
  if (bytes_in_flight_ > kBytesInFlightMax) return "bytes in flight";
  return "";
}

void SealedParts::WakeIfReady() {
  if (!closed() && waiting_ && Ready()) options_.wake();
}

SealedPartsProgress SealedParts::progress() const {
  SealedPartsProgress progress = progress_;
  progress.staged_bytes += static_cast<int64_t>(buffer_.size());
  return progress;
}

void SealedParts::BeginPart() {
  current_ = std::make_shared<Part>();
  current_->sealed.name = store_->NameOf(next_number_++);
  buffer_ += options_.head;
  scope_.Spawn(WritePart(current_));
}

void SealedParts::FlushBuffer() {
  if (buffer_.empty()) return;
  int64_t bytes = static_cast<int64_t>(buffer_.size());
  bytes_in_flight_ += bytes;
  current_->sealed.bytes += bytes;
  progress_.staged_bytes += bytes;
  current_->chunks.push_back(std::exchange(buffer_, {}));
  buffer_.reserve(kChunkBytes + kChunkBytes / 4);
  current_->changed.Notify();
}

// Chunks of whole pages, so that the next one begins with a page, too.
void SealedParts::FlushPages() {
  std::string rest = buffer_.substr(buffer_.size() - buffer_.size() % FileSystem::kPageBytes);
  buffer_.resize(buffer_.size() - rest.size());
  FlushBuffer();
  buffer_ += rest;
}

void SealedParts::CompletePart() {
  FlushBuffer();
  current_->complete = true;
  PartPtr part = std::exchange(current_, nullptr);
  part->changed.Notify();
}

Co<Status> SealedParts::WriteBytes(std::string path, int64_t offset, std::string bytes) {
  int64_t retry_us = kRetryFirstMicros;
  bool waited = false;
  const auto kept = std::make_shared<const std::string>(std::move(bytes));
  while (true) {
    Status status;
    if (offset == 0) {
      status = co_await CreateFile(*options_.files, path, kept);
      // Of an attempt that could not take it away again: no other writer has this name.
      if (waited && status.code() == StatusCode::kAlreadyExists) {
        status = co_await WriteAt(*options_.files, path, 0, kept);
      }
    } else {
      status = co_await WriteAt(*options_.files, path, offset, kept);
    }
    if (closed()) co_return status;
    if (!IsWithoutRoom(status)) {
      if (waited) options_.waits("write", "");
      co_return status;
    }
    if (!std::exchange(waited, true)) {
      log::Warning(store_->owner(), " cannot write yet: ", status.message(),
                   " subtask=", options_.subtask);
    }
    options_.waits("write", status.message());
    co_await Sleep(*options_.timers, retry_us);
    if (closed()) co_return status;
    retry_us = std::min(2 * retry_us, kRoomMaxMicros);
  }
}

Co<void> SealedParts::WritePart(PartPtr part) {
  std::string path = JoinPath(store_->directory(), part->sealed.name);
  int64_t offset = 0;
  while (true) {
    while (part->chunks.empty() && !part->complete) co_await part->changed.Wait();
    if (part->chunks.empty()) break;
    std::string bytes = std::move(part->chunks.front());
    part->chunks.pop_front();
    int64_t length = static_cast<int64_t>(bytes.size());
    Status status = co_await WriteBytes(path, offset, std::move(bytes));
    if (closed()) co_return;
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

void SealedParts::Fail(Status status) {
  if (closed() || !failed_.ok()) return;
  const std::string& who = store_->owner();
  failed_ = status.message().starts_with(who) ? status : status.WithContext(who);
  // Those that wait for bytes to be durable see it and answer.
  for (const PartPtr& part : unpublished_) part->changed.Notify();
  options_.fail(failed_);
}

void SealedParts::Prepare(CheckpointId checkpoint,
                          std::function<void(StatusOr<std::vector<Committable>>)> done) {
  if (!failed_.ok()) {
    done(failed_);
    return;
  }
  if (current_ != nullptr) {
    complete_.push_back(current_);
    CompletePart();
  }
  if (complete_.empty() && unpublished_.empty() && options_.seals_empty_parts) {
    complete_.push_back(std::make_shared<Part>());
    complete_.back()->durable = true;
  }
  int index = 0;
  for (const PartPtr& part : complete_) {
    part->sealed.checkpoint = checkpoint;
    part->sealed.index = index++;
    part->sealed.parts = static_cast<int>(complete_.size());
    unpublished_.push_back(part);
  }
  std::vector<PartPtr> sealed = std::exchange(complete_, {});
  listed_[checkpoint] = unpublished_;
  scope_.Spawn(FinishPrepare(checkpoint, std::move(sealed), unpublished_, std::move(done)));
}

Co<void> SealedParts::FinishPrepare(CheckpointId checkpoint, std::vector<PartPtr> sealed,
                                    std::vector<PartPtr> listed,
                                    std::function<void(StatusOr<std::vector<Committable>>)> done) {
  // No checkpoint completes without what Open sets up: by that the next generation knows the place.
  while (!opened_ && failed_.ok() && !closed()) co_await opening_.Wait();
  // All that are listed: an earlier Prepare may still be under way.
  for (const PartPtr& part : listed) {
    while (!part->durable && failed_.ok() && !closed() && !PlantedBug("undurable_seal")) {
      co_await part->changed.Wait();
    }
  }
  const bool has_files = std::any_of(
      listed.begin(), listed.end(), [](const PartPtr& part) { return !part->sealed.name.empty(); });
  if (failed_.ok() && has_files) {
    Status status = co_await SyncDirectory(*options_.files, store_->directory());
    if (!status.ok()) Fail(status);
  }
  while (failed_.ok() && !closed()) {
    // Also those of an earlier Prepare that is still at it. What is to be published was found by
    // the Prepare of a later checkpoint, which completed meanwhile; it may have its final name now.
    auto is_unseen = [](const PartPtr& part) { return !part->found && !part->publish_asked; };
    std::vector<PartPtr> unseen;
    std::copy_if(listed.begin(), listed.end(), std::back_inserter(unseen), is_unseen);
    if (unseen.empty()) break;
    std::vector<SealedPart> parts;
    for (const PartPtr& part : unseen) parts.push_back(part->sealed);
    Status status = co_await store_->CheckSealed(std::move(parts));
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
  for (const PartPtr& part : listed) {
    committables.push_back({.uid = options_.uid,
                            .subtask = options_.subtask,
                            .generation = options_.generation,
                            .checkpoint = part->sealed.checkpoint,
                            .part = part->sealed.index,
                            .payload = store_->PayloadOf(part->sealed)});
  }
  if (!sealed.empty()) {
    log::Debug(store_->owner(), " sealed parts=", sealed.size(), " checkpoint=", checkpoint,
               " subtask=", options_.subtask);
  }
  KillPoint("sink.after_prepare");
  if (PlantedBug("early_rename")) Publish(checkpoint, [](const Status&) {});
  Answer<StatusOr<std::vector<Committable>>>(
      [done = std::move(done), listed](StatusOr<std::vector<Committable>> answer) {
        for (const PartPtr& part : listed) part->listed = true;
        done(std::move(answer));
      },
      std::move(committables));
}

void SealedParts::Publish(CheckpointId checkpoint, std::function<void(Status)> done) {
  PublishRequest request{.checkpoint = checkpoint, .parts = {}, .done = std::move(done)};
  if (auto it = listed_.find(checkpoint); it != listed_.end()) {
    for (const PartPtr& part : it->second) {
      // Those of earlier requests are out when this one's turn comes.
      if (std::exchange(part->publish_asked, true)) continue;
      request.parts.push_back(part);
      ++publishing_parts_;
      progress_.staged_rows -= part->sealed.rows;
      progress_.staged_bytes -= part->sealed.bytes;
      progress_.publishing_rows += part->sealed.rows;
      progress_.publishing_bytes += part->sealed.bytes;
    }
    // Earlier ones list a part of this, and nothing else that is not published.
    listed_.erase(listed_.begin(), std::next(it));
  }
  publish_requests_.push_back(std::move(request));
  if (!std::exchange(publishing_, true)) scope_.Spawn(PublishInOrder());
}

Co<void> SealedParts::PublishInOrder() {
  int64_t retry_us = kRetryFirstMicros;
  while (!publish_requests_.empty() && failed_.ok()) {
    // One request after the other: a doubled or late one is answered when its parts are out.
    std::vector<SealedPart> parts;
    bool tried = false;
    for (const PartPtr& part : publish_requests_.front().parts) {
      if (part->published) continue;
      parts.push_back(part->sealed);
      tried = std::exchange(part->publish_tried, true) || tried;
    }
    Status status;
    if (!parts.empty()) status = co_await store_->Publish(std::move(parts), tried);
    if (closed()) co_return;
    if (status.retryable()) {
      log::Warning(store_->owner(), " cannot publish yet: ", status.message(),
                   " checkpoint=", publish_requests_.front().checkpoint,
                   " subtask=", options_.subtask, " retry_ms=", retry_us / 1000);
      options_.waits("publish", status.message());
      co_await Sleep(*options_.timers, retry_us);
      if (closed()) co_return;
      retry_us = std::min(2 * retry_us, kRetryMaxMicros);
      continue;
    }
    options_.waits("publish", "");
    retry_us = kRetryFirstMicros;
    PublishRequest request = std::move(publish_requests_.front());
    publish_requests_.pop_front();
    if (status.ok()) {
      for (const PartPtr& part : request.parts) {
        if (std::exchange(part->published, true)) continue;
        --publishing_parts_;
        progress_.publishing_rows -= part->sealed.rows;
        progress_.publishing_bytes -= part->sealed.bytes;
      }
      std::erase_if(unpublished_, [](const PartPtr& part) { return part->published; });
      WakeIfReady();
    } else {
      Fail(status);
    }
    Answer(std::move(request.done), status);
  }
  // Nothing is published behind what failed.
  for (PublishRequest& request : publish_requests_) Answer(std::move(request.done), failed_);
  publish_requests_.clear();
  publishing_ = false;
}

void SealedParts::OnAborted(CheckpointId checkpoint) { listed_.erase(checkpoint); }

void SealedParts::Close() {
  if (closed()) return;
  // What is under way may end as it likes: nobody is told any more.
  alive_ = nullptr;
  // After the end of a job no Committer comes any more: a worker that stood still until then leaves
  // nothing behind. What was in an answer may be in a checkpoint, which only the coordinator knows.
  auto remove = [this](const PartPtr& part) {
    if (part == nullptr || part->listed || part->sealed.name.empty()) return;
    options_.files->Remove(JoinPath(store_->directory(), part->sealed.name), [](const Status&) {});
  };
  remove(current_);
  for (const PartPtr& part : complete_) remove(part);
  for (const PartPtr& part : unpublished_) remove(part);
}

}  // namespace weir
