#include "coordinator/job/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/graph/type_descriptor.h"
#include "common/graph/validate.h"
#include "coordinator/job/effects.h"
#include "coordinator/job/settle_requests.h"

namespace weir {
namespace {

constexpr int64_t kRetryUs = 200'000;
constexpr int64_t kRetakeUs = 1'000'000;
constexpr int64_t kCheckTimeoutUs = 30'000'000;
constexpr size_t kWaitingMax = 10'000;

LeadershipOptions MakeLeadershipOptions(const CoordinatorOptions& options) {
  LeadershipOptions result;
  result.checkpoint_dir = options.checkpoint_dir;
  result.address = options.address;
  result.host = options.host;
  result.pid = options.pid;
  result.lease_timeout_us = options.lease_timeout_us;
  result.take_over = options.take_over;
  return result;
}

std::string Describe(const JobMaster& job) {
  return Concat(job.id(), " (", job.name(), ", ", ToString(job.state()), ")");
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorEnvironment environment)
    : options_(std::move(options)),
      environment_(environment),
      leadership_(MakeLeadershipOptions(options_), environment.timers, environment.files,
                  environment.clock, environment.random),
      workers_(options_.heartbeat_timeout_us, environment.executor, environment.timers,
               environment.gateway, environment.clock),
      registry_(environment.files, options_.checkpoint_dir, environment.random) {
  workers_.set_lost_listener([this](const WorkerInfo& worker, const std::string& reason) {
    for (auto& [id, job] : jobs_) job->OnWorkerLost(worker, reason);
  });
}

Coordinator::~Coordinator() { DropOffice(UnavailableError("the coordinator has stopped")); }

void Coordinator::Start() {
  Leadership::Listener listener;
  listener.won = [this] { OnWon(); };
  listener.lost = [this](const std::string& reason) { OnLost(reason); };
  listener.waiting = [this] { OnWaiting(); };
  leadership_.Start(std::move(listener));
}

void Coordinator::Stop(std::function<void()> done) {
  phase_ = Phase::kStopped;
  DropOffice(UnavailableError("the coordinator stops"));
  leadership_.Stop(std::move(done));
}

// --- Leading -------------------------------------------------------------------------------------

void Coordinator::WhenReady(std::function<void(Status)> go) {
  switch (phase_) {
    case Phase::kStarting:
    case Phase::kLoading:
      if (waiting_.size() >= kWaitingMax) {
        go(UnavailableError("the coordinator is starting and has too many requests waiting"));
        return;
      }
      waiting_.push_back(std::move(go));
      return;
    case Phase::kWaiting:
    case Phase::kStopped:
      go(NotLeading());
      return;
    case Phase::kLeading:
      go(Status());
      return;
  }
}

void Coordinator::AnswerWaiting(const Status& status) {
  std::vector<std::function<void(Status)>> waiting = std::move(waiting_);
  waiting_.clear();
  for (auto& go : waiting) go(status);
}

Status Coordinator::NotLeading() const {
  if (phase_ == Phase::kStopped) return UnavailableError("the coordinator stops");
  return UnavailableError(
      Concat("this coordinator does not lead: it waits for ",
             leadership_.waits_for().empty() ? "the present leader" : leadership_.waits_for()));
}

void Coordinator::OnWaiting() {
  if (phase_ == Phase::kStopped) return;
  phase_ = Phase::kWaiting;
  AnswerWaiting(NotLeading());
}

void Coordinator::OnWon() {
  if (phase_ == Phase::kStopped) return;
  phase_ = Phase::kLoading;
  scope_.Spawn(TakeOffice());
}

void Coordinator::OnLost(const std::string& reason) {
  if (phase_ == Phase::kStopped) return;
  phase_ = Phase::kWaiting;
  DropOffice(UnavailableError(Concat("this coordinator has lost the lead: ", reason)));
}

// Everything that belongs to leading ends where it stands, without any further effect.
void Coordinator::DropOffice(const Status& status) {
  scope_.Clear();
  jobs_.clear();
  removing_.clear();
  confirming_.clear();
  confirms_ = false;
  workers_.Clear();
  std::map<JobId, Submitting> submitting = std::move(submitting_);
  submitting_.clear();
  for (auto& [id, one] : submitting) {
    for (auto& done : one.done) done(status);
  }
  AnswerWaiting(status);
}

Co<void> Coordinator::TakeOffice() {
  std::vector<StoredJob> jobs;
  while (true) {
    StatusOr<std::vector<StoredJob>> loaded = co_await registry_.Load();
    if (loaded.ok()) {
      jobs = *std::move(loaded);
      break;
    }
    log::Error("cannot read the jobs, trying again: ", loaded.status().message());
    co_await Sleep(environment_.timers, kRetryUs);
  }
  for (StoredJob& job : jobs) co_await LoadJob(std::move(job));
  log::Info("coordinator ", leadership_.number(), " knows ", jobs_.size(), " jobs");
  phase_ = Phase::kLeading;
  AnswerWaiting(Status());
}

Co<void> Coordinator::LoadJob(StoredJob stored) {
  std::string directory = registry_.JobDirectory(stored.record.id);
  StatusOr<std::vector<NumberedEntry>> entries = co_await ReadLog(environment_.files, directory);
  JobMaster& job = AddJob(std::move(stored));
  // What cannot be read now is waited for, visibly, by the one who takes charge.
  if (entries.ok() && EndedIn(*entries)) {
    job.StartEnded(*entries);
  } else {
    job.Start();
  }
}

JobMaster& Coordinator::AddJob(StoredJob stored) {
  JobId id = stored.record.id;
  std::weak_ptr<int> alive = alive_;
  JobOffice office{leadership_.number(),
                   workers_,
                   registry_,
                   leadership_,
                   settle_orders_,
                   [this, alive, id](const Status&) {
                     // Later: the job master is still in this call.
                     environment_.executor.Post([this, alive, id] {
                       if (alive.expired() || !jobs_.contains(id) || !jobs_.at(id)->halted())
                         return;
                       scope_.Spawn(RetakeJob(id));
                     });
                   }};
  std::unique_ptr<JobMaster>& job = jobs_[id];
  job = std::make_unique<JobMaster>(environment_, std::move(stored), std::move(office));
  return *job;
}

// A job whose leader had to let it go while this coordinator leads: deposed by one that was paused
// and did not know, or after a failed sync. By now the lead would have been lost to a rightful one.
Co<void> Coordinator::RetakeJob(JobId id) {
  while (true) {
    co_await Sleep(environment_.timers, kRetakeUs);
    StatusOr<StoredJob> stored = co_await registry_.LoadOne(id);
    auto job = jobs_.find(id);
    if (job == jobs_.end() || !job->second->halted()) co_return;
    if (!stored.ok()) {
      // Not even when it is not there: its directory may be mounted again.
      log::Error("job=", id.value().substr(0, 8),
                 " cannot be taken up: ", stored.status().message());
      job->second->SetTrouble(Concat("being taken up again: ", stored.status().message()));
      continue;
    }
    co_await LoadJob(*std::move(stored));
    co_return;
  }
}

// --- Workers -------------------------------------------------------------------------------------

void Coordinator::Hello(DoneWith<HelloResponse> done) {
  WhenReady([this, done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    HelloResponse response;
    response.coordinator = leadership_.number();
    response.checkpoint_dir = options_.checkpoint_dir;
    response.nonce_path = leadership_.nonce_path();
    response.host = options_.host;
    done(std::move(response));
  });
}

void Coordinator::Register(RegisterRequest request, DoneWith<RegisterResponse> done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    RegisterResponse response;
    response.heartbeat_interval_us = options_.heartbeat_interval_us;
    response.heartbeat_timeout_us = options_.heartbeat_timeout_us;
    OwedAnswer answer([done, response](Status outcome) {
      if (!outcome.ok()) return done(outcome);
      done(response);
    });
    scope_.Spawn(RegisterFlow(request, std::move(answer)));
  });
}

