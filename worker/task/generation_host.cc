#include "worker/task/generation_host.h"

#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {
namespace {

// Bytes that may wait in all channels of a generation on one worker, shared out among them.
constexpr int64_t kWindowBytesAll = int64_t{64} << 20;
constexpr int64_t kWindowBytesMin = int64_t{16} << 10;

}  // namespace

// Carries what tasks say from their threads to the control loop; what comes after the end of the
// generation is dropped there.
class GenerationHost::Observer : public TaskObserver {
 public:
  Observer(GenerationHost* owner, Executor* executor)
      : owner_(std::make_shared<GenerationHost*>(owner)), executor_(executor) {}

  void OnReport(TaskReport report) override {
    Mail([report = std::move(report)](GenerationHost& owner) { owner.OnReport(report); });
  }
  void OnAcknowledge(TaskAck ack) override {
    Mail([ack = std::move(ack)](GenerationHost& owner) { owner.ack_outbox_->Add(ack); });
  }
  void OnPublished(PublishReport report) override {
    Mail([report = std::move(report)](GenerationHost& owner) {
      owner.publish_outbox_->Add(report);
    });
  }
  void OnConfirmWanted(int task, int subtask, uint64_t question) override {
    Mail([task, subtask, question](GenerationHost& owner) {
      owner.OnConfirmWanted(task, subtask, question);
    });
  }
  template <typename F>
  void Mail(F mail) {
    executor_->Post([owner = owner_, mail = std::move(mail)] {
      if (*owner != nullptr) mail(**owner);
    });
  }
  // For answers on the control loop: whether they still reach the owner.
  std::shared_ptr<GenerationHost*> owner() const { return owner_; }
  // From the control loop: nothing reaches the owner any more.
  void CutOff() { *owner_ = nullptr; }

 private:
  std::shared_ptr<GenerationHost*> owner_;  // read and written on the control loop only
  Executor* executor_;
};

GenerationHost::GenerationHost(WorkerEnvironment& environment, const Registry& registry,
                               WorkerName self, StartTasksRequest request, Reports reports)
    : environment_(environment),
      registry_(&registry),
      self_(std::move(self)),
      request_(std::move(request)),
      confirm_(std::move(reports.confirm)),
      observer_(std::make_unique<Observer>(this, environment.executor)) {
  task_outbox_ = std::make_unique<Outbox<TaskReport>>(
      *environment_.timers,
      [this, send = reports.tasks](std::vector<TaskReport> items, Outbox<TaskReport>::Done done) {
        send({self_, request_.job, request_.generation, std::move(items)}, std::move(done));
      },
      reports.stale);
  ack_outbox_ = std::make_unique<Outbox<TaskAck>>(
      *environment_.timers,
      [this, send = reports.acks](std::vector<TaskAck> items, Outbox<TaskAck>::Done done) {
        send({self_, request_.job, request_.generation, std::move(items)}, std::move(done));
      },
      reports.stale);
  publish_outbox_ = std::make_unique<Outbox<PublishReport>>(
      *environment_.timers,
      [this, send = reports.published](std::vector<PublishReport> items,
                                       Outbox<PublishReport>::Done done) {
        send({self_, request_.job, request_.generation, std::move(items)}, std::move(done));
      },
      reports.stale);
}

GenerationHost::~GenerationHost() { observer_->CutOff(); }

