#include "worker/network/link.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/network/connection.h"

namespace weir {
namespace {

// This much is worth a system call and a wake-up of its own.
constexpr size_t kFlushBytes = 256 << 10;

thread_local FlushScope* flush_scope = nullptr;

}  // namespace

FlushScope::FlushScope() {
  WEIR_CHECK(flush_scope == nullptr);
  flush_scope = this;
}

FlushScope::~FlushScope() {
  Flush();
  flush_scope = nullptr;
}

void FlushScope::Flush() {
  for (const auto& link : links_) link->Flush(Link::Due::kNow);
  links_.clear();
}

void Link::TakeFrames(size_t frames_max, size_t bytes_max, std::deque<OutFrame>* frames) {
  std::lock_guard lock(mutex_);
  size_t taken_bytes = 0;
  while (frames->size() < frames_max && taken_bytes < bytes_max) {
    if (!TakeFrameLocked(frames)) {
      flush_scheduled_ = false;
      queued_bytes_ = 0;
      return;
    }
    taken_bytes += frames->back().size_bytes();
  }
}

void Link::Open(std::shared_ptr<FrameWriter> writer) {
  std::lock_guard lock(mutex_);
  writer_ = std::move(writer);
}

Link::Due Link::ScheduleLocked(size_t bytes) {
  const size_t before_bytes = std::exchange(queued_bytes_, queued_bytes_ + bytes);
  if (before_bytes < kFlushBytes && queued_bytes_ >= kFlushBytes) {
    flush_scheduled_ = true;
    return Due::kNow;
  }
  return std::exchange(flush_scheduled_, true) ? Due::kNothing : Due::kSoon;
}

void Link::Flush(Due due) {
  if (due == Due::kNothing) return;
  if (due == Due::kSoon && flush_scope != nullptr) {
    // A flush that came too early for others has left it here.
    auto& links = flush_scope->links_;
    if (std::find_if(links.begin(), links.end(),
                     [this](const auto& link) { return link.get() == this; }) == links.end()) {
      links.push_back(shared_from_this());
    }
    return;
  }
  std::shared_ptr<FrameWriter> writer;
  {
    std::lock_guard lock(mutex_);
    if (!failure_) writer = writer_;
  }
  if (writer == nullptr || !writer->TryWrite(this)) mailbox_->Flush(shared_from_this());
}

void Link::Close() {
  std::lock_guard lock(mutex_);
  writer_.reset();
  closed_.store(true, std::memory_order_release);
  ClearLocked();
}

std::optional<Status> Link::TakeFailure() {
  std::lock_guard lock(mutex_);
  return std::exchange(failure_, std::nullopt);
}

}  // namespace weir
