#include "tests/unit/coordinator/job/fake_cluster.h"

#include <algorithm>

#include "common/base/concat.h"
#include "common/graph/job_options.h"
#include "common/graph/type_descriptor.h"

namespace weir {
namespace {

constexpr int64_t kStepUs = 10'000;
constexpr int64_t kHeartbeatUs = 1'000'000;

// Carries calls to the fake workers; answers come as mail of the calling coordinator.
class FakeGateway : public WorkerGateway {
 public:
  FakeGateway(FakeCluster& cluster, CoordinatorProcess& process)
      : cluster_(cluster), process_(process) {}

  void CheckJob(std::string address, CheckJobRequest request, DoneWith<JobGraph> done) override {
    FakeCluster::Worker* worker = Reach("check", address, Generation(0), CheckpointId(0));
    if (worker != nullptr && worker->silent) return;
    StatusOr<JobGraph> answer = UnavailableError("worker is gone");
    if (worker != nullptr) {
      cluster_.checked_succession = request.succession;
      answer = cluster_.check_answer.ok() ? StatusOr<JobGraph>(request.graph)
                                          : StatusOr<JobGraph>(cluster_.check_answer);
    }
    process_.loop.Post([done, answer] { done(answer); });
  }
  void StartTasks(std::string address, StartTasksRequest request, Done done) override {
    FakeCluster::Worker* worker = Reach("start", address, request.generation, CheckpointId(0));
    if (worker != nullptr && worker->silent) return;
    Status answer = UnavailableError("worker is gone");
    if (worker != nullptr) {
      answer = Status();
      if (worker->ended[request.job] >= request.generation ||
          worker->hosted[request.job] > request.generation) {
        answer = StaleError("ended");
      } else if (worker->hosted[request.job] != request.generation) {
        cluster_.StartTasks(*worker, request);
      }
    }
    Answer(std::move(done), answer);
  }
  void Trigger(std::string address, TriggerRequest request, Done done) override {
    FakeCluster::Worker* worker = Reach("trigger", address, request.generation, request.checkpoint);
    if (worker != nullptr && worker->silent) return;
    if (worker == nullptr) return Answer(std::move(done), UnavailableError("worker is gone"));
    if (worker->hosted[request.job] != request.generation) {
      return Answer(std::move(done), StaleError("another generation"));
    }
    cluster_.Trigger(request);
    Answer(std::move(done), Status());
  }
  void NotifyCompleted(std::string address, CheckpointNotice notice, Done done) override {
    FakeCluster::Worker* worker = Reach("completed", address, notice.generation, notice.checkpoint);
    if (worker != nullptr && worker->silent) return;
    if (worker == nullptr) return Answer(std::move(done), UnavailableError("worker is gone"));
    if (worker->hosted[notice.job] != notice.generation) {
      return Answer(std::move(done), StaleError("another generation"));
    }
    cluster_.Publish(*worker, notice);
    Answer(std::move(done), Status());
  }
  void NotifyAborted(std::string address, CheckpointNotice notice, Done done) override {
    FakeCluster::Worker* worker = Reach("aborted", address, notice.generation, notice.checkpoint);
    if (worker != nullptr && worker->silent) return;
    Answer(std::move(done), worker == nullptr ? UnavailableError("worker is gone") : Status());
  }
  void EndTasks(std::string address, EndTasksRequest request, Done done) override {
    FakeCluster::Worker* worker =
        Reach(request.finish ? "finish" : "end", address, request.generation, CheckpointId(0));
    if (worker != nullptr && worker->silent) return;
    if (worker == nullptr) return Answer(std::move(done), UnavailableError("worker is gone"));
    worker->ended[request.job] = std::max(worker->ended[request.job], request.generation);
    if (worker->hosted[request.job] <= request.generation) worker->hosted.erase(request.job);
    Answer(std::move(done), Status());
  }
  void Settle(std::string address, SettleRequest request, Done done) override {
    FakeCluster::Worker* worker = Reach("settle", address, request.generation, CheckpointId(0));
    cluster_.settles.push_back(request);
    if (cluster_.hold_settles || (worker != nullptr && worker->silent)) return;
    Answer(std::move(done),
           worker == nullptr ? UnavailableError("worker is gone") : cluster_.Settle(request));
  }
  void Watch(std::string address, std::function<void()> broken) override {
    PausableLoop* loop = &process_.loop;
    cluster_.Watch(address, [loop, broken] { loop->Post(broken); });
  }
  void Unwatch(std::string) override {}

