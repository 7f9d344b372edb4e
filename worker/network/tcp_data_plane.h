#pragma once

#include <memory>
#include <string>
#include <thread>

#include "worker/network/data_plane.h"
#include "worker/network/net_loop.h"

namespace weir {

// The data plane over TCP, with one thread (net-0) that moves bytes; batches are encoded and
// decoded on the threads of the tasks that push and pop them. Dialers (senders) greet with job,
// generation and both names; a hello may be ahead of its generation for a while, one of an ended
// generation is refused. Nothing is ever dialled twice. Thread: calls from the worker's control
// loop, which may be another thread before Start and after Stop; callbacks and wakers come from
// net-0.
class TcpDataPlane : public DataPlane {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";
    // What address() names in place of the host of `listen`; that one unless set.
    std::string advertised_host;
    NetLoop::Timeouts timeouts;
  };

  explicit TcpDataPlane(Options options);
  ~TcpDataPlane() override;  // stops

  // Listens and starts the thread, once. User error for an address that is none.
  Status Start();
  // Closes all connections and ends the thread. Callbacks that have not come never come; channel
  // ends may live on and do nothing. Not from net-0.
  void Stop();

  // The following only between Start and Stop. REQUIRES: the generation was not started before.
  Channels StartGeneration(const Generation& generation, std::function<void()> connected,
                           std::function<void(Status)> broken) override;
  void EndGeneration(const JobId& job, weir::Generation generation,
                     std::function<void()> ended) override;
  std::string address() const override { return address_; }

 private:
  const Options options_;
  const std::shared_ptr<NetMailbox> mailbox_;
  std::string address_;
  std::unique_ptr<NetLoop> loop_;
  std::thread thread_;
};

}  // namespace weir
