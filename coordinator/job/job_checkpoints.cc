// What the checkpoint coordinator asks for, carried out.
#include <xxhash.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/job_master.h"

namespace weir {
namespace {

constexpr int64_t kRetryUs = 100'000;
constexpr int64_t kCallTimeoutUs = 5'000'000;

}  // namespace

void JobMaster::OnAllTasksRunning() {
  if (!run_.checkpointing) return;
  bool sources_ended = true;
  for (const auto& [place, task] : run_.tasks) {
    if (task.state != TaskState::kRunning && task.state != TaskState::kEndedInput) return;
    bool source = plan_->tasks[place.first].inputs.empty();
    if (source && task.state != TaskState::kEndedInput) sources_ended = false;
  }
  if (!run_.all_running) {
    run_.all_running = true;
    waiting_for_.clear();
    EnterState(JobState::kRunning);
    checkpoints_->OnAllRunning(Now());
  }
  if (sources_ended && !run_.sources_ended) {
    run_.sources_ended = true;
    Event("all sources have ended: the final checkpoint follows");
    checkpoints_->OnSourcesEnded(Now());
  }
  Pump();
}

void JobMaster::NoteCounts(const OperatorSnapshot& part) {
  SubtaskMetrics& metrics = run_.subtasks[{part.uid, part.subtask}].metrics;
  metrics.records_in = std::max(metrics.records_in, part.records_in);
  metrics.records_out = std::max(metrics.records_out, part.records_out);
  metrics.dropped_rows = std::max(metrics.dropped_rows, part.dropped_rows);
  metrics.lost_rows = std::max(metrics.lost_rows, part.lost_rows);
}

Status JobMaster::OnAcknowledge(AcknowledgeRequest request) {
  WEIR_RETURN_IF_ERROR(CheckCurrent(request.generation));
  for (TaskAck& ack : request.acks) {
    CheckpointId checkpoint = ack.checkpoint;
    int task = ack.task;
    int subtask = ack.subtask;
    // Newer than the last heartbeat, and exact behind the last barrier of a bounded job.
    for (const OperatorSnapshot& part : ack.snapshots) NoteCounts(part);
    std::string reason;
    AckOutcome outcome = checkpoints_->OnAck(request.generation, std::move(ack), Now(), &reason);
    if (outcome == AckOutcome::kAccepted) continue;
    log::Info(Tag(), " checkpoint=", checkpoint, " ack of task ", task, " subtask ", subtask,
              " from worker ", request.worker, ": ", ToString(outcome), reason.empty() ? "" : ": ",
              reason);
  }
  Pump();
  return Status();
}

Status JobMaster::OnPublished(const ReportPublishedRequest& request) {
  WEIR_RETURN_IF_ERROR(CheckCurrent(request.generation));
  for (const PublishReport& report : request.reports) {
    checkpoints_->OnPublished(request.generation, report);
  }
  Pump();
  return Status();
}

Status JobMaster::CheckCurrent(Generation asked) const {
  if (run_.live && asked == generation()) return Status();
  return StaleError(
      Concat("generation ", asked, " of job ", record_.id, " is not the one that runs"));
}

void JobMaster::ArmTick() {
  if (tick_timer_ != 0) environment_.timers.Cancel(tick_timer_);
  tick_timer_ = 0;
  std::optional<int64_t> wake_us = checkpoints_->NextWakeMicros();
  if (!wake_us || halted_) return;
  int64_t left_us = std::max<int64_t>(0, *wake_us - environment_.clock.MonotonicMicros());
  tick_timer_ = environment_.timers.After(left_us, [this] {
    tick_timer_ = 0;
    checkpoints_->OnTick(Now());
    Pump();
  });
}

void JobMaster::Pump() {
  if (halted_) return;
  for (CheckpointAction& action : checkpoints_->TakeActions()) {
    CheckpointId checkpoint = action.checkpoint;
    switch (action.kind) {
      case CheckpointAction::Kind::kTrigger:
        run_.triggered[checkpoint] = true;
        job_scope_.Spawn(TriggerFlow(std::move(action)));
        break;
      case CheckpointAction::Kind::kWriteManifest:
        writing_.insert(checkpoint);
        job_scope_.Spawn(WriteManifest(std::move(action)));
        break;
      case CheckpointAction::Kind::kClaimCompletion:
        job_scope_.Spawn(ClaimCompletion(checkpoint));
        break;
      case CheckpointAction::Kind::kNotifyCompleted: {
        CheckpointNotice notice{record_.id, action.generation, checkpoint};
        for (const WorkerName& worker : run_.workers) {
          generation_scope_.Spawn(NotifyAt(worker, notice, true, std::make_shared<Gather>()));
        }
        break;
      }
      case CheckpointAction::Kind::kAbort:
        run_.triggered.erase(checkpoint);
        if (!writing_.contains(checkpoint)) written_.erase(checkpoint);
        Event(Concat("checkpoint ", checkpoint, " failed: ", action.reason), checkpoint);
        // Of a generation that has ended: its directory goes with the next sweep.
        if (run_.live && action.generation == generation()) {
          CheckpointNotice notice{record_.id, action.generation, checkpoint};
          generation_scope_.Spawn(AbortFlow(notice));
        }
        break;
      case CheckpointAction::Kind::kDrop:
        job_scope_.Spawn(DropFlow(checkpoint, action.generation));
        break;
      case CheckpointAction::Kind::kFailGeneration: {
        Outcome outcome;
        outcome.error = UnavailableError(action.reason);
        EndRun(std::move(outcome));
        break;
      }
      case CheckpointAction::Kind::kFinish: {
        Outcome outcome;
        outcome.finished = true;
        EndRun(std::move(outcome));
        break;
      }
    }
  }
  ArmTick();
}

// The directory first, so that workers only create files in it; then the barriers. That the
// directory is durable is waited for by the manifest alone. Outlives the generation, for a
// directory that is made after all when the checkpoint has ended would stay.
Co<void> JobMaster::TriggerFlow(CheckpointAction action) {
  std::string directory =
      JoinPath(directory_, CheckpointDirectoryName(action.checkpoint, action.generation));
  // After a long sleep another coordinator may have brought the job to its end: a directory that is
  // made then would stay for good.
  while (!office_.leadership.fresh()) {
    co_await Sleep(environment_.timers, kRetryUs);
    if (halted_ || !run_.triggered.contains(action.checkpoint)) co_return;
  }
  Status status = co_await MakeDirectory(environment_.files, directory);
  if (status.code() == StatusCode::kAlreadyExists) status = Status();
  if (halted_) co_return;
  if (!run_.triggered.contains(action.checkpoint)) {
    (void)co_await RemoveTree(environment_.files, directory);
    co_return;
  }
  if (!status.ok()) {
    checkpoints_->OnTriggerFailed(action.checkpoint, status, Now());
    Pump();
    co_return;
  }
  TriggerRequest request;
  request.job = record_.id;
  request.generation = action.generation;
  request.checkpoint = action.checkpoint;
  request.base = action.base;
  request.trigger_wall_us = action.trigger_wall_us;
  std::set<WorkerName> sources;
  for (const TaskAssignment& assignment : run_.assignments) {
    if (plan_->tasks[assignment.task].inputs.empty()) sources.insert(assignment.worker);
  }
  log::Debug(Tag(), " checkpoint=", action.checkpoint, " triggered on ", sources.size(),
             " workers");
  for (const WorkerName& worker : sources) generation_scope_.Spawn(TriggerAt(worker, request));

  auto sync = std::make_shared<DirectorySync>();
  syncing_[action.checkpoint] = sync;
  sync->status = co_await SyncDirectory(environment_.files, directory_);
  sync->answered = true;
  syncing_.erase(action.checkpoint);
  sync->changed.Notify();
  if (halted_ || sync->status.ok()) co_return;
  checkpoints_->OnTriggerFailed(action.checkpoint, sync->status, Now());
  Pump();
}

Co<void> JobMaster::TriggerAt(WorkerName name, TriggerRequest request) {
  while (run_.triggered.contains(request.checkpoint)) {
    const WorkerInfo* found = office_.workers.Find(name);
    if (found == nullptr) co_return;
    const WorkerInfo worker = *found;
    Status status = co_await TriggerOn(environment_, worker, request, kCallTimeoutUs);
    if (status.ok()) co_return;
    log::Warning(Tag(), " checkpoint=", request.checkpoint, " cannot be triggered on worker ", name,
                 ": ", status.message());
    if (status.code() == StatusCode::kStale) {
      EndRunOf(name);
      co_return;
    }
    co_await Sleep(environment_.timers, kRetryUs);
  }
}

Co<void> JobMaster::WriteManifest(CheckpointAction action) {
  CheckpointManifest manifest;
  manifest.job = record_.id;
  manifest.checkpoint = action.checkpoint;
  manifest.generation = action.generation;
  manifest.trigger_wall_us = action.trigger_wall_us;
  manifest.complete_wall_us = environment_.clock.WallMicros();
  for (const ExecutionPlan::TaskVertex& task : plan_->tasks) {
    for (int index : task.chain) {
      CheckpointManifest::OperatorInfo info;
      info.uid = record_.graph.vertices[index].uid;
      info.parallelism = task.parallelism;
      info.max_parallelism = task.max_parallelism;
      manifest.operators.push_back(std::move(info));
    }
  }
  manifest.snapshots = std::move(action.snapshots);
  std::string bytes = EncodeManifest(manifest);
  uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  std::string directory =
      JoinPath(directory_, CheckpointDirectoryName(action.checkpoint, action.generation));
  KillPoint("coordinator.before_manifest");
  std::shared_ptr<DirectorySync> sync;
  if (auto found = syncing_.find(action.checkpoint); found != syncing_.end()) sync = found->second;
  Status status = co_await CreateDurably(environment_.files, JoinPath(directory, "_metadata"),
                                         std::move(bytes));
  while (sync != nullptr && !sync->answered) co_await sync->changed.Wait();
  if (sync != nullptr && status.ok()) status = sync->status;
  writing_.erase(action.checkpoint);
  if (halted_) co_return;
  if (action.generation < generation()) {
    // It failed with its generation, and the sweep after that passed over what was being written.
    status = co_await RemoveTree(environment_.files, directory);
    if (!status.ok()) {
      log::Warning(Tag(), " checkpoint=", action.checkpoint,
                   " leaves files until the next restart: ", status.message());
    }
    co_return;
  }
  if (status.ok()) {
    KillPoint("coordinator.after_manifest");
    written_[action.checkpoint] = Written{std::move(manifest), checksum};
    checkpoints_->OnManifestWritten(action.checkpoint, Now());
  } else {
    log::Warning(Tag(), " checkpoint=", action.checkpoint, " has no manifest: ", status.message());
    checkpoints_->OnManifestFailed(action.checkpoint, status, Now());
  }
  Pump();
}

Co<void> JobMaster::ClaimCompletion(CheckpointId checkpoint) {
  auto written = written_.find(checkpoint);
  WEIR_CHECK(written != written_.end());
  driver_.log().ClaimCompleted(checkpoint, written->second.checksum,
                               environment_.clock.WallMicros());
  Status driven = co_await Drive();
  if (!driven.ok()) co_return;
  KillPoint("coordinator.before_notice");
  run_.triggered.erase(checkpoint);
  // Older manifests are not needed any more: no generation restores them.
  written_.erase(written_.begin(), written_.find(checkpoint));
  backoff_.Reset();
  failing_since_wall_us_ = 0;
  checkpoints_->OnCompletionClaimed(checkpoint, Now());
  if (checkpoints_->last_completed()) {
    const CheckpointSummary& summary = *checkpoints_->last_completed();
    Event(Concat("checkpoint ", checkpoint, " completed in ", summary.duration_us / 1000, " ms, ",
                 summary.size_bytes, " bytes"),
          checkpoint, log::Level::kDebug);
  }
  Pump();
  Wake();
}

// Repeats the notice until the worker has answered, is lost, or a later completion covers it.
Co<void> JobMaster::NotifyAt(WorkerName name, CheckpointNotice notice, bool completed,
                             std::shared_ptr<Gather> gather) {
  while (true) {
    const WorkerInfo* found = office_.workers.Find(name);
    if (found == nullptr) break;
    const WorkerInfo worker = *found;
    Status status = co_await NotifyOn(environment_, worker, notice, completed, kCallTimeoutUs);
    if (status.ok() || status.code() == StatusCode::kStale) break;
    if (completed && log().newest_completed()->checkpoint > notice.checkpoint) break;
    log::Warning(Tag(), " checkpoint=", notice.checkpoint, " notice to worker ", name, ": ",
                 status.message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
  --gather->open;
  gather->changed.Notify();
}

// When every worker knows that it is aborted, nobody writes into its directory any more.
Co<void> JobMaster::AbortFlow(CheckpointNotice notice) {
  std::shared_ptr<Gather> gather = std::make_shared<Gather>();
  std::set<WorkerName> workers = run_.workers;
  gather->open = static_cast<int>(workers.size());
  for (const WorkerName& worker : workers) {
    generation_scope_.Spawn(NotifyAt(worker, notice, false, gather));
  }
  while (gather->open > 0) co_await gather->changed.Wait();
  while (writing_.contains(notice.checkpoint)) co_await Sleep(environment_.timers, kRetryUs);
  std::string directory =
      JoinPath(directory_, CheckpointDirectoryName(notice.checkpoint, notice.generation));
  Status removed = co_await RemoveTree(environment_.files, directory);
  if (!removed.ok()) {
    log::Warning(Tag(), " checkpoint=", notice.checkpoint,
                 " leaves files until the next restart: ", removed.message());
  }
}

// A later completed checkpoint stands in the log, so that no leader starts from this one.
Co<void> JobMaster::DropFlow(CheckpointId checkpoint, Generation generation) {
  std::string directory = JoinPath(directory_, CheckpointDirectoryName(checkpoint, generation));
  Status removed = co_await RemoveTree(environment_.files, directory);
  if (removed.ok())
    removed = co_await RemoveTree(environment_.files, JoinPath(directory_, "restored"));
  if (!removed.ok()) {
    log::Warning(Tag(), " checkpoint=", checkpoint, " cannot be removed: ", removed.message());
  }
  if (halted_) co_return;
  std::set<CheckpointId> retained;
  for (const auto& [id, made] : checkpoints_->completed()) retained.insert(id);
  co_await driver_.Prune(std::move(retained));
}

}  // namespace weir
