#include "common/rpc/coordinator_client.h"

#include <future>
#include <utility>

#include "common/rpc/proto_call.h"
#include "common/rpc/proto_text.h"

namespace weir {
namespace {

constexpr int64_t kCallUs = 10'000'000;
constexpr int64_t kSubmitUs = 60'000'000;

v1::JobRequest MakeJobRequest(const std::string& job) {
  v1::JobRequest request;
  request.set_job(Utf8Text(job));
  return request;
}

}  // namespace

class CoordinatorClient::Impl {
 public:
  explicit Impl(std::string address) : address_(std::move(address)) {}

  template <typename Response, typename Request>
  StatusOr<Response> Call(const std::string& method, const Request& request,
                          int64_t timeout_us = kCallUs) {
    auto answer = std::make_shared<std::promise<StatusOr<Response>>>();
    std::future<StatusOr<Response>> outcome = answer->get_future();
    CallProto<Response>(
        client_, address_, "/weir.v1.Coordinator/" + method, request, timeout_us,
        [answer](StatusOr<Response> response) { answer->set_value(std::move(response)); });
    return outcome.get();
  }

 private:
  const std::string address_;
  RpcClient client_{/*silence_timeout_us=*/kCallUs};
};

CoordinatorClient::CoordinatorClient(std::string address)
    : impl_(std::make_unique<Impl>(std::move(address))) {}

CoordinatorClient::~CoordinatorClient() = default;

StatusOr<SubmitResponse> CoordinatorClient::Submit(SubmitRequest request) {
  v1::SubmitRequest proto;
  ToProto(std::move(request), &proto);
  WEIR_ASSIGN_OR_RETURN(v1::SubmitResponse response,
                        impl_->Call<v1::SubmitResponse>("Submit", proto, kSubmitUs));
  SubmitResponse submitted;
  WEIR_RETURN_IF_ERROR(FromProto(response, &submitted));
  return submitted;
}

StatusOr<std::vector<JobStatus>> CoordinatorClient::ListJobs(bool all) {
  v1::ListJobsRequest request;
  request.set_all(all);
  WEIR_ASSIGN_OR_RETURN(v1::ListJobsResponse response,
                        impl_->Call<v1::ListJobsResponse>("ListJobs", request));
  std::vector<JobStatus> jobs;
  WEIR_RETURN_IF_ERROR(ListFromProto(response.jobs(), &jobs));
  return jobs;
}

StatusOr<JobStatus> CoordinatorClient::GetJob(const std::string& job) {
  WEIR_ASSIGN_OR_RETURN(v1::GetJobResponse response,
                        impl_->Call<v1::GetJobResponse>("GetJob", MakeJobRequest(job)));
  JobStatus status;
  WEIR_RETURN_IF_ERROR(FromProto(response.job(), &status));
  return status;
}

StatusOr<std::vector<std::string>> CoordinatorClient::Cancel(const std::string& job, bool force) {
  v1::CancelRequest request;
  request.set_job(Utf8Text(job));
  request.set_force(force);
  WEIR_ASSIGN_OR_RETURN(v1::CancelResponse response,
                        impl_->Call<v1::CancelResponse>("Cancel", request));
  return std::vector<std::string>(response.left_behind().begin(), response.left_behind().end());
}

Status CoordinatorClient::Remove(const std::string& job, bool force) {
  v1::RemoveRequest request;
  request.set_job(Utf8Text(job));
  request.set_force(force);
  return impl_->Call<v1::Outcome>("Remove", request).status();
}

StatusOr<std::vector<CheckpointSummary>> CoordinatorClient::ListCheckpoints(
    const std::string& job) {
  WEIR_ASSIGN_OR_RETURN(
      v1::ListCheckpointsResponse response,
      impl_->Call<v1::ListCheckpointsResponse>("ListCheckpoints", MakeJobRequest(job)));
  std::vector<CheckpointSummary> checkpoints;
  WEIR_RETURN_IF_ERROR(ListFromProto(response.checkpoints(), &checkpoints));
  return checkpoints;
}

StatusOr<std::vector<JobEvent>> CoordinatorClient::GetEvents(const std::string& job) {
  WEIR_ASSIGN_OR_RETURN(v1::GetEventsResponse response,
                        impl_->Call<v1::GetEventsResponse>("GetEvents", MakeJobRequest(job)));
  std::vector<JobEvent> events;
  WEIR_RETURN_IF_ERROR(ListFromProto(response.events(), &events));
  return events;
}

StatusOr<std::vector<WorkerStatus>> CoordinatorClient::ListWorkers() {
  WEIR_ASSIGN_OR_RETURN(
      v1::ListWorkersResponse response,
      impl_->Call<v1::ListWorkersResponse>("ListWorkers", v1::ListWorkersRequest()));
  std::vector<WorkerStatus> workers;
  WEIR_RETURN_IF_ERROR(ListFromProto(response.workers(), &workers));
  return workers;
}

}  // namespace weir