Status Coordinator::CheckRegistration(const RegisterRequest& request) const {
  if (phase_ != Phase::kLeading) return NotLeading();
  if (request.coordinator != leadership_.number()) {
    return StaleError(
        Concat("coordinator ", leadership_.number(), " leads, not ", request.coordinator));
  }
  if (request.protocol != kControlProtocolVersion) {
    return FailedPreconditionError(
        Concat("worker ", request.worker.name, " is of another version: it is Weir ",
               request.worker.version, " and speaks protocol ", request.protocol,
               ", this coordinator is Weir ", WEIR_VERSION, " and speaks protocol ",
               kControlProtocolVersion, ". All processes of a cluster must be of one version"));
  }
  if (request.nonce != leadership_.nonce()) {
    return FailedPreconditionError(Concat(
        "worker ", request.worker.name,
        " does not see the checkpoint directory: ", leadership_.nonce_path(), " on its host ",
        request.worker.host, " is not ", leadership_.nonce_path(), " of the coordinator on host ",
        options_.host, ". Both need one shared directory under that path"));
  }
  if (request.worker.slots <= 0) {
    return InvalidArgumentError(Concat("worker ", request.worker.name, " has ",
                                       request.worker.slots, " slots: at least 1 is needed"));
  }
  return Status();
}

