#include "worker/task/input_gate.h"

#include "common/base/check.h"
#include "common/base/kill_point.h"

namespace weir {

InputGate::InputGate(std::vector<Channel> channels)
    : channels_(std::move(channels)), aligner_(static_cast<int>(channels_.size())) {}

StatusOr<bool> InputGate::TryTake(Taken* taken) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    size_t channel = next_;
    next_ = next_ + 1 == channels_.size() ? 0 : next_ + 1;
    if (IsBlocked(channel)) continue;
    if (!channels_[channel].receiver->HasElement()) continue;
    StatusOr<bool> popped = channels_[channel].receiver->TryPop(&taken->element);
    if (!popped.ok()) return popped.status();
    if (!*popped) continue;
    taken->channel = static_cast<int>(channel);
    return true;
  }
  return false;
}

bool InputGate::HasElement() const {
  for (size_t i = 0; i < channels_.size(); ++i) {
    if (!IsBlocked(i) && channels_[i].receiver->HasElement()) return true;
  }
  return false;
}

bool InputGate::IsBlocked(size_t channel) const {
  return aligner_.IsBlocked(static_cast<int>(channel)) && !PlantedBug("unblocked_channel");
}

bool InputGate::MarkEnded(int channel) {
  WEIR_CHECK(!channels_[channel].ended);
  channels_[channel].ended = true;
  return ++ended_ == static_cast<int>(channels_.size());
}

void InputGate::SetArrivalWaker(const std::function<void()>& waker) {
  for (Channel& channel : channels_) channel.receiver->SetArrivalWaker(waker);
}

}  // namespace weir
