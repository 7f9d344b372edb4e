#include "worker/task/worker_node.h"

#include <algorithm>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "worker/task/job_checks.h"

namespace weir {
namespace {

// Tasks that are still there so long after they were told to end cannot be got rid of.
constexpr int64_t kEndMaxUs = 30'000'000;
// Jobs whose last ended generation is remembered.
constexpr size_t kEndedMax = 4096;

void AskCoordinator(WorkerEnvironment& environment, const CoordinatorLink& link,
                    const ConfirmCurrentRequest& request, std::function<void(Status)> done) {
  if (link.address().empty()) {
    environment.executor->Post(
        [done = std::move(done)] { done(UnavailableError("no coordinator")); });
    return;
  }
  environment.coordinators->ConfirmCurrent(link.address(), request, std::move(done));
}

class SettleContext : public CommitterContext {
 public:
  SettleContext(const SettleRequest& request, WorkerEnvironment& environment,
                const CoordinatorLink& link)
      : request_(request),
        environment_(environment),
        link_(link),
        staging_directory_(JoinPath(request.job_directory, kStagingName)) {
    if (request.successor.value().empty()) return;
    successor_.emplace().job = request.successor;
    for (const JobVertex& vertex : request.successor_vertices) {
      successor_->configs.push_back(vertex.config);
    }
  }
  const Config& config() const override { return request_.vertex.config; }
  const JobId& job() const override { return request_.job; }
  const std::string& job_name() const override { return request_.job_name; }
  const std::string& uid() const override { return request_.vertex.uid; }
  FileSystem& files() override { return *environment_.files; }
  Timers& timers() override { return *environment_.timers; }
  Executor& executor() override { return *environment_.executor; }
  const std::string& staging_directory() const override { return staging_directory_; }
  const JobSuccessor* successor() const override { return successor_ ? &*successor_ : nullptr; }
  bool ends() const override { return request_.ends; }
  void ConfirmCurrent(std::function<void(Status)> done) override {
    ConfirmCurrentRequest request;
    request.job = request_.job;
    request.generation = request_.generation;
    request.coordinator = request_.coordinator;
    request.settle_order = request_.order;
    AskCoordinator(environment_, link_, request, std::move(done));
  }

 private:
  const SettleRequest& request_;
  WorkerEnvironment& environment_;
  const CoordinatorLink& link_;
  const std::string staging_directory_;
  std::optional<JobSuccessor> successor_;
};

// Answers an order to settle once: when it is done, or in time with what keeps it from that.
class SettleAnswer {
 public:
  SettleAnswer(Timers& timers, const SettleRequest& request, const Committer& committer,
               std::function<void(Status)> done)
      : timers_(timers), done_(std::move(done)) {
    if (request.answer_within_us == 0) return;
    timer_ =
        timers_.After(request.answer_within_us, [this, &committer, us = request.answer_within_us] {
          std::string waits = committer.waits_for();
          if (waits.empty()) waits = Concat("not done within ", us / 1000, " ms");
          Give(UnavailableError(std::move(waits)));
        });
  }
  SettleAnswer(const SettleAnswer&) = delete;
  ~SettleAnswer() { timers_.Cancel(timer_); }
  void Give(const Status& status) {
    if (done_) std::exchange(done_, nullptr)(status);
  }

