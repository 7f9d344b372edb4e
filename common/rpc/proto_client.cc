#include "common/base/concat.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {

// The enums of the proto have the same order as the domain's, one up.
static_assert(static_cast<int>(JobState::kCreated) + 1 == v1::JOB_STATE_CREATED);
static_assert(static_cast<int>(JobState::kCancelling) + 1 == v1::JOB_STATE_CANCELLING);
static_assert(static_cast<int>(JobState::kFailed) + 1 == v1::JOB_STATE_FAILED);

void ToProto(SubmitRequest&& from, v1::SubmitRequest* to) {
  to->set_job(Utf8Text(from.job.value()));
  ToProto(from.graph, to->mutable_graph());
  to->set_library(std::move(from.library));
  to->set_restore_from(from.restore_from);
  to->set_client_directory(from.client_directory);
}

Status FromProto(v1::SubmitRequest&& from, SubmitRequest* to) {
  to->job = JobId(from.job());
  WEIR_RETURN_IF_ERROR(FromProto(from.graph(), &to->graph));
  to->library = std::move(*from.mutable_library());
  to->restore_from = from.restore_from();
  to->client_directory = from.client_directory();
  return {};
}

void ToProto(const SubmitResponse& from, v1::SubmitResponse* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_name(Utf8Text(from.name));
}

Status FromProto(const v1::SubmitResponse& from, SubmitResponse* to) {
  to->job = JobId(from.job());
  to->name = from.name();
  return {};
}

void ToProto(const Failure& from, v1::Failure* to) {
  to->set_message(Utf8Text(from.message));
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
  to->set_worker(Utf8Text(from.worker));
  to->set_wall_us(from.wall_us);
  to->set_since_wall_us(from.since_wall_us);
}

Status FromProto(const v1::Failure& from, Failure* to) {
  to->message = from.message();
  to->uid = from.uid();
  to->subtask = from.subtask();
  to->worker = from.worker();
  to->wall_us = from.wall_us();
  to->since_wall_us = from.since_wall_us();
  return {};
}

void ToProto(const FailingCheckpoints& from, v1::FailingCheckpoints* to) {
  to->set_id(from.id.value());
  to->set_reason(Utf8Text(from.reason));
  to->set_wall_us(from.wall_us);
  to->set_failures(from.failures);
  to->set_since_wall_us(from.since_wall_us);
}

Status FromProto(const v1::FailingCheckpoints& from, FailingCheckpoints* to) {
  to->id = CheckpointId(from.id());
  to->reason = from.reason();
  to->wall_us = from.wall_us();
  to->failures = from.failures();
  to->since_wall_us = from.since_wall_us();
  return {};
}

void ToProto(const SubtaskStatus& from, v1::SubtaskStatus* to) {
  to->set_subtask(from.subtask);
  to->set_worker(Utf8Text(from.worker));
  to->set_state(Utf8Text(from.state));
  ToProto(from.metrics, to->mutable_metrics());
  to->set_busy(from.busy);
  to->set_idle(from.idle);
  to->set_backpressured(from.backpressured);
}

Status FromProto(const v1::SubtaskStatus& from, SubtaskStatus* to) {
  to->subtask = from.subtask();
  to->worker = from.worker();
  to->state = from.state();
  WEIR_RETURN_IF_ERROR(FromProto(from.metrics(), &to->metrics));
  to->busy = from.busy();
  to->idle = from.idle();
  to->backpressured = from.backpressured();
  return {};
}

void ToProto(const VertexStatus& from, v1::VertexStatus* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_type(Utf8Text(from.type));
  to->set_parallelism(from.parallelism);
  ListToProto(from.subtasks, to->mutable_subtasks());
}

Status FromProto(const v1::VertexStatus& from, VertexStatus* to) {
  to->uid = from.uid();
  to->type = from.type();
  to->parallelism = from.parallelism();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.subtasks(), &to->subtasks));
  return {};
}

void ToProto(const CheckpointSummary& from, v1::CheckpointSummary* to) {
  to->set_id(from.id.value());
  to->set_generation(from.generation.value());
  to->set_state(Utf8Text(from.state));
  to->set_trigger_wall_us(from.trigger_wall_us);
  to->set_complete_wall_us(from.complete_wall_us);
  to->set_duration_us(from.duration_us);
  to->set_size_bytes(from.size_bytes);
  to->set_failure_reason(Utf8Text(from.failure_reason));
  ListToProto(from.subtasks, to->mutable_subtasks());
}

