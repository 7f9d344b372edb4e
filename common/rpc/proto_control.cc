#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {

void ToProto(const Status& from, v1::Status* to) {
  // The enum of the proto has the same order.
  static_assert(static_cast<int>(StatusCode::kOk) == v1::Status::OK);
  static_assert(static_cast<int>(StatusCode::kUnavailable) == v1::Status::UNAVAILABLE);
  static_assert(static_cast<int>(StatusCode::kInternal) == v1::Status::INTERNAL);
  if (from.ok()) return;
  to->set_code(static_cast<v1::Status::Code>(from.code()));
  switch (from.domain()) {
    case ErrorDomain::kUser:
      to->set_domain(v1::Status::USER);
      break;
    case ErrorDomain::kExternal:
      to->set_domain(v1::Status::EXTERNAL);
      break;
    case ErrorDomain::kInternal:
      to->set_domain(v1::Status::INTERNAL_DOMAIN);
      break;
  }
  to->set_retryable(from.retryable());
  to->set_message(Utf8Text(from.message()));
}

Status FromProto(const v1::Status& from) {
  if (from.code() == v1::Status::OK) return {};
  bool known = from.code() > v1::Status::OK && from.code() <= v1::Status::INTERNAL;
  StatusCode code = known ? static_cast<StatusCode>(from.code()) : StatusCode::kInternal;
  ErrorDomain domain = from.domain() == v1::Status::USER       ? ErrorDomain::kUser
                       : from.domain() == v1::Status::EXTERNAL ? ErrorDomain::kExternal
                                                               : ErrorDomain::kInternal;
  return Status(code, domain, from.message()).WithRetry(from.retryable());
}

void ToProto(const WorkerInfo& from, v1::WorkerInfo* to) {
  to->set_name(Utf8Text(from.name.value()));
  to->set_incarnation(Utf8Text(from.incarnation.value()));
  to->set_control_address(Utf8Text(from.control_address));
  to->set_data_address(Utf8Text(from.data_address));
  to->set_host(Utf8Text(from.host));
  to->set_work_dir(from.work_dir);
  to->set_pid(from.pid);
  to->set_slots(from.slots);
  to->set_version(Utf8Text(from.version));
}

Status FromProto(const v1::WorkerInfo& from, WorkerInfo* to) {
  to->name = WorkerName(from.name());
  to->incarnation = WorkerIncarnation(from.incarnation());
  to->control_address = from.control_address();
  to->data_address = from.data_address();
  to->host = from.host();
  to->work_dir = from.work_dir();
  to->pid = from.pid();
  to->slots = from.slots();
  to->version = from.version();
  return {};
}

void ToProto(const SinkProgress& from, v1::SinkProgress* to) {
  to->set_staged_rows(from.staged_rows);
  to->set_staged_bytes(from.staged_bytes);
  to->set_publishing_rows(from.publishing_rows);
  to->set_publishing_bytes(from.publishing_bytes);
  to->set_committed(from.committed.value());
  to->set_committed_wall_us(from.committed_wall_us);
}

Status FromProto(const v1::SinkProgress& from, SinkProgress* to) {
  to->staged_rows = from.staged_rows();
  to->staged_bytes = from.staged_bytes();
  to->publishing_rows = from.publishing_rows();
  to->publishing_bytes = from.publishing_bytes();
  to->committed = CheckpointId(from.committed());
  to->committed_wall_us = from.committed_wall_us();
  return {};
}

void ToProto(const SubtaskMetrics& from, v1::SubtaskMetrics* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_subtask(from.subtask);
  to->set_records_in(from.records_in);
  to->set_records_out(from.records_out);
  to->set_bytes_out(from.bytes_out);
  to->set_busy_us(from.busy_us);
  to->set_idle_us(from.idle_us);
  to->set_backpressured_us(from.backpressured_us);
  to->set_dropped_rows(from.dropped_rows);
  to->set_blocked_on(Utf8Text(from.blocked_on));
  to->set_lost_rows(from.lost_rows);
  if (from.sink) ToProto(*from.sink, to->mutable_sink());
  to->set_waits_for(Utf8Text(from.waits_for));
  to->set_waits_since_wall_us(from.waits_since_wall_us);
}

Status FromProto(const v1::SubtaskMetrics& from, SubtaskMetrics* to) {
  to->uid = from.uid();
  to->subtask = from.subtask();
  to->records_in = from.records_in();
  to->records_out = from.records_out();
  to->bytes_out = from.bytes_out();
  to->busy_us = from.busy_us();
  to->idle_us = from.idle_us();
  to->backpressured_us = from.backpressured_us();
  to->dropped_rows = from.dropped_rows();
  to->blocked_on = from.blocked_on();
  to->lost_rows = from.lost_rows();
  to->sink.reset();
  if (from.has_sink()) WEIR_RETURN_IF_ERROR(FromProto(from.sink(), &to->sink.emplace()));
  to->waits_for = from.waits_for();
  to->waits_since_wall_us = from.waits_since_wall_us();
  return {};
}

}  // namespace weir