 private:
  FakeCluster::Worker* Reach(const std::string& what, const std::string& address,
                             Generation generation, CheckpointId checkpoint) {
    cluster_.calls.push_back({process_.name, what, address, generation, checkpoint});
    FakeCluster::Worker* worker = cluster_.At(address);
    return worker != nullptr && worker->alive ? worker : nullptr;
  }
  void Answer(Done done, Status status) {
    process_.loop.Post([done = std::move(done), status] { done(status); });
  }

  FakeCluster& cluster_;
  CoordinatorProcess& process_;
};

}  // namespace

TimerId PausableLoop::After(int64_t delay_us, std::function<void()> mail) {
  auto id = std::make_shared<TimerId>(0);
  *id = inner_.After(delay_us, [this, id, mail = std::move(mail)] { Guard(*id, mail)(); });
  timers_.insert(*id);
  return *id;
}

void PausableLoop::Cancel(TimerId id) {
  inner_.Cancel(id);
  timers_.erase(id);
}

void PausableLoop::Continue() {
  paused_ = false;
  auto backlog = std::exchange(backlog_, {});
  for (auto& [id, mail] : backlog) inner_.Post(Guard(id, std::move(mail)));
}

std::function<void()> PausableLoop::Guard(TimerId id, std::function<void()> mail) {
  return [this, id, mail = std::move(mail)] {
    if (paused_) {
      backlog_.emplace_back(id, mail);
    } else if (id == 0 || timers_.erase(id) > 0) {
      mail();
    }
  };
}

CoordinatorProcess::CoordinatorProcess(FakeCluster& cluster,
                                       std::shared_ptr<MemoryFileSystem::Disk> disk,
                                       std::string process_name, uint64_t seed)
    : name(std::move(process_name)),
      files(std::make_unique<MemoryFileSystem>(loop, std::move(disk))),
      random(seed),
      gateway(std::make_unique<FakeGateway>(cluster, *this)),
      cluster_(cluster) {
  cluster.processes_.push_back(this);
}

CoordinatorProcess::~CoordinatorProcess() {
  std::erase(cluster_.processes_, this);
  if (cluster_.followed_ == this) cluster_.followed_ = nullptr;
}

void CoordinatorProcess::Kill() {
  loop.Pause();
  coordinator.reset();
  files.reset();
}

FakeCluster::FakeCluster() : view_(std::make_unique<MemoryFileSystem>(view_loop_)) {
  disk_ = view_->disk();
}

std::unique_ptr<CoordinatorProcess> FakeCluster::StartCoordinator(const std::string& name,
                                                                  bool take_over) {
  auto process =
      std::make_unique<CoordinatorProcess>(*this, disk_, name, std::hash<std::string>()(name));
  CoordinatorOptions options;
  options.checkpoint_dir = "/checkpoints";
  options.address = name + ":7070";
  options.host = "host-" + name;
  options.pid = 1;
  options.take_over = take_over;
  CoordinatorEnvironment environment{process->loop,     process->loop,         *process->files,
                                     *process->gateway, process->loop.clock(), process->random};
  process->coordinator = std::make_unique<Coordinator>(options, environment);
  process->coordinator->Start();
  return process;
}

FakeCluster::Worker& FakeCluster::AddWorker(const std::string& name, int slots) {
  WorkerInfo info;
  info.name = WorkerName(name);
  info.incarnation = WorkerIncarnation(Concat(name, "-", ++incarnations_));
  info.control_address = Concat(name, ":", incarnations_);
  info.data_address = Concat(name, "-data:", incarnations_);
  info.host = "host-of-" + name;
  info.slots = slots;
  Worker& worker = workers_[info.control_address];
  worker.info = info;
  if (followed_ != nullptr) RegisterWorker(worker);
  return worker;
}

void FakeCluster::KillWorker(const std::string& name) {
  for (auto& [address, worker] : workers_) {
    if (worker.info.name.value() != name || !worker.alive) continue;
    worker.alive = false;
    for (auto& broken : watches_[address]) broken();
    watches_.erase(address);
  }
}

void FakeCluster::Follow(CoordinatorProcess* process) {
  followed_ = process;
  if (process == nullptr) return;
  for (auto& [address, worker] : workers_) {
    worker.registered = false;
    if (worker.alive && !worker.silent) RegisterWorker(worker);
  }
}

void FakeCluster::Tell(std::function<void(Coordinator&)> message) {
  CoordinatorProcess* process = followed_;
  if (process == nullptr) return;
  process->loop.Post([process, message = std::move(message)] {
    if (process->coordinator) message(*process->coordinator);
  });
}

void FakeCluster::RegisterWorker(Worker& worker) {
  Worker* one = &worker;
  CoordinatorProcess* process = followed_;
  Tell([this, one, process](Coordinator& coordinator) {
    coordinator.Hello([this, one, process, &coordinator](StatusOr<HelloResponse> hello) {
      if (!hello.ok() || process != followed_) return;
      RegisterRequest request;
      request.worker = one->info;
      request.coordinator = hello->coordinator;
      request.nonce = view_->Bytes(hello->nonce_path);
      coordinator.Register(
          request, [one](StatusOr<RegisterResponse> answer) { one->registered = answer.ok(); });
    });
  });
}

void FakeCluster::Heartbeats() {
  for (auto& [address, worker] : workers_) {
    if (!worker.alive || worker.silent) continue;
    if (!worker.registered) {
      RegisterWorker(worker);
      continue;
    }
    Worker* one = &worker;
    HeartbeatRequest request;
    request.name = worker.info.name;
    request.incarnation = worker.info.incarnation;
    for (const auto& [job, generation] : worker.hosted) {
      if (generation.value() > 0) {
        request.hosted.push_back(HostedGeneration{job, generation, metrics});
      }
    }
    Tell([one, request](Coordinator& coordinator) {
      coordinator.Heartbeat(request, [one](StatusOr<HeartbeatResponse> answer) {
        if (!answer.ok() || !answer->known) {
          one->registered = false;
          return;
        }
        for (const auto& [job, generation] : answer->end) {
          one->ended[job] = std::max(one->ended[job], generation);
          if (one->hosted[job] <= generation) one->hosted.erase(job);
        }
      });
    });
  }
}

void FakeCluster::Advance(int64_t us) {
  for (int64_t left = us; left > 0; left -= kStepUs) {
    now_us_ += kStepUs;
    if (followed_ != nullptr && now_us_ % kHeartbeatUs == 0) Heartbeats();
    for (CoordinatorProcess* process : processes_) process->loop.Advance(kStepUs);
  }
}

bool FakeCluster::Until(const std::function<bool()>& condition, int64_t us_max) {
  for (int64_t left = us_max; left > 0; left -= kStepUs) {
    if (condition()) return true;
    Advance(kStepUs);
  }
  return condition();
}

StatusOr<SubmitResponse> FakeCluster::Submit(CoordinatorProcess& process, const JobId& job,
                                             const std::string& graph_json,
                                             std::string restore_from) {
  StatusOr<JobGraph> graph = ParseJobGraph(graph_json);
  if (!graph.ok()) return graph.status();
  SubmitRequest request;
  request.job = job;
  request.graph = *graph;
  request.restore_from = std::move(restore_from);
  request.client_directory = "/home/user";
  auto answer = std::make_shared<std::optional<StatusOr<SubmitResponse>>>();
  process.coordinator->Submit(request, [answer](StatusOr<SubmitResponse> one) { *answer = one; });
  return Await(*answer);
}

StatusOr<JobStatus> FakeCluster::Get(CoordinatorProcess& process, const std::string& job) {
  auto answer = std::make_shared<std::optional<StatusOr<JobStatus>>>();
  process.coordinator->GetJob(job, [answer](StatusOr<JobStatus> one) { *answer = one; });
  return Await(*answer);
}

StatusOr<std::vector<JobStatus>> FakeCluster::List(CoordinatorProcess& process, bool all) {
  auto answer = std::make_shared<std::optional<StatusOr<std::vector<JobStatus>>>>();
  process.coordinator->ListJobs(all,
                                [answer](StatusOr<std::vector<JobStatus>> one) { *answer = one; });
  return Await(*answer);
}

StatusOr<std::vector<CheckpointSummary>> FakeCluster::Checkpoints(CoordinatorProcess& process,
                                                                  const std::string& job) {
  auto answer = std::make_shared<std::optional<StatusOr<std::vector<CheckpointSummary>>>>();
  process.coordinator->ListCheckpoints(
      job, [answer](StatusOr<std::vector<CheckpointSummary>> one) { *answer = one; });
  return Await(*answer);
}

bool FakeCluster::InState(CoordinatorProcess& process, const std::string& job, JobState state) {
  bool there = false;
  process.coordinator->GetJob(
      job, [&](StatusOr<JobStatus> one) { there = one.ok() && one->state == state; });
  return there;
}

FakeCluster::Worker* FakeCluster::At(const std::string& address) {
  auto it = workers_.find(address);
  return it == workers_.end() ? nullptr : &it->second;
}

void FakeCluster::Watch(const std::string& address, std::function<void()> broken) {
  watches_[address].push_back(std::move(broken));
}

std::string FakeCluster::UidOf(const RunningJob& job, int task) const {
  return job.start.graph.vertices[job.plan.tasks[task].chain.front()].uid;
}

void FakeCluster::StartTasks(Worker& worker, const StartTasksRequest& request) {
  worker.hosted[request.job] = request.generation;
  RunningJob& job = running_[{request.job, request.generation}];
  if (job.plan.tasks.empty()) {
    job.start = request;
    job.plan = MakeExecutionPlan(request.graph, *ParseJobOptions(request.graph.options));
    CheckRestore(request);
  }
  if (!auto_run) return;
  ReportTasksRequest report;
  report.worker = worker.info.name;
  report.job = request.job;
  report.generation = request.generation;
  for (const TaskAssignment& assignment : request.assignments) {
    if (assignment.worker != worker.info.name) continue;
    report.reports.push_back(
        TaskReport{assignment.task, assignment.subtask, TaskState::kRunning, "", Status()});
  }
  Tell([report](Coordinator& coordinator) { coordinator.ReportTasks(report, [](Status) {}); });
}

// What the sources replay must not be visible, what they do not replay must be.
void FakeCluster::CheckRestore(const StartTasksRequest& request) {
  for (const auto& [key, fate] : outside_) {
    const auto& [job, uid, subtask, generation, checkpoint] = key;
    if (job != request.job.value()) continue;
    bool replayed = checkpoint > request.restore.checkpoint.value();
    std::string what =
        Concat(uid, " subtask ", subtask, " generation ", generation, " checkpoint ", checkpoint);
    if (fate == Fate::kSealed) violations.push_back(what + " is undecided when tasks start");
    if (fate == Fate::kPublished && replayed) violations.push_back(what + " is doubled");
  }
}

void FakeCluster::EndSources(const JobId& id) {
  auto it = std::prev(running_.upper_bound({id, Generation(UINT64_MAX)}));
  const RunningJob& job = it->second;
  for (const TaskAssignment& assignment : job.start.assignments) {
    if (!job.plan.tasks[assignment.task].inputs.empty()) continue;
    ReportTasksRequest report;
    report.worker = assignment.worker;
    report.job = id;
    report.generation = it->first.second;
    report.reports.push_back(
        TaskReport{assignment.task, assignment.subtask, TaskState::kEndedInput, "", Status()});
    Tell([report](Coordinator& coordinator) { coordinator.ReportTasks(report, [](Status) {}); });
  }
}

void FakeCluster::FailTask(const JobId& id, Status error) {
  auto it = std::prev(running_.upper_bound({id, Generation(UINT64_MAX)}));
  const TaskAssignment& assignment = it->second.start.assignments.front();
  ReportTasksRequest report;
  report.worker = assignment.worker;
  report.job = id;
  report.generation = it->first.second;
  report.reports.push_back(TaskReport{assignment.task, assignment.subtask, TaskState::kFailed,
                                      UidOf(it->second, assignment.task), error});
  Tell([report](Coordinator& coordinator) { coordinator.ReportTasks(report, [](Status) {}); });
}

void FakeCluster::Trigger(const TriggerRequest& request) {
  RunningJob& job = running_.at({request.job, request.generation});
  if (!job.acked.insert(request.checkpoint).second) return;
  // Sealed by the barrier, whatever becomes of the ack.
  for (const TaskAssignment& assignment : job.start.assignments) {
    for (int index : job.plan.tasks[assignment.task].chain) {
      const JobVertex& vertex = job.start.graph.vertices[index];
      const TypeDescriptor& type = BuiltinTypes().at(vertex.type);
      const bool owns = type.kind == VertexKind::kSink ||
                        (type.owns_committables && type.owns_committables(vertex.config, {}));
      if (!owns) continue;
      Committable committable{
          vertex.uid, assignment.subtask, request.generation, request.checkpoint, 0, "rows"};
      job.listed[{vertex.uid, assignment.subtask}].push_back(committable);
      outside_.emplace(CommittableKey(request.job.value(), vertex.uid, assignment.subtask,
                                      request.generation.value(), request.checkpoint.value()),
                       Fate::kSealed);
    }
  }
  if (auto_ack) Ack(request.job, request.generation, request.checkpoint);
}

void FakeCluster::Ack(const JobId& id, Generation generation, CheckpointId checkpoint) {
  RunningJob& job = running_.at({id, generation});
  for (const TaskAssignment& assignment : job.start.assignments) {
    bool alive = false;
    for (const auto& [address, worker] : workers_) {
      auto hosted = worker.hosted.find(id);
      alive |= worker.info.name == assignment.worker && worker.alive && !worker.silent &&
               hosted != worker.hosted.end() && hosted->second == generation;
    }
    if (!alive) continue;
    AcknowledgeRequest request;
    request.worker = assignment.worker;
    request.job = id;
    request.generation = generation;
    TaskAck ack;
    ack.checkpoint = checkpoint;
    ack.task = assignment.task;
    ack.subtask = assignment.subtask;
    for (int index : job.plan.tasks[assignment.task].chain) {
      const JobVertex& vertex = job.start.graph.vertices[index];
      OperatorSnapshot snapshot;
      snapshot.uid = vertex.uid;
      snapshot.subtask = assignment.subtask;
      snapshot.records_in = snapshot.records_out = 10 * static_cast<int64_t>(checkpoint.value());
      auto listed = job.listed.find({vertex.uid, assignment.subtask});
      if (listed != job.listed.end()) {
        for (const Committable& one : listed->second) {
          if (one.checkpoint <= checkpoint) snapshot.committables.push_back(one);
        }
      }
      ack.snapshots.push_back(std::move(snapshot));
    }
    request.acks.push_back(std::move(ack));
    Tell([request](Coordinator& coordinator) { coordinator.Acknowledge(request, [](Status) {}); });
  }
}

void FakeCluster::SetFate(const Committable& one, const JobId& job, Fate fate) {
  CommittableKey key(job.value(), one.uid, one.subtask, one.generation.value(),
                     one.checkpoint.value());
  Fate& present = outside_.at(key);
  if (present != Fate::kSealed && present != fate) {
    violations.push_back(Concat(
        one.uid, " subtask ", one.subtask, " generation ", one.generation, " checkpoint ",
        one.checkpoint, " is ",
        present == Fate::kPublished ? "aborted after publication" : "published after abort"));
  }
  present = fate;
}

void FakeCluster::Publish(Worker& worker, const CheckpointNotice& notice) {
  if (!auto_publish) return;
  RunningJob& job = running_.at({notice.job, notice.generation});
  ReportPublishedRequest report;
  report.worker = worker.info.name;
  report.job = notice.job;
  report.generation = notice.generation;
  for (const TaskAssignment& assignment : job.start.assignments) {
    if (assignment.worker != worker.info.name) continue;
    for (int index : job.plan.tasks[assignment.task].chain) {
      const std::string& uid = job.start.graph.vertices[index].uid;
      auto listed = job.listed.find({uid, assignment.subtask});
      if (listed == job.listed.end()) continue;
      std::vector<Committable> left;
      for (const Committable& one : listed->second) {
        if (one.checkpoint <= notice.checkpoint) {
          SetFate(one, notice.job, Fate::kPublished);
        } else {
          left.push_back(one);
        }
      }
      listed->second = std::move(left);
      report.reports.push_back(PublishReport{notice.checkpoint, uid, assignment.subtask});
    }
  }
  Tell([report](Coordinator& coordinator) { coordinator.ReportPublished(report, [](Status) {}); });
}

Status FakeCluster::Settle(const SettleRequest& request) {
  if (!settle_answer.ok()) return settle_answer;
  std::set<CommittableKey> listed;
  for (const Committable& one : request.committables) {
    SetFate(one, request.job, Fate::kPublished);
    listed.emplace(request.job.value(), one.uid, one.subtask, one.generation.value(),
                   one.checkpoint.value());
  }
  for (auto& [key, fate] : outside_) {
    const auto& [job, uid, subtask, generation, checkpoint] = key;
    if (job != request.job.value() || uid != request.vertex.uid) continue;
    if (generation >= request.generation.value() || listed.contains(key)) continue;
    if (fate == Fate::kSealed) fate = Fate::kAborted;  // published ones have left the hidden files
  }
  return Status();
}

int FakeCluster::Count(Fate wanted) const {
  return static_cast<int>(std::count_if(outside_.begin(), outside_.end(),
                                        [&](const auto& one) { return one.second == wanted; }));
}

}  // namespace weir
