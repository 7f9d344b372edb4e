#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/graph/job_graph.h"
#include "common/operator/committable.h"
#include "common/operator/sink_progress.h"

// What the processes of a cluster say to each other, in domain types; common/rpc turns them into
// proto/weir/v1. Everything about a running job carries its id and generation; a stale one is
// answered kStale and never acted on. Every request may arrive twice, late or never be answered:
// each says what a repetition does.
namespace weir {

// --- Worker to coordinator -----------------------------------------------------------------------

// First words: who leads here, and where the proof lies that both see one checkpoint directory.
struct HelloResponse {
  CoordinatorNumber coordinator;
  std::string checkpoint_dir;
  std::string nonce_path;  // absolute; the worker reads it and sends its contents
  std::string host;
};

struct WorkerInfo {
  WorkerName name;
  WorkerIncarnation incarnation;  // unique to this start of the process
  std::string control_address;    // host:port, gRPC
  std::string data_address;       // host:port, data plane
  std::string host;
  std::string work_dir;
  int64_t pid = 0;
  int slots = 0;
  std::string version;
};

// Of what the processes of a cluster say to each other. Raised with every change that an older one
// would misunderstand: such a worker is refused.
inline constexpr uint32_t kControlProtocolVersion = 2;

struct RegisterRequest {
  WorkerInfo worker;
  CoordinatorNumber coordinator;
  std::string nonce;
  uint32_t protocol = kControlProtocolVersion;  // 0: from before there was one
};
// Refusal is a Status: protocol differs (names both versions), nonce differs (names both paths and
// hosts), name taken by a live worker.
struct RegisterResponse {
  int64_t heartbeat_interval_us = 0;
  int64_t heartbeat_timeout_us = 0;
};

// How one subtask spends its time since its start, and what it moved.
struct SubtaskMetrics {
  std::string uid;
  int subtask = 0;
  int64_t records_in = 0;
  int64_t records_out = 0;
  int64_t bytes_out = 0;  // to the next operator of the chain, or over the edges as they send it
  int64_t busy_us = 0;
  int64_t idle_us = 0;
  int64_t backpressured_us = 0;
  int64_t dropped_rows = 0;
  std::string blocked_on;  // named reason, "" when it is not blocked
  int64_t lost_rows = 0;
  std::optional<SinkProgress> sink;  // of sinks that tell it
  std::string waits_for;             // what it cannot go on without; "": nothing
  int64_t waits_since_wall_us = 0;
};
struct HostedGeneration {
  JobId job;
  Generation generation;
  std::vector<SubtaskMetrics> metrics;
};
struct HeartbeatRequest {
  WorkerName name;
  WorkerIncarnation incarnation;
  CoordinatorNumber coordinator;
  std::vector<HostedGeneration> hosted;
  std::string slow_storage;  // "sync /out/x for 12 s": not answered yet; "" when all is well
};
struct HeartbeatResponse {
  CoordinatorNumber coordinator;
  bool known = true;  // false: register again
  // Hosted generations that must end: no longer current.
  std::vector<std::pair<JobId, Generation>> end;
};

enum class TaskState { kStarting, kRunning, kEndedInput, kFinished, kFailed };
// One task (a chain of operator subtasks) changed state. States only grow in the order of the
// enum; a repetition changes nothing.
struct TaskReport {
  int task = 0;  // index into the execution plan's tasks
  int subtask = 0;
  TaskState state = TaskState::kStarting;
  std::string uid;  // kFailed: the operator whose error it is
  Status error;     // kFailed
};
struct ReportTasksRequest {
  WorkerName worker;
  JobId job;
  Generation generation;
  std::vector<TaskReport> reports;
};

// One task's acknowledgement: every handle and committable in it is durable.
struct TaskAck {
  CheckpointId checkpoint;
  int task = 0;
  int subtask = 0;
  Status error;  // not OK: this task could not take its snapshot; the checkpoint is declined
  std::vector<OperatorSnapshot> snapshots;  // one for each operator of the chain
  std::vector<SnapshotMetrics> metrics;
};
struct AcknowledgeRequest {
  WorkerName worker;
  JobId job;
  Generation generation;
  std::vector<TaskAck> acks;
};

// A sink subtask has published everything up to `checkpoint` durably.
struct PublishReport {
  CheckpointId checkpoint;
  std::string uid;
  int subtask = 0;
};
struct ReportPublishedRequest {
  WorkerName worker;
  JobId job;
  Generation generation;
  std::vector<PublishReport> reports;
};

// Whether what acts for `generation` may take hold of what has one holder in the outside world: its
// tasks do while that generation runs (settle_order 0), a settle order while whoever gave it waits
// for its outcome. Answered OK only after the coordinator has seen that it still leads; kStale:
// not, and never again; kUnavailable: it cannot be told now. Changes nothing.
struct ConfirmCurrentRequest {
  JobId job;
  Generation generation;
  CoordinatorNumber coordinator;  // that gave the order; 0 for tasks
  uint64_t settle_order = 0;
};

// --- Coordinator to worker -----------------------------------------------------------------------

// Settles what one vertex (a sink, or a source with dead letters) sealed, without its task: commits
// `committables`, then aborts everything of generations below `generation` that is not among them.
// With a successor the committables are another job's, which has ended, and the successor starts
// from the checkpoint that lists them: what tells how far the output is names it from then on. With
// `ends` nobody publishes there any more: the job that sealed them ended, or the successor did
// without a checkpoint of its own, and leaves the output as it found it.
struct SettleRequest {
  CoordinatorNumber coordinator;
  JobId job;
  Generation generation;
  JobVertex vertex;
  std::string job_name;
  std::string library_path;
  std::vector<Committable> committables;
  std::string job_directory;  // of the job that sealed them, absolute; a copy of it with --from
  uint64_t order = 0;         // of this coordinator, for ConfirmCurrent; each attempt is a new one
  JobId successor;            // "": none
  std::vector<JobVertex> successor_vertices;  // those of its graph that are of this vertex's type
  bool ends = false;
  int64_t answer_within_us = 0;  // then says at least what it waits for; 0: when it is done
};

// What of a job only a worker can see: expands source patterns, reads headers, looks into output
// directories, loads the job library. Answers the graph with what it found filled in (configs and
// output schemas) or the user error. Changes nothing.
struct CheckJobRequest {
  JobId job;
  std::string job_directory;  // where lib/<sha256>.so is, absolute; may not exist yet
  std::string library_path;   // absolute path of the library as stored; "" if none
  JobGraph graph;
  std::vector<SettleRequest> succession;  // what it will ask for when it starts
};

struct TaskAssignment {
  int task = 0;
  int subtask = 0;
  WorkerName worker;
};
struct WorkerAddress {
  WorkerName worker;
  std::string data_address;
};
// Starts the worker's share of a generation. A repetition is answered OK while it runs and kStale
// once it has ended. Anything of an older generation of the job here is ended first.
struct StartTasksRequest {
  CoordinatorNumber coordinator;
  JobId job;
  Generation generation;
  std::string job_directory;                // absolute
  std::string library_path;                 // absolute; "" if none
  JobGraph graph;                           // validated, complete
  std::vector<TaskAssignment> assignments;  // of all tasks of the job
  std::vector<WorkerAddress> workers;
  // The checkpoint to restore; checkpoint 0: start fresh.
  CheckpointManifest restore;
  // Directory that restore's paths are relative to (this job's, or another's with --from).
  std::string restore_directory;
};

// Puts barrier `checkpoint` into the outputs of the worker's source tasks. A repetition, and one
// that is not above the last seen or was aborted before, changes nothing.
struct TriggerRequest {
  JobId job;
  Generation generation;
  CheckpointId checkpoint;
  CheckpointId base;  // newest completed; the only one incremental files may build on; 0: none
  int64_t trigger_wall_us = 0;
};

// Checkpoint completed / will never complete. Retried until answered; may come in any order.
struct CheckpointNotice {
  JobId job;
  Generation generation;
  CheckpointId checkpoint;
};

// Ends the worker's tasks of this job up to and including `generation`: cut off from acks, channels
// and commits at once; answered when they are gone. finish: they end as finished, not cancelled.
struct EndTasksRequest {
  JobId job;
  Generation generation;
  bool finish = false;
};

// --- Client to coordinator -----------------------------------------------------------------------

enum class JobState { kCreated, kRunning, kRestarting, kCancelling, kCanceled, kFinished, kFailed };
std::string_view ToString(JobState state);  // "CREATED" …
bool IsEnded(JobState state);               // CANCELED, FINISHED, FAILED

// A repetition with the same id and content gets the same answer; the same id with other content
// is refused.
struct SubmitRequest {
  JobId job;  // made by the client
  JobGraph graph;
  std::string library;  // bytes of the job library, "" if none
  std::string
      restore_from;  // directory of a checkpoint (chk-…) to start from, absolute; "" if none
  std::string client_directory;  // where relative paths of the graph start, absolute
};
struct SubmitResponse {
  JobId job;
  std::string name;
};

struct Failure {
  std::string message;  // first cause
  std::string uid;
  int subtask = -1;
  std::string worker;
  int64_t wall_us = 0;
  int64_t since_wall_us = 0;  // the first one since a checkpoint last completed
};

struct SubtaskStatus {
  int subtask = 0;
  std::string worker;
  std::string state;  // "starting", "running", "ended_input", "finished", "failed", "waiting"
  SubtaskMetrics metrics;
  double busy = 0;  // shares of the time since the last heartbeat, 0…1
  double idle = 0;
  double backpressured = 0;
};
struct VertexStatus {
  std::string uid;
  std::string type;
  int parallelism = 1;
  std::vector<SubtaskStatus> subtasks;
};
struct CheckpointSummary {
  CheckpointId id;
  Generation generation;
  std::string state;  // "in_progress", "completed", "failed"
  int64_t trigger_wall_us = 0;
  int64_t complete_wall_us = 0;  // 0: not completed
  int64_t duration_us = 0;
  int64_t size_bytes = 0;
  std::string failure_reason;
  std::vector<SnapshotMetrics> subtasks;
};
// Checkpoints fail, and none has completed since.
struct FailingCheckpoints {
  CheckpointId id;  // the last one that failed
  std::string reason;
  int64_t wall_us = 0;
  int64_t failures = 0;       // since the last completed one
  int64_t since_wall_us = 0;  // the first of them
};
struct JobStatus {
  JobId id;
  std::string name;
  JobState state = JobState::kCreated;
  Generation generation;
  int64_t restarts = 0;
  int parallelism = 1;
  int64_t start_wall_us = 0;
  int64_t end_wall_us = 0;  // 0: live
  std::string waiting_for;  // "2 slots, 1 free", "worker-1 to publish …", "" when nothing
  int64_t waiting_since_wall_us = 0;
  std::optional<Failure> failure;                    // the last one, or why the job ended
  std::optional<CheckpointSummary> last_checkpoint;  // completed
  std::optional<FailingCheckpoints> failing_checkpoints;
  int64_t checkpoints_completed = 0;
  int64_t records_in = 0;           // emitted by sources
  int64_t records_out = 0;          // taken by sinks
  std::string retained_checkpoint;  // ended job: absolute directory of the one that was kept, or ""
  std::vector<VertexStatus> vertices;
};

struct JobEvent {  // one line of `weir logs`
  int64_t wall_us = 0;
  std::string text;
};

struct WorkerStatus {
  WorkerInfo info;
  int slots_free = 0;
  int64_t registered_wall_us = 0;
  int64_t last_heartbeat_age_us = 0;
};

}  // namespace weir
