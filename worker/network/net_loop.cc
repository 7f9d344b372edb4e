#include "worker/network/net_loop.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {
namespace {

constexpr int kEventsPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
// Connections whose handshake is not done; more are turned away.
constexpr size_t kHandshakesMax = 1024;
constexpr int64_t kRefuseLingerUs = 1'000'000;
constexpr int64_t kAcceptPauseUs = 100'000;
// Jobs whose highest ended generation is remembered. A late hello of one that was forgotten is held
// for a while and then refused all the same.
constexpr size_t kEndedJobsMax = 1024;

std::string ToString(const GenerationKey& key) {
  return Concat("generation ", key.generation, " of job ", key.job);
}

}  // namespace

NetLoop::NetLoop(Socket listener, Timeouts timeouts, std::shared_ptr<NetMailbox> mailbox)
    : timeouts_(timeouts),
      mailbox_(std::move(mailbox)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      read_buffer_(std::make_unique<std::array<char, 64 << 10>>()) {
  WEIR_CHECK_MESSAGE(epoll_.is_open(), strerror(errno));
  epoll_event event{};
  // Edge-triggered: each signal wakes, and the counter need never be read.
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = mailbox_.get();
  WEIR_CHECK(epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, mailbox_->event_fd(), &event) == 0);
  event.events = EPOLLIN;
  event.data.ptr = &listener_;
  WEIR_CHECK(epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, listener_.fd(), &event) == 0);
}

NetLoop::~NetLoop() {
  for (auto& [pointer, connection] : connections_) connection->Close();
  for (auto& [key, generation] : generations_) {
    for (const auto& link : generation.links.outgoing) link->Close();
    for (const auto& link : generation.links.incoming) link->Close();
  }
}

