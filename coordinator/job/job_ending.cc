// How tasks end, output is settled, and the job comes to its end.
#include <algorithm>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/graph/type_descriptor.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/job_master.h"
#include "coordinator/job/settle_requests.h"

namespace weir {
namespace {

constexpr int64_t kRetryUs = 200'000;
constexpr int64_t kRefusedRetryUs = 2'000'000;
// First patience with a worker that settles; doubled with each attempt, for much output takes long.
constexpr int64_t kSettleTimeoutUs = 2'000'000;
constexpr int64_t kSettleEachUs = 20'000;  // more for each committable
constexpr int64_t kSettleTimeoutMaxUs = 60'000'000;
constexpr int64_t kGiveBackTimeoutUs = 10'000'000;

// The next attempt fences one that is still at it, and nothing of an open transaction stays: some
// attempt has to be given all the time that a transaction may take, and half as much again for what
// comes before it. A worker that dies meanwhile is not waited for: its connection breaks.
int64_t SettleTimeoutMaxUs(const JobVertex& vertex) {
  auto type = BuiltinTypes().find(vertex.type);
  if (type == BuiltinTypes().end() || !type->second.transaction_timeout_us) {
    return kSettleTimeoutMaxUs;
  }
  const int64_t transaction_us = type->second.transaction_timeout_us(vertex.config);
  return std::max(kSettleTimeoutMaxUs, transaction_us + transaction_us / 2);
}

}  // namespace

std::vector<SettleRequest> JobMaster::MakeSettles(const CheckpointManifest& manifest,
                                                  Generation generation) const {
  std::vector<SettleRequest> requests = MakeSettleRequests(record_, manifest, directory_);
  for (SettleRequest& request : requests) request.generation = generation;
  return WithSender(std::move(requests));
}

std::vector<SettleRequest> JobMaster::WithSender(std::vector<SettleRequest> requests) const {
  for (SettleRequest& request : requests) {
    request.coordinator = office_.number;
    request.library_path = JobRegistry::LibraryPath(directory_, record_.graph.library_sha256);
  }
  return requests;
}

Co<void> JobMaster::EndTasksAt(WorkerName name, EndTasksRequest request, int64_t until_us,
                               std::shared_ptr<Gather> gather) {
  while (true) {
    const WorkerInfo* found = office_.workers.Find(name);
    if (found == nullptr) {
      may_have_tasks_.erase(name);
      break;
    }
    const WorkerInfo worker = *found;
    int64_t left_us = until_us - environment_.clock.MonotonicMicros();
    if (left_us <= 0) {
      log::Warning(Tag(), " worker ", name, " has not ended its tasks in time: going on without");
      unresponsive_.insert(name);
      break;
    }
    Status status = co_await EndTasksOn(environment_, worker, request, left_us);
    if (status.ok() || status.code() == StatusCode::kStale) {
      // Unless it has got tasks of a newer generation meanwhile.
      if (request.generation >= generation() || !run_.workers.contains(name)) {
        may_have_tasks_.erase(name);
      }
      unresponsive_.erase(name);
      break;
    }
    left_us = until_us - environment_.clock.MonotonicMicros();
    if (left_us > 0) co_await Sleep(environment_.timers, std::min(kRetryUs, left_us));
  }
  --gather->open;
  gather->changed.Notify();
}

// Ends tasks up to and including that generation wherever there may be some; waits kEndTasksUs.
Co<void> JobMaster::EndTasksEverywhere(Generation up_to, bool finish) {
  std::set<WorkerName> names = may_have_tasks_;
  if (all_may_have_tasks_) {
    for (const WorkerName& name : office_.workers.Names()) names.insert(name);
  }
  all_may_have_tasks_ = false;
  std::shared_ptr<Gather> gather = std::make_shared<Gather>();
  gather->open = static_cast<int>(names.size());
  EndTasksRequest request{record_.id, up_to, finish};
  int64_t until_us = environment_.clock.MonotonicMicros() + kEndTasksUs;
  for (const WorkerName& name : names) {
    job_scope_.Spawn(EndTasksAt(name, request, until_us, gather));
  }
  while (gather->open > 0) co_await gather->changed.Wait();
}

std::vector<WorkerName> JobMaster::ResponsiveFirst() const {
  std::vector<WorkerName> names = office_.workers.Names();
  std::stable_partition(names.begin(), names.end(),
                        [&](const WorkerName& name) { return !unresponsive_.contains(name); });
  return names;
}

// On any worker, again and again, until one of them has done it. False: given up by force, or
// refused for good by a user error and `refusal` wants to have it, or the job ends and its rows are
// refused for good. These end a generation that is about to start, and this flow with it.
Co<bool> JobMaster::SettleVertex(SettleRequest request, Status* refusal) {
  const int64_t timeout_max_us = SettleTimeoutMaxUs(request.vertex);
  const int64_t timeout_first_us =
      std::min(kSettleTimeoutUs + kSettleEachUs * static_cast<int64_t>(request.committables.size()),
               timeout_max_us);
  int64_t timeout_us = timeout_first_us;
  size_t attempt = 0;
  while (true) {
    int64_t wait_us = kRetryUs;
    std::vector<WorkerName> names = ResponsiveFirst();
    if (names.empty()) {
      if (force_) co_return false;
      waiting_for_ = Concat("a worker to settle the output of ", request.vertex.uid);
    } else {
      const WorkerInfo worker = *office_.workers.Find(names[attempt++ % names.size()]);
      SettleOrders::Order order = office_.settle_orders.Give();
      request.order = order.number();
      SettleRequest copy = request;
      Status status =
          co_await SettleOn(environment_, worker, std::move(copy), timeout_us, &give_up_settle_);
      give_up_settle_ = nullptr;
      if (status.ok()) {
        unresponsive_.erase(worker.name);
        co_return true;
      }
      if (refusal != nullptr && status.domain() == ErrorDomain::kUser && !status.retryable()) {
        *refusal = status;
        co_return false;
      }
      // Rows that nobody takes: to wait for that would be for ever. Who cancels the job decides.
      if (status.code() == StatusCode::kOutOfRange && !status.retryable() && !cancel_requested_) {
        if (ending_) {
          Event(Concat("cannot settle the output of ", request.vertex.uid, ": ", status.message()));
          co_return false;
        }
        Outcome outcome;
        outcome.error = status;
        outcome.uid = request.vertex.uid;
        outcome.worker = worker.name.value();
        outcome.permanent = true;
        EndRun(std::move(outcome));
      }
      if (force_ && attempt >= names.size()) co_return false;
      timeout_us = force_ ? timeout_first_us : std::min(timeout_us * 2, timeout_max_us);
      std::string waits =
          Concat("the output of ", request.vertex.uid, " to be settled: ", status.message());
      if (!waiting_for_.text().starts_with(waits)) Event(Concat("waits for ", waits));
      waiting_for_ = waits;
      // What only a person can heal is not asked for all the time.
      const bool refused = status.domain() != ErrorDomain::kInternal && !status.retryable();
      if (refused) wait_us = kRefusedRetryUs;
      if (refused && ending_) {
        waiting_for_ =
            Concat(waits, " (weir cancel --force ends the job and gives this output up)");
        // Its end, and with it an answer, may never come.
        AnswerIntent();
      }
    }
    co_await Sleep(environment_.timers, wait_us);
  }
}

Co<void> JobMaster::CancelJob() {
  driver_.log().ClaimIntent(LogEntry::Kind::kCancelling, CheckpointId(0), "cancelled by a user",
                            environment_.clock.WallMicros());
  Status driven = co_await Drive();
  if (!driven.ok()) co_return;
  cancelling_durable_ = true;
  EnterState(JobState::kCancelling);
  AnswerIntent();
  co_await EndJob(JobState::kCanceled, "cancelled by a user");
}

void JobMaster::HurrySettle() {
  if (!ending_ || !give_up_settle_) return;
  environment_.timers.After(kSettleTimeoutUs, [give_up = give_up_settle_] {
    give_up(UnavailableError("not waited for any longer"));
  });
}

void JobMaster::AnswerIntent() {
  std::vector<DoneWith<std::vector<std::string>>> waiting = std::move(cancels_);
  cancels_.clear();
  for (auto& done : waiting) done(std::vector<std::string>());
}

Co<void> JobMaster::FailJob(std::string reason) {
  driver_.log().ClaimIntent(LogEntry::Kind::kFailing, CheckpointId(0), reason,
                            environment_.clock.WallMicros());
  Status driven = co_await Drive();
  if (!driven.ok()) co_return;
  co_await EndJob(JobState::kFailed, std::move(reason));
}

// The intent (or the final checkpoint) is durable. Tasks, output, entry, then what is kept.
Co<void> JobMaster::EndJob(JobState end, std::string reason) {
  ending_ = true;
  for (const WorkerName& worker : run_.workers) may_have_tasks_.insert(worker);
  if (first_started_.value() > 0) {
    waiting_for_ = "tasks to end";
    co_await EndTasksEverywhere(generation(), end == JobState::kFinished);
  }
  office_.workers.Release(record_.id);
  if (first_started_.value() > 0) {
    bool settled = co_await SettleForEnd(end);
    for (const std::string& left : left_behind_) Event(Concat("leaves behind: ", left));
    if (!settled) log::Warning(Tag(), " ends without having settled all of its output");
  }
  if (!log().newest_completed() && !record_.restore_from.empty()) co_await GiveBackForeign();
  waiting_for_.clear();
  LogEntry::Kind kind = LogEntry::Kind::kFinished;
  if (end == JobState::kCanceled) kind = LogEntry::Kind::kCanceled;
  if (end == JobState::kFailed) kind = LogEntry::Kind::kFailed;
  const JobStatus last = GetStatus();
  const JobTotals totals{last.records_in, last.records_out, last.checkpoints_completed,
                         last.restarts};
  driver_.log().ClaimEnd(kind, reason, environment_.clock.WallMicros(), totals, leaves_rows_);
  Status driven = co_await Drive();
  if (!driven.ok()) co_return;
  end_wall_us_ = log().end()->wall_us;  // as every later leader will tell
  EnterState(end);
  co_await ApplyRetention();
  AnswerCancels(end);
}

// Publishes what completed checkpoints list and aborts the rest. False: something is left behind.
Co<bool> JobMaster::SettleForEnd(JobState end) {
  CheckpointManifest manifest;
  while (log().newest_completed()) {
    Status loaded = co_await LoadRestore();
    if (loaded.ok()) {
      manifest = restore_.manifest;
      break;
    }
    // What is listed is not known: nothing may be aborted. A failed job has nothing to wait for.
    if (force_ || end == JobState::kFailed) {
      leaves_rows_ = true;
      left_behind_.push_back(Concat("output of ", log().newest_completed()->checkpoint,
                                    " that may be unpublished: ", loaded.message()));
      co_return false;
    }
    waiting_for_ = Concat("its newest checkpoint, to settle the output (--force goes on without): ",
                          loaded.message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
  Generation above(generation().value() + 1);
  std::vector<SettleRequest> requests = MakeSettles(manifest, above);
  bool all = true;
  for (SettleRequest& request : requests) {
    request.ends = true;
    std::string uid = request.vertex.uid;
    std::vector<Committable> committables = request.committables;
    bool settled = co_await SettleVertex(std::move(request));
    if (settled) continue;
    all = false;
    std::string left = Concat(uid, ": hidden files of generations up to ", generation());
    if (!committables.empty()) {
      leaves_rows_ = true;
      const auto [first, last] = std::minmax_element(
          committables.begin(), committables.end(),
          [](const Committable& a, const Committable& b) { return a.checkpoint < b.checkpoint; });
      std::set<int> subtasks;
      for (const Committable& one : committables) subtasks.insert(one.subtask);
      left += Concat("; rows of ", subtasks.size(), subtasks.size() == 1 ? " subtask" : " subtasks",
                     ", checkpoints ", first->checkpoint, " to ", last->checkpoint,
                     ", completed and perhaps not published: ", JoinPath(directory_, "staged"));
    }
    left_behind_.push_back(std::move(left));
  }
  co_return all;
}

// The job started from another one's checkpoint and completed none of its own: nothing of it is
// published, so that another job may start from there in its place. Tried once: nobody needs it to
// end.
Co<void> JobMaster::GiveBackForeign() {
  Status loaded = co_await LoadRestore();
  if (!loaded.ok()) co_return;
  StatusOr<std::vector<SettleRequest>> requests = co_await MakeForeignSettles();
  if (!requests.ok()) {
    Event(Concat("does not give back the output of job ", restore_.manifest.job, ": ",
                 requests.status().message()));
    co_return;
  }
  for (SettleRequest& request : *requests) {
    std::vector<WorkerName> names = ResponsiveFirst();
    if (names.empty()) co_return;
    const WorkerInfo worker = *office_.workers.Find(names.front());
    const std::string uid = request.vertex.uid;
    waiting_for_ = Concat("worker ", worker.name, " to give back the output of ", uid);
    SettleOrders::Order order = office_.settle_orders.Give();
    request.order = order.number();
    request.ends = true;
    Status status = co_await SettleOn(environment_, worker, std::move(request), kGiveBackTimeoutUs);
    if (!status.ok()) {
      Event(Concat("does not give back the output of ", uid, ": ", status.message()));
    }
  }
}

// Deletes the checkpoints of an ended job, but for the newest where its options keep that, or where
// it lists rows that were left behind: they can be published from there alone. And what was half
// written.
Co<void> JobMaster::ApplyRetention() {
  bool keep = leaves_rows_;
  if (state_ == JobState::kCanceled) keep |= options_.checkpoint_on_cancel == Retention::kKeep;
  if (state_ == JobState::kFailed) keep |= options_.checkpoint_on_failure == Retention::kKeep;
  std::string kept;
  if (std::optional<CompletedCheckpoint> newest = NewestCompleted(); keep && newest) {
    kept = CheckpointDirectoryName(newest->checkpoint, newest->generation);
    retained_checkpoint_ = JoinPath(directory_, kept);
  } else if (keep && !record_.restore_from.empty()) {
    kept = "restored";
    retained_checkpoint_ = record_.restore_from;
  }
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(environment_.files, directory_);
  if (!names.ok()) {
    log::Warning(Tag(), " cannot delete its checkpoints: ", names.status().message());
    co_return;
  }
  bool durable = log().phase() == CompletionLog::Phase::kEnded;
  for (const FileInfo& info : *names) {
    if (info.name.starts_with(Concat("started", kTemporaryMark))) {
      // The cancel came while it was being written.
      (void)co_await RemoveFile(environment_.files, JoinPath(directory_, info.name));
      continue;
    }
    CheckpointId checkpoint;
    Generation made;
    bool ours =
        info.name == "restored" || ParseCheckpointDirectoryName(info.name, &checkpoint, &made);
    if (!ours || info.name == kept) continue;
    Status removed;
    if (!durable) {
      // Another leader made the entry that ended the job; nobody may say that it is durable.
      removed = co_await SyncLog(environment_.files, directory_);
      durable = removed.ok();
    }
    if (durable) removed = co_await RemoveTree(environment_.files, JoinPath(directory_, info.name));
    if (!removed.ok()) {
      log::Warning(Tag(), " cannot remove ", directory_, "/", info.name, ": ", removed.message());
    }
  }
}

void JobMaster::AdoptEnd(const LogEntry& end) {
  state_ = JobState::kFinished;
  if (end.kind == LogEntry::Kind::kCanceled) state_ = JobState::kCanceled;
  if (end.kind == LogEntry::Kind::kFailed) {
    state_ = JobState::kFailed;
    Failure failure;
    failure.message = end.reason;
    failure.wall_us = failure.since_wall_us = end.wall_us;
    failure_ = std::move(failure);
  }
  end_wall_us_ = end.wall_us;
  ended_totals_ = end.totals;
  leaves_rows_ = end.leaves_rows;
}

void JobMaster::AnswerCancels(JobState end) {
  std::vector<DoneWith<std::vector<std::string>>> waiting = std::move(cancels_);
  cancels_.clear();
  std::vector<DoneWith<std::vector<std::string>>> forced = std::move(forced_);
  forced_.clear();
  if (end == JobState::kCanceled || !left_behind_.empty()) {
    for (auto& done : forced) done(left_behind_);
  } else {
    waiting.insert(waiting.end(), forced.begin(), forced.end());
  }
  for (auto& done : waiting) {
    done(FailedPreconditionError(
        Concat("job ", record_.id, " (", name(), ") is ", ToString(end), " already")));
  }
}

}  // namespace weir
