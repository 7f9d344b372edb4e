#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/concat.h"
#include "common/base/status.h"
#include "common/record/stream_element.h"

namespace weir {

// Names a channel within one generation: edge of the execution plan, sending and receiving subtask.
struct ChannelId {
  int edge = 0;
  int from_subtask = 0;
  int to_subtask = 0;
  auto operator<=>(const ChannelId&) const = default;
};

// "edge 2, subtask 0 to 3".
inline std::string ToString(const ChannelId& id) {
  return Concat("edge ", id.edge, ", subtask ", id.from_subtask, " to ", id.to_subtask);
}

// The sending end of a channel. Flow control is by credit in bytes of rows (CreditBytes of
// stream_element.h): a channel starts with its window, every push takes, every pop at the other end
// gives back. Push never waits and may overdraw by what one input batch made; the sender takes no
// further element until credit is positive on all of its channels.
// Thread: Push and credit from the sending task's thread.
class ChannelSender {
 public:
  virtual ~ChannelSender() = default;
  virtual void Push(StreamElement element) = 0;
  // Whether credit is left (> 0 bytes).
  virtual bool HasCredit() const = 0;
  // Called (from any thread) some time after credit has become positive, when there is enough of it
  // to be worth a step: at the latest when the receiver has taken everything. Set once, before the
  // first Push.
  virtual void SetCreditWaker(std::function<void()> waker) = 0;
};

// The receiving end: a FIFO of elements. Thread: from the receiving task's thread.
class ChannelReceiver {
 public:
  virtual ~ChannelReceiver() = default;
  // The oldest element, false when there is none now. kDataLoss: the bytes from the peer are no
  // element; the generation must end.
  virtual StatusOr<bool> TryPop(StreamElement* element) = 0;
  // Whether TryPop would find one.
  virtual bool HasElement() const = 0;
  // Called (from any thread) when an element arrives in an empty queue. Set once, before start.
  virtual void SetArrivalWaker(std::function<void()> waker) = 0;
  // Elements and bytes waiting.
  virtual int64_t queued_bytes() const = 0;
};

}  // namespace weir