void NetLoop::Run() {
  std::array<epoll_event, kEventsPerTurn> events;
  while (!is_stopping_) {
    const int64_t deadline_us = CheckDeadlines();
    const int64_t wait_us = unfinished_.empty() ? deadline_us : 0;
    const int wait_ms = static_cast<int>(std::min<int64_t>((wait_us + 999) / 1000, 60'000));
    const int count =
        epoll_wait(epoll_.fd(), events.data(), kEventsPerTurn, wait_us < 0 ? -1 : wait_ms);
    WEIR_CHECK_MESSAGE(count >= 0 || errno == EINTR, strerror(errno));
    for (int i = 0; i < count; ++i) {
      void* source = events[i].data.ptr;
      if (source == mailbox_.get()) continue;  // mail is taken below
      if (source == &listener_) {
        AcceptAll();
      } else {
        HandleEvents(static_cast<Connection*>(source), events[i].events);
      }
    }
    NetMailbox::Mail mail = mailbox_->Take();
    for (const auto& command : mail.commands) command();
    for (const auto& link : mail.links) FlushLink(link.get());
    for (const auto& connection : std::exchange(unfinished_, {})) {
      if (connection->state() != Connection::State::kClosed) Write(connection.get());
    }
    closed_.clear();
  }
}

void NetLoop::StartGeneration(GenerationLinks links) {
  const GenerationKey key = links.key;
  auto [it, inserted] = generations_.try_emplace(key);
  WEIR_CHECK_MESSAGE(inserted, ToString(key));
  ActiveGeneration& generation = it->second;
  generation.links = std::move(links);
  generation.links_down = generation.links.outgoing.size() + generation.links.incoming.size();
  generation.deadline_us = clock_.MonotonicMicros() + timeouts_.connect_us;
  AnnounceIfConnected(&generation);
  for (const auto& link : generation.links.outgoing) Dial(generation, link);
  for (Connection* connection : std::vector<Connection*>(handshaking_)) {
    const HelloFrame& hello = connection->hello();
    if (connection->state() == Connection::State::kHeld &&
        GenerationKey{hello.job, hello.generation} == key) {
      TryAttach(connection, &generation);
      Write(connection);
    }
  }
}

void NetLoop::EndGeneration(const GenerationKey& key, const std::function<void()>& ended) {
  RememberEnded(key);
  if (auto it = generations_.find(key); it != generations_.end()) {
    const auto end = [this](Link* link) {
      if (link->connection != nullptr) Close(link->connection);
      link->Close();
    };
    for (const auto& link : it->second.links.outgoing) end(link.get());
    for (const auto& link : it->second.links.incoming) end(link.get());
    generations_.erase(it);
  }
  for (Connection* connection : std::vector<Connection*>(handshaking_)) {
    const HelloFrame& hello = connection->hello();
    if (connection->state() == Connection::State::kHeld &&
        WasEnded({hello.job, hello.generation})) {
      Refuse(connection, Concat(ToString(key), " has ended here"));
      Write(connection);
    }
  }
  ended();
}

void NetLoop::OnHello(Connection* connection, const HelloFrame& hello) {
  const GenerationKey key{hello.job, hello.generation};
  if (auto it = generations_.find(key); it != generations_.end()) {
    TryAttach(connection, &it->second);
  } else if (WasEnded(key)) {
    Refuse(connection, Concat(ToString(key), " has ended here"));
  } else {
    connection->Hold();
    connection->deadline_us = clock_.MonotonicMicros() + timeouts_.hello_hold_us;
  }
}

void NetLoop::OnWelcome(Connection* connection) {
  const auto it = generations_.find(connection->link()->generation());
  WEIR_CHECK(it != generations_.end());
  std::erase(handshaking_, connection);
  LinkUp(&it->second, connection->link().get());
}

void NetLoop::TryAttach(Connection* connection, ActiveGeneration* generation) {
  const HelloFrame& hello = connection->hello();
  const GenerationLinks& links = generation->links;
  if (hello.to != links.self) {
    Refuse(connection, Concat("this is worker ", links.self, ", not ", hello.to));
    return;
  }
  for (const auto& link : links.incoming) {
    if (link->peer() != hello.from) continue;
    if (link->is_up || link->is_closed()) {
      Refuse(connection,
             Concat("worker ", hello.from, " has connected before in ", ToString(links.key)));
      return;
    }
    link->set_peer_address(connection->peer_address());
    link->connection = connection;
    connection->Accept(link);
    std::erase(handshaking_, connection);
    LinkUp(generation, link.get());
    return;
  }
  Refuse(connection,
         Concat("nothing is expected from worker ", hello.from, " in ", ToString(links.key)));
}

void NetLoop::LinkUp(ActiveGeneration* generation, Link* link) {
  link->is_up = true;
  --generation->links_down;
  AnnounceIfConnected(generation);
}

void NetLoop::AnnounceIfConnected(ActiveGeneration* generation) {
  if (generation->links_down == 0 && !generation->is_broken) generation->links.connected();
}

void NetLoop::Refuse(Connection* connection, const std::string& reason) {
  log::Info("refused a data connection from=", connection->peer_address(), " reason=", reason);
  connection->Refuse(reason);
  connection->deadline_us = clock_.MonotonicMicros() + kRefuseLingerUs;
}

void NetLoop::Dial(const ActiveGeneration& generation, const std::shared_ptr<OutgoingLink>& link) {
  StatusOr<HostPort> address = ParseHostPort(link->data_address());
  StatusOr<Socket> socket = address.ok() ? Connect(*address) : address.status();
  if (!socket.ok()) {
    FailLink(link.get(), socket.status().WithContext(
                             Concat("connection ", link->Description(), " could not be made")));
    return;
  }
  auto connection = std::make_shared<Connection>(std::move(socket).value(), link, this);
  connection->deadline_us = generation.deadline_us;
  link->connection = connection.get();
  Add(std::move(connection), EPOLLOUT);
}

void NetLoop::AcceptAll() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log::Warning("cannot accept a data connection: ", strerror(errno));
        accept_again_us_ = clock_.MonotonicMicros() + kAcceptPauseUs;
        epoll_event event{};
        event.data.ptr = &listener_;
        WEIR_CHECK(epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, listener_.fd(), &event) == 0);
        return;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;  // that one was gone before it was accepted
    }
    if (handshaking_.size() >= kHandshakesMax) continue;
    SetDataOptions(socket.fd());
    std::string peer_address = PeerAddress(socket.fd());
    auto connection =
        std::make_shared<Connection>(std::move(socket), std::move(peer_address), this);
    connection->deadline_us = clock_.MonotonicMicros() + timeouts_.hello_hold_us;
    Add(std::move(connection), EPOLLIN);
  }
}

void NetLoop::HandleEvents(Connection* connection, uint32_t events) {
  if (connection->state() == Connection::State::kClosed) return;
  if (connection->state() == Connection::State::kConnecting) {
    const Link& link = *connection->link();
    const HelloFrame hello{link.generation().job, link.generation().generation,
                           generations_.at(link.generation()).links.self, link.peer()};
    StatusOr<std::string> payload = EncodeHello(hello);
    Status status = payload.ok() ? connection->FinishConnect(*payload) : payload.status();
    if (!status.ok()) {
      Fail(connection, status);
      return;
    }
    Write(connection);
    return;
  }
  if (events & ~static_cast<uint32_t>(EPOLLOUT)) {
    if (Status status = connection->Read(*read_buffer_); !status.ok()) {
      Fail(connection, status);
      return;
    }
  }
  Write(connection, (events & EPOLLOUT) != 0);
}

