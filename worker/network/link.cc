#include "worker/network/link.h"

#include <utility>

#include "worker/network/connection.h"

namespace weir {

void Link::TakeFrames(size_t frames_max, size_t bytes_max, std::deque<OutFrame>* frames) {
  std::lock_guard lock(mutex_);
  size_t taken_bytes = 0;
  while (frames->size() < frames_max && taken_bytes < bytes_max) {
    if (!TakeFrameLocked(frames)) {
      flush_scheduled_ = false;
      return;
    }
    taken_bytes += frames->back().size_bytes();
  }
}

void Link::Open(std::shared_ptr<FrameWriter> writer) {
  std::lock_guard lock(mutex_);
  writer_ = std::move(writer);
}

void Link::Flush() {
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
