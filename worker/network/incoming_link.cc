#include "worker/network/incoming_link.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

class IncomingLink::Receiver : public ChannelReceiver {
 public:
  Receiver(std::shared_ptr<IncomingLink> link, Channel* channel)
      : link_(std::move(link)), channel_(channel) {}

  StatusOr<bool> TryPop(StreamElement* element) override {
    if (!HasElement()) return false;
    InElement popped;
    {
      std::lock_guard lock(channel_->queue_mutex);
      if (channel_->queue.empty()) return false;  // the link was closed just now
      popped = std::move(channel_->queue.front());
      channel_->queue.pop_front();
      const EncodedElement* batch = std::get_if<EncodedElement>(&popped);
      channel_->queued_bytes.fetch_sub(batch ? batch->credit_bytes : 0, std::memory_order_release);
      channel_->elements.fetch_sub(1, std::memory_order_release);
    }
    if (const Barrier* barrier = std::get_if<Barrier>(&popped)) {
      *element = *barrier;
      return true;
    }
    if (std::holds_alternative<EndOfInput>(popped)) {
      *element = EndOfInput{};
      return true;
    }
    const EncodedElement& encoded = std::get<EncodedElement>(popped);
    StatusOr<RecordBatch> batch =
        DecodeBatch(channel_->schema, encoded.bytes, channel_->partial_schema);
    if (!batch.ok()) {
      return batch.status().WithContext(
          Concat("channel ", ToString(channel_->id), " from ", link_->peer()));
    }
    *element = std::make_shared<const RecordBatch>(std::move(batch).value());
    const int64_t give_bytes = channel_->credit.Pop(encoded.credit_bytes);
    if (give_bytes > 0) link_->GiveCredit(channel_, give_bytes);
    return true;
  }

  bool HasElement() const override {
    return channel_->elements.load(std::memory_order_acquire) > 0;
  }

  void SetArrivalWaker(std::function<void()> waker) override {
    std::lock_guard lock(channel_->queue_mutex);  // elements may be arriving already
    channel_->arrival_waker = std::move(waker);
  }

  int64_t queued_bytes() const override {
    return channel_->queued_bytes.load(std::memory_order_acquire);
  }

 private:
  const std::shared_ptr<IncomingLink> link_;
  Channel* const channel_;  // owned by link_
};

std::unique_ptr<ChannelReceiver> IncomingLink::MakeReceiver(const ChannelId& id, SchemaPtr schema,
                                                            SchemaPtr partial_schema,
                                                            int64_t window_bytes) {
  auto [it, inserted] = channels_.emplace(
      id,
      std::make_unique<Channel>(id, std::move(schema), std::move(partial_schema), window_bytes));
  WEIR_CHECK(inserted);
  return std::make_unique<Receiver>(std::static_pointer_cast<IncomingLink>(shared_from_this()),
                                    it->second.get());
}

std::string IncomingLink::Description() const {
  return peer_address_.empty() ? Concat("from ", peer())
                               : Concat("from ", peer(), " (", peer_address_, ")");
}

StatusOr<IncomingLink::Channel*> IncomingLink::Find(const FrameHeader& header) {
  const auto it = channels_.find(header.channel);
  if (it == channels_.end()) {
    return DataLossError(Concat("the sender speaks of channel ", ToString(header.channel),
                                ", which this worker does not have"));
  }
  Channel* channel = it->second.get();
  if (header.kind != FrameKind::kData && channel->assembler.in_progress()) {
    return DataLossError(
        Concat("channel ", ToString(channel->id), " is interrupted within an element"));
  }
  if (channel->ended && header.kind != FrameKind::kBarrier) {
    return DataLossError(Concat("channel ", ToString(channel->id), " goes on after its end"));
  }
  return channel;
}

StatusOr<char*> IncomingLink::BeginFragment(const FrameHeader& header) {
  WEIR_ASSIGN_OR_RETURN(fragment_channel_, Find(header));
  return fragment_channel_->assembler.Begin(header);
}

Status IncomingLink::EndFragment(const FrameHeader& header) {
  Channel* channel = fragment_channel_;
  if (!channel->assembler.End(header)) return {};
  EncodedElement element = channel->assembler.Take();
  const int64_t bytes = element.credit_bytes;
  Deliver(channel, std::move(element), bytes);
  return {};
}

Status IncomingLink::OnFrame(const FrameHeader& header, std::string_view payload) {
  if (header.kind != FrameKind::kBarrier && header.kind != FrameKind::kEndOfInput) {
    return DataLossError(
        Concat("the sender sends a frame of kind ", static_cast<int>(header.kind)));
  }
  WEIR_ASSIGN_OR_RETURN(Channel* const channel, Find(header));
  if (header.kind == FrameKind::kBarrier) {
    Deliver(channel, DecodeBarrier(payload), 0);
  } else {
    channel->ended = true;
    Deliver(channel, EndOfInput{}, 0);
  }
  return {};
}

// No wake-up is lost for the reasons given in local_channel.cc; this thread pushes.
void IncomingLink::Deliver(Channel* channel, InElement element, int64_t bytes) {
  const std::function<void()>* waker = nullptr;
  {
    std::lock_guard lock(channel->queue_mutex);
    if (channel->queue.empty() && channel->arrival_waker) waker = &channel->arrival_waker;
    channel->queue.push_back(std::move(element));
    channel->queued_bytes.fetch_add(bytes, std::memory_order_release);
    channel->elements.fetch_add(1, std::memory_order_release);
  }
  if (waker != nullptr) (*waker)();
}

void IncomingLink::GiveCredit(Channel* channel, int64_t bytes) {
  Due due;
  {
    std::lock_guard lock(mutex_);
    if (is_closed()) return;
    if (channel->give_bytes == 0) giving_.push_back(channel);
    channel->give_bytes += bytes;
    due = ScheduleLocked(kFrameHeaderBytes);
  }
  Flush(due);
}

bool IncomingLink::TakeFrameLocked(std::deque<OutFrame>* frames) {
  if (giving_.empty()) return false;
  Channel* channel = giving_.front();
  giving_.pop_front();
  FrameHeader header;
  header.kind = FrameKind::kCredit;
  header.channel = channel->id;
  header.credit_bytes = std::exchange(channel->give_bytes, 0);
  frames->push_back({EncodeFrameHeader(header), {}, 0, nullptr, nullptr});
  return true;
}

void IncomingLink::ClearLocked() {
  giving_.clear();
  for (auto& [id, channel] : channels_) {
    std::lock_guard lock(channel->queue_mutex);
    channel->queue.clear();
    channel->elements.store(0, std::memory_order_release);
    channel->queued_bytes.store(0, std::memory_order_release);
  }
}

}  // namespace weir
