#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/manifest_codec.h"
#include "common/control/messages.h"
#include "common/graph/job_graph.h"
#include "common/record/schema.h"
#include "proto/weir/v1/checkpoint.pb.h"
#include "proto/weir/v1/control.pb.h"
#include "proto/weir/v1/coordinator.pb.h"
#include "proto/weir/v1/job.pb.h"
#include "proto/weir/v1/worker.pb.h"

// Proto <-> domain, one pair for each message; the only place where both meet. ToProto fills an
// empty message. FromProto overwrites every field of `to`; numbers and values that no sender of
// ours writes are kDataLoss that names the field. Included by common/rpc and the server folders
// alone.
//
// A message and its domain struct have the same fields, but for the `status` of responses (which
// the callers of these functions fill and read); a test counts them.
namespace weir {

// job.proto
void ToProto(const Schema& from, v1::Schema* to);
Status FromProto(const v1::Schema& from, Schema* to);
void ToProto(const JobVertex& from, v1::JobVertex* to);
Status FromProto(const v1::JobVertex& from, JobVertex* to);
void ToProto(const JobEdge& from, v1::JobEdge* to);
Status FromProto(const v1::JobEdge& from, JobEdge* to);
void ToProto(const JobGraph& from, v1::JobGraph* to);
Status FromProto(const v1::JobGraph& from, JobGraph* to);
void ToProto(const JobRecord& from, v1::JobRecord* to);
Status FromProto(const v1::JobRecord& from, JobRecord* to);

// checkpoint.proto
void ToProto(const KeyGroupSlice& from, v1::KeyGroupSlice* to);
Status FromProto(const v1::KeyGroupSlice& from, KeyGroupSlice* to);
void ToProto(const StateHandle& from, v1::StateHandle* to);
Status FromProto(const v1::StateHandle& from, StateHandle* to);
void ToProto(const Committable& from, v1::Committable* to);
Status FromProto(const v1::Committable& from, Committable* to);
void ToProto(const OperatorSnapshot& from, v1::OperatorSnapshot* to);
Status FromProto(const v1::OperatorSnapshot& from, OperatorSnapshot* to);
void ToProto(const CheckpointManifest::OperatorInfo& from,
             v1::CheckpointManifest::OperatorInfo* to);
Status FromProto(const v1::CheckpointManifest::OperatorInfo& from,
                 CheckpointManifest::OperatorInfo* to);
void ToProto(const CheckpointManifest& from, v1::CheckpointManifest* to);
Status FromProto(const v1::CheckpointManifest& from, CheckpointManifest* to);
void ToProto(const SnapshotMetrics& from, v1::SnapshotMetrics* to);
Status FromProto(const v1::SnapshotMetrics& from, SnapshotMetrics* to);
void ToProto(const LogEntry& from, v1::LogEntry* to);
Status FromProto(const v1::LogEntry& from, LogEntry* to);

// control.proto
void ToProto(const Status& from, v1::Status* to);
// The status that `from` stands for; unlike the others it cannot fail: an unknown code is
// kInternal.
Status FromProto(const v1::Status& from);
void ToProto(const WorkerInfo& from, v1::WorkerInfo* to);
Status FromProto(const v1::WorkerInfo& from, WorkerInfo* to);
void ToProto(const SinkProgress& from, v1::SinkProgress* to);
Status FromProto(const v1::SinkProgress& from, SinkProgress* to);
void ToProto(const SubtaskMetrics& from, v1::SubtaskMetrics* to);
Status FromProto(const v1::SubtaskMetrics& from, SubtaskMetrics* to);

// worker.proto
void ToProto(const CheckJobRequest& from, v1::CheckJobRequest* to);
Status FromProto(const v1::CheckJobRequest& from, CheckJobRequest* to);
void ToProto(const TaskAssignment& from, v1::TaskAssignment* to);
Status FromProto(const v1::TaskAssignment& from, TaskAssignment* to);
void ToProto(const WorkerAddress& from, v1::WorkerAddress* to);
Status FromProto(const v1::WorkerAddress& from, WorkerAddress* to);
void ToProto(const StartTasksRequest& from, v1::StartTasksRequest* to);
Status FromProto(const v1::StartTasksRequest& from, StartTasksRequest* to);
void ToProto(const TriggerRequest& from, v1::TriggerRequest* to);
Status FromProto(const v1::TriggerRequest& from, TriggerRequest* to);
void ToProto(const CheckpointNotice& from, v1::CheckpointNotice* to);
Status FromProto(const v1::CheckpointNotice& from, CheckpointNotice* to);
void ToProto(const EndTasksRequest& from, v1::EndTasksRequest* to);
Status FromProto(const v1::EndTasksRequest& from, EndTasksRequest* to);
void ToProto(const SettleRequest& from, v1::SettleRequest* to);
Status FromProto(const v1::SettleRequest& from, SettleRequest* to);

// coordinator.proto, from workers
void ToProto(const HelloResponse& from, v1::HelloResponse* to);
Status FromProto(const v1::HelloResponse& from, HelloResponse* to);
void ToProto(const RegisterRequest& from, v1::RegisterRequest* to);
Status FromProto(const v1::RegisterRequest& from, RegisterRequest* to);
void ToProto(const RegisterResponse& from, v1::RegisterResponse* to);
Status FromProto(const v1::RegisterResponse& from, RegisterResponse* to);
void ToProto(const HostedGeneration& from, v1::HostedGeneration* to);
Status FromProto(const v1::HostedGeneration& from, HostedGeneration* to);
void ToProto(const HeartbeatRequest& from, v1::HeartbeatRequest* to);
Status FromProto(const v1::HeartbeatRequest& from, HeartbeatRequest* to);
void ToProto(const HeartbeatResponse& from, v1::HeartbeatResponse* to);
Status FromProto(const v1::HeartbeatResponse& from, HeartbeatResponse* to);
void ToProto(const TaskReport& from, v1::TaskReport* to);
Status FromProto(const v1::TaskReport& from, TaskReport* to);
void ToProto(const ReportTasksRequest& from, v1::ReportTasksRequest* to);
Status FromProto(const v1::ReportTasksRequest& from, ReportTasksRequest* to);
void ToProto(const TaskAck& from, v1::TaskAck* to);
Status FromProto(const v1::TaskAck& from, TaskAck* to);
void ToProto(const AcknowledgeRequest& from, v1::AcknowledgeRequest* to);
Status FromProto(const v1::AcknowledgeRequest& from, AcknowledgeRequest* to);
void ToProto(const PublishReport& from, v1::PublishReport* to);
Status FromProto(const v1::PublishReport& from, PublishReport* to);
void ToProto(const ReportPublishedRequest& from, v1::ReportPublishedRequest* to);
Status FromProto(const v1::ReportPublishedRequest& from, ReportPublishedRequest* to);
void ToProto(const ConfirmCurrentRequest& from, v1::ConfirmCurrentRequest* to);
Status FromProto(const v1::ConfirmCurrentRequest& from, ConfirmCurrentRequest* to);

// coordinator.proto, from clients. A job library may be large: it is moved, not copied.
void ToProto(SubmitRequest&& from, v1::SubmitRequest* to);
Status FromProto(v1::SubmitRequest&& from, SubmitRequest* to);
void ToProto(const SubmitResponse& from, v1::SubmitResponse* to);
Status FromProto(const v1::SubmitResponse& from, SubmitResponse* to);
void ToProto(const FailingCheckpoints& from, v1::FailingCheckpoints* to);
Status FromProto(const v1::FailingCheckpoints& from, FailingCheckpoints* to);
void ToProto(const Failure& from, v1::Failure* to);
Status FromProto(const v1::Failure& from, Failure* to);
void ToProto(const SubtaskStatus& from, v1::SubtaskStatus* to);
Status FromProto(const v1::SubtaskStatus& from, SubtaskStatus* to);
void ToProto(const VertexStatus& from, v1::VertexStatus* to);
Status FromProto(const v1::VertexStatus& from, VertexStatus* to);
void ToProto(const CheckpointSummary& from, v1::CheckpointSummary* to);
Status FromProto(const v1::CheckpointSummary& from, CheckpointSummary* to);
void ToProto(const JobStatus& from, v1::JobStatus* to);
Status FromProto(const v1::JobStatus& from, JobStatus* to);
void ToProto(const JobEvent& from, v1::JobEvent* to);
Status FromProto(const v1::JobEvent& from, JobEvent* to);
void ToProto(const WorkerStatus& from, v1::WorkerStatus* to);
Status FromProto(const v1::WorkerStatus& from, WorkerStatus* to);

template <typename Domain, typename Proto>
void ListToProto(const std::vector<Domain>& from, google::protobuf::RepeatedPtrField<Proto>* to) {
  to->Reserve(static_cast<int>(from.size()));
  for (const Domain& item : from) ToProto(item, to->Add());
}

template <typename Domain, typename Proto>
Status ListFromProto(const google::protobuf::RepeatedPtrField<Proto>& from,
                     std::vector<Domain>* to) {
  to->clear();
  to->reserve(from.size());
  for (const Proto& item : from) WEIR_RETURN_IF_ERROR(FromProto(item, &to->emplace_back()));
  return {};
}

// The error for a field that holds what no sender of ours writes.
Status MalformedError(std::string_view field, std::string_view what);

}  // namespace weir
