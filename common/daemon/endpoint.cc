#include "common/daemon/endpoint.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <charconv>

#include "common/base/concat.h"

namespace weir {
namespace {

// The address in network order, or false when `host` is none of that family.
template <typename Address>
bool ParseAddress(int family, std::string_view host, Address* address) {
  return inet_pton(family, std::string(host).c_str(), address) == 1;
}

}  // namespace

std::string Endpoint::ToString() const {
  bool v6 = host.find(':') != std::string::npos;
  return v6 ? Concat("[", host, "]:", port) : Concat(host, ":", port);
}

StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  Status wrong = InvalidArgumentError(
      Concat("'", text, "' is no address: expected HOST:PORT, as in 127.0.0.1:7070"));
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  std::string_view host = text.substr(0, colon);
  std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr address;
    if (!ParseAddress(AF_INET6, host, &address)) return wrong;
  } else if (host.find(':') != std::string_view::npos) {
    return wrong;
  }
  if (host.empty() || host.find_first_of(" \t/") != std::string_view::npos) return wrong;
  int number = 0;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() || number < 0 ||
      number > 65535) {
    return wrong;
  }
  return Endpoint{std::string(host), number};
}

StatusOr<Endpoint> ParseAdvertised(std::string_view text) {
  if (text.empty()) return Endpoint{};
  StatusOr<Endpoint> whole = ParseEndpoint(text);
  return whole.ok() ? whole : ParseEndpoint(Concat(text, ":0"));
}

Endpoint DialedAddress(const Endpoint& advertised, const Endpoint& listen, int port) {
  Endpoint dialed = advertised;
  if (dialed.host.empty()) dialed.host = IsWildcard(listen.host) ? HostName() : listen.host;
  if (dialed.port == 0) dialed.port = port;
  return dialed;
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (ParseAddress(AF_INET, host, &v4)) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return ParseAddress(AF_INET6, host, &v6) && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsWildcard(std::string_view host) {
  in_addr v4;
  if (ParseAddress(AF_INET, host, &v4)) return v4.s_addr == htonl(INADDR_ANY);
  in6_addr v6;
  return ParseAddress(AF_INET6, host, &v6) && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace weir
