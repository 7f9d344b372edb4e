#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace weir {

// "127.0.0.1:7070", "[::1]:7070", "db-3.internal:0".
struct Endpoint {
  std::string host;  // without brackets
  int port = 0;      // 0: a free one
  std::string ToString() const;
};

// User error unless `text` is host:port with a port of 0 to 65535.
StatusOr<Endpoint> ParseEndpoint(std::string_view text);

// "HOST" or "HOST:PORT" of the key `advertise`; port 0: the one listened on.
StatusOr<Endpoint> ParseAdvertised(std::string_view text);
// What others dial to reach a server that listens on `listen` at `port`: what is advertised, else
// the host listened on, or the name of the machine where that is all of its addresses.
Endpoint DialedAddress(const Endpoint& advertised, const Endpoint& listen, int port);

// Whether only this machine can reach it: 127.0.0.0/8, ::1, localhost.
bool IsLoopback(std::string_view host);
// Whether it stands for all addresses of the machine, so that nobody can dial it: 0.0.0.0, ::.
bool IsWildcard(std::string_view host);

// The name of this machine.
std::string HostName();

}  // namespace weir
