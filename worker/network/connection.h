#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "worker/network/frame_codec.h"
#include "worker/network/link.h"
#include "worker/network/socket.h"

namespace weir {

// What a connection tells its owner from within Read. Thread: network thread.
class HandshakeHandler {
 public:
  virtual ~HandshakeHandler() = default;
  // The dialer said who it is: Accept, Hold or Refuse it.
  virtual void OnHello(Connection* connection, const HelloFrame& hello) = 0;
  // The acceptor took us: the link is up.
  virtual void OnWelcome(Connection* connection) = 0;
};

// One TCP connection: the handshake, and moving bytes between socket and link. Owns the socket and
// the frames taken from the link and not yet written. Never waits. Thread: network thread.
// Invariant: frames taken refer to bytes of the link, so the connection is closed before its link.
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

  // Dials for `link` / has accepted. `handler` must outlive the connection.
  Connection(Socket socket, std::shared_ptr<Link> link, HandshakeHandler* handler);
  Connection(Socket socket, std::string peer_address, HandshakeHandler* handler);

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

  // Reads what is there, up to a fair share. `buffer` is scratch space. Error: the connection
  // ended.
  Status Read(std::span<char> buffer);
  // Writes what is due, up to a fair share; true: there is more and the socket takes more.
  StatusOr<bool> Write();
  // The socket has no room: Write does nothing until Unblock.
  bool is_write_blocked() const { return is_write_blocked_; }
  void Unblock() { is_write_blocked_ = false; }
  // Closes the socket and lets go of the link.
  void Close();

  int64_t deadline_us = 0;     // of the handshake
  uint32_t polled_events = 0;  // what epoll watches

  StatusOr<char*> BeginFragment(const FrameHeader& header) override;
  Status EndFragment(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::string_view payload) override;

 private:
  void Send(FrameKind kind, std::string_view payload);
  void Written(size_t bytes);

  State state_;
  Socket socket_;
  const std::string peer_address_;
  std::shared_ptr<Link> link_;
  HandshakeHandler* const handler_;
  FrameDecoder decoder_;
  HelloFrame hello_;
  std::deque<OutFrame> out_;
  size_t out_head_written_bytes_ = 0;  // of the first frame
  bool is_write_blocked_ = false;
};

}  // namespace weir