Status FromProto(const v1::CheckpointSummary& from, CheckpointSummary* to) {
  to->id = CheckpointId(from.id());
  to->generation = Generation(from.generation());
  to->state = from.state();
  to->trigger_wall_us = from.trigger_wall_us();
  to->complete_wall_us = from.complete_wall_us();
  to->duration_us = from.duration_us();
  to->size_bytes = from.size_bytes();
  to->failure_reason = from.failure_reason();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.subtasks(), &to->subtasks));
  return {};
}

void ToProto(const JobStatus& from, v1::JobStatus* to) {
  to->set_id(Utf8Text(from.id.value()));
  to->set_name(Utf8Text(from.name));
  to->set_state(static_cast<v1::JobState>(static_cast<int>(from.state) + 1));
  to->set_generation(from.generation.value());
  to->set_restarts(from.restarts);
  to->set_parallelism(from.parallelism);
  to->set_start_wall_us(from.start_wall_us);
  to->set_end_wall_us(from.end_wall_us);
  to->set_waiting_for(Utf8Text(from.waiting_for));
  to->set_waiting_since_wall_us(from.waiting_since_wall_us);
  if (from.failure) ToProto(*from.failure, to->mutable_failure());
  if (from.last_checkpoint) ToProto(*from.last_checkpoint, to->mutable_last_checkpoint());
  if (from.failing_checkpoints) {
    ToProto(*from.failing_checkpoints, to->mutable_failing_checkpoints());
  }
  to->set_checkpoints_completed(from.checkpoints_completed);
  to->set_records_in(from.records_in);
  to->set_records_out(from.records_out);
  to->set_retained_checkpoint(from.retained_checkpoint);
  ListToProto(from.vertices, to->mutable_vertices());
}

Status FromProto(const v1::JobStatus& from, JobStatus* to) {
  to->id = JobId(from.id());
  to->name = from.name();
  if (from.state() < v1::JOB_STATE_CREATED || from.state() > v1::JOB_STATE_FAILED) {
    return MalformedError("JobStatus.state", Concat("is ", static_cast<int>(from.state())));
  }
  to->state = static_cast<JobState>(static_cast<int>(from.state()) - 1);
  to->generation = Generation(from.generation());
  to->restarts = from.restarts();
  to->parallelism = from.parallelism();
  to->start_wall_us = from.start_wall_us();
  to->end_wall_us = from.end_wall_us();
  to->waiting_for = from.waiting_for();
  to->waiting_since_wall_us = from.waiting_since_wall_us();
  to->failure.reset();
  if (from.has_failure()) {
    WEIR_RETURN_IF_ERROR(FromProto(from.failure(), &to->failure.emplace()));
  }
  to->last_checkpoint.reset();
  if (from.has_last_checkpoint()) {
    WEIR_RETURN_IF_ERROR(FromProto(from.last_checkpoint(), &to->last_checkpoint.emplace()));
  }
  to->failing_checkpoints.reset();
  if (from.has_failing_checkpoints()) {
    WEIR_RETURN_IF_ERROR(FromProto(from.failing_checkpoints(), &to->failing_checkpoints.emplace()));
  }
  to->checkpoints_completed = from.checkpoints_completed();
  to->records_in = from.records_in();
  to->records_out = from.records_out();
  to->retained_checkpoint = from.retained_checkpoint();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.vertices(), &to->vertices));
  return {};
}

void ToProto(const JobEvent& from, v1::JobEvent* to) {
  to->set_wall_us(from.wall_us);
  to->set_text(Utf8Text(from.text));
}

Status FromProto(const v1::JobEvent& from, JobEvent* to) {
  to->wall_us = from.wall_us();
  to->text = from.text();
  return {};
}

void ToProto(const WorkerStatus& from, v1::WorkerStatus* to) {
  ToProto(from.info, to->mutable_info());
  to->set_slots_free(from.slots_free);
  to->set_registered_wall_us(from.registered_wall_us);
  to->set_last_heartbeat_age_us(from.last_heartbeat_age_us);
}

Status FromProto(const v1::WorkerStatus& from, WorkerStatus* to) {
  WEIR_RETURN_IF_ERROR(FromProto(from.info(), &to->info));
  to->slots_free = from.slots_free();
  to->registered_wall_us = from.registered_wall_us();
  to->last_heartbeat_age_us = from.last_heartbeat_age_us();
  return {};
}

}  // namespace weir
