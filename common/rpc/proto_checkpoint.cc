#include "common/base/concat.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {
namespace {

// These come from disk and lead to places in files and arrays.
Status RequireNotNegative(std::string_view field, int64_t value) {
  if (value >= 0) return {};
  return MalformedError(field, Concat("is ", value));
}

}  // namespace

void ToProto(const KeyGroupSlice& from, v1::KeyGroupSlice* to) {
  to->set_key_group(from.key_group);
  to->set_offset(from.offset);
  to->set_length(from.length);
}

Status FromProto(const v1::KeyGroupSlice& from, KeyGroupSlice* to) {
  WEIR_RETURN_IF_ERROR(RequireNotNegative("KeyGroupSlice.key_group", from.key_group()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("KeyGroupSlice.offset", from.offset()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("KeyGroupSlice.length", from.length()));
  to->key_group = from.key_group();
  to->offset = from.offset();
  to->length = from.length();
  return {};
}

void ToProto(const StateHandle& from, v1::StateHandle* to) {
  to->set_kind(from.kind == StateKind::kKeyed ? v1::STATE_KIND_KEYED : v1::STATE_KIND_POSITIONS);
  to->set_path(from.path);
  to->set_length(from.length);
  to->set_checksum(from.checksum);
  ListToProto(from.slices, to->mutable_slices());
}

Status FromProto(const v1::StateHandle& from, StateHandle* to) {
  switch (from.kind()) {
    case v1::STATE_KIND_KEYED:
      to->kind = StateKind::kKeyed;
      break;
    case v1::STATE_KIND_POSITIONS:
      to->kind = StateKind::kPositions;
      break;
    default:
      return MalformedError("StateHandle.kind", Concat("is ", static_cast<int>(from.kind())));
  }
  WEIR_RETURN_IF_ERROR(RequireNotNegative("StateHandle.length", from.length()));
  to->path = from.path();
  to->length = from.length();
  to->checksum = from.checksum();
  return ListFromProto(from.slices(), &to->slices);
}

void ToProto(const Committable& from, v1::Committable* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
  to->set_generation(from.generation.value());
  to->set_checkpoint(from.checkpoint.value());
  to->set_part(from.part);
  to->set_payload(from.payload);
}

Status FromProto(const v1::Committable& from, Committable* to) {
  WEIR_RETURN_IF_ERROR(RequireNotNegative("Committable.subtask", from.subtask()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("Committable.part", from.part()));
  to->uid = from.uid();
  to->subtask = from.subtask();
  to->generation = Generation(from.generation());
  to->checkpoint = CheckpointId(from.checkpoint());
  to->part = from.part();
  to->payload = from.payload();
  return {};
}

void ToProto(const OperatorSnapshot& from, v1::OperatorSnapshot* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
  ListToProto(from.handles, to->mutable_handles());
  ListToProto(from.committables, to->mutable_committables());
  to->set_records_in(from.records_in);
  to->set_records_out(from.records_out);
  to->set_dropped_rows(from.dropped_rows);
  to->set_lost_rows(from.lost_rows);
}

Status FromProto(const v1::OperatorSnapshot& from, OperatorSnapshot* to) {
  WEIR_RETURN_IF_ERROR(RequireNotNegative("OperatorSnapshot.subtask", from.subtask()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("OperatorSnapshot.records_in", from.records_in()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("OperatorSnapshot.records_out", from.records_out()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("OperatorSnapshot.dropped_rows", from.dropped_rows()));
  WEIR_RETURN_IF_ERROR(RequireNotNegative("OperatorSnapshot.lost_rows", from.lost_rows()));
  to->uid = from.uid();
  to->subtask = from.subtask();
  to->records_in = from.records_in();
  to->records_out = from.records_out();
  to->dropped_rows = from.dropped_rows();
  to->lost_rows = from.lost_rows();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.handles(), &to->handles));
  return ListFromProto(from.committables(), &to->committables);
}

void ToProto(const CheckpointManifest::OperatorInfo& from,
             v1::CheckpointManifest::OperatorInfo* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_parallelism(from.parallelism);
  to->set_max_parallelism(from.max_parallelism);
}

Status FromProto(const v1::CheckpointManifest::OperatorInfo& from,
                 CheckpointManifest::OperatorInfo* to) {
  if (from.parallelism() < 1 || from.max_parallelism() < from.parallelism()) {
    return MalformedError("OperatorInfo.parallelism",
                          Concat("is ", from.parallelism(), " of ", from.max_parallelism()));
  }
  to->uid = from.uid();
  to->parallelism = from.parallelism();
  to->max_parallelism = from.max_parallelism();
  return {};
}

void ToProto(const CheckpointManifest& from, v1::CheckpointManifest* to) {
  to->set_job(Utf8Text(from.job.value()));
  to->set_checkpoint(from.checkpoint.value());
  to->set_generation(from.generation.value());
  to->set_trigger_wall_us(from.trigger_wall_us);
  to->set_complete_wall_us(from.complete_wall_us);
  ListToProto(from.operators, to->mutable_operators());
  ListToProto(from.snapshots, to->mutable_snapshots());
}

Status FromProto(const v1::CheckpointManifest& from, CheckpointManifest* to) {
  to->job = JobId(from.job());
  to->checkpoint = CheckpointId(from.checkpoint());
  to->generation = Generation(from.generation());
  to->trigger_wall_us = from.trigger_wall_us();
  to->complete_wall_us = from.complete_wall_us();
  WEIR_RETURN_IF_ERROR(ListFromProto(from.operators(), &to->operators));
  return ListFromProto(from.snapshots(), &to->snapshots);
}

void ToProto(const SnapshotMetrics& from, v1::SnapshotMetrics* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
  to->set_barrier_wall_us(from.barrier_wall_us);
  to->set_alignment_us(from.alignment_us);
  to->set_synchronous_us(from.synchronous_us);
  to->set_asynchronous_us(from.asynchronous_us);
  to->set_longest_step_us(from.longest_step_us);
  to->set_bytes(from.bytes);
  to->set_ack_wall_us(from.ack_wall_us);
}

Status FromProto(const v1::SnapshotMetrics& from, SnapshotMetrics* to) {
  to->uid = from.uid();
  to->subtask = from.subtask();
  to->barrier_wall_us = from.barrier_wall_us();
  to->alignment_us = from.alignment_us();
  to->synchronous_us = from.synchronous_us();
  to->asynchronous_us = from.asynchronous_us();
  to->longest_step_us = from.longest_step_us();
  to->bytes = from.bytes();
  to->ack_wall_us = from.ack_wall_us();
  return {};
}

void ToProto(const LogEntry& from, v1::LogEntry* to) {
  // The enum of the proto has the same order, one up.
  static_assert(static_cast<int>(LogEntry::Kind::kSealed) + 1 == v1::LogEntry::KIND_SEALED);
  static_assert(static_cast<int>(LogEntry::Kind::kStopping) + 1 == v1::LogEntry::KIND_STOPPING);
  static_assert(static_cast<int>(LogEntry::Kind::kFinished) + 1 == v1::LogEntry::KIND_FINISHED);
  to->set_kind(static_cast<v1::LogEntry::Kind>(static_cast<int>(from.kind) + 1));
  to->set_token(from.token);
  to->set_generation(from.generation.value());
  to->set_checkpoint(from.checkpoint.value());
  to->set_checkpoint_generation(from.checkpoint_generation.value());
  to->set_manifest_checksum(from.manifest_checksum);
  to->set_reason(Utf8Text(from.reason));
  to->set_wall_us(from.wall_us);
  to->set_records_in(from.totals.records_in);
  to->set_records_out(from.totals.records_out);
  to->set_checkpoints_completed(from.totals.checkpoints_completed);
  to->set_restarts(from.totals.restarts);
  to->set_leaves_rows(from.leaves_rows);
}

Status FromProto(const v1::LogEntry& from, LogEntry* to) {
  if (from.kind() < v1::LogEntry::KIND_SEALED || from.kind() > v1::LogEntry::KIND_FINISHED) {
    return MalformedError("LogEntry.kind", Concat("is ", static_cast<int>(from.kind())));
  }
  to->kind = static_cast<LogEntry::Kind>(static_cast<int>(from.kind()) - 1);
  to->token = from.token();
  to->generation = Generation(from.generation());
  to->checkpoint = CheckpointId(from.checkpoint());
  to->checkpoint_generation = Generation(from.checkpoint_generation());
  to->manifest_checksum = from.manifest_checksum();
  to->reason = from.reason();
  to->wall_us = from.wall_us();
  to->totals.records_in = from.records_in();
  to->totals.records_out = from.records_out();
  to->totals.checkpoints_completed = from.checkpoints_completed();
  to->totals.restarts = from.restarts();
  to->leaves_rows = from.leaves_rows();
  return {};
}

}  // namespace weir
