#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "worker/network/channel.h"
#include "worker/network/channel_credit.h"
#include "worker/network/link.h"

namespace weir {

// The sending side of a link. Elements wait here encoded, per channel; the channels that have some
// take turns, a fragment each. Credit bounds what waits.
// Thread: MakeSender before the link is shared; senders from their tasks' threads; the rest from
// the network thread.
class OutgoingLink : public Link {
 public:
  OutgoingLink(GenerationKey generation, WorkerName peer, std::string data_address,
               std::shared_ptr<NetMailbox> mailbox)
      : Link(std::move(generation), std::move(peer), std::move(mailbox)),
        data_address_(std::move(data_address)) {}

  std::unique_ptr<ChannelSender> MakeSender(const ChannelId& id, int64_t window_bytes);

  const std::string& data_address() const { return data_address_; }
  std::string Description() const override;

  StatusOr<char*> BeginFragment(const FrameHeader& header) override;
  Status EndFragment(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::string_view payload) override;

 protected:
  bool TakeFrameLocked(std::deque<OutFrame>* frames) override;
  void ClearLocked() override;

 private:
  class Sender;

  struct OutElement {
    FrameKind kind = FrameKind::kData;
    std::unique_ptr<EncodedBatch> batch;  // DATA
    std::unique_ptr<std::string> text;    // BARRIER
    int64_t credit_bytes = 0;
    size_t sent_bytes = 0;  // of `batch`, in fragments taken so far
  };

  struct Channel {
    Channel(const ChannelId& channel_id, int64_t window_bytes)
        : id(channel_id), credit(window_bytes) {}
    const ChannelId id;
    SenderCredit credit;
    std::function<void()> credit_waker;  // set before the first push
    std::deque<OutElement> queue;        // guarded by mutex_; in ready_ exactly if not empty
  };

  void Enqueue(Channel* channel, OutElement element);
  void Fail(Status status);

  const std::string data_address_;
  std::unordered_map<ChannelId, std::unique_ptr<Channel>, ChannelIdHash> channels_;
  std::deque<Channel*> ready_;  // guarded by mutex_; whose turn it is first
};

}  // namespace weir
