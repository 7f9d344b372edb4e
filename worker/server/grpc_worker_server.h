#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/control/handlers.h"
#include "common/threading/executor.h"

namespace weir {

// Answers the coordinator's calls over gRPC: each is posted to the executor, handled there, and
// answered when the handler says so. The port is bound before the handler exists, which may need to
// know it: `handler` is asked on the executor with each call. Thread: Start and Stop by the owner;
// the executor must outlive it.
class GrpcWorkerServer {
 public:
  GrpcWorkerServer(std::string listen_address, Executor& executor,
                   std::function<WorkerHandler&()> handler);
  ~GrpcWorkerServer();  // stops

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