Co<void> Coordinator::RegisterFlow(RegisterRequest request, OwedAnswer answer) {
  Status status = CheckRegistration(request);
  if (status.ok() && workers_.NameTaken(request.worker)) {
    // Is the other one of that name alive, or has it died and nobody has noticed yet?
    const WorkerInfo other = *workers_.Find(request.worker.name);
    int64_t heard_us = workers_.LastHeardMicros(other.name).value_or(0);
    co_await Sleep(environment_.timers, 2 * options_.heartbeat_interval_us);
    status = CheckRegistration(request);
    if (status.ok() && workers_.NameTaken(request.worker)) {
      const WorkerInfo now = *workers_.Find(request.worker.name);
      if (workers_.LastHeardMicros(now.name).value_or(0) > heard_us) {
        status =
            AlreadyExistsError(Concat("a worker named ", now.name, " is alive on host ", now.host,
                                      " (pid ", now.pid, "): give this one another name"));
      } else {
        workers_.Lose(now.name, now.incarnation, "silent while its successor is here");
      }
    }
  }
  if (!status.ok()) {
    log::Warning("worker ", request.worker.name, " on host ", request.worker.host,
                 " is refused: ", status.message());
    answer.Give(status);
    co_return;
  }
  workers_.Register(std::move(request.worker));
  answer.Give(Status());
}

void Coordinator::Heartbeat(HeartbeatRequest request, DoneWith<HeartbeatResponse> done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    HeartbeatResponse response;
    response.coordinator = leadership_.number();
    response.known = workers_.Heartbeat(request.name, request.incarnation);
    if (response.known) {
      workers_.SetSlowStorage(request.name, request.slow_storage);
      for (const HostedGeneration& hosted : request.hosted) {
        JobMaster* job = Find(hosted.job);
        if (job == nullptr || job->OnHosted(request.name, hosted)) {
          response.end.emplace_back(hosted.job, hosted.generation);
        }
      }
      for (const auto& [id, job] : jobs_) {
        auto hosted = std::find_if(request.hosted.begin(), request.hosted.end(),
                                   [&](const HostedGeneration& one) { return one.job == id; });
        job->OnHeartbeat(request.name, hosted == request.hosted.end() ? nullptr : &*hosted);
      }
    }
    done(std::move(response));
  });
}

void Coordinator::ReportTasks(ReportTasksRequest request, Done done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    JobMaster* job = Find(request.job);
    done(job == nullptr ? StaleError(Concat("there is no job ", request.job))
                        : job->OnTaskReports(request));
  });
}

void Coordinator::Acknowledge(AcknowledgeRequest request, Done done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) mutable {
    if (!status.ok()) return done(status);
    JobMaster* job = Find(request.job);
    done(job == nullptr ? StaleError(Concat("there is no job ", request.job))
                        : job->OnAcknowledge(std::move(request)));
  });
}

void Coordinator::ReportPublished(ReportPublishedRequest request, Done done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    JobMaster* job = Find(request.job);
    done(job == nullptr ? StaleError(Concat("there is no job ", request.job))
                        : job->OnPublished(request));
  });
}

void Coordinator::ConfirmCurrent(ConfirmCurrentRequest request, Done done) {
  WhenReady([this, request, done = std::move(done)](Status status) {
    if (status.ok()) status = CheckCurrent(request);
    if (!status.ok()) return done(status);
    confirming_.push_back({request, OwedAnswer(done)});
    if (confirms_) return;
    confirms_ = true;
    scope_.Spawn(ConfirmFlow());
  });
}

