#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace weir {

// Unary calls by name to any number of servers, bytes in and bytes out, and watches on their
// connections. Owns one channel for each address it was told of, and one thread ("rpc-client") on
// which every outcome is reported. A refused connection is tried again after 100 ms, doubling up to
// 1 s; meanwhile calls to that address fail at once. Thread: thread-safe.
class RpcClient {
 public:
  // The bytes of the response. Of the transport: kUnavailable (not reached, or no answer in time),
  // kResourceExhausted (message over the limit), kFailedPrecondition (the method is not known
  // there).
  using Done = std::function<void(StatusOr<std::string>)>;

  // Messages up to 256 MiB: a job library travels in one.
  static constexpr int kMessageBytesMax = 256 << 20;

  // A connection that shows no life for `silence_timeout_us` is taken for broken.
  explicit RpcClient(int64_t silence_timeout_us);
  // Gives up what is under way. No `done` and no `broken` is called from here on.
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  // `method` in full: "/weir.v1.Worker/Trigger".
  void Call(const std::string& address, const std::string& method, std::string request,
            int64_t timeout_us, Done done);

  // Connects, and calls `broken` once when the connection breaks after it stood. A second watch on
  // the same address takes the place of the first.
  void Watch(const std::string& address, std::function<void()> broken);
  // Also forgets the connection; calls under way go on. `broken` may be running, but does not
  // start.
  void Unwatch(const std::string& address);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
