#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/control/handlers.h"
#include "common/threading/executor.h"

namespace weir {

// Answers the calls of workers and clients over gRPC: each is posted to the executor, handled
// there, and answered when the handler says so. The port is bound before the handler exists, which
// may need to know it: `handler` is asked on the executor with each call. Thread: Start and Stop by
// the owner; the executor must outlive it.
class GrpcCoordinatorServer {
 public:
  GrpcCoordinatorServer(std::string listen_address, Executor& executor,
                        std::function<CoordinatorHandler&()> handler);
  ~GrpcCoordinatorServer();  // stops

  Status Start();
  // The port listened on. REQUIRES: started.
  int port() const;
  // Within a second; what is under way is answered kUnavailable. Nothing is posted afterwards.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
