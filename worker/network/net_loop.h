#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "worker/network/connection.h"
#include "worker/network/incoming_link.h"
#include "worker/network/net_mailbox.h"
#include "worker/network/outgoing_link.h"
#include "worker/network/socket.h"

namespace weir {

// The links of a generation on this worker, and who is told what becomes of them.
struct GenerationLinks {
  GenerationKey key;
  WorkerName self;
  std::vector<std::shared_ptr<OutgoingLink>> outgoing;
  std::vector<std::shared_ptr<IncomingLink>> incoming;
  std::function<void()> connected;
  std::function<void(Status)> broken;
};

// What the network thread does: waits for sockets and mail, dials and accepts, brings connections
// and links together, moves bytes, and tells a generation once when it is connected or broken.
// Owns the listening socket and all connections. Thread: confined to the network thread, but for
// the constructor.
// Invariant: a connection is in connections_ until it is closed; closed ones stay in closed_ until
// the end of the turn, so that events of the same turn find them.
class NetLoop : public HandshakeHandler {
 public:
  struct Timeouts {
    int64_t hello_hold_us = 10'000'000;  // how long a hello may be ahead of its generation
    int64_t connect_us = 15'000'000;     // until all connections of a generation must stand
  };

  NetLoop(Socket listener, Timeouts timeouts, std::shared_ptr<NetMailbox> mailbox);
  ~NetLoop() override;  // closes all links

  // Until Stop was run as a command.
  void Run();
  void Stop() { is_stopping_ = true; }

  void StartGeneration(GenerationLinks links);
  void EndGeneration(const GenerationKey& key, const std::function<void()>& ended);

  void OnHello(Connection* connection, const HelloFrame& hello) override;
  void OnWelcome(Connection* connection) override;

 private:
  struct ActiveGeneration {
    GenerationLinks links;
    size_t links_down = 0;  // whose handshake is not done
    int64_t deadline_us = 0;
    bool is_broken = false;
  };

  void HandleEvents(Connection* connection, uint32_t events);
  void AcceptAll();
  void Dial(const ActiveGeneration& generation, const std::shared_ptr<OutgoingLink>& link);
  void TryAttach(Connection* connection, ActiveGeneration* generation);
  void LinkUp(ActiveGeneration* generation, Link* link);
  void AnnounceIfConnected(ActiveGeneration* generation);
  void Refuse(Connection* connection, const std::string& reason);
  // Writes, and arranges that the rest is written later.
  void Write(Connection* connection, bool writable = false);
  void FlushLink(Link* link);
  // The connection ended: so does its link's generation.
  void Fail(Connection* connection, const Status& status);
  void FailLink(Link* link, const Status& status);
  void Add(std::shared_ptr<Connection> connection, uint32_t events);
  void Close(Connection* connection);
  // Acts on deadlines; microseconds to the next one, -1 for none.
  int64_t CheckDeadlines();
  bool WasEnded(const GenerationKey& key) const;
  void RememberEnded(const GenerationKey& key);

  const Timeouts timeouts_;
  const std::shared_ptr<NetMailbox> mailbox_;
  Socket listener_;
  Socket epoll_;
  SystemClock clock_;
  bool is_stopping_ = false;
  int64_t accept_again_us_ = 0;  // out of descriptors: when to try again; 0: accepting
  std::map<GenerationKey, ActiveGeneration> generations_;
  std::map<JobId, Generation> ended_;  // the highest one of a job
  std::deque<JobId> ended_order_;      // jobs of ended_, first remembered first
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::vector<Connection*> handshaking_;
  std::vector<std::shared_ptr<Connection>> unfinished_;  // have more to write
  std::vector<std::shared_ptr<Connection>> closed_;
  std::unique_ptr<std::array<char, 64 << 10>> read_buffer_;
};

}  // namespace weir
