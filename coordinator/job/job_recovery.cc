// From a STARTED entry to running tasks: check, restore, slots, old tasks, output, start.
#include <xxhash.h>

#include <algorithm>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/graph/validate.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/job_master.h"
#include "coordinator/job/settle_requests.h"

namespace weir {
namespace {

constexpr int64_t kRetryUs = 200'000;
constexpr int64_t kCallTimeoutUs = 10'000'000;
constexpr int64_t kCheckTimeoutUs = 30'000'000;
// Workers of a coordinator that has just begun come one after the other.
constexpr int64_t kSlotsPatienceUs = 1'000'000;

}  // namespace

int JobMaster::SlotsNeeded() const {
  if (plan_) return plan_->parallelism_max;
  int needed = 1;
  for (const JobVertex& vertex : record_.graph.vertices) {
    needed = std::max(needed, vertex.parallelism > 0 ? vertex.parallelism : options_.parallelism);
  }
  return needed;
}

Status JobMaster::AdoptGraph(JobGraph graph) {
  bool library = !graph.library_sha256.empty();
  StatusOr<Validated> validated = Validate(std::move(graph), {}, library);
  if (!validated.ok()) return validated.status();
  if (!validated->complete) {
    return InvalidArgumentError(
        "the schema of a vertex is still unknown after a worker has looked at the job");
  }
  record_.graph = std::move(validated->graph);
  plan_ = MakeExecutionPlan(record_.graph, options_);
  return Status();
}

Co<void> JobMaster::StartGeneration() {
  if (!unusable_.ok()) {
    Outcome outcome;
    outcome.error = unusable_;
    outcome.permanent = true;
    EndRun(std::move(outcome));
    co_return;
  }
  if (!checked_) {
    bool good = co_await CheckBeforeStart();
    if (!good) co_return;
  }
  waiting_for_.clear();
  Status loaded = co_await LoadRestore();
  if (!loaded.ok()) {
    Outcome outcome;
    outcome.error = loaded;
    outcome.permanent = true;
    EndRun(std::move(outcome));
    co_return;
  }
  if (!TakeSlots()) {
    auto settles = std::make_shared<Gather>();
    generation_scope_.Spawn(SettleWithoutSlots(settles));
    while (!TakeSlots()) co_await office_.workers.changed().Wait();
    while (settles->open > 0) co_await settles->changed.Wait();
  }
  co_await SettleOlder();
  bool restores = restore_.manifest.checkpoint.value() > 0;
  if (restores && !restore_.own) {
    Status settled = co_await SettleForeign();
    if (!settled.ok()) {
      Outcome outcome;
      outcome.error = settled;
      outcome.permanent = true;
      EndRun(std::move(outcome));
      co_return;
    }
  }
  waiting_for_ = "the checkpoint directory";
  CheckpointId highest = co_await SweepCheckpoints();
  if (first_started_.value() == 0) co_await MarkStarted();
  KillPoint("coordinator.during_restore");

  CheckpointedGeneration checkpointed;
  checkpointed.generation = generation();
  for (const ExecutionPlan::TaskVertex& task : plan_->tasks) {
    CheckpointedTask one;
    one.parallelism = task.parallelism;
    for (int vertex : task.chain) one.uids.push_back(record_.graph.vertices[vertex].uid);
    checkpointed.tasks.push_back(std::move(one));
  }
  for (const CompletedCheckpoint& completed : log().Completed()) {
    highest = std::max(highest, completed.checkpoint);
  }
  highest = std::max(highest, restore_.manifest.checkpoint);
  checkpointed.first_usable = CheckpointId(highest.value() + 1);
  checkpoints_->OnGenerationStarted(std::move(checkpointed));
  run_.checkpointing = true;
  Pump();

  waiting_for_ = "tasks to start";
  std::string from = restores ? Concat(" from checkpoint ", restore_.manifest.checkpoint)
                              : std::string(" without a checkpoint");
  Event(Concat("generation ", generation(), " starts", from, " on ", run_.workers.size(),
               " workers"));
  std::set<WorkerName> workers = run_.workers;
  for (const WorkerName& worker : workers) {
    may_have_tasks_.insert(worker);
    generation_scope_.Spawn(StartTasksAt(worker));
  }
}

Co<StatusOr<std::vector<SettleRequest>>> JobMaster::MakeForeignSettles() {
  StatusOr<std::vector<SettleRequest>> requests = co_await MakeSuccessionRequests(
      environment_.files, record_, restore_.manifest, restore_.directory);
  if (!requests.ok()) co_return requests.status();
  co_return WithSender(*std::move(requests));
}

// Publishes what the checkpoint of another job lists, and takes its output over. A refusal (user
// error) ends a job that has not run yet: another one went on from there, or nobody can tell.
Co<Status> JobMaster::SettleForeign() {
  StatusOr<std::vector<SettleRequest>> requests = co_await MakeForeignSettles();
  while (!requests.ok()) {
    const StatusCode code = requests.status().code();
    if (code == StatusCode::kDataLoss || code == StatusCode::kFailedPrecondition) {
      co_return requests.status();
    }
    trouble_ = Concat("storage: ", requests.status().message());
    co_await Sleep(environment_.timers, kRetryUs);
    requests = co_await MakeForeignSettles();
  }
  trouble_.clear();
  for (SettleRequest& request : *requests) {
    waiting_for_ =
        Concat("the output of ", request.vertex.uid, " of job ", request.job, " to be published");
    Status refusal;
    co_await SettleVertex(std::move(request), first_started_.value() == 0 ? &refusal : nullptr);
    if (!refusal.ok()) {
      co_return refusal.WithContext(Concat("cannot start from checkpoint ",
                                           restore_.manifest.checkpoint, " of job ",
                                           restore_.manifest.job));
    }
  }
  co_return Status();
}

// A job that was accepted while no worker could look at it.
Co<bool> JobMaster::CheckBeforeStart() {
  size_t attempt = 0;
  while (true) {
    std::vector<WorkerName> names = office_.workers.Names();
    if (names.empty()) {
      waiting_for_ = Concat(SlotsNeeded(), " slots, 0 free (no worker is there)");
      co_await office_.workers.changed().Wait();
      continue;
    }
    const WorkerInfo worker = *office_.workers.Find(names[attempt++ % names.size()]);
    CheckJobRequest request;
    request.job = record_.id;
    request.job_directory = directory_;
    request.library_path = JobRegistry::LibraryPath(directory_, record_.graph.library_sha256);
    request.graph = record_.graph;
    StatusOr<JobGraph> graph =
        co_await CheckJobOn(environment_, worker, std::move(request), kCheckTimeoutUs);
    Status status = graph.status();
    if (graph.ok()) status = AdoptGraph(*std::move(graph));
    if (status.ok()) {
      JobRecord record = record_;
      status = co_await office_.registry.StoreChecked(std::move(record));
      if (status.ok()) {
        checked_ = true;
        co_return true;
      }
    } else if (status.domain() == ErrorDomain::kUser) {
      Outcome outcome;
      outcome.error = status;
      outcome.worker = worker.name.value();
      outcome.permanent = true;
      EndRun(std::move(outcome));
      co_return false;
    }
    waiting_for_ = Concat("worker ", worker.name, " to check the job: ", status.message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
}

// Fills restore_ from the newest completed checkpoint, or the one that the job was submitted with.
// An error: it is damaged, by name; storage that does not answer is waited for.
Co<Status> JobMaster::LoadRestore() {
  restore_ = Restore();
  restore_.directory = directory_;
  std::optional<CompletedCheckpoint> newest = log().newest_completed();
  if (!newest && record_.restore_from.empty()) co_return Status();
  std::string checkpoint_directory = record_.restore_from;
  if (newest) {
    auto written = written_.find(newest->checkpoint);
    if (written != written_.end()) {
      restore_.manifest = written->second.manifest;
      co_return Status();
    }
    checkpoint_directory =
        JoinPath(directory_, CheckpointDirectoryName(newest->checkpoint, newest->generation));
  } else {
    restore_.directory = ParentPath(record_.restore_from);
    restore_.own = false;
  }
  std::string path = JoinPath(checkpoint_directory, "_metadata");
  while (true) {
    StatusOr<std::string> bytes = co_await ReadWhole(environment_.files, path);
    if (bytes.status().code() == StatusCode::kNotFound) {
      // Without its record the job is not there at all: another directory may be mounted.
      StatusOr<FileInfo> record =
          co_await StatFile(environment_.files, JoinPath(directory_, "job.pb"));
      if (record.ok()) {
        co_return DataLossError(
            Concat("the checkpoint to start from is damaged: ", path, " does not exist"));
      }
    }
    if (!bytes.ok()) {
      trouble_ = Concat("storage: ", bytes.status().message());
      co_await Sleep(environment_.timers, kRetryUs);
      continue;
    }
    trouble_.clear();
    StatusOr<CheckpointManifest> manifest = DecodeManifest(*bytes);
    if (!manifest.ok()) {
      co_return DataLossError(Concat("the checkpoint to start from is damaged: ", path, ": ",
                                     manifest.status().message()));
    }
    uint64_t checksum = XXH3_64bits(bytes->data(), bytes->size());
    if (newest && checksum != newest->manifest_checksum) {
      co_return DataLossError(
          Concat("the checkpoint to start from is damaged: ", path, " has the checksum ", checksum,
                 ", the completion log says ", newest->manifest_checksum, " (checkpoint ",
                 newest->checkpoint, " of generation ", newest->generation, "; found: checkpoint ",
                 manifest->checkpoint, " of generation ", manifest->generation, ")"));
    }
    restore_.manifest = *manifest;
    if (newest) {
      // What people see until tasks of this leader tell more.
      for (const OperatorSnapshot& part : manifest->snapshots) NoteCounts(part);
      last_before_->trigger_wall_us = manifest->trigger_wall_us;
      last_before_->complete_wall_us = manifest->complete_wall_us;
      last_before_->duration_us = manifest->complete_wall_us - manifest->trigger_wall_us;
      last_before_->size_bytes = manifest->StateBytes();
      written_[newest->checkpoint] = Written{*std::move(manifest), checksum};
    }
    co_return Status();
  }
}

bool JobMaster::TakeSlots() {
  Schedule schedule = ScheduleTasks(*plan_, office_.workers.Free());
  if (!schedule.complete()) {
    if (waiting_for_.text() != schedule.waiting_for)
      Event(Concat("waits for ", schedule.waiting_for));
    waiting_for_ = schedule.waiting_for;
    return false;
  }
  waiting_for_.clear();
  office_.workers.Reserve(record_.id, schedule.slots);
  run_.assignments = std::move(schedule.assignments);
  for (const TaskAssignment& assignment : run_.assignments) {
    run_.workers.insert(assignment.worker);
    run_.tasks[{assignment.task, assignment.subtask}] =
        TaskEntry{TaskState::kStarting, assignment.worker};
  }
  return true;
}

// Ends the tasks of generations before this one, publishes what the checkpoint to start from lists
// and removes the rest: on any workers, with or without slots for the job. May be repeated.
Co<void> JobMaster::SettleOlder() {
  if (first_started_.value() == 0) co_return;
  const bool placed = !run_.assignments.empty();  // else it waits for slots above all
  if (generation().value() > 1) {
    if (placed) waiting_for_ = "older tasks to end";
    Generation older(generation().value() - 1);
    const bool all_may_have_tasks = all_may_have_tasks_;
    co_await EndTasksEverywhere(older, false);
    if (!placed) all_may_have_tasks_ = all_may_have_tasks;  // those that are still to come
  }
  co_await SettleOwn(placed);
}

// Readers of the output are not to wait for slots, too. What is made anew after it by tasks that
// have not ended is settled once more when the job has its slots.
Co<void> JobMaster::SettleWithoutSlots(std::shared_ptr<Gather> gather) {
  co_await Sleep(environment_.timers, kSlotsPatienceUs);
  while (office_.workers.Names().empty()) co_await office_.workers.changed().Wait();
  if (!run_.assignments.empty()) co_return;
  ++gather->open;
  co_await SettleOlder();
  if (run_.assignments.empty()) {
    waiting_for_ = ScheduleTasks(*plan_, office_.workers.Free()).waiting_for;
  }
  --gather->open;
  gather->changed.Notify();
}

// Also while no generation runs: of tasks that have not ended yet nothing is taken away but their
// identities.
Co<void> JobMaster::SettleOwn(bool tells) {
  const CheckpointManifest nothing;
  std::vector<SettleRequest> own =
      MakeSettles(restore_.own ? restore_.manifest : nothing, generation());
  for (SettleRequest& request : own) {
    if (tells) waiting_for_ = Concat("the output of ", request.vertex.uid, " to be published");
    co_await SettleVertex(std::move(request));
  }
}

// Readers of the output are not to be held back by a long pause before a restart.
Co<void> JobMaster::SettleInPause() {
  if (first_started_.value() == 0) co_return;
  Status loaded = co_await LoadRestore();
  if (loaded.ok()) co_await SettleOwn(false);
}

// From here on there may be output of the job's that somebody has to settle.
Co<void> JobMaster::MarkStarted() {
  std::string path = JoinPath(directory_, "started");
  std::string contents = Concat(generation(), "\n");
  while (true) {
    Status status =
        co_await ReplaceDurably(environment_.files, path, contents, environment_.random.HexName(8));
    if (status.ok()) break;
    trouble_ = Concat("storage: ", status.message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
  trouble_.clear();
  first_started_ = generation();
}

// Removes checkpoint directories of older generations that did not complete or are no longer
// retained, and the copy the job started from once it has a checkpoint of its own. Answers the
// highest checkpoint id that any directory bears.
Co<CheckpointId> JobMaster::SweepCheckpoints() {
  CheckpointId highest(0);
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(environment_.files, directory_);
  while (!names.ok()) {
    trouble_ = Concat("storage: ", names.status().message());
    co_await Sleep(environment_.timers, kRetryUs);
    names = co_await ListDirectory(environment_.files, directory_);
  }
  trouble_.clear();
  for (const FileInfo& info : *names) {
    CheckpointId checkpoint;
    Generation made;
    bool drop = info.name == "restored" && log().newest_completed().has_value();
    if (ParseCheckpointDirectoryName(info.name, &checkpoint, &made)) {
      highest = std::max(highest, checkpoint);
      auto retained = checkpoints_->completed().find(checkpoint);
      bool keep = retained != checkpoints_->completed().end() && retained->second == made;
      drop = !keep && made < generation() && !writing_.contains(checkpoint);
    }
    if (!drop) continue;
    Status removed = co_await RemoveTree(environment_.files, JoinPath(directory_, info.name));
    if (!removed.ok()) {
      log::Warning(Tag(), " cannot remove ", directory_, "/", info.name, ": ", removed.message());
    }
  }
  co_return highest;
}

StartTasksRequest JobMaster::MakeStartTasks() const {
  StartTasksRequest request;
  request.coordinator = office_.number;
  request.job = record_.id;
  request.generation = generation();
  request.job_directory = directory_;
  request.library_path = JobRegistry::LibraryPath(directory_, record_.graph.library_sha256);
  request.graph = record_.graph;
  request.assignments = run_.assignments;
  for (const WorkerName& name : run_.workers) {
    const WorkerInfo* worker = office_.workers.Find(name);
    if (worker != nullptr) request.workers.push_back(WorkerAddress{name, worker->data_address});
  }
  request.restore = restore_.manifest;
  request.restore_directory = restore_.directory;
  return request;
}

Co<void> JobMaster::StartTasksAt(WorkerName name) {
  while (true) {
    const WorkerInfo* found = office_.workers.Find(name);
    if (found == nullptr) co_return;  // lost: the generation ends
    const WorkerInfo worker = *found;
    StartTasksRequest request = MakeStartTasks();
    Status status = co_await StartTasksOn(environment_, worker, std::move(request), kCallTimeoutUs);
    if (status.ok()) co_return;
    if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kUnknownOutcome) {
      Outcome outcome;
      outcome.error = status.code() == StatusCode::kStale
                          ? UnavailableError(Concat("worker ", name, " has ended generation ",
                                                    generation(), ": ", status.message()))
                          : status;
      outcome.worker = name.value();
      EndRun(std::move(outcome));
      co_return;
    }
    log::Warning(Tag(), " cannot start tasks on worker ", name,
                 ", trying again: ", status.message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
}

}  // namespace weir
