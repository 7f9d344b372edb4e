#include "coordinator/job/job_master.h"

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/log.h"
#include "coordinator/job/effects.h"

namespace weir {
namespace {

constexpr int64_t kSweepTimeoutUs = 10'000'000;
constexpr int64_t kRetryUs = 200'000;
// A pause before a restart that is longer holds no reader of the output back.
constexpr int64_t kShortPauseUs = 2'000'000;

JobOptions OptionsOf(const JobGraph& graph, Status* unusable) {
  StatusOr<JobOptions> options = ParseJobOptions(graph.options);
  if (options.ok()) return *std::move(options);
  *unusable = options.status();
  return JobOptions();
}

}  // namespace

JobMaster::JobMaster(CoordinatorEnvironment& environment, StoredJob job, JobOffice office)
    : environment_(environment),
      office_(std::move(office)),
      record_(std::move(job.record)),
      checked_(job.checked),
      directory_(office_.registry.JobDirectory(record_.id)),
      options_(OptionsOf(record_.graph, &unusable_)),
      driver_(
          environment, directory_, Concat(office_.number, "-", environment.random.HexName(16)),
          [this](const std::string& trouble) {
            if (!trouble.empty() && trouble != trouble_.text()) {
              log::Warning(Tag(), " waits: ", trouble);
            }
            trouble_ = trouble;
          },
          [this] { return office_.leadership.Confirm(); }),
      backoff_(options_),
      waiting_for_(environment.clock),
      trouble_(environment.clock) {
  if (checked_ && unusable_.ok()) plan_ = MakeExecutionPlan(record_.graph, options_);
}

JobMaster::~JobMaster() {
  if (tick_timer_ != 0) environment_.timers.Cancel(tick_timer_);
  Status gone = UnavailableError("this coordinator no longer leads");
  for (auto& done : cancels_) done(gone);
  for (auto& done : forced_) done(gone);
}

void JobMaster::Start() { job_scope_.Spawn(Run()); }

Generation JobMaster::generation() const { return std::max(log().generation(), ended_generation_); }

Moment JobMaster::Now() const {
  return Moment{environment_.clock.MonotonicMicros(), environment_.clock.WallMicros()};
}

std::string JobMaster::Tag() const {
  std::string tag = Concat("job=", record_.id.value().substr(0, 8));
  if (generation().value() > 0) tag += Concat(" generation=", generation());
  return tag;
}

void JobMaster::Event(const std::string& text, CheckpointId checkpoint, log::Level level) {
  events_.push_back(JobEvent{environment_.clock.WallMicros(), text});
  if (events_.size() > kEventsMax) events_.pop_front();
  if (!log::Enabled(level)) return;
  std::string about = checkpoint.value() > 0 ? Concat(" checkpoint=", checkpoint) : std::string();
  log::Write(level, Concat(Tag(), about, " ", text));
}

void JobMaster::EnterState(JobState state) {
  if (state == state_) return;
  WEIR_CHECK_MESSAGE(IsLegalTransition(state_, state),
                     Concat(ToString(state_), " to ", ToString(state)));
  Event(Concat(ToString(state_), " → ", ToString(state)));
  state_ = state;
}

void JobMaster::Wake() {
  std::weak_ptr<int> alive = alive_;
  environment_.executor.Post([this, alive] {
    if (!alive.expired()) wake_.Notify();
  });
}

void JobMaster::Halt(const Status& reason) {
  if (halted_) return;
  log::Warning(Tag(), " is let go: ", reason.message());
  Stop();
  trouble_ = Concat("being taken up again: ", reason.message());
  std::weak_ptr<int> alive = alive_;
  environment_.executor.Post([this, alive, reason] {
    if (!alive.expired()) office_.halted(reason);
  });
}

// Without its log nobody knows which checkpoint counts and what is published: nothing of the job is
// touched any more. It fails for as long as its log is missing, whoever leads.
void JobMaster::Condemn(const Status& reason) {
  if (halted_) return;
  Event(Concat("stops, and nothing of it is touched: ", reason.message()), CheckpointId(0),
        log::Level::kError);
  Stop();
  waiting_for_.clear();
  trouble_.clear();
  Failure failure;
  failure.message = reason.message();
  failure.wall_us = failure.since_wall_us = environment_.clock.WallMicros();
  failure_ = std::move(failure);
  end_wall_us_ = environment_.clock.WallMicros();
  state_ = JobState::kFailed;
  AnswerCancels(JobState::kFailed);
}

// No effect follows any more.
void JobMaster::Stop() {
  halted_ = true;
  if (checkpoints_) checkpoints_->OnDeposed();
  if (tick_timer_ != 0) environment_.timers.Cancel(tick_timer_);
  tick_timer_ = 0;
  run_.live = false;
  generation_scope_.Clear();  // called from the flows of job_scope_ alone
  office_.workers.Release(record_.id);
}

// Carries out the log's next actions; kStale when the leader turned out to be deposed.
Co<Status> JobMaster::Drive() {
  Status driven = co_await driver_.Drive();
  if (driven.ok() && log().phase() == CompletionLog::Phase::kDeposed) {
    driven = StaleError("another coordinator has taken charge of the job");
  }
  if (driven.code() == StatusCode::kDataLoss) {
    Condemn(driven);
  } else if (!driven.ok()) {
    Halt(driven);
  }
  co_return driven;
}

Co<void> JobMaster::PauseUntil(int64_t monotonic_us) {
  int64_t left_us = monotonic_us - environment_.clock.MonotonicMicros();
  if (left_us <= 0) co_return;
  std::weak_ptr<int> alive = alive_;
  TimerId timer = environment_.timers.After(left_us, [this, alive] {
    if (!alive.expired()) wake_.Notify();
  });
  co_await wake_.Wait();
  environment_.timers.Cancel(timer);
}

Co<void> JobMaster::Run() {
  co_await ReadStartedMark();
  co_await ReadEvidence();
  Status driven = co_await Drive();
  if (!driven.ok()) co_return;
  if (log().phase() == CompletionLog::Phase::kEnded) {
    AdoptEnd(*log().end());
    co_await TidyEnded();
    co_return;
  }
  co_await RunCharged();
}

// What the job's directory tells of its past: no generation leaves anything there before its
// STARTED entry stands.
Co<void> JobMaster::ReadEvidence() {
  Generation highest = first_started_;
  std::string evidence =
      Concat("but ", JoinPath(directory_, "started"), " names generation ", first_started_);
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
    if (!ParseCheckpointDirectoryName(info.name, &checkpoint, &made) || made <= highest) continue;
    highest = made;
    evidence = Concat("but there is ", JoinPath(directory_, info.name), " of generation ", made);
  }
  driver_.RequireGeneration(highest, std::move(evidence));
}

