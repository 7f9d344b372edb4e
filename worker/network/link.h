#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/record/record_batch.h"
#include "worker/network/channel.h"
#include "worker/network/frame_codec.h"
#include "worker/network/net_mailbox.h"

namespace weir {

class Connection;
class FrameWriter;
class Link;

struct ChannelIdHash {
  size_t operator()(const ChannelId& id) const {
    uint64_t hash = static_cast<uint32_t>(id.edge);
    hash = hash * 0x9e3779b97f4a7c15u + static_cast<uint32_t>(id.from_subtask);
    hash = hash * 0x9e3779b97f4a7c15u + static_cast<uint32_t>(id.to_subtask);
    return hash ^ (hash >> 32);
  }
};

// One run of one job's tasks, among all on this worker.
struct GenerationKey {
  JobId job;
  Generation generation;
  auto operator<=>(const GenerationKey&) const = default;
};

// A frame on its way to the socket. `payload` stays valid until the frame is gone: the last frame
// of an element owns it, as text or as batch.
struct OutFrame {
  FrameHeaderBytes header;
  std::vector<std::string_view> payload;
  size_t payload_bytes = 0;
  std::unique_ptr<std::string> text;
  std::unique_ptr<EncodedBatch> batch;
  size_t size_bytes() const { return header.size() + payload_bytes; }
};

// While it lives, what its thread queues on links waits for Flush, so that many small frames go out
// in one system call and wake the other side once; what has gathered to much on one link goes at
// once. Whoever makes it flushes before the thread sleeps and often enough in between.
// Thread: confined to the one that made it, which has no other.
class FlushScope {
 public:
  FlushScope();
  ~FlushScope();  // flushes
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

  void Flush();

 private:
  friend class Link;
  std::vector<std::shared_ptr<Link>>
      links_;  // with frames that wait; bounded by the links there are
};

// One direction between two workers in one generation: all channels of that pair. It exists before
// its connection does and after it broke; the channel ends share it with the network thread.
// Thread: protected members say; public ones from the network thread.
// Invariant: flush_scheduled_ is set from the first frame queued until TakeFrames finds no more.
// Who sets it sees to it that somebody takes frames; so one thread at a time is after that, a link
// stands at most once in the mailbox and nothing queued is forgotten.
class Link : public FrameHandler, public std::enable_shared_from_this<Link> {
 public:
  Link(GenerationKey generation, WorkerName peer, std::shared_ptr<NetMailbox> mailbox)
      : generation_(std::move(generation)), peer_(std::move(peer)), mailbox_(std::move(mailbox)) {}

  const GenerationKey& generation() const { return generation_; }
  const WorkerName& peer() const { return peer_; }
  // "to worker-2 (127.0.0.1:4711)", for messages.
  virtual std::string Description() const = 0;

  // Moves frames that are due into `frames`, until there are `frames_max`, `bytes_max` were moved
  // or none is left.
  void TakeFrames(size_t frames_max, size_t bytes_max, std::deque<OutFrame>* frames);
  // The handshake is done: from now on whoever queues a frame may write it.
  void Open(std::shared_ptr<FrameWriter> writer);
  // Ends the link: its queues are emptied, its ends do nothing from now on, no waker is called.
  void Close();
  // What an end found that ends the generation, if anything.
  std::optional<Status> TakeFailure();

  bool is_closed() const { return closed_.load(std::memory_order_acquire); }

  Connection* connection = nullptr;  // while there is one
  bool is_up = false;                // the handshake is done; stays

 protected:
  // Adds the next frame. False: none is due. REQUIRES: mutex_ is held.
  virtual bool TakeFrameLocked(std::deque<OutFrame>* frames) = 0;
  // Empties the queues. REQUIRES: mutex_ is held.
  virtual void ClearLocked() = 0;
  // What is to be done about frames that were queued.
  enum class Due { kNothing, kSoon, kNow };
  // Notes that `bytes` more are to be sent; after unlocking, Flush with the answer. REQUIRES:
  // mutex_.
  Due ScheduleLocked(size_t bytes);
  // Has frames and a failure taken: here and now if the socket has room, else by the network
  // thread. What is due soon waits for the FlushScope of this thread if it has one.
  void Flush(Due due);

  std::mutex mutex_;
  std::optional<Status> failure_;  // guarded by mutex_

 private:
  friend class FlushScope;

  const GenerationKey generation_;
  const WorkerName peer_;
  const std::shared_ptr<NetMailbox> mailbox_;
  bool flush_scheduled_ = false;         // guarded by mutex_
  size_t queued_bytes_ = 0;              // since flush_scheduled_ was last false; by mutex_
  std::shared_ptr<FrameWriter> writer_;  // guarded by mutex_; while the connection stands
  std::atomic<bool> closed_ = false;     // set under mutex_
};

}  // namespace weir