 private:
  Timers& timers_;
  TimerId timer_ = 0;
  std::function<void(Status)> done_;
};

}  // namespace

WorkerNode::WorkerNode(WorkerOptions options, WorkerEnvironment environment)
    : options_(std::move(options)), environment_(std::move(environment)) {
  CoordinatorLink::Callbacks callbacks;
  callbacks.hosted = [this] { return HostedNow(); };
  callbacks.end = [this](const JobId& job, Generation generation) {
    log::Info("ending tasks that are no longer current job=", job, " generation=", generation);
    EndLate(job, generation);
  };
  callbacks.abandoned = [this] {
    std::map<JobId, Generation> all;
    for (const auto& [job, hosted] : hosted_) all[job] = hosted.generation;
    for (const auto& [job, generation] : all) {
      log::Warning("no coordinator for too long: ending tasks job=", job,
                   " generation=", generation);
      EndLate(job, generation);
    }
  };
  callbacks.heard = [this](const std::vector<HostedGeneration>& heartbeat) {
    for (const HostedGeneration& hosted : heartbeat) {
      auto late = ended_late_.find(hosted.job);
      if (late != ended_late_.end() && late->second == hosted.generation) ended_late_.erase(late);
    }
  };
  link_ = std::make_unique<CoordinatorLink>(environment_, options_, std::move(callbacks));
}

WorkerNode::~WorkerNode() = default;

void WorkerNode::Start() { link_->Start(); }

void WorkerNode::Stop(std::function<void()> done) {
  stopping_ = true;
  link_->Leave([this, done = std::move(done)] {
    auto left = std::make_shared<size_t>(1);
    auto one_less = [left, done] {
      if (--*left == 0) done();
    };
    std::vector<std::pair<JobId, Generation>> all;
    for (const auto& [job, hosted] : hosted_) all.emplace_back(job, hosted.generation);
    for (const auto& [job, generation] : all) {
      ++*left;
      End(job, generation, one_less);
    }
    one_less();
  });
}

std::vector<HostedGeneration> WorkerNode::HostedNow() const {
  std::vector<HostedGeneration> result;
  for (const auto& [job, hosted] : hosted_) {
    if (hosted.host == nullptr || hosted.ending) continue;
    result.push_back({job, hosted.generation, hosted.host->Metrics()});
  }
  for (const auto& [job, generation] : ended_late_) result.push_back({job, generation, {}});
  return result;
}

void WorkerNode::EndLate(const JobId& job, Generation generation) {
  auto hosted = hosted_.find(job);
  if (hosted != hosted_.end() && hosted->second.generation <= generation) {
    ended_late_[job] = hosted->second.generation;
  }
  End(job, generation, [] {});
}

StatusOr<GenerationHost*> WorkerNode::Current(const JobId& job, Generation generation) {
  auto it = hosted_.find(job);
  if (it == hosted_.end() || it->second.generation != generation || it->second.ending ||
      it->second.host == nullptr) {
    return StaleError(Concat("worker ", options_.info.name, " does not run generation ", generation,
                             " of job ", job));
  }
  return it->second.host.get();
}

void WorkerNode::RememberEnded(const JobId& job, Generation generation) {
  auto [it, added] = ended_.try_emplace(job, generation);
  it->second = std::max(it->second, generation);
  if (!added) return;
  ended_order_.push_back(job);
  if (ended_order_.size() > kEndedMax) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

void WorkerNode::End(const JobId& job, Generation generation, std::function<void()> ended) {
  auto it = hosted_.find(job);
  if (it == hosted_.end() || it->second.generation > generation) {
    RememberEnded(job, generation);
    ended();
    return;
  }
  Hosted& hosted = it->second;
  RememberEnded(job, std::max(generation, hosted.generation));
  hosted.when_ended.push_back(std::move(ended));
  if (hosted.ending) return;
  hosted.ending = true;
  std::string what = Concat("tasks did not end within ", kEndMaxUs / 1'000'000, " s job=", job,
                            " generation=", hosted.generation);
  TimerId watchdog =
      environment_.timers->After(kEndMaxUs, [this, what] { environment_.die(what); });
  Generation ending = hosted.generation;
  JobId id = job;
  hosted.host->End([this, id, ending, watchdog] {
    environment_.timers->Cancel(watchdog);
    auto found = hosted_.find(id);
    std::vector<std::function<void()>> when_ended = std::move(found->second.when_ended);
    // The host runs this very answer: let it go only after that.
    std::shared_ptr<GenerationHost> host(std::move(found->second.host));
    hosted_.erase(found);
    environment_.executor->Post([host] {});
    log::Info("tasks ended job=", id, " generation=", ending);
    for (auto& done : when_ended) done();
  });
}

void WorkerNode::StartTasks(StartTasksRequest request, Done done) {
  if (stopping_) {
    done(UnavailableError(Concat("worker ", options_.info.name, " is leaving")));
    return;
  }
  if (request.coordinator < link_->number()) {
    done(StaleError(
        Concat("coordinator ", request.coordinator, " has been succeeded by ", link_->number())));
    return;
  }
  link_->HeardOf(request.coordinator);
  auto ended = ended_.find(request.job);
  if (ended != ended_.end() && request.generation <= ended->second) {
    done(StaleError(Concat("generation ", request.generation, " of job ", request.job,
                           " has ended on worker ", options_.info.name)));
    return;
  }
  auto it = hosted_.find(request.job);
  if (it == hosted_.end()) {
    StartNow(std::move(request), std::move(done));
    return;
  }
  if (it->second.generation == request.generation) {
    done(Status());  // it runs
    return;
  }
  if (it->second.generation > request.generation) {
    done(StaleError(Concat("worker ", options_.info.name, " runs generation ",
                           it->second.generation, " of job ", request.job)));
    return;
  }
  JobId job = request.job;
  Generation older(request.generation.value() - 1);
  End(job, older, [this, request = std::move(request), done = std::move(done)]() mutable {
    StartTasks(std::move(request), std::move(done));
  });
}

StatusOr<const Registry*> WorkerNode::RegistryOf(const std::string& library_path) const {
  if (library_path.empty()) return environment_.registry;
  WEIR_ASSIGN_OR_RETURN(LoadedLibrary loaded, environment_.load_library(library_path));
  return loaded.registry;
}

void WorkerNode::StartNow(StartTasksRequest request, Done done) {
  StatusOr<const Registry*> registry = RegistryOf(request.library_path);
  if (!registry.ok()) {
    done(registry.status());
    return;
  }
  JobId job = request.job;
  Generation generation = request.generation;
  GenerationHost::Reports reports;
  CoordinatorGateway* gateway = environment_.coordinators;
  auto unreachable = [] { return UnavailableError("no coordinator"); };
  reports.tasks = [this, gateway, unreachable](ReportTasksRequest message, Done answer) {
    if (link_->address().empty())
      return environment_.executor->Post([=] { answer(unreachable()); });
    gateway->ReportTasks(link_->address(), std::move(message), std::move(answer));
  };
  reports.acks = [this, gateway, unreachable](AcknowledgeRequest message, Done answer) {
    if (link_->address().empty())
      return environment_.executor->Post([=] { answer(unreachable()); });
    gateway->Acknowledge(link_->address(), std::move(message), std::move(answer));
  };
  reports.published = [this, gateway, unreachable](ReportPublishedRequest message, Done answer) {
    if (link_->address().empty())
      return environment_.executor->Post([=] { answer(unreachable()); });
    gateway->ReportPublished(link_->address(), std::move(message), std::move(answer));
  };
  reports.confirm = [this](const ConfirmCurrentRequest& message, Done answer) {
    AskCoordinator(environment_, *link_, message, std::move(answer));
  };
  reports.stale = [this, job, generation] {
    log::Info("coordinator knows this generation no more job=", job, " generation=", generation);
    EndLate(job, generation);
  };
  Hosted& hosted = hosted_[job];
  hosted.generation = generation;
  hosted.host = std::make_unique<GenerationHost>(environment_, **registry, options_.info.name,
                                                 std::move(request), std::move(reports));
  Status started = hosted.host->Start();
  if (!started.ok()) {
    End(job, generation, [] {});
  }
  done(started);
}

void WorkerNode::Trigger(TriggerRequest request, Done done) {
  StatusOr<GenerationHost*> host = Current(request.job, request.generation);
  if (host.ok()) (*host)->Trigger(request);
  done(host.status());
}

void WorkerNode::NotifyCompleted(CheckpointNotice notice, Done done) {
  StatusOr<GenerationHost*> host = Current(notice.job, notice.generation);
  if (host.ok()) (*host)->NotifyCompleted(notice.checkpoint);
  done(host.status());
}

void WorkerNode::NotifyAborted(CheckpointNotice notice, Done done) {
  StatusOr<GenerationHost*> host = Current(notice.job, notice.generation);
  if (host.ok()) (*host)->NotifyAborted(notice.checkpoint);
  done(host.status());
}

void WorkerNode::EndTasks(EndTasksRequest request, Done done) {
  End(request.job, request.generation, [done = std::move(done)] { done(Status()); });
}

void WorkerNode::Settle(SettleRequest request, Done done) {
  if (request.coordinator < link_->number()) {
    done(StaleError(
        Concat("coordinator ", request.coordinator, " has been succeeded by ", link_->number())));
    return;
  }
  link_->HeardOf(request.coordinator);
  flows_.Spawn(SettleFlow(std::move(request), std::move(done)));
}

Co<void> WorkerNode::SettleFlow(SettleRequest request, Done done) {
  StatusOr<const Registry*> registry = RegistryOf(request.library_path);
  if (!registry.ok()) {
    done(registry.status());
    co_return;
  }
  const CommitterFactory* factory = (*registry)->FindCommitter(request.vertex.type);
  if (factory == nullptr) {
    done(InvalidArgumentError(Concat("vertex '", request.vertex.uid, "': this worker knows no ",
                                     "type '", request.vertex.type,
                                     "' whose output it can settle")));
    co_return;
  }
  SettleContext context(request, environment_, *link_);
  std::unique_ptr<Committer> committer = (*factory)();
  committer->Open(context);
  Committer* raw = committer.get();
  SettleAnswer answer(*environment_.timers, request, *raw, std::move(done));
  std::vector<Committable> committables = request.committables;
  Async<Status> committing([raw, committables](Async<Status>::Done settled) {
    raw->Commit(committables, std::move(settled));
  });
  Status status = co_await committing;
  if (status.ok()) {
    Generation generation = request.generation;
    Async<Status> aborting([raw, generation, committables](Async<Status>::Done settled) {
      raw->AbortOthers(generation, committables, std::move(settled));
    });
    status = co_await aborting;
  }
  log::Info("settled job=", request.job, " uid=", request.vertex.uid,
            " generation=", request.generation, " committables=", request.committables.size(),
            " outcome=", status.ToString());
  answer.Give(status);
}

void WorkerNode::CheckJob(CheckJobRequest request, DoneWith<JobGraph> done) {
  flows_.Spawn(CheckJobFlow(std::move(request), std::move(done)));
}

Co<void> WorkerNode::CheckJobFlow(CheckJobRequest request, DoneWith<JobGraph> done) {
  const std::string library_path = request.library_path;
  std::vector<SettleRequest> succession = std::move(request.succession);
  StatusOr<JobGraph> checked = co_await CheckJobHere(environment_, std::move(request));
  for (SettleRequest& settle : succession) {
    if (!checked.ok()) break;
    StatusOr<const Registry*> registry = RegistryOf(library_path);
    Status status = registry.status();
    if (registry.ok()) status = co_await CheckSuccession(std::move(settle), **registry);
    if (!status.ok()) checked = status;
  }
  done(std::move(checked));
}

Co<Status> WorkerNode::CheckSuccession(SettleRequest request, const Registry& registry) {
  const CommitterFactory* factory = registry.FindCommitter(request.vertex.type);
  if (factory == nullptr) co_return Status();  // said when it is to be settled
  SettleContext context(request, environment_, *link_);
  std::unique_ptr<Committer> committer = (*factory)();
  committer->Open(context);
  Async<Status> checking([&](Async<Status>::Done answer) {
    committer->Check(std::move(request.committables), std::move(answer));
  });
  co_return co_await checking;
}

}  // namespace weir
