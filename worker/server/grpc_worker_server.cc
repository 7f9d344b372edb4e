#include "worker/server/grpc_worker_server.h"

#include <map>
#include <utility>

#include "common/rpc/proto_call.h"
#include "common/rpc/rpc_server.h"

namespace weir {
namespace {

using HandlerSource = std::function<WorkerHandler&()>;

// A method that answers nothing but its outcome.
template <typename ProtoRequest, typename Request>
RpcServer::Method OutcomeMethod(Executor& executor, HandlerSource handler,
                                void (WorkerHandler::*call)(Request, WorkerHandler::Done)) {
  return MakeMethod<ProtoRequest, Request, v1::Outcome>(
      executor, [handler, call](Request request, auto respond) {
        (handler().*call)(std::move(request), [respond = std::move(respond)](Status status) {
          if (!status.ok()) return respond(std::move(status));
          respond(v1::Outcome());
        });
      });
}

std::map<std::string, RpcServer::Method> MakeMethods(Executor& executor, HandlerSource handler) {
  std::map<std::string, RpcServer::Method> methods;
  auto add = [&](const char* name, RpcServer::Method method) {
    methods.emplace(Concat("/weir.v1.Worker/", name), std::move(method));
  };
  add("CheckJob", MakeMethod<v1::CheckJobRequest, CheckJobRequest, v1::CheckJobResponse>(
                      executor, [handler](CheckJobRequest request, auto respond) {
                        handler().CheckJob(std::move(request), [respond](StatusOr<JobGraph> graph) {
                          if (!graph.ok()) return respond(graph.status());
                          v1::CheckJobResponse response;
                          ToProto(*graph, response.mutable_graph());
                          respond(std::move(response));
                        });
                      }));
  add("StartTasks",
      OutcomeMethod<v1::StartTasksRequest>(executor, handler, &WorkerHandler::StartTasks));
  add("Trigger", OutcomeMethod<v1::TriggerRequest>(executor, handler, &WorkerHandler::Trigger));
  add("NotifyCompleted",
      OutcomeMethod<v1::CheckpointNotice>(executor, handler, &WorkerHandler::NotifyCompleted));
  add("NotifyAborted",
      OutcomeMethod<v1::CheckpointNotice>(executor, handler, &WorkerHandler::NotifyAborted));
  add("EndTasks", OutcomeMethod<v1::EndTasksRequest>(executor, handler, &WorkerHandler::EndTasks));
  add("Settle", OutcomeMethod<v1::SettleRequest>(executor, handler, &WorkerHandler::Settle));
  return methods;
}

}  // namespace

class GrpcWorkerServer::Impl {
 public:
  Impl(std::string listen_address, Executor& executor, HandlerSource handler)
      : listen_address_(std::move(listen_address)), server_(MakeMethods(executor, handler)) {}

  Status Start() { return server_.Start(listen_address_); }
  int port() const { return server_.port(); }
  void Stop() { server_.Stop(); }

 private:
  const std::string listen_address_;
  RpcServer server_;
};

GrpcWorkerServer::GrpcWorkerServer(std::string listen_address, Executor& executor,
                                   std::function<WorkerHandler&()> handler)
    : impl_(std::make_unique<Impl>(std::move(listen_address), executor, std::move(handler))) {}

GrpcWorkerServer::~GrpcWorkerServer() = default;

Status GrpcWorkerServer::Start() { return impl_->Start(); }

int GrpcWorkerServer::port() const { return impl_->port(); }

void GrpcWorkerServer::Stop() { impl_->Stop(); }

}  // namespace weir
