#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace weir {

// Answers unary calls by name, bytes in and bytes out. Thread: Start and Stop by the owner; methods
// run on gRPC's threads, at the same time.
class RpcServer {
 public:
  // Sends the bytes of the response. Any thread, at most once, also after Stop (then ignored). A
  // reply that is dropped unsent tells the caller kUnavailable.
  using Reply = std::function<void(std::string)>;
  using Method = std::function<void(std::string request, Reply reply)>;

  // By full name: "/weir.v1.Worker/Trigger".
  explicit RpcServer(std::map<std::string, Method> methods);
  ~RpcServer();  // stops
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Listens on "host:port"; port 0: a free one.
  Status Start(const std::string& listen_address);
  // The port listened on. REQUIRES: started.
  int port() const;
  // Closes every connection; calls under way are answered kUnavailable. Within a second. No method
  // is called when it has returned.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