void NetLoop::Write(Connection* connection, bool writable) {
  StatusOr<bool> more = connection->Write(writable);
  if (!more.ok()) {
    Fail(connection, more.status());
    return;
  }
  if (*more) unfinished_.push_back(connections_.at(connection));
}

void NetLoop::FlushLink(Link* link) {
  if (std::optional<Status> failure = link->TakeFailure()) {
    FailLink(link, failure->WithContext(Concat("connection ", link->Description())));
  } else if (link->is_up && link->connection != nullptr) {
    Write(link->connection);
  }
}

void NetLoop::Fail(Connection* connection, const Status& status) {
  const std::shared_ptr<Link> link = connection->link();
  if (link == nullptr) {
    if (connection->state() != Connection::State::kRefusing) {
      log::Info("dropped a data connection from=", connection->peer_address(),
                " reason=", status.message());
    }
    Close(connection);
    return;
  }
  FailLink(link.get(), status.WithContext(Concat("connection ", link->Description(),
                                                 link->is_up ? " broke" : " could not be made")));
}

void NetLoop::FailLink(Link* link, const Status& status) {
  if (link->connection != nullptr) Close(link->connection);
  link->Close();
  const auto it = generations_.find(link->generation());
  if (it == generations_.end() || std::exchange(it->second.is_broken, true)) return;
  it->second.links.broken(status);
}

void NetLoop::Add(std::shared_ptr<Connection> connection, uint32_t events) {
  Connection* pointer = connection.get();
  epoll_event event{};
  event.events = events;
  event.data.ptr = pointer;
  WEIR_CHECK(epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, pointer->fd(), &event) == 0);
  pointer->StartWriter(epoll_.fd(), events);
  handshaking_.push_back(pointer);
  connections_.emplace(pointer, std::move(connection));
}

void NetLoop::Close(Connection* connection) {
  if (connection->in_handshake()) std::erase(handshaking_, connection);
  connection->Close();
  const auto it = connections_.find(connection);
  closed_.push_back(std::move(it->second));
  connections_.erase(it);
}

int64_t NetLoop::CheckDeadlines() {
  if (handshaking_.empty() && generations_.empty() && accept_again_us_ == 0) return -1;
  const int64_t now_us = clock_.MonotonicMicros();
  int64_t next_us = INT64_MAX;
  for (Connection* connection : std::vector<Connection*>(handshaking_)) {
    if (connection->deadline_us > now_us) {
      next_us = std::min(next_us, connection->deadline_us);
    } else if (connection->state() == Connection::State::kHeld) {
      const HelloFrame& hello = connection->hello();
      Refuse(connection, Concat(ToString(GenerationKey{hello.job, hello.generation}),
                                " has not been started here"));
      next_us = std::min(next_us, connection->deadline_us);
      Write(connection);
    } else {
      Fail(connection, UnavailableError("the peer does not answer"));
    }
  }
  for (auto& [key, generation] : generations_) {
    if (generation.links_down == 0 || generation.is_broken) continue;
    if (generation.deadline_us > now_us) {
      next_us = std::min(next_us, generation.deadline_us);
      continue;
    }
    // The dialling ones have failed above.
    for (const auto& link : generation.links.incoming) {
      if (link->is_up || generation.is_broken) continue;
      FailLink(link.get(),
               UnavailableError(Concat("connection ", link->Description(), " did not come within ",
                                       timeouts_.connect_us / 1000, " ms")));
    }
  }
  if (accept_again_us_ != 0) {
    if (accept_again_us_ > now_us) {
      next_us = std::min(next_us, accept_again_us_);
    } else {
      accept_again_us_ = 0;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &listener_;
      WEIR_CHECK(epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, listener_.fd(), &event) == 0);
    }
  }
  return next_us == INT64_MAX ? -1 : next_us - now_us;
}

bool NetLoop::WasEnded(const GenerationKey& key) const {
  const auto it = ended_.find(key.job);
  return it != ended_.end() && key.generation <= it->second;
}

void NetLoop::RememberEnded(const GenerationKey& key) {
  auto [it, inserted] = ended_.try_emplace(key.job, key.generation);
  it->second = std::max(it->second, key.generation);
  if (!inserted) return;
  ended_order_.push_back(key.job);
  if (ended_order_.size() > kEndedJobsMax) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

}  // namespace weir