Status Coordinator::CheckCurrent(const ConfirmCurrentRequest& request) {
  if (request.settle_order != 0) {
    bool waits =
        request.coordinator == leadership_.number() && settle_orders_.IsOpen(request.settle_order);
    if (waits) return Status();
    return StaleError(Concat("nobody waits any more for the order ", request.settle_order,
                             " of coordinator ", request.coordinator, " to settle output of job ",
                             request.job));
  }
  JobMaster* job = Find(request.job);
  return job == nullptr ? StaleError(Concat("there is no job ", request.job))
                        : job->CheckCurrent(request.generation);
}

// One look for all who asked before it began: tasks ask many at a time.
Co<void> Coordinator::ConfirmFlow() {
  while (!confirming_.empty()) {
    std::vector<Confirming> asked = std::move(confirming_);
    confirming_.clear();
    Status leads = co_await leadership_.Confirm();
    for (Confirming& one : asked) {
      one.answer.Give(leads.ok() ? CheckCurrent(one.request) : UnavailableError(leads.message()));
    }
  }
  confirms_ = false;
}

void Coordinator::Leave(WorkerName name, WorkerIncarnation incarnation, Done done) {
  WhenReady([this, name, incarnation, done = std::move(done)](Status status) {
    if (status.ok()) workers_.Lose(name, incarnation, "it left");
    done(status);
  });
}

// --- Submission ----------------------------------------------------------------------------------

void Coordinator::Submit(SubmitRequest request, DoneWith<SubmitResponse> done) {
  WhenReady([this, request = std::move(request), done = std::move(done)](Status status) mutable {
    if (status.ok() && !leadership_.trouble().empty()) {
      // What it would store might be nowhere to be found, or only half of it.
      status = ResourceExhaustedError(Concat("cannot store a job: ", leadership_.trouble()));
    }
    if (!status.ok()) return done(status);
    StatusOr<Submission> submission = PrepareSubmission(request);
    if (!submission.ok()) return done(submission.status());
    std::string known;  // digest of what came under this id before
    auto submitting = submitting_.find(request.job);
    JobMaster* job = Find(request.job);
    if (job != nullptr) known = job->record().submit_digest;
    if (submitting != submitting_.end()) known = submitting->second.digest;
    if (!known.empty() && known != submission->digest) {
      return done(AlreadyExistsError(
          Concat("job id ", request.job, " was submitted before with other content")));
    }
    if (job != nullptr) return done(SubmitResponse{job->id(), job->name()});
    if (submitting != submitting_.end()) {
      submitting->second.done.push_back(std::move(done));
      return;
    }
    Status exclusive = CheckExclusive(request.job, submission->exclusive_names);
    if (!exclusive.ok()) {
      return done(exclusive.WithContext(Concat("job '", submission->graph.name, "'")));
    }
    Submitting& added = submitting_[request.job];
    added.digest = submission->digest;
    added.name = submission->graph.name;
    added.exclusive_names = submission->exclusive_names;
    added.done.push_back(std::move(done));
    scope_.Spawn(SubmitFlow(std::move(request), *std::move(submission)));
  });
}

Status Coordinator::CheckExclusive(const JobId& id, const std::vector<ExclusiveName>& names) const {
  auto refused = [](const std::string& job, const ExclusiveName& name) {
    return FailedPreconditionError(Concat("job ", job, " has the ", name.name,
                                          " already, which no two live jobs may share: cancel it "
                                          "first, or set another one"));
  };
  for (const auto& [other, job] : jobs_) {
    if (other == id || job->ended()) continue;
    // Checked when that one was submitted.
    StatusOr<std::vector<ExclusiveName>> held = ExclusiveNamesOf(job->record().graph, other);
    if (!held.ok()) continue;
    if (const ExclusiveName* name = FindHeld(names, *held)) return refused(Describe(*job), *name);
  }
  for (const auto& [other, submitting] : submitting_) {
    const ExclusiveName* name = FindHeld(names, submitting.exclusive_names);
    if (name != nullptr) return refused(Concat(other, " (", submitting.name, ")"), *name);
  }
  return Status();
}

Co<void> Coordinator::SubmitFlow(SubmitRequest request, Submission submission) {
  JobId id = request.job;
  StatusOr<SubmitResponse> answer = co_await Store(std::move(request), std::move(submission));
  auto it = submitting_.find(id);
  if (it == submitting_.end()) co_return;
  std::vector<DoneWith<SubmitResponse>> waiting = std::move(it->second.done);
  submitting_.erase(it);
  if (!answer.ok())
    log::Info("job=", id.value().substr(0, 8), " is refused: ", answer.status().message());
  for (auto& done : waiting) done(answer);
}

