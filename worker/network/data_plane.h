#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/record/schema.h"
#include "worker/network/channel.h"

namespace weir {

// The channels between this worker and others: own TCP connections, for each generation of a job
// one from every sending to every receiving worker, all channels of that pair multiplexed on it.
// A connection that breaks, or cannot be made within the timeout, ends its generation (`broken` is
// called once); it is never made again. Thread: all calls from the worker's control loop; callbacks
// come from the network thread.
class DataPlane {
 public:
  struct Receive {
    ChannelId channel;
    WorkerName from;
    SchemaPtr schema;
    int64_t window_bytes = 0;
    SchemaPtr partial_schema = nullptr;  // of partial rows that may come, too
  };
  struct Send {
    ChannelId channel;
    WorkerName to;
    std::string data_address;  // host:port of `to`
    int64_t window_bytes = 0;
  };
  // What a generation on this worker needs. The ends live until EndGeneration's callback.
  struct Generation {
    JobId job;
    weir::Generation generation;
    WorkerName self;
    std::vector<Receive> receives;
    std::vector<Send> sends;
  };
  struct Channels {
    std::vector<std::unique_ptr<ChannelReceiver>> receivers;  // in the order of `receives`
    std::vector<std::unique_ptr<ChannelSender>> senders;      // in the order of `sends`
  };

  virtual ~DataPlane() = default;
  // Makes all ends at once (senders queue until connected), accepts and dials in the background:
  // elements may arrive before a receiver has its waker, so that its first step must look.
  // `connected` once all connections of the generation stand; `broken` with the first failure.
  // Neither is called after EndGeneration has answered.
  virtual Channels StartGeneration(const Generation& generation, std::function<void()> connected,
                                   std::function<void(Status)> broken) = 0;
  // Closes the generation's connections; `ended` when no thread of the data plane touches its
  // channels any more. A hello for it is refused from now on.
  virtual void EndGeneration(const JobId& job, weir::Generation generation,
                             std::function<void()> ended) = 0;
  // host:port that peers dial.
  virtual std::string address() const = 0;
};

}  // namespace weir
