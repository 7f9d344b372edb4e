#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {

void ToProto(const SettleRequest& from, v1::SettleRequest* to) {
  to->set_coordinator(from.coordinator.value());
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  ToProto(from.vertex, to->mutable_vertex());
  to->set_job_name(Utf8Text(from.job_name));
  to->set_library_path(from.library_path);
  ListToProto(from.committables, to->mutable_committables());
  to->set_job_directory(from.job_directory);
  to->set_order(from.order);
  to->set_answer_within_us(from.answer_within_us);
  to->set_successor(Utf8Text(from.successor.value()));
  ListToProto(from.successor_vertices, to->mutable_successor_vertices());
  to->set_ends(from.ends);
}

Status FromProto(const v1::SettleRequest& from, SettleRequest* to) {
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  WEIR_RETURN_IF_ERROR(FromProto(from.vertex(), &to->vertex));
  to->job_name = from.job_name();
  to->library_path = from.library_path();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.committables(), &to->committables));
  to->job_directory = from.job_directory();
  to->order = from.order();
  to->answer_within_us = from.answer_within_us();
  to->successor = JobId(from.successor());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.successor_vertices(), &to->successor_vertices));
  to->ends = from.ends();
  return {};
}

void ToProto(const CheckJobRequest& from, v1::CheckJobRequest* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_job_directory(from.job_directory);
  to->set_library_path(from.library_path);
  ToProto(from.graph, to->mutable_graph());
  ListToProto(from.succession, to->mutable_succession());
}

Status FromProto(const v1::CheckJobRequest& from, CheckJobRequest* to) {
  to->job = JobId(from.job());
  to->job_directory = from.job_directory();
  to->library_path = from.library_path();
  WEIR_RETURN_IF_ERROR(FromProto(from.graph(), &to->graph));
  WEIR_RETURN_IF_ERROR(ListFromProto(from.succession(), &to->succession));
  return {};
}

void ToProto(const TaskAssignment& from, v1::TaskAssignment* to) {
  to->set_task(from.task);
  to->set_subtask(from.subtask);
  to->set_worker(Utf8Text(from.worker.value()));
}

Status FromProto(const v1::TaskAssignment& from, TaskAssignment* to) {
  to->task = from.task();
  to->subtask = from.subtask();
  to->worker = WorkerName(from.worker());
  return {};
}

void ToProto(const WorkerAddress& from, v1::WorkerAddress* to) {
  to->set_worker(Utf8Text(from.worker.value()));
  to->set_data_address(Utf8Text(from.data_address));
}

Status FromProto(const v1::WorkerAddress& from, WorkerAddress* to) {
  to->worker = WorkerName(from.worker());
  to->data_address = from.data_address();
  return {};
}

void ToProto(const StartTasksRequest& from, v1::StartTasksRequest* to) {
  to->set_coordinator(from.coordinator.value());
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  to->set_job_directory(from.job_directory);
  to->set_library_path(from.library_path);
  ToProto(from.graph, to->mutable_graph());
  ListToProto(from.assignments, to->mutable_assignments());
  ListToProto(from.workers, to->mutable_workers());
  ToProto(from.restore, to->mutable_restore());
  to->set_restore_directory(from.restore_directory);
}

Status FromProto(const v1::StartTasksRequest& from, StartTasksRequest* to) {
  to->coordinator = CoordinatorNumber(from.coordinator());
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  to->job_directory = from.job_directory();
  to->library_path = from.library_path();
  WEIR_RETURN_IF_ERROR(FromProto(from.graph(), &to->graph));
  WEIR_RETURN_IF_ERROR(ListFromProto(from.assignments(), &to->assignments));
  WEIR_RETURN_IF_ERROR(ListFromProto(from.workers(), &to->workers));
  WEIR_RETURN_IF_ERROR(FromProto(from.restore(), &to->restore));
  to->restore_directory = from.restore_directory();
  return {};
}

void ToProto(const TriggerRequest& from, v1::TriggerRequest* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  to->set_checkpoint(from.checkpoint.value());
  to->set_base(from.base.value());
  to->set_trigger_wall_us(from.trigger_wall_us);
}

Status FromProto(const v1::TriggerRequest& from, TriggerRequest* to) {
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  to->checkpoint = CheckpointId(from.checkpoint());
  to->base = CheckpointId(from.base());
  to->trigger_wall_us = from.trigger_wall_us();
  return {};
}

void ToProto(const CheckpointNotice& from, v1::CheckpointNotice* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  to->set_checkpoint(from.checkpoint.value());
}

Status FromProto(const v1::CheckpointNotice& from, CheckpointNotice* to) {
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  to->checkpoint = CheckpointId(from.checkpoint());
  return {};
}

void ToProto(const EndTasksRequest& from, v1::EndTasksRequest* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_generation(from.generation.value());
  to->set_finish(from.finish);
}

Status FromProto(const v1::EndTasksRequest& from, EndTasksRequest* to) {
  to->job = JobId(from.job());
  to->generation = Generation(from.generation());
  to->finish = from.finish();
  return {};
}

}  // namespace weir