Status GenerationHost::Start() {
  StatusOr<JobOptions> options = ParseJobOptions(request_.graph.options);
  if (!options.ok()) return options.status();
  options_ = std::make_shared<const JobOptions>(*options);
  graph_ = std::make_shared<const JobGraph>(request_.graph);
  plan_ = std::make_shared<const ExecutionPlan>(MakeExecutionPlan(*graph_, *options_));
  auto restore = std::make_shared<const CheckpointManifest>(request_.restore);

  std::map<std::pair<int, int>, WorkerName> worker_of;
  for (const TaskAssignment& assignment : request_.assignments) {
    worker_of[{assignment.task, assignment.subtask}] = assignment.worker;
  }
  std::map<WorkerName, std::string> address_of;
  for (const WorkerAddress& worker : request_.workers) {
    address_of[worker.worker] = worker.data_address;
  }

  // All channels of the job that begin or end here.
  struct Wire {
    ChannelId id;
    bool from_here = false;
    bool to_here = false;
    WorkerName from, to;
  };
  std::vector<Wire> wires;
  for (size_t e = 0; e < plan_->edges.size(); ++e) {
    const ExecutionPlan::Edge& edge = plan_->edges[e];
    int from_parallelism = plan_->tasks[edge.from_task].parallelism;
    int to_parallelism = plan_->tasks[edge.to_task].parallelism;
    for (int from = 0; from < from_parallelism; ++from) {
      for (int to = 0; to < to_parallelism; ++to) {
        if (edge.partitioning == Partitioning::kForward && from != to) continue;
        Wire wire;
        wire.id = {static_cast<int>(e), from, to};
        wire.from = worker_of[{edge.from_task, from}];
        wire.to = worker_of[{edge.to_task, to}];
        wire.from_here = wire.from == self_;
        wire.to_here = wire.to == self_;
        if (wire.from_here || wire.to_here) wires.push_back(std::move(wire));
      }
    }
  }
  const int64_t wires_here = std::max<int64_t>(1, static_cast<int64_t>(wires.size()));
  const int64_t window_bytes = std::min(std::max(kWindowBytesAll / wires_here, kWindowBytesMin),
                                        environment_.channel_window_bytes_max);

  DataPlane::Generation remote;
  remote.job = request_.job;
  remote.generation = request_.generation;
  remote.self = self_;
  std::map<ChannelId, ChannelSender*> senders;
  std::map<ChannelId, ChannelReceiver*> receivers;
  for (const Wire& wire : wires) {
    const ExecutionPlan::Edge& edge = plan_->edges[wire.id.edge];
    if (wire.from_here && wire.to_here) {
      local_channels_.push_back(std::make_unique<LocalChannel>(window_bytes));
      senders[wire.id] = local_channels_.back().get();
      receivers[wire.id] = local_channels_.back().get();
    } else if (wire.from_here) {
      remote.sends.push_back({wire.id, wire.to, address_of[wire.to], window_bytes});
    } else {
      remote.receives.push_back(
          {wire.id, wire.from, edge.schema, window_bytes, edge.partial_schema});
    }
  }
  Observer* observer = observer_.get();
  if (remote.sends.empty() && remote.receives.empty()) {
    connected_ = true;
  } else {
    data_plane_started_ = true;
    DataPlane::Channels channels = environment_.data_plane->StartGeneration(
        remote, [observer] { observer->Mail([](GenerationHost& owner) { owner.OnConnected(); }); },
        [observer](Status status) {
          observer->Mail([status](GenerationHost& owner) { owner.OnBroken(status); });
        });
    remote_senders_ = std::move(channels.senders);
    remote_receivers_ = std::move(channels.receivers);
    for (size_t i = 0; i < remote.sends.size(); ++i) {
      senders[remote.sends[i].channel] = remote_senders_[i].get();
    }
    for (size_t i = 0; i < remote.receives.size(); ++i) {
      receivers[remote.receives[i].channel] = remote_receivers_[i].get();
    }
  }

  for (size_t t = 0; t < plan_->tasks.size(); ++t) {
    const ExecutionPlan::TaskVertex& vertex = plan_->tasks[t];
    for (int subtask = 0; subtask < vertex.parallelism; ++subtask) {
      if (worker_of[{static_cast<int>(t), subtask}] != self_) continue;
      std::vector<InputGate::Channel> inputs;
      for (int e : vertex.inputs) {
        const ExecutionPlan::Edge& edge = plan_->edges[e];
        for (int from = 0; from < plan_->tasks[edge.from_task].parallelism; ++from) {
          auto found = receivers.find({e, from, subtask});
          if (found != receivers.end()) inputs.push_back({found->second, edge.input, false});
        }
      }
      std::vector<std::unique_ptr<EdgeOutput>> outputs;
      for (int e : vertex.outputs) {
        const ExecutionPlan::Edge& edge = plan_->edges[e];
        const ExecutionPlan::TaskVertex& receiver = plan_->tasks[edge.to_task];
        std::vector<ChannelSender*> to;
        for (int target = 0; target < receiver.parallelism; ++target) {
          auto found = senders.find({e, subtask, target});
          if (found != senders.end()) to.push_back(found->second);
        }
        outputs.push_back(
            std::make_unique<EdgeOutput>(edge, receiver.max_parallelism, *options_, std::move(to)));
        if (edge.partial_schema == nullptr) continue;
        const JobVertex& head = graph_->vertices[receiver.chain.front()];
        StatusOr<std::unique_ptr<RowCombiner>> combiner = MakeRowCombiner(head, *edge.schema);
        WEIR_CHECK(combiner.ok());  // the plan has read the same config
        outputs.back()->Combine(std::move(*combiner), edge.partial_schema, *options_);
      }
      TaskDescription description;
      description.job = request_.job;
      description.generation = request_.generation;
      description.job_directory = request_.job_directory;
      description.restore_directory = request_.restore_directory;
      description.task = static_cast<int>(t);
      description.subtask = subtask;
      description.graph = graph_;
      description.plan = plan_;
      description.options = options_;
      description.restore = restore;
      TaskRunner::Seat seat = environment_.runner->MakeSeat();
      TaskEnvironment task_environment;
      task_environment.make_files = environment_.make_files;
      task_environment.timers = std::move(seat.timers);
      task_environment.clock = environment_.clock;
      task_environment.seed = environment_.random->Next64();
      task_environment.wake = seat.wake;
      task_environment.registry = registry_;
      task_environment.snapshot_pace = environment_.snapshot_pace;
      auto task = std::make_shared<Task>(std::move(description), std::move(task_environment),
                                         *observer_, std::move(inputs), std::move(outputs));
      Task* raw = task.get();
      task->Post([raw] { raw->Start(); });
      seats_.push_back({seat.id, task});
    }
  }
  for (const Seated& seated : seats_) environment_.runner->Add(seated.seat, seated.task);
  log::Info("tasks started job=", request_.job, " generation=", request_.generation,
            " tasks=", seats_.size(), " channels=", wires.size(),
            " restored_checkpoint=", request_.restore.checkpoint);
  return {};
}

