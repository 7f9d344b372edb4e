#include "coordinator/server/grpc_coordinator_server.h"

#include <map>
#include <utility>
#include <vector>

#include "common/rpc/proto_call.h"
#include "common/rpc/proto_text.h"
#include "common/rpc/rpc_server.h"

namespace weir {

namespace {

using HandlerSource = std::function<CoordinatorHandler&()>;

// The requests that have no domain struct: the handler takes their fields as parameters.
struct NoFields {};
struct LeaveFields {
  WorkerName name;
  WorkerIncarnation incarnation;
};
struct ListJobsFields {
  bool all = false;
};
struct JobFields {
  std::string job;
};
struct CancelFields {
  std::string job;
  bool force = false;
};
struct RemoveFields {
  std::string job;
  bool force = false;
};

Status FromProto(const v1::HelloRequest&, NoFields*) { return {}; }
Status FromProto(const v1::ListWorkersRequest&, NoFields*) { return {}; }
Status FromProto(const v1::LeaveRequest& from, LeaveFields* to) {
  to->name = WorkerName(from.name());
  to->incarnation = WorkerIncarnation(from.incarnation());
  return {};
}
Status FromProto(const v1::ListJobsRequest& from, ListJobsFields* to) {
  to->all = from.all();
  return {};
}
Status FromProto(const v1::JobRequest& from, JobFields* to) {
  to->job = from.job();
  return {};
}
Status FromProto(const v1::RemoveRequest& from, RemoveFields* to) {
  to->job = from.job();
  to->force = from.force();
  return {};
}
Status FromProto(const v1::CancelRequest& from, CancelFields* to) {
  to->job = from.job();
  to->force = from.force();
  return {};
}

using Done = CoordinatorHandler::Done;
template <typename T>
using DoneWith = CoordinatorHandler::DoneWith<T>;
template <typename Response>
using Respond = std::function<void(StatusOr<Response>)>;

// The `done` of a handler that answers with the response that `fill` makes of the result.
template <typename T, typename Response>
DoneWith<T> Answer(Respond<Response> respond, void (*fill)(const T& from, Response* to)) {
  return [respond = std::move(respond), fill](StatusOr<T> result) {
    if (!result.ok()) return respond(result.status());
    Response response;
    fill(*result, &response);
    respond(std::move(response));
  };
}

Done Answer(Respond<v1::Outcome> respond) {
  return [respond = std::move(respond)](Status status) {
    if (!status.ok()) return respond(std::move(status));
    respond(v1::Outcome());
  };
}

// Methods whose handler takes the request's struct: with a response of its own, and without.
template <typename ProtoRequest, typename Response, typename Request, typename Result>
RpcServer::Method StructMethod(Executor& executor, HandlerSource handler,
                               void (CoordinatorHandler::*call)(Request, DoneWith<Result>)) {
  return MakeMethod<ProtoRequest, Request, Response>(
      executor, [handler, call](Request request, Respond<Response> respond) {
        void (*fill)(const Result&, Response*) = &ToProto;
        (handler().*call)(std::move(request), Answer<Result, Response>(std::move(respond), fill));
      });
}

template <typename ProtoRequest, typename Request>
RpcServer::Method OutcomeMethod(Executor& executor, HandlerSource handler,
                                void (CoordinatorHandler::*call)(Request, Done)) {
  return MakeMethod<ProtoRequest, Request, v1::Outcome>(
      executor, [handler, call](Request request, Respond<v1::Outcome> respond) {
        (handler().*call)(std::move(request), Answer(std::move(respond)));
      });
}

using Methods = std::map<std::string, RpcServer::Method>;

void Add(Methods& methods, const char* name, RpcServer::Method method) {
  methods.emplace(Concat("/weir.v1.Coordinator/", name), std::move(method));
}

void AddWorkerMethods(Executor& executor, HandlerSource handler, Methods& methods) {
  Add(methods, "Hello",
      MakeMethod<v1::HelloRequest, NoFields, v1::HelloResponse>(
          executor, [handler](NoFields, Respond<v1::HelloResponse> respond) {
            void (*fill)(const HelloResponse&, v1::HelloResponse*) = &ToProto;
            handler().Hello(Answer<HelloResponse, v1::HelloResponse>(std::move(respond), fill));
          }));
  Add(methods, "Register",
      StructMethod<v1::RegisterRequest, v1::RegisterResponse>(executor, handler,
                                                              &CoordinatorHandler::Register));
  Add(methods, "Heartbeat",
      StructMethod<v1::HeartbeatRequest, v1::HeartbeatResponse>(executor, handler,
                                                                &CoordinatorHandler::Heartbeat));
  Add(methods, "ReportTasks",
      OutcomeMethod<v1::ReportTasksRequest>(executor, handler, &CoordinatorHandler::ReportTasks));
  Add(methods, "Acknowledge",
      OutcomeMethod<v1::AcknowledgeRequest>(executor, handler, &CoordinatorHandler::Acknowledge));
  Add(methods, "ReportPublished",
      OutcomeMethod<v1::ReportPublishedRequest>(executor, handler,
                                                &CoordinatorHandler::ReportPublished));
  Add(methods, "ConfirmCurrent",
      OutcomeMethod<v1::ConfirmCurrentRequest>(executor, handler,
                                               &CoordinatorHandler::ConfirmCurrent));
  Add(methods, "Leave",
      MakeMethod<v1::LeaveRequest, LeaveFields, v1::Outcome>(
          executor, [handler](LeaveFields leave, Respond<v1::Outcome> respond) {
            handler().Leave(std::move(leave.name), std::move(leave.incarnation),
                            Answer(std::move(respond)));
          }));
}

void AddClientMethods(Executor& executor, HandlerSource handler, Methods& methods) {
  Add(methods, "Submit",
      StructMethod<v1::SubmitRequest, v1::SubmitResponse>(executor, handler,
                                                          &CoordinatorHandler::Submit));
  Add(methods, "ListJobs",
      MakeMethod<v1::ListJobsRequest, ListJobsFields, v1::ListJobsResponse>(
          executor, [handler](ListJobsFields fields, Respond<v1::ListJobsResponse> respond) {
            handler().ListJobs(fields.all,
                               Answer<std::vector<JobStatus>, v1::ListJobsResponse>(
                                   std::move(respond), [](const auto& jobs, auto* response) {
                                     ListToProto(jobs, response->mutable_jobs());
                                   }));
          }));
  Add(methods, "GetJob",
      MakeMethod<v1::JobRequest, JobFields, v1::GetJobResponse>(
          executor, [handler](JobFields fields, Respond<v1::GetJobResponse> respond) {
            handler().GetJob(std::move(fields.job),
                             Answer<JobStatus, v1::GetJobResponse>(
                                 std::move(respond), [](const auto& status, auto* response) {
                                   ToProto(status, response->mutable_job());
                                 }));
          }));
  Add(methods, "Cancel",
      MakeMethod<v1::CancelRequest, CancelFields, v1::CancelResponse>(
          executor, [handler](CancelFields cancel, Respond<v1::CancelResponse> respond) {
            handler().Cancel(std::move(cancel.job), cancel.force,
                             Answer<std::vector<std::string>, v1::CancelResponse>(
                                 std::move(respond), [](const auto& names, auto* response) {
                                   for (const std::string& name : names) {
                                     response->add_left_behind(Utf8Text(name));
                                   }
                                 }));
          }));
  Add(methods, "Remove",
      MakeMethod<v1::RemoveRequest, RemoveFields, v1::Outcome>(
          executor, [handler](RemoveFields remove, Respond<v1::Outcome> respond) {
            handler().Remove(std::move(remove.job), remove.force, Answer(std::move(respond)));
          }));
  Add(methods, "ListCheckpoints",
      MakeMethod<v1::JobRequest, JobFields, v1::ListCheckpointsResponse>(
          executor, [handler](JobFields fields, Respond<v1::ListCheckpointsResponse> respond) {
            handler().ListCheckpoints(
                std::move(fields.job),
                Answer<std::vector<CheckpointSummary>, v1::ListCheckpointsResponse>(
                    std::move(respond), [](const auto& checkpoints, auto* response) {
                      ListToProto(checkpoints, response->mutable_checkpoints());
                    }));
          }));
  Add(methods, "GetEvents",
      MakeMethod<v1::JobRequest, JobFields, v1::GetEventsResponse>(
          executor, [handler](JobFields fields, Respond<v1::GetEventsResponse> respond) {
            handler().GetEvents(std::move(fields.job),
                                Answer<std::vector<JobEvent>, v1::GetEventsResponse>(
                                    std::move(respond), [](const auto& events, auto* response) {
                                      ListToProto(events, response->mutable_events());
                                    }));
          }));
  Add(methods, "ListWorkers",
      MakeMethod<v1::ListWorkersRequest, NoFields, v1::ListWorkersResponse>(
          executor, [handler](NoFields, Respond<v1::ListWorkersResponse> respond) {
            handler().ListWorkers(Answer<std::vector<WorkerStatus>, v1::ListWorkersResponse>(
                std::move(respond), [](const auto& workers, auto* response) {
                  ListToProto(workers, response->mutable_workers());
                }));
          }));
}

Methods MakeMethods(Executor& executor, HandlerSource handler) {
  Methods methods;
  AddWorkerMethods(executor, handler, methods);
  AddClientMethods(executor, handler, methods);
  return methods;
}

}  // namespace

class GrpcCoordinatorServer::Impl {
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

GrpcCoordinatorServer::GrpcCoordinatorServer(std::string listen_address, Executor& executor,
                                             std::function<CoordinatorHandler&()> handler)
    : impl_(std::make_unique<Impl>(std::move(listen_address), executor, std::move(handler))) {}

GrpcCoordinatorServer::~GrpcCoordinatorServer() = default;

Status GrpcCoordinatorServer::Start() { return impl_->Start(); }

int GrpcCoordinatorServer::port() const { return impl_->port(); }

void GrpcCoordinatorServer::Stop() { impl_->Stop(); }

}  // namespace weir
