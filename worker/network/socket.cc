#include "worker/network/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/base/concat.h"

namespace weir {
namespace {

constexpr int kListenBacklog = 1024;
constexpr int kKeepaliveIdleS = 2;
constexpr int kKeepaliveIntervalS = 2;
constexpr int kKeepaliveProbes = 4;
constexpr int kUnansweredTimeoutMs = 10'000;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

StatusOr<AddressList> Resolve(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return UnavailableError(Concat("cannot look up ", address.host, ": ",
                                   error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

StatusOr<HostPort> ParseHostPort(std::string_view text) {
  HostPort address;
  const size_t colon = text.rfind(':');
  const Status error = InvalidArgumentError(
      Concat("'", text, "' is no address; valid: host:port, as in 127.0.0.1:7071 or [::1]:7071"));
  if (colon == std::string_view::npos) return error;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return error;
  }
  const auto [end, parse_error] =
      std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (host.empty() || port.empty() || parse_error != std::errc() ||
      end != port.data() + port.size()) {
    return error;
  }
  address.host = host;
  return address;
}

std::string ToString(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? Concat("[", address.host, "]:", address.port)
                 : Concat(address.host, ":", address.port);
}

StatusOr<Socket> Listen(const HostPort& address) {
  WEIR_ASSIGN_OR_RETURN(const AddressList found, Resolve(address, AI_PASSIVE));
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return ErrnoError(errno, "cannot make a socket");
  SetOption(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(socket.fd(), kListenBacklog) != 0) {
    return ErrnoError(errno, Concat("cannot listen on ", ToString(address)));
  }
  return socket;
}

StatusOr<Socket> Connect(const HostPort& address) {
  WEIR_ASSIGN_OR_RETURN(const AddressList found, Resolve(address, 0));
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return ErrnoError(errno, "cannot make a socket");
  SetDataOptions(socket.fd());
  if (connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoError(errno, Concat("cannot connect to ", ToString(address)));
  }
  return socket;
}

int ConnectError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

StatusOr<uint16_t> LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoError(errno, "cannot ask for the port of a socket");
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return is_ipv6 ? Concat("[", host, "]:", port) : Concat(host, ":", port);
}

// Buffer sizes are left to the kernel, which grows them with the connection: a fixed size would
// only switch that off.
void SetDataOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleS);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalS);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredTimeoutMs);
}

}  // namespace weir
