#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/control/gateways.h"
#include "common/threading/executor.h"

namespace weir {

// Calls coordinators over gRPC, with a deadline of 5 s each. Thread: confined to its executor,
// which must outlive it; destroyed there or when it has stopped. After its end nothing is reported.
class GrpcCoordinatorGateway : public CoordinatorGateway {
 public:
  GrpcCoordinatorGateway(Executor& executor, int64_t silence_timeout_us);
  ~GrpcCoordinatorGateway() override;

  void Hello(std::string coordinator_address, DoneWith<HelloResponse> done) override;
  void Register(std::string coordinator_address, RegisterRequest request,
                DoneWith<RegisterResponse> done) override;
  void Heartbeat(std::string coordinator_address, HeartbeatRequest request,
                 DoneWith<HeartbeatResponse> done) override;
  void ReportTasks(std::string coordinator_address, ReportTasksRequest request, Done done) override;
  void Acknowledge(std::string coordinator_address, AcknowledgeRequest request, Done done) override;
  void ReportPublished(std::string coordinator_address, ReportPublishedRequest request,
                       Done done) override;
  void ConfirmCurrent(std::string coordinator_address, ConfirmCurrentRequest request,
                      Done done) override;
  void Leave(std::string coordinator_address, WorkerName name, WorkerIncarnation incarnation,
             Done done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