Co<StatusOr<SubmitResponse>> Coordinator::Store(SubmitRequest request, Submission submission) {
  JobId id = request.job;
  // An earlier answer may have been lost together with the one who gave it.
  StatusOr<StoredJob> present = co_await registry_.LoadOne(id);
  if (present.ok()) {
    if (present->record.submit_digest != submission.digest) {
      co_return AlreadyExistsError(
          Concat("job id ", id, " was submitted before with other content"));
    }
    Status leads = co_await leadership_.Confirm();
    if (!leads.ok()) co_return leads;
    SubmitResponse response{id, present->record.graph.name};
    co_await LoadJob(*std::move(present));
    co_return response;
  }
  if (present.status().code() != StatusCode::kNotFound) co_return present.status();

  std::optional<CheckpointManifest> restored;
  std::string restore_from = request.restore_from;
  while (restore_from.size() > 1 && restore_from.back() == '/') restore_from.pop_back();
  if (!restore_from.empty()) {
    StatusOr<CheckpointManifest> manifest = co_await ReadRestored(restore_from, submission);
    if (!manifest.ok()) co_return manifest.status();
    restored = *std::move(manifest);
  }
  StoredJob stored;
  stored.record.id = id;
  std::vector<SettleRequest> succession;
  if (restored) {
    stored.record.graph = submission.graph;
    StatusOr<std::vector<SettleRequest>> requests = co_await MakeSuccessionRequests(
        environment_.files, stored.record, *restored, ParentPath(restore_from));
    if (!requests.ok()) co_return requests.status();
    succession = *std::move(requests);
  }
  StatusOr<std::string> staged =
      co_await registry_.Stage(id, submission.graph.library_sha256, std::move(request.library));
  if (!staged.ok()) co_return staged.status();
  std::string directory = *staged;

  StatusOr<bool> checked =
      co_await CheckOnWorker(id, directory, &submission.graph, std::move(succession));
  Status status = checked.status();
  stored.record.submit_wall_us = environment_.clock.WallMicros();
  stored.record.submit_digest = submission.digest;
  if (status.ok()) {
    stored.checked = *checked;
    stored.record.graph = submission.graph;
    if (restored) {
      StatusOr<std::string> relative =
          co_await registry_.StageRestored(directory, ParentPath(restore_from), *restored);
      status = relative.status();
      if (relative.ok()) {
        stored.record.restore_from = JoinPath(registry_.JobDirectory(id), *relative);
      }
    }
  }
  if (status.ok()) {
    StoredJob copy = stored;
    status = co_await registry_.Publish(directory, std::move(copy));
  }
  if (!status.ok()) {
    co_await registry_.Discard(directory);
    co_return status;
  }
  // A later leader that has read the jobs already would never learn of this one: the client asks
  // that one again, which finds the job.
  status = co_await leadership_.Confirm();
  if (!status.ok()) co_return status;
  SubmitResponse response{id, stored.record.graph.name};
  log::Info("job=", id.value().substr(0, 8), " '", response.name, "' is accepted",
            stored.checked ? "" : ", to be checked when a worker comes");
  AddJob(std::move(stored)).Start();
  co_return response;
}

Co<StatusOr<CheckpointManifest>> Coordinator::ReadRestored(std::string directory,
                                                           Submission submission) {
  std::string path = JoinPath(directory, "_metadata");
  StatusOr<std::string> bytes = co_await ReadWhole(environment_.files, path);
  if (bytes.status().code() == StatusCode::kNotFound) {
    co_return NotFoundError(Concat("there is no checkpoint at ", directory, ": ", path,
                                   " does not exist (the coordinator looks on host ", options_.host,
                                   ")"));
  }
  if (!bytes.ok()) co_return bytes.status();
  StatusOr<CheckpointManifest> manifest = DecodeManifest(*bytes);
  if (!manifest.ok()) {
    co_return FailedPreconditionError(
        Concat("checkpoint ", directory, " is damaged: ", path, ": ", manifest.status().message()));
  }
  std::string name = CheckpointDirectoryName(manifest->checkpoint, manifest->generation);
  if (JoinPath(ParentPath(directory), name) != directory) {
    co_return FailedPreconditionError(Concat("checkpoint ", directory, " was made as ", name,
                                             ": its files are found only under that name"));
  }
  auto owner = jobs_.find(manifest->job);
  if (owner != jobs_.end() && !owner->second->ended()) {
    co_return FailedPreconditionError(Concat("checkpoint ", directory, " belongs to job ",
                                             Describe(*owner->second), ": cancel it first"));
  }
  Status covers = CheckCovers(submission.graph, submission.options, *manifest);
  if (!covers.ok()) co_return covers;
  co_return *std::move(manifest);
}

