#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace weir {

// Owns a file descriptor of a socket (or of what is polled like one). Thread: confined to its
// owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
};

// "127.0.0.1:7071", "[::1]:0", "worker-1.example:7071". User error otherwise.
StatusOr<HostPort> ParseHostPort(std::string_view text);
std::string ToString(const HostPort& address);

// A listening socket; port 0 takes a free one. Not blocking.
StatusOr<Socket> Listen(const HostPort& address);
// A connection under way: writable once it stands or failed (see ConnectError). Not blocking, but
// for looking up a host name that is no address.
StatusOr<Socket> Connect(const HostPort& address);
// What became of Connect: 0 or an errno value.
int ConnectError(int fd);
// The port that a socket is bound to.
StatusOr<uint16_t> LocalPort(int fd);
// "127.0.0.1:53412" of the other side, "?" when it is gone.
std::string PeerAddress(int fd);
// For a data connection: no delay, and a peer that vanished without a word is noticed within 10 s.
void SetDataOptions(int fd);

}  // namespace weir
