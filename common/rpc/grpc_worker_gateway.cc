#include "common/rpc/grpc_worker_gateway.h"

#include <map>
#include <utility>

#include "common/rpc/mail_back.h"
#include "common/rpc/proto_call.h"

namespace weir {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kControlUs = 5 * kSecondUs;
constexpr int64_t kStartUs = 30 * kSecondUs;
constexpr int64_t kEndUs = 10 * kSecondUs;
constexpr int64_t kSettleUs = 60 * kSecondUs;
constexpr int64_t kSettleGraceUs = kSecondUs;

}  // namespace

class GrpcWorkerGateway::Impl {
 public:
  Impl(Executor& executor, int64_t silence_timeout_us)
      : executor_(executor), client_(silence_timeout_us) {}

  // A call that answers nothing but its outcome.
  template <typename ProtoRequest, typename Request>
  void Call(const std::string& address, const char* method, const Request& request,
            int64_t timeout_us, Done done) {
    ProtoRequest proto;
    ToProto(request, &proto);
    auto mail_back = MailBack<Status>(executor_, wanted_, std::move(done));
    CallProto<v1::Outcome>(client_, address, method, proto, timeout_us,
                           [mail_back](StatusOr<v1::Outcome> outcome) {
                             mail_back(outcome.ok() ? Status() : outcome.status());
                           });
  }

  void CheckJob(const std::string& address, const CheckJobRequest& request,
                DoneWith<JobGraph> done) {
    v1::CheckJobRequest proto;
    ToProto(request, &proto);
    auto mail_back = MailBack<StatusOr<JobGraph>>(executor_, wanted_, std::move(done));
    CallProto<v1::CheckJobResponse>(client_, address, "/weir.v1.Worker/CheckJob", proto, kStartUs,
                                    [mail_back](StatusOr<v1::CheckJobResponse> response) {
                                      if (!response.ok()) return mail_back(response.status());
                                      JobGraph graph;
                                      Status status = FromProto(response->graph(), &graph);
                                      if (!status.ok()) return mail_back(std::move(status));
                                      mail_back(std::move(graph));
                                    });
  }

  void Watch(const std::string& address, std::function<void()> broken) {
    // A break that is already on its way as mail when the watch is given up must not arrive.
    auto watch = std::make_shared<bool>();
    watches_[address] = watch;
    client_.Watch(address, [&executor = executor_, alive = std::weak_ptr<bool>(watch),
                            broken = std::move(broken)] {
      executor.Post([alive, broken] {
        if (!alive.expired()) broken();
      });
    });
  }

  void Unwatch(const std::string& address) {
    watches_.erase(address);
    client_.Unwatch(address);
  }

 private:
  Executor& executor_;
  const Wanted wanted_ = std::make_shared<bool>();
  std::map<std::string, Wanted> watches_;
  RpcClient client_;
};

GrpcWorkerGateway::GrpcWorkerGateway(Executor& executor, int64_t silence_timeout_us)
    : impl_(std::make_unique<Impl>(executor, silence_timeout_us)) {}

GrpcWorkerGateway::~GrpcWorkerGateway() = default;

void GrpcWorkerGateway::CheckJob(std::string worker_address, CheckJobRequest request,
                                 DoneWith<JobGraph> done) {
  impl_->CheckJob(worker_address, request, std::move(done));
}

void GrpcWorkerGateway::StartTasks(std::string worker_address, StartTasksRequest request,
                                   Done done) {
  impl_->Call<v1::StartTasksRequest>(worker_address, "/weir.v1.Worker/StartTasks", request,
                                     kStartUs, std::move(done));
}

void GrpcWorkerGateway::Trigger(std::string worker_address, TriggerRequest request, Done done) {
  impl_->Call<v1::TriggerRequest>(worker_address, "/weir.v1.Worker/Trigger", request, kControlUs,
                                  std::move(done));
}

void GrpcWorkerGateway::NotifyCompleted(std::string worker_address, CheckpointNotice notice,
                                        Done done) {
  impl_->Call<v1::CheckpointNotice>(worker_address, "/weir.v1.Worker/NotifyCompleted", notice,
                                    kControlUs, std::move(done));
}

void GrpcWorkerGateway::NotifyAborted(std::string worker_address, CheckpointNotice notice,
                                      Done done) {
  impl_->Call<v1::CheckpointNotice>(worker_address, "/weir.v1.Worker/NotifyAborted", notice,
                                    kControlUs, std::move(done));
}

void GrpcWorkerGateway::EndTasks(std::string worker_address, EndTasksRequest request, Done done) {
  impl_->Call<v1::EndTasksRequest>(worker_address, "/weir.v1.Worker/EndTasks", request, kEndUs,
                                   std::move(done));
}

void GrpcWorkerGateway::Settle(std::string worker_address, SettleRequest request, Done done) {
  const int64_t timeout_us =
      request.answer_within_us > 0 ? request.answer_within_us + kSettleGraceUs : kSettleUs;
  impl_->Call<v1::SettleRequest>(worker_address, "/weir.v1.Worker/Settle", request, timeout_us,
                                 std::move(done));
}

void GrpcWorkerGateway::Watch(std::string worker_address, std::function<void()> broken) {
  impl_->Watch(worker_address, std::move(broken));
}

void GrpcWorkerGateway::Unwatch(std::string worker_address) { impl_->Unwatch(worker_address); }

}  // namespace weir