// False: there is no worker, so that nobody has looked.
Co<StatusOr<bool>> Coordinator::CheckOnWorker(JobId id, std::string staged, JobGraph* graph,
                                              std::vector<SettleRequest> succession) {
  Status last;
  for (const WorkerName& name : workers_.Names()) {
    const WorkerInfo* found = workers_.Find(name);
    if (found == nullptr) continue;
    const WorkerInfo worker = *found;
    CheckJobRequest request;
    request.job = id;
    request.job_directory = staged;
    request.library_path = JobRegistry::LibraryPath(staged, graph->library_sha256);
    request.graph = *graph;
    request.succession = succession;
    StatusOr<JobGraph> answer =
        co_await CheckJobOn(environment_, worker, std::move(request), kCheckTimeoutUs);
    if (answer.ok()) {
      StatusOr<Validated> validated =
          Validate(*std::move(answer), {}, /*allow_unknown_types=*/!graph->library_sha256.empty());
      if (!validated.ok()) co_return validated.status();
      if (!validated->complete) {
        co_return InvalidArgumentError(
            "the schema of a vertex is still unknown after a worker has looked at the job");
      }
      *graph = std::move(validated->graph);
      co_return true;
    }
    if (answer.status().domain() != ErrorDomain::kExternal) co_return answer.status();
    last = answer.status();
    log::Warning("job=", id.value().substr(0, 8), " could not be checked on worker ", name, ": ",
                 last.message());
  }
  if (last.ok()) co_return false;
  std::string message = Concat("no worker could check the job: ", last.message());
  // What storage said is about the job; a worker that did not answer is not.
  bool answered = last.code() != StatusCode::kUnavailable;
  co_return answered ? FailedPreconditionError(std::move(message))
                     : UnavailableError(std::move(message));
}

// --- Jobs ----------------------------------------------------------------------------------------

// The one that acts on what workers say.
JobMaster* Coordinator::Find(const JobId& job) {
  auto it = jobs_.find(job);
  return it == jobs_.end() || it->second->halted() ? nullptr : it->second.get();
}

StatusOr<JobMaster*> Coordinator::FindJob(const std::string& text) {
  if (auto it = jobs_.find(JobId(text)); it != jobs_.end()) return it->second.get();
  std::vector<JobMaster*> found;
  std::vector<JobMaster*> ended;  // by name alone: not meant
  for (const auto& [id, job] : jobs_) {
    bool by_prefix = !text.empty() && id.value().starts_with(text);
    if (by_prefix || (job->name() == text && !job->ended())) {
      found.push_back(job.get());
    } else if (job->name() == text) {
      ended.push_back(job.get());
    }
  }
  // The name of a live job is not taken away by the ids of ended ones.
  const auto is_live = [](const JobMaster* job) { return !job->ended(); };
  if (std::count_if(found.begin(), found.end(), is_live) == 1) {
    JobMaster* live = *std::find_if(found.begin(), found.end(), is_live);
    if (live->name() == text) return live;
  }
  if (found.size() == 1) return found.front();
  std::string candidates;
  for (JobMaster* job : found.empty() ? ended : found) candidates += "\n  " + Describe(*job);
  if (!found.empty()) {
    return InvalidArgumentError(Concat("'", text, "' names several jobs:", candidates));
  }
  if (!ended.empty()) {
    return NotFoundError(
        Concat("no live job is named '", text, "'; ended ones go by id:", candidates));
  }
  for (const auto& [id, why] : registry_.unreadable()) {
    if (text.empty() || !id.value().starts_with(text)) continue;
    return DataLossError(Concat("job ", id, " cannot be taken up: ", why.message()));
  }
  return NotFoundError(Concat("there is no job '", text, "'"));
}

