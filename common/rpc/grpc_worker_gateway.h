#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/control/gateways.h"
#include "common/threading/executor.h"

namespace weir {

// Calls workers over gRPC. Deadlines: CheckJob and StartTasks 30 s, EndTasks 10 s, Settle 1 s more
// than the request says (60 s if it says nothing), all others 5 s. A worker that is killed is
// reported broken as soon as its system closes the connection; one that shows no life, some time
// after `silence_timeout_us`. Thread: confined to its executor, which must outlive it; destroyed
// there or when it has stopped. After its end nothing is reported any more.
class GrpcWorkerGateway : public WorkerGateway {
 public:
  GrpcWorkerGateway(Executor& executor, int64_t silence_timeout_us);
  ~GrpcWorkerGateway() override;

  void CheckJob(std::string worker_address, CheckJobRequest request,
                DoneWith<JobGraph> done) override;
  void StartTasks(std::string worker_address, StartTasksRequest request, Done done) override;
  void Trigger(std::string worker_address, TriggerRequest request, Done done) override;
  void NotifyCompleted(std::string worker_address, CheckpointNotice notice, Done done) override;
  void NotifyAborted(std::string worker_address, CheckpointNotice notice, Done done) override;
  void EndTasks(std::string worker_address, EndTasksRequest request, Done done) override;
  void Settle(std::string worker_address, SettleRequest request, Done done) override;
  void Watch(std::string worker_address, std::function<void()> broken) override;
  void Unwatch(std::string worker_address) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
