#include "common/base/concat.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {

// The enums of the proto have the same order as the domain's, one up.
static_assert(static_cast<int>(TaskState::kStarting) + 1 == v1::TASK_STATE_STARTING);
static_assert(static_cast<int>(TaskState::kEndedInput) + 1 == v1::TASK_STATE_ENDED_INPUT);
static_assert(static_cast<int>(TaskState::kFailed) + 1 == v1::TASK_STATE_FAILED);

void ToProto(const HelloResponse& from, v1::HelloResponse* to) {
  to->set_coordinator(from.coordinator.value());
  to->set_checkpoint_dir(from.checkpoint_dir);
  to->set_nonce_path(from.nonce_path);
  to->set_host(Utf8Text(from.host));
}

Status FromProto(const v1::HelloResponse& from, HelloResponse* to) {
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->checkpoint_dir = from.checkpoint_dir();
  to->nonce_path = from.nonce_path();
  to->host = from.host();
  return {};
}

void ToProto(const RegisterRequest& from, v1::RegisterRequest* to) {
  ToProto(from.worker, to->mutable_worker());
  to->set_coordinator(from.coordinator.value());
  to->set_nonce(from.nonce);
  to->set_protocol(from.protocol);
}

Status FromProto(const v1::RegisterRequest& from, RegisterRequest* to) {
  WEIR_RETURN_IF_ERROR(FromProto(from.worker(), &to->worker));
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->nonce = from.nonce();
  to->protocol = from.protocol();
  return {};
}

void ToProto(const RegisterResponse& from, v1::RegisterResponse* to) {
  to->set_heartbeat_interval_us(from.heartbeat_interval_us);
  to->set_heartbeat_timeout_us(from.heartbeat_timeout_us);
}

Status FromProto(const v1::RegisterResponse& from, RegisterResponse* to) {
  to->heartbeat_interval_us = from.heartbeat_interval_us();
  to->heartbeat_timeout_us = from.heartbeat_timeout_us();
  return {};
}

void ToProto(const HostedGeneration& from, v1::HostedGeneration* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  ListToProto(from.metrics, to->mutable_metrics());
}

Status FromProto(const v1::HostedGeneration& from, HostedGeneration* to) {
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.metrics(), &to->metrics));
  return {};
}

void ToProto(const HeartbeatRequest& from, v1::HeartbeatRequest* to) {
  to->set_name(Utf8Text(from.name.value()));
  to->set_incarnation(Utf8Text(from.incarnation.value()));
  to->set_coordinator(from.coordinator.value());
  ListToProto(from.hosted, to->mutable_hosted());
  to->set_slow_storage(Utf8Text(from.slow_storage));
}

Status FromProto(const v1::HeartbeatRequest& from, HeartbeatRequest* to) {
  to->name = WorkerName(from.name());
  to->incarnation = WorkerIncarnation(from.incarnation());
  to->coordinator = CoordinatorNumber(from.coordinator());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.hosted(), &to->hosted));
  to->slow_storage = from.slow_storage();
  return {};
}

void ToProto(const HeartbeatResponse& from, v1::HeartbeatResponse* to) {
  to->set_coordinator(from.coordinator.value());
  to->set_known(from.known);
  for (const auto& [job, generation] : from.end) {
    v1::JobGeneration* out = to->add_end();
    out->set_job(Utf8Text(job.value()));
    out->set_generation(generation.value());
  }
}

Status FromProto(const v1::HeartbeatResponse& from, HeartbeatResponse* to) {
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->known = from.known();
  to->end.clear();
  for (const v1::JobGeneration& item : from.end()) {
    to->end.emplace_back(JobId(item.job()), Generation(item.generation()));
  }
  return {};
}

void ToProto(const TaskReport& from, v1::TaskReport* to) {
  to->set_task(from.task);
  to->set_subtask(from.subtask);
  to->set_state(static_cast<v1::TaskState>(static_cast<int>(from.state) + 1));
  to->set_uid(Utf8Text(from.uid));
  ToProto(from.error, to->mutable_error());
}

Status FromProto(const v1::TaskReport& from, TaskReport* to) {
  to->task = from.task();
  to->subtask = from.subtask();
  if (from.state() < v1::TASK_STATE_STARTING || from.state() > v1::TASK_STATE_FAILED) {
    return MalformedError("TaskReport.state", Concat("is ", static_cast<int>(from.state())));
  }
  to->state = static_cast<TaskState>(static_cast<int>(from.state()) - 1);
  to->uid = from.uid();
  to->error = FromProto(from.error());
  return {};
}

void ToProto(const ReportTasksRequest& from, v1::ReportTasksRequest* to) {
  to->set_worker(Utf8Text(from.worker.value()));
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  ListToProto(from.reports, to->mutable_reports());
}

Status FromProto(const v1::ReportTasksRequest& from, ReportTasksRequest* to) {
  to->worker = WorkerName(from.worker());
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.reports(), &to->reports));
  return {};
}

void ToProto(const TaskAck& from, v1::TaskAck* to) {
  to->set_checkpoint(from.checkpoint.value());
  to->set_task(from.task);
  to->set_subtask(from.subtask);
  ToProto(from.error, to->mutable_error());
  ListToProto(from.snapshots, to->mutable_snapshots());
  ListToProto(from.metrics, to->mutable_metrics());
}

Status FromProto(const v1::TaskAck& from, TaskAck* to) {
  to->checkpoint = CheckpointId(from.checkpoint());
  to->task = from.task();
  to->subtask = from.subtask();
  to->error = FromProto(from.error());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.snapshots(), &to->snapshots));
  WEIR_RETURN_IF_ERROR(ListFromProto(from.metrics(), &to->metrics));
  return {};
}

void ToProto(const AcknowledgeRequest& from, v1::AcknowledgeRequest* to) {
  to->set_worker(Utf8Text(from.worker.value()));
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  ListToProto(from.acks, to->mutable_acks());
}

Status FromProto(const v1::AcknowledgeRequest& from, AcknowledgeRequest* to) {
  to->worker = WorkerName(from.worker());
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.acks(), &to->acks));
  return {};
}

void ToProto(const PublishReport& from, v1::PublishReport* to) {
  to->set_checkpoint(from.checkpoint.value());
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
}

Status FromProto(const v1::PublishReport& from, PublishReport* to) {
  to->checkpoint = CheckpointId(from.checkpoint());
  to->uid = from.uid();
  to->subtask = from.subtask();
  return {};
}

void ToProto(const ReportPublishedRequest& from, v1::ReportPublishedRequest* to) {
  to->set_worker(Utf8Text(from.worker.value()));
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  ListToProto(from.reports, to->mutable_reports());
}

Status FromProto(const v1::ReportPublishedRequest& from, ReportPublishedRequest* to) {
  to->worker = WorkerName(from.worker());
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.reports(), &to->reports));
  return {};
}

void ToProto(const ConfirmCurrentRequest& from, v1::ConfirmCurrentRequest* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  to->set_coordinator(from.coordinator.value());
  to->set_settle_order(from.settle_order);
}

Status FromProto(const v1::ConfirmCurrentRequest& from, ConfirmCurrentRequest* to) {
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->settle_order = from.settle_order();
  return {};
}

}  // namespace weir
