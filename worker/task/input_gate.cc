#include "worker/task/input_gate.h"

#include <bit>

#include "common/base/check.h"
#include "common/base/kill_point.h"

namespace weir {
namespace {

constexpr size_t kWordBits = 64;

}  // namespace

InputGate::InputGate(std::vector<Channel> channels)
    : channels_(std::move(channels)),
      arrived_(std::make_shared<Bits>((channels_.size() + kWordBits - 1) / kWordBits)),
      aligner_(static_cast<int>(channels_.size())) {
  // What came before the wakers were set.
  for (std::atomic<uint64_t>& word : *arrived_) word.store(~uint64_t{0});
}

size_t InputGate::FindArrived(size_t begin, size_t end) const {
  for (size_t first = begin; first < end; first = (first / kWordBits + 1) * kWordBits) {
    std::atomic<uint64_t>& word = (*arrived_)[first / kWordBits];
    uint64_t bits = word.load(std::memory_order_acquire) & ~uint64_t{0} << first % kWordBits;
    for (; bits != 0; bits &= bits - 1) {
      const size_t channel =
          first / kWordBits * kWordBits + static_cast<size_t>(std::countr_zero(bits));
      if (channel >= end) return end;
      if (IsBlocked(channel)) continue;
      if (channels_[channel].receiver->HasElement()) return channel;
      // Taken back before the second look: what comes after it sets the bit again.
      const uint64_t bit = uint64_t{1} << channel % kWordBits;
      word.fetch_and(~bit);
      if (!channels_[channel].receiver->HasElement()) continue;
      word.fetch_or(bit);
      return channel;
    }
  }
  return end;
}

StatusOr<bool> InputGate::TryTake(Taken* taken) {
  // Each channel once, beginning with next_.
  size_t begin = next_;
  size_t end = channels_.size();
  for (bool wrapped = false;;) {
    const size_t channel = FindArrived(begin, end);
    if (channel == end) {
      if (wrapped) return false;
      wrapped = true;
      begin = 0;
      end = next_;
      continue;
    }
    StatusOr<bool> popped = channels_[channel].receiver->TryPop(&taken->element);
    if (!popped.ok()) return popped.status();
    begin = channel + 1;
    if (!*popped) continue;
    next_ = begin == channels_.size() ? 0 : begin;
    taken->channel = static_cast<int>(channel);
    return true;
  }
}

bool InputGate::HasElement() const { return FindArrived(0, channels_.size()) < channels_.size(); }

bool InputGate::IsBlocked(size_t channel) const {
  return aligner_.IsBlocked(static_cast<int>(channel)) && !PlantedBug("unblocked_channel");
}

bool InputGate::MarkEnded(int channel) {
  WEIR_CHECK(!channels_[channel].ended);
  channels_[channel].ended = true;
  return ++ended_ == static_cast<int>(channels_.size());
}

void InputGate::SetArrivalWaker(const std::function<void()>& waker) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    channels_[i].receiver->SetArrivalWaker([arrived = arrived_, i, waker] {
      (*arrived)[i / kWordBits].fetch_or(uint64_t{1} << i % kWordBits);
      waker();
    });
  }
}

}  // namespace weir
