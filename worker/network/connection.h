#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "worker/network/frame_codec.h"
#include "worker/network/link.h"
#include "worker/network/socket.h"

namespace weir {

// Writes the frames of one connection to its socket: first those of the handshake, then those of
// its link. Never waits for the socket: when that has no room, epoll is asked to say when it has,
// and the network thread goes on. So whoever has a frame to send may send it without waking
// another thread. Owns the frames taken from the link and not yet written; the socket only until
// Close. Thread: thread-safe, one at a time writes.
// Invariant: frames taken refer to bytes of the link, so it is closed before the link is.
class FrameWriter {
 public:
  // `fd` is registered at `epoll_fd` with `epoll_data`, for `epoll_events`.
  FrameWriter(int fd, int epoll_fd, void* epoll_data, uint32_t epoll_events)
      : fd_(fd), epoll_fd_(epoll_fd), epoll_data_(epoll_data), epoll_events_(epoll_events) {}

  // Before the link's frames.
  void Add(OutFrame frame);
  // Network thread: writes what is due, of `link` unless nullptr, up to a fair share; true: there
  // is more and the socket takes more. `writable`: the socket has room again. An error, which may
  // be that of an earlier TryWrite, is the end of the connection.
  StatusOr<bool> Write(Link* link, bool writable);
  // Any thread, once the handshake is done: the same as far as it goes at once. False: the network
  // thread has to Write.
  bool TryWrite(Link* link);
  // Nothing is written or taken any more.
  void Close();

 private:
  StatusOr<bool> WriteLocked(Link* link, int writes_max);
  void WrittenLocked(size_t bytes);
  // Asks epoll for room, or no longer.
  void PollLocked();

  const int fd_;
  const int epoll_fd_;
  void* const epoll_data_;

  std::mutex mutex_;  // taken before that of a link; guards the rest
  uint32_t epoll_events_;
  std::deque<OutFrame> frames_;
  size_t head_written_bytes_ = 0;  // of the first frame
  bool is_blocked_ = false;        // the socket has no room; epoll tells when
  bool is_closed_ = false;
  std::optional<Status> failure_;
};

// What a connection tells its owner from within Read. Thread: network thread.
class HandshakeHandler {
 public:
  virtual ~HandshakeHandler() = default;
  // The dialer said who it is: Accept, Hold or Refuse it.
  virtual void OnHello(Connection* connection, const HelloFrame& hello) = 0;
  // The acceptor took us: the link is up.
  virtual void OnWelcome(Connection* connection) = 0;
};

// One TCP connection: the handshake, and moving bytes between socket and link; others write to it,
// too, through its writer. Owns the socket. Never waits. Thread: network thread.
// Invariant: it is closed before its link (see FrameWriter).
class Connection : public FrameHandler {
 public:
  enum class State {
    kConnecting,       // dialer: until the socket is writable
    kAwaitingWelcome,  // dialer: HELLO is sent
    kAwaitingHello,    // acceptor
    kHeld,             // acceptor: the generation is not known yet
    kOpen,
    kRefusing,  // REFUSED is sent; the dialer is expected to hang up
    kClosed,
  };

  // Dials for `link` / has accepted. `handler` must outlive the connection. StartWriter follows
  // before anything else.
  Connection(Socket socket, std::shared_ptr<Link> link, HandshakeHandler* handler);
  Connection(Socket socket, std::string peer_address, HandshakeHandler* handler);

  // The socket is registered at `epoll_fd` for `epoll_events`, with this connection as its data.
  void StartWriter(int epoll_fd, uint32_t epoll_events) {
    writer_ = std::make_shared<FrameWriter>(fd(), epoll_fd, this, epoll_events);
  }

  State state() const { return state_; }
  bool in_handshake() const { return state_ != State::kOpen && state_ != State::kClosed; }
  int fd() const { return socket_.fd(); }
  const std::shared_ptr<Link>& link() const { return link_; }
  const std::string& peer_address() const { return peer_address_; }
  // Of an acceptor, once it came.
  const HelloFrame& hello() const { return hello_; }

  // The socket became writable for the first time: sends HELLO, or fails with what connect says.
  Status FinishConnect(std::string hello);
  void Hold() { state_ = State::kHeld; }
  void Accept(std::shared_ptr<Link> link);
  void Refuse(std::string_view reason);

  // Reads what is there, up to a fair share; of a long fragment that is under way the next event
  // tells when all of it is there. `buffer` is scratch space. Error: the connection
  // ended.
  Status Read(std::span<char> buffer);
  // Writes what is due, up to a fair share; true: there is more and the socket takes more.
  // `writable`: the socket has room again.
  StatusOr<bool> Write(bool writable);
  // Closes the socket and lets go of the link.
  void Close();

  int64_t deadline_us = 0;  // of the handshake

  StatusOr<char*> BeginFragment(const FrameHeader& header) override;
  Status EndFragment(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::string_view payload) override;

 private:
  void Send(FrameKind kind, std::string_view payload);
  void Open();
  // Has epoll tell of bytes to read only when there are so many.
  void WakeAt(size_t bytes);

  State state_;
  Socket socket_;
  const std::string peer_address_;
  std::shared_ptr<Link> link_;
  HandshakeHandler* const handler_;
  FrameDecoder decoder_;
  HelloFrame hello_;
  std::shared_ptr<FrameWriter> writer_;
  size_t wake_at_bytes_ = 1;
};

}  // namespace weir