void Coordinator::WithJob(std::string text, std::function<void(JobMaster&)> go,
                          std::function<void(Status)> fail) {
  WhenReady(
      [this, text = std::move(text), go = std::move(go), fail = std::move(fail)](Status status) {
        if (!status.ok()) return fail(status);
        StatusOr<JobMaster*> job = FindJob(text);
        if (!job.ok()) return fail(job.status());
        go(**job);
      });
}

void Coordinator::ListJobs(bool all, DoneWith<std::vector<JobStatus>> done) {
  WhenReady([this, all, done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    std::vector<JobStatus> list;
    for (const auto& [id, job] : jobs_) {
      if (job->ended() && !all) continue;
      list.push_back(job->GetStatus());
    }
    std::stable_sort(list.begin(), list.end(), [](const JobStatus& a, const JobStatus& b) {
      return a.start_wall_us < b.start_wall_us;
    });
    done(std::move(list));
  });
}

void Coordinator::GetJob(std::string job, DoneWith<JobStatus> done) {
  WithJob(
      std::move(job), [done](JobMaster& master) { done(master.GetStatus()); },
      [done](Status status) { done(status); });
}

void Coordinator::Cancel(std::string job, bool force, DoneWith<std::vector<std::string>> done) {
  WithJob(
      std::move(job), [force, done](JobMaster& master) { master.Cancel(force, done); },
      [done](Status status) { done(status); });
}

void Coordinator::ListCheckpoints(std::string job, DoneWith<std::vector<CheckpointSummary>> done) {
  WithJob(
      std::move(job), [done](JobMaster& master) { done(master.Checkpoints()); },
      [done](Status status) { done(status); });
}

void Coordinator::GetEvents(std::string job, DoneWith<std::vector<JobEvent>> done) {
  WithJob(
      std::move(job), [done](JobMaster& master) { done(master.Events()); },
      [done](Status status) { done(status); });
}

void Coordinator::Remove(std::string job, bool force, Done done) {
  WithJob(
      std::move(job),
      [this, force, done](JobMaster& master) {
        if (!master.ended()) {
          return done(FailedPreconditionError(
              Concat("job ", Describe(master), " is live: cancel it first")));
        }
        if (!removing_.insert(master.id()).second) {
          return done(FailedPreconditionError(
              Concat("job ", Describe(master), " is being removed already")));
        }
        OwedAnswer answer(done);
        scope_.Spawn(
            RemoveFlow(master.id(), master.retained_checkpoint(), force, std::move(answer)));
      },
      done);
}

// What its sinks staged is taken away by whoever publishes it, or settles the job's end.
Co<Status> Coordinator::CheckNothingUnpublished(JobId id, std::string kept) {
  const std::string staged = JoinPath(registry_.JobDirectory(id), kStagingName);
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(environment_.files, staged);
  if (names.status().code() == StatusCode::kNotFound) co_return Status();
  if (!names.ok()) co_return names.status();
  if (names->empty()) co_return Status();
  int64_t bytes = 0;
  for (const FileInfo& info : *names) bytes += info.size;
  const std::string advice =
      kept.empty() ? "No checkpoint is kept that lists them; "
                   : Concat(
                         "A job that starts from its kept checkpoint publishes them (weir run "
                         "--from ",
                         kept, "); ");
  co_return FailedPreconditionError(
      Concat("job ", id, " has rows that may not be published: ", names->size(), " files, ", bytes,
             " bytes in ", staged, ". ", advice, "weir remove --force drops them"));
}

Co<void> Coordinator::RemoveFlow(JobId id, std::string kept, bool force, OwedAnswer answer) {
  Status removed;
  if (!force) removed = co_await CheckNothingUnpublished(id, std::move(kept));
  if (removed.ok()) removed = co_await registry_.Remove(id);
  removing_.erase(id);
  if (removed.ok()) {
    jobs_.erase(id);
    log::Info("job=", id.value().substr(0, 8), " is removed");
  }
  answer.Give(removed);
}

void Coordinator::ListWorkers(DoneWith<std::vector<WorkerStatus>> done) {
  WhenReady([this, done = std::move(done)](Status status) {
    if (!status.ok()) return done(status);
    done(workers_.List());
  });
}

}  // namespace weir
