#include "worker/network/outgoing_link.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

class OutgoingLink::Sender : public ChannelSender {
 public:
  Sender(std::shared_ptr<OutgoingLink> link, Channel* channel)
      : link_(std::move(link)), channel_(channel) {}

  void Push(StreamElement element) override {
    if (link_->is_closed()) return;
    OutElement out;
    if (const RecordBatchPtr* batch = std::get_if<RecordBatchPtr>(&element)) {
      out.credit_bytes = (*batch)->ByteSize();
      out.batch = std::make_unique<EncodedBatch>(*batch);
      if (out.batch->size() > kElementBytesMax) {
        link_->Fail(OutOfRangeError(Concat("a batch of ", (*batch)->rows(), " rows takes ",
                                           out.batch->size(), " bytes, at most ", kElementBytesMax,
                                           " can be sent to another worker")));
        return;
      }
    } else if (const Barrier* barrier = std::get_if<Barrier>(&element)) {
      out.kind = FrameKind::kBarrier;
      out.text = std::make_unique<std::string>(EncodeBarrier(*barrier));
    } else {
      out.kind = FrameKind::kEndOfInput;
    }
    channel_->credit.Take(out.credit_bytes);
    link_->Enqueue(channel_, std::move(out));
  }

  bool HasCredit() const override { return channel_->credit.HasCredit(); }

  void SetCreditWaker(std::function<void()> waker) override {
    channel_->credit_waker = std::move(waker);
  }

 private:
  const std::shared_ptr<OutgoingLink> link_;
  Channel* const channel_;  // owned by link_
};

std::unique_ptr<ChannelSender> OutgoingLink::MakeSender(const ChannelId& id, int64_t window_bytes) {
  auto [it, inserted] = channels_.emplace(id, std::make_unique<Channel>(id, window_bytes));
  WEIR_CHECK(inserted);
  return std::make_unique<Sender>(std::static_pointer_cast<OutgoingLink>(shared_from_this()),
                                  it->second.get());
}

std::string OutgoingLink::Description() const {
  return Concat("to ", peer(), " (", data_address_, ")");
}

void OutgoingLink::Enqueue(Channel* channel, OutElement element) {
  const size_t bytes =
      kFrameHeaderBytes + (element.batch != nullptr ? element.batch->size() : size_t{0});
  Due due;
  {
    std::lock_guard lock(mutex_);
    if (is_closed()) return;
    if (channel->queue.empty()) ready_.push_back(channel);
    channel->queue.push_back(std::move(element));
    due = ScheduleLocked(bytes);
  }
  Flush(due);
}

void OutgoingLink::Fail(Status status) {
  {
    std::lock_guard lock(mutex_);
    if (is_closed() || failure_) return;
    failure_ = std::move(status);
  }
  Flush(Due::kNow);
}

bool OutgoingLink::TakeFrameLocked(std::deque<OutFrame>* frames) {
  if (ready_.empty()) return false;
  Channel* channel = ready_.front();
  ready_.pop_front();
  OutElement& element = channel->queue.front();
  FrameHeader header;
  OutFrame frame;
  bool is_last = true;
  if (element.kind == FrameKind::kData) {
    header = FragmentHeader(channel->id, element.batch->size(), element.credit_bytes,
                            element.sent_bytes);
    element.batch->Slice(element.sent_bytes, header.payload_bytes, &frame.payload);
    element.sent_bytes += header.payload_bytes;
    is_last = !header.more;
  } else {
    header.kind = element.kind;
    header.channel = channel->id;
    if (element.text) {
      frame.payload.push_back(*element.text);
      header.payload_bytes = static_cast<uint32_t>(element.text->size());
    }
  }
  frame.payload_bytes = header.payload_bytes;
  frame.header = EncodeFrameHeader(header);
  if (is_last) {
    frame.text = std::move(element.text);
    frame.batch = std::move(element.batch);
    channel->queue.pop_front();
  }
  frames->push_back(std::move(frame));
  if (!channel->queue.empty()) ready_.push_back(channel);
  return true;
}

void OutgoingLink::ClearLocked() {
  for (Channel* channel : ready_) channel->queue.clear();
  ready_.clear();
}

StatusOr<char*> OutgoingLink::BeginFragment(const FrameHeader& header) {
  return DataLossError(Concat("the receiver of channel ", ToString(header.channel), " sends data"));
}

Status OutgoingLink::EndFragment(const FrameHeader&) { return {}; }

Status OutgoingLink::OnFrame(const FrameHeader& header, std::string_view) {
  const auto it = channels_.find(header.channel);
  if (header.kind != FrameKind::kCredit || it == channels_.end()) {
    return DataLossError(Concat("the receiver sends a frame of kind ",
                                static_cast<int>(header.kind), " for channel ",
                                ToString(header.channel)));
  }
  Channel& channel = *it->second;
  switch (channel.credit.Give(header.credit_bytes)) {
    case SenderCredit::Given::kCounted:
      break;
    case SenderCredit::Given::kPositive:
      if (channel.credit_waker) channel.credit_waker();
      break;
    case SenderCredit::Given::kRefused:
      return DataLossError(Concat("the receiver gives ", header.credit_bytes,
                                  " bytes of credit back, which channel ", ToString(channel.id),
                                  " has not taken"));
  }
  return {};
}

}  // namespace weir
