#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "worker/network/channel.h"
#include "worker/network/channel_credit.h"
#include "worker/network/link.h"

namespace weir {

// The receiving side of a link. Elements wait here as they came, per channel, and are decoded by
// the task that pops them.
// Thread: MakeReceiver before the link is shared; receivers from their tasks' threads; the rest
// from the network thread.
class IncomingLink : public Link {
 public:
  using Link::Link;

  // `partial_schema`: nullptr where no partial rows may come.
  std::unique_ptr<ChannelReceiver> MakeReceiver(const ChannelId& id, SchemaPtr schema,
                                                SchemaPtr partial_schema, int64_t window_bytes);

  // Where the peer dialled from, once it did.
  void set_peer_address(std::string address) { peer_address_ = std::move(address); }
  std::string Description() const override;

  StatusOr<char*> BeginFragment(const FrameHeader& header) override;
  Status EndFragment(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::string_view payload) override;

 protected:
  bool TakeFrameLocked(std::deque<OutFrame>* frames) override;
  void ClearLocked() override;

 private:
  class Receiver;

  using InElement = std::variant<EncodedElement, Barrier, EndOfInput>;

  struct Channel {
    Channel(const ChannelId& channel_id, SchemaPtr row_schema, SchemaPtr partials,
            int64_t window_bytes)
        : id(channel_id),
          schema(std::move(row_schema)),
          partial_schema(std::move(partials)),
          credit(window_bytes) {}
    const ChannelId id;
    const SchemaPtr schema;
    const SchemaPtr partial_schema;
    // Network thread.
    ElementAssembler assembler;
    bool ended = false;  // no data may follow
    // Task thread.
    ReceiverCredit credit;
    // Between them: under queue_mutex; the numbers are read without it.
    std::mutex queue_mutex;
    std::deque<InElement> queue;
    std::function<void()> arrival_waker;  // set once, under the mutex; may be called without it
    std::atomic<int64_t> elements{0};
    std::atomic<int64_t> queued_bytes{0};
    // Credit to send back; in giving_ exactly if not 0. Guarded by the link's mutex_.
    int64_t give_bytes = 0;
  };

  StatusOr<Channel*> Find(const FrameHeader& header);
  void Deliver(Channel* channel, InElement element, int64_t bytes);
  void GiveCredit(Channel* channel, int64_t bytes);

  std::string peer_address_;
  std::unordered_map<ChannelId, std::unique_ptr<Channel>, ChannelIdHash> channels_;
  Channel* fragment_channel_ = nullptr;  // of the fragment under way
  std::deque<Channel*> giving_;          // guarded by mutex_
};

}  // namespace weir