Co<void> JobMaster::ReadStartedMark() {
  while (true) {
    StatusOr<std::string> mark =
        co_await ReadWhole(environment_.files, JoinPath(directory_, "started"));
    if (mark.ok()) {
      uint64_t generation = 0;
      std::from_chars(mark->data(), mark->data() + mark->size(), generation);
      first_started_ = Generation(std::max<uint64_t>(1, generation));
      break;
    }
    if (mark.status().code() == StatusCode::kNotFound) break;
    trouble_ = Concat("storage: ", mark.status().message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
  trouble_.clear();
}

Co<void> JobMaster::RunCharged() {
  std::vector<CompletedCheckpoint> completed = log().Completed();
  std::vector<std::pair<CheckpointId, Generation>> retained;
  size_t keep = static_cast<size_t>(std::max(1, options_.checkpoint_retained));
  for (const CompletedCheckpoint& one : completed) {
    if (completed.size() - static_cast<size_t>(&one - completed.data()) > keep) continue;
    retained.emplace_back(one.checkpoint, one.generation);
  }
  checkpoints_.emplace(options_, std::move(retained));
  if (log().newest_completed()) {
    completed_before_ = static_cast<int64_t>(log().newest_completed()->checkpoint.value());
    CheckpointSummary summary;
    summary.id = log().newest_completed()->checkpoint;
    summary.generation = log().newest_completed()->generation;
    summary.state = "completed";
    last_before_ = std::move(summary);
  }
  all_may_have_tasks_ = first_started_.value() > 0;
  Event(Concat("coordinator ", office_.number, " takes charge in term ", log().term(),
               ", generation ", generation()));
  if (first_started_.value() > 0) EnterState(JobState::kRestarting);

  if (std::optional<LogEntry> intent = log().intent()) {
    if (intent->kind == LogEntry::Kind::kCancelling) {
      cancel_requested_ = true;
      cancelling_durable_ = true;
      EnterState(JobState::kCancelling);
      co_await EndJob(JobState::kCanceled, intent->reason);
      co_return;
    }
    if (intent->kind == LogEntry::Kind::kFailing) {
      Failure failure;
      failure.message = intent->reason;
      failure.wall_us = failure.since_wall_us = intent->wall_us;
      failure_ = std::move(failure);
      co_await EndJob(JobState::kFailed, intent->reason);
      co_return;
    }
  }
  while (true) {
    bool restart = co_await RunGeneration();
    if (!restart) co_return;
    driver_.log().ClaimStarted(environment_.clock.WallMicros());
    Status driven = co_await Drive();
    if (!driven.ok()) co_return;
  }
}

// One generation, whose STARTED entry stands, and what follows from its end. True: claim the next.
Co<bool> JobMaster::RunGeneration() {
  outcome_.reset();
  // What people see of a restart: the counts of the tasks before, until those of the new ones come.
  std::map<std::pair<std::string, int>, SubtaskEntry> subtasks = std::move(run_.subtasks);
  for (auto& [place, entry] : subtasks) {
    entry.busy = entry.idle = entry.backpressured = 0;
    entry.metrics.blocked_on.clear();
    entry.metrics.waits_for.clear();
  }
  run_ = RunningGeneration();
  run_.subtasks = std::move(subtasks);
  run_.live = true;
  if (!cancel_requested_) generation_scope_.Spawn(StartGeneration());
  while (!outcome_ && !cancel_requested_ && !halted_) co_await wake_.Wait();
  if (halted_) co_return false;
  generation_scope_.Clear();
  StopRun();
  // From the request on, a claim is neither passed over nor given up.
  while (checkpoints_->claim_in_flight() && !halted_) co_await wake_.Wait();
  if (halted_) co_return false;
  waiting_for_.clear();
  if (cancel_requested_) {
    co_await CancelJob();
    co_return false;
  }
  Outcome outcome = *outcome_;
  if (outcome.finished) {
    co_await EndJob(JobState::kFinished, "");
    co_return false;
  }
  RememberFailure(outcome);
  if (first_started_.value() > 0) EnterState(JobState::kRestarting);
  FailoverDecision decision;
  if (outcome.permanent) {
    decision.reason = outcome.error.message();
  } else {
    decision = DecideFailover(outcome.error, backoff_, environment_.random);
  }
  if (!decision.restart) {
    co_await FailJob(decision.reason);
    co_return false;
  }
  Event(Concat("restarts in ", decision.delay_us / 1000, " ms"));
  waiting_for_ = Concat("the pause of ", decision.delay_us / 1000, " ms before its restart");
  // Told at once; the next generation waits for the answers.
  for (const WorkerName& worker : run_.workers) may_have_tasks_.insert(worker);
  std::set<WorkerName> workers = run_.workers;
  for (const WorkerName& worker : workers) {
    EndTasksRequest request{record_.id, generation(), false};
    int64_t until_us = environment_.clock.MonotonicMicros() + kEndTasksUs;
    job_scope_.Spawn(EndTasksAt(worker, request, until_us, std::make_shared<Gather>()));
  }
  office_.workers.Release(record_.id);
  if (decision.delay_us > kShortPauseUs) generation_scope_.Spawn(SettleInPause());
  int64_t until_us = environment_.clock.MonotonicMicros() + decision.delay_us;
  while (environment_.clock.MonotonicMicros() < until_us && !cancel_requested_) {
    co_await PauseUntil(until_us);
  }
  // An order that is still open is stale from here on; the next generation gives its own.
  generation_scope_.Clear();
  waiting_for_.clear();
  if (cancel_requested_) {
    co_await CancelJob();
    co_return false;
  }
  co_return true;
}

void JobMaster::EndRun(Outcome outcome) {
  if (!run_.live || outcome_) return;
  outcome_ = std::move(outcome);
  Wake();
}

void JobMaster::StopRun() {
  run_.live = false;
  run_.triggered.clear();
  if (!run_.checkpointing) return;
  run_.checkpointing = false;
  std::string reason = "the job was cancelled";
  if (outcome_) reason = outcome_->finished ? "the job has finished" : outcome_->error.message();
  checkpoints_->OnGenerationEnded(reason, Now());
  Pump();
}

void JobMaster::RememberFailure(const Outcome& outcome) {
  Failure failure;
  failure.message = outcome.error.message();
  failure.uid = outcome.uid;
  failure.subtask = outcome.subtask;
  failure.worker = outcome.worker;
  failure.wall_us = environment_.clock.WallMicros();
  if (failing_since_wall_us_ == 0) failing_since_wall_us_ = failure.wall_us;
  failure.since_wall_us = failing_since_wall_us_;
  failure_ = std::move(failure);
  failure_generation_ = generation();
  failure_replaceable_ = outcome.error.code() == StatusCode::kUnavailable;
  std::string where;
  if (!outcome.uid.empty()) where += Concat(" in ", outcome.uid);
  if (outcome.subtask >= 0) where += Concat(" subtask ", outcome.subtask);
  if (!outcome.worker.empty()) where += Concat(" on ", outcome.worker);
  Event(Concat("generation ", generation(), " failed", where, ": ", outcome.error.message()));
}

Status JobMaster::OnTaskReports(const ReportTasksRequest& request) {
  WEIR_RETURN_IF_ERROR(CheckCurrent(request.generation));
  for (const TaskReport& report : request.reports) {
    auto it = run_.tasks.find({report.task, report.subtask});
    if (it == run_.tasks.end() || it->second.worker != request.worker) {
      return InvalidArgumentError(Concat("task ", report.task, " subtask ", report.subtask,
                                         " is not assigned to worker ", request.worker));
    }
    if (report.state <= it->second.state) continue;  // late or repeated
    it->second.state = report.state;
    if (report.state == TaskState::kFailed || report.state == TaskState::kFinished) {
      Outcome outcome;
      outcome.error = report.state == TaskState::kFailed && !report.error.ok()
                          ? report.error
                          : InternalError("a task ended before it was told to");
      outcome.uid = report.uid;
      outcome.subtask = report.subtask;
      outcome.worker = request.worker.value();
      // A damaged snapshot stays damaged.
      outcome.permanent = !run_.all_running && outcome.error.code() == StatusCode::kDataLoss;
      EndRun(std::move(outcome));
    }
  }
  if (outcome_) return Status();
  OnAllTasksRunning();
  return Status();
}

void JobMaster::OnWorkerLost(const WorkerInfo& worker, const std::string& reason) {
  may_have_tasks_.erase(worker.name);
  if (ended() || halted_) return;
  Outcome outcome;
  outcome.error =
      UnavailableError(Concat("worker ", worker.name, " (", worker.host, ") is lost: ", reason));
  outcome.worker = worker.name.value();
  bool is_ending = outcome_ && failure_generation_ < generation();  // perhaps waits for a claim
  if (is_ending && run_.workers.contains(worker.name)) {
    if (!outcome_->finished && outcome_->error.code() == StatusCode::kUnavailable) {
      *outcome_ = std::move(outcome);  // what its peers reported is only the consequence
    }
  } else if (run_.live && run_.workers.contains(worker.name)) {
    EndRun(std::move(outcome));
  } else if (failure_replaceable_ && failure_generation_ == generation() && failure_ &&
             run_.workers.contains(worker.name)) {
    failure_replaceable_ = false;
    failure_->message = outcome.error.message();
    failure_->uid.clear();
    failure_->subtask = -1;
    failure_->worker = outcome.worker;
    Event(Concat("the cause was: ", outcome.error.message()));
  }
}

bool JobMaster::OnHosted(const WorkerName& worker, const HostedGeneration& hosted) {
  if (!ended() && (halted_ || log().phase() != CompletionLog::Phase::kLeading)) return false;
  if (hosted.generation < generation()) {
    may_have_tasks_.insert(worker);
    return true;
  }
  if (hosted.generation > generation() || !run_.workers.contains(worker)) return ended();
  for (const SubtaskMetrics& metrics : hosted.metrics) {
    SubtaskEntry& entry = run_.subtasks[{metrics.uid, metrics.subtask}];
    // Since the last heartbeat, or since the task's start: then all counters are lower. A little
    // time may go from one counter to another.
    const SubtaskMetrics& before = entry.metrics;
    bool same_task = metrics.busy_us + metrics.idle_us + metrics.backpressured_us >=
                     before.busy_us + before.idle_us + before.backpressured_us;
    auto passed = [&](int64_t now_us, int64_t before_us) {
      return static_cast<double>(std::max<int64_t>(0, now_us - (same_task ? before_us : 0)));
    };
    double busy = passed(metrics.busy_us, before.busy_us);
    double idle = passed(metrics.idle_us, before.idle_us);
    double backpressured = passed(metrics.backpressured_us, before.backpressured_us);
    double all = busy + idle + backpressured;
    if (all > 0) {
      entry.busy = busy / all;
      entry.idle = idle / all;
      entry.backpressured = backpressured / all;
    }
    entry.metrics = metrics;
  }
  return ended();
}

void JobMaster::OnHeartbeat(const WorkerName& worker, const HostedGeneration* hosted) {
  if (halted_) return;
  bool present = hosted != nullptr && hosted->generation == generation();
  if (run_.live && run_.all_running && run_.workers.contains(worker)) {
    if (present) {
      run_.missed.erase(worker);
    } else if (++run_.missed[worker] >= 2) {
      EndRunOf(worker);
    }
  }
  if (hosted != nullptr && (ended() || hosted->generation < generation())) {
    late_[worker] = 0;
    return;
  }
  auto late = late_.find(worker);
  if (late == late_.end() || ++late->second < 2) return;
  // All that completed has been published by now: a generation settles before it starts, a job
  // before it ends. Unless it was told to leave something behind.
  bool settled = ended() ? left_behind_.empty() && !leaves_rows_ && ended_generation_.value() == 0
                         : run_.live && run_.all_running;
  if (!settled) return;
  late_.erase(late);
  Generation below = ended() ? Generation(generation().value() + 1) : generation();
  job_scope_.Spawn(SweepAfter(worker, below));
}

// What sinks made on a worker that slept through the end of their generation: hidden files that
// nothing lists.
Co<void> JobMaster::SweepAfter(WorkerName worker, Generation below) {
  const CheckpointManifest nothing;
  std::vector<SettleRequest> requests = MakeSettles(nothing, below);
  for (SettleRequest& request : requests) {
    const WorkerInfo* found = office_.workers.Find(worker);
    if (found == nullptr || halted_) co_return;
    const WorkerInfo info = *found;
    std::string uid = request.vertex.uid;
    SettleOrders::Order order = office_.settle_orders.Give();
    request.order = order.number();
    Status status = co_await SettleOn(environment_, info, std::move(request), kSweepTimeoutUs);
    if (!status.ok()) {
      log::Warning(Tag(), " worker ", worker, " did not remove what ", uid,
                   " left after its end: ", status.message());
    }
  }
}

// The worker has ended its tasks by itself: it had no coordinator for too long.
void JobMaster::EndRunOf(const WorkerName& worker) {
  Outcome outcome;
  outcome.error = UnavailableError(Concat("worker ", worker, " no longer runs its tasks"));
  outcome.worker = worker.value();
  EndRun(std::move(outcome));
}

void JobMaster::Cancel(bool force, DoneWith<std::vector<std::string>> done) {
  if (ended()) {
    done(FailedPreconditionError(
        Concat("job ", record_.id, " (", name(), ") is ", ToString(state_), " already")));
    return;
  }
  if (halted_) {
    done(UnavailableError(Concat("job ", record_.id, " (", name(), ") is ", trouble_.text())));
    return;
  }
  cancel_requested_ = true;
  if (force) {
    force_ = true;
    HurrySettle();
    forced_.push_back(std::move(done));
  } else if (cancelling_durable_ || ending_) {
    done(std::vector<std::string>());  // its state tells what it ends as
  } else {
    cancels_.push_back(std::move(done));
  }
  Wake();
}

}  // namespace weir