void GenerationHost::OnReport(TaskReport report) {
  if (report.state == TaskState::kFailed) {
    log::Warning("task failed job=", request_.job, " generation=", request_.generation,
                 " uid=", report.uid, " subtask=", report.subtask,
                 " error=", report.error.message());
  }
  if (!connected_ && report.state != TaskState::kFailed) {
    held_reports_.push_back(std::move(report));
    return;
  }
  task_outbox_->Add(std::move(report));
}

void GenerationHost::OnConfirmWanted(int task, int subtask, uint64_t question) {
  ConfirmCurrentRequest request;
  request.job = request_.job;
  request.generation = request_.generation;
  confirm_(request, [owner = observer_->owner(), task, subtask, question](Status status) {
    if (*owner == nullptr) return;
    for (const Seated& seated : (*owner)->seats_) {
      Task* asked = seated.task.get();
      if (asked->description().task != task || asked->description().subtask != subtask) continue;
      asked->Post([asked, question, status] { asked->OnConfirmed(question, status); });
    }
  });
}

void GenerationHost::OnConnected() {
  connected_ = true;
  for (TaskReport& report : held_reports_) task_outbox_->Add(std::move(report));
  held_reports_.clear();
}

void GenerationHost::OnBroken(Status status) {
  log::Warning("channel broke job=", request_.job, " generation=", request_.generation,
               " error=", status.message());
  TaskReport report;
  if (!seats_.empty()) {
    const TaskDescription& description = seats_[0].task->description();
    report.task = description.task;
    report.subtask = description.subtask;
    report.uid = graph_->vertices[plan_->tasks[description.task].chain[0]].uid;
  }
  report.state = TaskState::kFailed;
  report.error = std::move(status);
  task_outbox_->Add(std::move(report));
}

void GenerationHost::Trigger(const TriggerRequest& request) {
  Barrier barrier;
  barrier.checkpoint = request.checkpoint;
  barrier.trigger_wall_us = request.trigger_wall_us;
  for (const Seated& seated : seats_) {
    if (!seated.task->is_source()) continue;
    Task* task = seated.task.get();
    task->Post([task, barrier] { task->Trigger(barrier); });
  }
}

void GenerationHost::NotifyCompleted(CheckpointId checkpoint) {
  for (const Seated& seated : seats_) {
    Task* task = seated.task.get();
    task->Post([task, checkpoint] { task->OnCompleted(checkpoint); });
  }
}

void GenerationHost::NotifyAborted(CheckpointId checkpoint) {
  for (const Seated& seated : seats_) {
    Task* task = seated.task.get();
    task->Post([task, checkpoint] { task->OnAborted(checkpoint); });
  }
}

void GenerationHost::End(std::function<void()> ended) {
  if (ending_) return;
  ending_ = true;
  observer_->CutOff();
  task_outbox_->Close();
  ack_outbox_->Close();
  publish_outbox_->Close();
  // Tasks first, then the data plane: channels must outlive the tasks that use them.
  auto left = std::make_shared<size_t>(seats_.size());
  Executor* executor = environment_.executor;
  auto tasks_ended = [this, ended = std::move(ended), executor] {
    seats_.clear();
    if (!data_plane_started_) {
      ended();
      return;
    }
    environment_.data_plane->EndGeneration(request_.job, request_.generation,
                                           [executor, ended] { executor->Post(ended); });
  };
  if (seats_.empty()) {
    tasks_ended();
    return;
  }
  for (const Seated& seated : seats_) {
    environment_.runner->Remove(seated.seat, [executor, left, tasks_ended] {
      executor->Post([left, tasks_ended] {
        if (--*left == 0) tasks_ended();
      });
    });
  }
}

std::vector<SubtaskMetrics> GenerationHost::Metrics() const {
  std::vector<SubtaskMetrics> metrics;
  for (const Seated& seated : seats_) {
    std::vector<SubtaskMetrics> more = seated.task->Metrics();
    metrics.insert(metrics.end(), more.begin(), more.end());
  }
  return metrics;
}

}  // namespace weir
