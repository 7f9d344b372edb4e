#include "common/rpc/grpc_coordinator_gateway.h"

#include <utility>

#include "common/rpc/mail_back.h"
#include "common/rpc/proto_call.h"
#include "common/rpc/proto_text.h"

namespace weir {
namespace {

constexpr int64_t kControlUs = 5'000'000;

}  // namespace

class GrpcCoordinatorGateway::Impl {
 public:
  Impl(Executor& executor, int64_t silence_timeout_us)
      : executor_(executor), client_(silence_timeout_us) {}

  template <typename ProtoResponse, typename Response, typename ProtoRequest>
  void CallFor(const std::string& address, const char* method, const ProtoRequest& request,
               DoneWith<Response> done) {
    auto mail_back = MailBack<StatusOr<Response>>(executor_, wanted_, std::move(done));
    CallProto<ProtoResponse>(client_, address, method, request, kControlUs,
                             [mail_back](StatusOr<ProtoResponse> proto) {
                               if (!proto.ok()) return mail_back(proto.status());
                               Response response;
                               Status status = FromProto(*proto, &response);
                               if (!status.ok()) return mail_back(std::move(status));
                               mail_back(std::move(response));
                             });
  }

  // A call that answers nothing but its outcome.
  template <typename ProtoRequest>
  void Call(const std::string& address, const char* method, const ProtoRequest& request,
            Done done) {
    auto mail_back = MailBack<Status>(executor_, wanted_, std::move(done));
    CallProto<v1::Outcome>(client_, address, method, request, kControlUs,
                           [mail_back](StatusOr<v1::Outcome> outcome) {
                             mail_back(outcome.ok() ? Status() : outcome.status());
                           });
  }

 private:
  Executor& executor_;
  const Wanted wanted_ = std::make_shared<bool>();
  RpcClient client_;
};

GrpcCoordinatorGateway::GrpcCoordinatorGateway(Executor& executor, int64_t silence_timeout_us)
    : impl_(std::make_unique<Impl>(executor, silence_timeout_us)) {}

GrpcCoordinatorGateway::~GrpcCoordinatorGateway() = default;

void GrpcCoordinatorGateway::Hello(std::string coordinator_address, DoneWith<HelloResponse> done) {
  impl_->CallFor<v1::HelloResponse>(coordinator_address, "/weir.v1.Coordinator/Hello",
                                    v1::HelloRequest(), std::move(done));
}

void GrpcCoordinatorGateway::Register(std::string coordinator_address, RegisterRequest request,
                                      DoneWith<RegisterResponse> done) {
  v1::RegisterRequest proto;
  ToProto(request, &proto);
  impl_->CallFor<v1::RegisterResponse>(coordinator_address, "/weir.v1.Coordinator/Register", proto,
                                       std::move(done));
}

void GrpcCoordinatorGateway::Heartbeat(std::string coordinator_address, HeartbeatRequest request,
                                       DoneWith<HeartbeatResponse> done) {
  v1::HeartbeatRequest proto;
  ToProto(request, &proto);
  impl_->CallFor<v1::HeartbeatResponse>(coordinator_address, "/weir.v1.Coordinator/Heartbeat",
                                        proto, std::move(done));
}

void GrpcCoordinatorGateway::ReportTasks(std::string coordinator_address,
                                         ReportTasksRequest request, Done done) {
  v1::ReportTasksRequest proto;
  ToProto(request, &proto);
  impl_->Call(coordinator_address, "/weir.v1.Coordinator/ReportTasks", proto, std::move(done));
}

void GrpcCoordinatorGateway::Acknowledge(std::string coordinator_address,
                                         AcknowledgeRequest request, Done done) {
  v1::AcknowledgeRequest proto;
  ToProto(request, &proto);
  impl_->Call(coordinator_address, "/weir.v1.Coordinator/Acknowledge", proto, std::move(done));
}

void GrpcCoordinatorGateway::ReportPublished(std::string coordinator_address,
                                             ReportPublishedRequest request, Done done) {
  v1::ReportPublishedRequest proto;
  ToProto(request, &proto);
  impl_->Call(coordinator_address, "/weir.v1.Coordinator/ReportPublished", proto, std::move(done));
}

void GrpcCoordinatorGateway::ConfirmCurrent(std::string coordinator_address,
                                            ConfirmCurrentRequest request, Done done) {
  v1::ConfirmCurrentRequest proto;
  ToProto(request, &proto);
  impl_->Call(coordinator_address, "/weir.v1.Coordinator/ConfirmCurrent", proto, std::move(done));
}

void GrpcCoordinatorGateway::Leave(std::string coordinator_address, WorkerName name,
                                   WorkerIncarnation incarnation, Done done) {
  v1::LeaveRequest proto;
  proto.set_name(Utf8Text(name.value()));
  proto.set_incarnation(Utf8Text(incarnation.value()));
  impl_->Call(coordinator_address, "/weir.v1.Coordinator/Leave", proto, std::move(done));
}

}  // namespace weir
