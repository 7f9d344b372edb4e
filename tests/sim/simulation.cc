#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "worker/connectors/blackhole/blackhole.h"
#include "worker/connectors/files/file_names.h"
#include "worker/connectors/files/register.h"
#include "worker/connectors/generator/generator_source.h"
#include "worker/connectors/kafka/sink/kafka_committer.h"
#include "worker/connectors/kafka/sink/kafka_sink.h"
#include "worker/operators/builtin_operators.h"

namespace weir::sim {
namespace {

constexpr int64_t kRestartUsMax = 2'000'000;
constexpr double kPauseAtKillPoint = 0.4;  // paused there rather than killed
constexpr int64_t kSubmitAgainUs = 500'000;
constexpr int64_t kSubmitPatienceUs = 8'000'000;
constexpr int64_t kStopUsMax = 15'000'000;
constexpr int64_t kCheckpointAfterHealingUs = 60'000'000;
constexpr int64_t kEndAfterHealingUs = 600'000'000;
constexpr int64_t kQuietUs = 20'000'000;
constexpr int64_t kClockJumpUsMax = 3'600'000'000;
// More than the busiest worlds need by far: something runs in circles.
constexpr int64_t kEventsMax = 20'000'000;

Simulation* current = nullptr;
std::string planted_bug;

}  // namespace

// A place where one process after the other runs.
struct Simulation::Machine {
  std::string name;
  std::string address;  // coordinators
  bool is_coordinator = false;
  int starts = 0;
  bool restarts = false;  // a start is on its way

  // Of the present process; gone with it.
  std::unique_ptr<Process> process;
  std::unique_ptr<ProcessLoop> loop;
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<Random> random;
  std::unique_ptr<WorkerGateway> worker_gateway;
  std::unique_ptr<CoordinatorGateway> coordinator_gateway;
  std::unique_ptr<SimDataPlane> data_plane;
  std::unique_ptr<SimTaskRunner> runner;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<WorkerNode> node;

  bool lives() const { return process != nullptr && process->alive(); }
};

Simulation* Simulation::Current() { return current; }

void Simulation::Plant(const std::string& bug) { planted_bug = bug; }

Simulation::Simulation(World world, std::function<void(const std::string&)> tracer)
    : world_(std::move(world)),
      scheduler_(world_.seed),
      storage_(scheduler_, world_, probes_),
      network_(scheduler_, world_, probes_),
      fabric_(scheduler_, world_, network_, probes_),
      kafka_broker_(
          {.end_marker_us = [this] { return scheduler_.Between(0, world_.kafka.end_marker_us); }}),
      kafka_link_(scheduler_, kafka_broker_,
                  {.lost_request = world_.kafka.lost_request,
                   .lost_answer = world_.kafka.lost_answer,
                   .cut = world_.kafka.cut,
                   .late = world_.kafka.late,
                   .late_us = world_.kafka.late_us,
                   .us_max = world_.kafka.us_max}),
      kafka_clients_(kafka_link_) {
  WEIR_CHECK(current == nullptr);
  current = this;
  for (const WorldVertex& vertex : world_.vertices) {
    if (!vertex.topic.empty()) kafka_broker_.CreateTopic(vertex.topic, world_.kafka.partitions);
  }
  kafka_link_.set_observer([this](const KafkaLink::Request& request, bool late) {
    if (late && request.api == "EndTxn") probes_.Hit(Probe::kKafkaLateEnd);
    if (late && request.api == "InitProducerId") probes_.Hit(Probe::kKafkaLateInit);
  });
  scheduler_.set_tracer(std::move(tracer));
  RegisterBlackhole(registry_);
  RegisterFilesConnector(registry_);
  RegisterGenerator(registry_);
  registry_.AddSink(
      "kafka.sink",
      {.sink = [this] { return std::make_unique<KafkaSink>(kafka_clients_); },
       .committer = [this] { return std::make_unique<KafkaCommitter>(kafka_clients_); }});
  RegisterBuiltinOperators(registry_);
  job_ = JobId(scheduler_.random().HexName(32));
  storage_.view().PutDirectory("/checkpoints");
  for (const auto& [path, bytes] : world_.inputs) storage_.view().PutFile(path, bytes);
  storage_.set_observer([this](const StorageEvent& event) { OnStorage(event); });
  network_.set_start_observer([this](const StartTasksRequest& request) {
    for (const auto& checker : checkers_) checker->OnStartOrdered(request);
  });
  network_.set_ack_observer([this](const AcknowledgeRequest& request) { OnAck(request); });
  checkers_ = MakeCheckers({world_, storage_.view(), probes_,
                            [this](const std::string& text) { Violation("checker", text); },
                            [this](std::string_view title) {
                              return std::any_of(
                                  machines_.begin(), machines_.end(), [&](const auto& machine) {
                                    return machine->lives() && machine->process->title() == title;
                                  });
                            },
                            [this] { return scheduler_.now_us(); },
                            world_.kafka.partitions > 0 ? &kafka_broker_ : nullptr});
  for (int i = 0; i < world_.coordinators; ++i) {
    auto machine = std::make_unique<Machine>();
    machine->name = Concat("coordinator-", i);
    machine->address = Concat(machine->name, ":7070");
    machine->is_coordinator = true;
    machines_.push_back(std::move(machine));
  }
  for (int i = 0; i < world_.workers; ++i) {
    auto machine = std::make_unique<Machine>();
    machine->name = Concat("worker-", i);
    machines_.push_back(std::move(machine));
  }
}

Simulation::~Simulation() {
  for (const auto& machine : machines_) {
    if (machine->process) machine->process->Kill();
  }
  scheduler_.Clear();  // while everything that events refer to is still there
  for (const auto& machine : machines_) Bury(*machine);
  scheduler_.Clear();
  current = nullptr;
}

void Simulation::Violation(const std::string& who, const std::string& text) {
  if (!violation_.empty()) return;
  violation_ =
      Concat("at ", static_cast<double>(scheduler_.now_us()) / 1e6, " s, ", who, ": ", text);
  if (scheduler_.tracing()) scheduler_.Trace("VIOLATION", violation_);
}

void Simulation::StartMachine(const std::string& name) {
  for (const auto& machine : machines_) {
    if (machine->name != name || machine->lives()) continue;
    Bury(*machine);
    machine->restarts = false;
    ++machine->starts;
    machine->process = std::make_unique<Process>(scheduler_, name, machine->starts);
    machine->loop = std::make_unique<ProcessLoop>(*machine->process);
    machine->files = storage_.Open(*machine->process, *machine->loop);
    machine->random = std::make_unique<Random>(scheduler_.random().Next64());
    if (scheduler_.tracing()) scheduler_.Trace(machine->process->title(), "starts");
    if (machine->is_coordinator) {
      StartCoordinator(*machine);
    } else {
      StartWorker(*machine);
    }
  }
}

void Simulation::StartCoordinator(Machine& machine) {
  machine.worker_gateway = network_.MakeWorkerGateway(*machine.process);
  CoordinatorOptions options;
  options.checkpoint_dir = "/checkpoints";
  options.address = machine.address;
  options.host = machine.name;
  options.pid = machine.starts;
  options.heartbeat_interval_us = world_.heartbeat_interval_us;
  options.heartbeat_timeout_us = world_.heartbeat_timeout_us;
  options.lease_timeout_us = world_.lease_timeout_us;
  CoordinatorEnvironment environment{*machine.loop,           *machine.loop,    *machine.files,
                                     *machine.worker_gateway, *machine.process, *machine.random};
  machine.coordinator = std::make_unique<Coordinator>(options, environment);
  network_.Listen(machine.address, *machine.process, machine.coordinator.get());
  machine.loop->Post([coordinator = machine.coordinator.get()] { coordinator->Start(); });
}

void Simulation::StartWorker(Machine& machine) {
  const std::string title = machine.process->title();
  machine.coordinator_gateway = network_.MakeCoordinatorGateway(*machine.process);
  machine.data_plane = fabric_.Open(*machine.process, title + ":data");
  machine.runner = std::make_unique<SimTaskRunner>(*machine.process, world_, probes_);
  WorkerOptions options;
  options.info.name = WorkerName(world_.fresh_worker_names ? title : machine.name);
  options.info.incarnation = WorkerIncarnation(machine.random->HexName(16));
  options.info.control_address = title + ":control";
  options.info.data_address = machine.data_plane->address();
  options.info.host = machine.name;
  options.info.work_dir = "/work";
  options.info.pid = machine.starts;
  options.info.slots = world_.slots;
  options.info.version = "simulated";
  for (const auto& one : machines_) {
    if (one->is_coordinator) options.coordinators.push_back(one->address);
  }
  WorkerEnvironment environment;
  environment.executor = machine.loop.get();
  environment.timers = machine.loop.get();
  environment.files = machine.files.get();
  environment.clock = machine.process.get();
  environment.random = machine.random.get();
  environment.coordinators = machine.coordinator_gateway.get();
  environment.data_plane = machine.data_plane.get();
  environment.runner = machine.runner.get();
  environment.registry = &registry_;
  environment.channel_window_bytes_max = world_.channel_window_bytes;
  // In half of the worlds state is written down a page at a time, between rows.
  if (world_.seed % 2 == 1) environment.snapshot_pace = {0, 1, 0};
  Process* process = machine.process.get();
  environment.make_files = [this, process](Executor& owner) {
    return storage_.Open(*process, owner);
  };
  environment.load_library = [](const std::string& path) -> StatusOr<LoadedLibrary> {
    return UnavailableError(Concat("no libraries in a simulation: ", path));
  };
  environment.die = [this, &machine, process](const std::string& reason) {
    if (!process->alive()) return;
    if (scheduler_.tracing()) scheduler_.Trace(process->title(), Concat("ends itself: ", reason));
    KillMachine(machine);
    RestartLater(machine, scheduler_.Between(0, kRestartUsMax));
  };
  const std::string address = options.info.control_address;
  machine.node = std::make_unique<WorkerNode>(std::move(options), std::move(environment));
  network_.Listen(address, *machine.process, machine.node.get());
  machine.loop->Post([node = machine.node.get()] { node->Start(); });
}

// What belonged to a dead process is destroyed, never inside one of its own events.
void Simulation::Bury(Machine& machine) {
  if (!machine.process) return;
  WEIR_CHECK(!machine.process->alive());
  machine.node.reset();
  machine.coordinator.reset();
  machine.runner.reset();
  machine.data_plane.reset();
  machine.coordinator_gateway.reset();
  machine.worker_gateway.reset();
  machine.files.reset();
  machine.loop.reset();
  machine.random.reset();
  dead_.push_back(std::move(machine.process));
}

void Simulation::KillMachine(Machine& machine) {
  if (!machine.lives()) return;
  if (scheduler_.tracing()) scheduler_.Trace(machine.process->title(), "dies");
  machine.process->Kill();
  network_.OnDeath(*machine.process);
  fabric_.OnDeath(*machine.process);
  if (Living(true, true).empty()) probes_.Hit(Probe::kAllDead);
  scheduler_.After(0, [this, &machine, process = machine.process.get()] {
    if (machine.process.get() == process) Bury(machine);
  });
}

void Simulation::RestartLater(Machine& machine, int64_t delay_us) {
  if (!is_supervised_ || machine.restarts) return;
  machine.restarts = true;
  scheduler_.After(delay_us, [this, &machine] {
    if (machine.restarts) StartMachine(machine.name);
  });
}

void Simulation::Kill(const std::string& name) {
  for (const auto& machine : machines_) {
    if (machine->name == name) KillMachine(*machine);
  }
}

Process* Simulation::process(const std::string& name) {
  for (const auto& machine : machines_) {
    if (machine->name == name && machine->lives()) return machine->process.get();
  }
  return nullptr;
}

Coordinator* Simulation::coordinator(const std::string& name) {
  for (const auto& machine : machines_) {
    if (machine->name == name && machine->lives()) return machine->coordinator.get();
  }
  return nullptr;
}

void Simulation::Pause(const std::string& name) {
  Process* one = process(name);
  if (one == nullptr) return;
  if (scheduler_.tracing()) scheduler_.Trace(one->title(), "is paused");
  one->Pause();
}

void Simulation::Continue(const std::string& name) {
  Process* one = process(name);
  if (one == nullptr || !one->paused()) return;
  if (scheduler_.tracing()) scheduler_.Trace(one->title(), "goes on");
  one->Continue();
}

void Simulation::Stop(const std::string& name) {
  for (const auto& machine : machines_) {
    if (machine->name != name || !machine->lives()) continue;
    Machine* one = machine.get();
    Process* process = one->process.get();
    auto end = [this, one, process] {
      if (one->process.get() != process || !process->alive()) return;
      KillMachine(*one);
      RestartLater(*one, scheduler_.Between(0, kRestartUsMax));
    };
    if (scheduler_.tracing()) scheduler_.Trace(process->title(), "is told to end");
    one->loop->Post([one, end] {
      if (one->coordinator) one->coordinator->Stop(end);
      if (one->node) one->node->Stop(end);
    });
    scheduler_.After(kStopUsMax, end);
  }
}

Coordinator* Simulation::leader() {
  Coordinator* leads = nullptr;
  for (const auto& machine : machines_) {
    if (machine->lives() && machine->coordinator && machine->coordinator->leading() &&
        !machine->process->paused()) {
      leads = machine->coordinator.get();
    }
  }
  return leads;
}

std::string Simulation::leader_name() {
  Coordinator* leads = leader();
  for (const auto& machine : machines_) {
    if (leads != nullptr && machine->coordinator.get() == leads) return machine->name;
  }
  return "";
}

std::vector<Simulation::Machine*> Simulation::Living(bool coordinators, bool workers) {
  std::vector<Machine*> living;
  for (const auto& machine : machines_) {
    if (machine->lives() && (machine->is_coordinator ? coordinators : workers)) {
      living.push_back(machine.get());
    }
  }
  return living;
}

Simulation::Machine* Simulation::Pick(std::vector<Machine*> machines) {
  return machines.empty() ? nullptr : machines[scheduler_.random().Below(machines.size())];
}

void Simulation::OnKillPoint(std::string_view name) {
  Process* process = Process::Current();
  if (process == nullptr || !process->alive()) return;
  if (kill_point_hook_) kill_point_hook_(*process, name);
  if (!faults_on_ || world_.kill_points.empty() || !process->alive()) return;
  if (std::find(world_.kill_points.begin(), world_.kill_points.end(), name) ==
          world_.kill_points.end() ||
      !scheduler_.Chance(world_.odds.kill_point)) {
    return;
  }
  for (const auto& machine : machines_) {
    if (machine->process.get() != process) continue;
    if (scheduler_.tracing()) scheduler_.Trace(process->title(), Concat("at kill point ", name));
    ++faults_;
    if (scheduler_.Chance(kPauseAtKillPoint)) {
      const int64_t long_us =
          2 * (machine->is_coordinator ? world_.lease_timeout_us : world_.heartbeat_timeout_us);
      if (machine->is_coordinator) probes_.Hit(Probe::kCoordinatorPausedInClaim);
      PauseFor(*machine, scheduler_.Between(1, long_us));
    } else {
      KillMachine(*machine);
      RestartLater(*machine, scheduler_.Between(0, kRestartUsMax));
    }
  }
}

void Simulation::PauseFor(Machine& machine, int64_t dwell_us) {
  if (!machine.lives() || machine.process->paused()) return;
  Pause(machine.name);
  scheduler_.After(dwell_us, [this, dwell_us, &machine, process = machine.process.get()] {
    if (machine.process.get() != process || !process->alive() || !process->paused()) return;
    if (machine.is_coordinator) {
      const bool deposed = !entries_.empty() && entries_.back().process != process->title();
      if (deposed && machine.coordinator->leading()) probes_.Hit(Probe::kDeposedWoke);
    } else if (dwell_us > world_.heartbeat_timeout_us) {
      probes_.Hit(Probe::kZombieWorker);
    }
    Continue(machine.name);
  });
}

void Simulation::Start() {
  for (const auto& machine : machines_) StartMachine(machine->name);
  Submit();
}

// As a patient client: the same submission to one coordinator after the other until it is taken.
void Simulation::Submit() {
  if (is_submitted_) return;
  auto again = std::make_shared<bool>(false);
  auto try_again = [this, again](int64_t delay_us) {
    scheduler_.After(delay_us, [this, again] {
      if (!std::exchange(*again, true)) Submit();
    });
  };
  Machine* machine = Pick(Living(true, false));
  if (machine == nullptr) {
    try_again(kSubmitAgainUs);
    return;
  }
  StatusOr<JobGraph> graph = ParseJobGraph(world_.graph_json);
  if (!graph.ok()) {
    Violation("world", graph.status().message());
    return;
  }
  SubmitRequest request;
  request.job = job_;
  request.graph = *graph;
  request.client_directory = "/home";
  machine->loop->Post([this, request, try_again, coordinator = machine->coordinator.get()] {
    coordinator->Submit(request, [this, try_again](StatusOr<SubmitResponse> answer) {
      if (answer.ok()) {
        is_submitted_ = true;
      } else if (answer.status().domain() == ErrorDomain::kUser && !faults_on_) {
        Violation("submission", answer.status().message());
      } else {
        try_again(kSubmitAgainUs);
      }
    });
  });
  try_again(kSubmitPatienceUs);
}

void Simulation::OnStorage(const StorageEvent& event) {
  if (event.operation == "link" && event.to.find("/log/") != std::string::npos) OnLogEntry(event);
  if (event.operation == "create" && event.path.ends_with(".pending")) {
    std::optional<HiddenName> name =
        ParseHiddenName(std::string_view(event.path).substr(event.path.rfind('/') + 1));
    if (name && name->generation < newest_generation_) probes_.Hit(Probe::kZombieSealed);
  }
  for (const auto& checker : checkers_) checker->OnStorage(event);
}

void Simulation::OnLogEntry(const StorageEvent& event) {
  StatusOr<LogEntry> entry = DecodeLogEntry(storage_.view().Bytes(event.to));
  if (!entry.ok()) return;
  if (scheduler_.tracing()) {
    scheduler_.Trace(
        event.process,
        Concat("log entry ", event.to, " kind ", static_cast<int>(entry->kind), " generation ",
               entry->generation, " checkpoint ", entry->checkpoint, " ", entry->reason));
  }
  switch (entry->kind) {
    case LogEntry::Kind::kCompleted:
      probes_.Hit(Probe::kCheckpointCompleted);
      break;
    case LogEntry::Kind::kStarted:
      if (!entries_.empty()) {
        const bool restores = entry->checkpoint.value() > 0;
        probes_.Hit(restores ? Probe::kRestored : Probe::kRestoredFresh);
        for (const Entry& earlier : entries_) {
          if (earlier.entry.kind != LogEntry::Kind::kStarted) continue;
          if (restores && earlier.entry.checkpoint == entry->checkpoint) {
            probes_.Hit(Probe::kRestoredTwice);
          }
        }
        if (ParentPath(entries_.back().path) != ParentPath(event.to)) {
          probes_.Hit(Probe::kTakenOver);
        }
      }
      newest_generation_ = std::max(newest_generation_, entry->generation);
      break;
    case LogEntry::Kind::kFinished:
      probes_.Hit(Probe::kFinished);
      has_ended_ = true;
      break;
    case LogEntry::Kind::kFailed:
    case LogEntry::Kind::kCanceled:
      has_ended_ = true;
      break;
    default:
      break;
  }
  entries_.push_back({event.to, *std::move(entry), std::string(event.process), event.now_us});
}

void Simulation::OnAck(const AcknowledgeRequest& request) {
  const CheckpointId newest = newest_completed();
  for (const TaskAck& ack : request.acks) {
    if (ack.checkpoint <= newest) probes_.Hit(Probe::kLateAck);
    for (const SnapshotMetrics& metrics : ack.metrics) {
      if (metrics.alignment_us > 0) probes_.Hit(Probe::kAlignmentBlocked);
    }
  }
}

int64_t Simulation::Count(LogEntry::Kind kind) const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [kind](const Entry& entry) { return entry.entry.kind == kind; });
}

CheckpointId Simulation::newest_completed() const {
  CheckpointId newest;
  for (const Entry& entry : entries_) {
    if (entry.entry.kind == LogEntry::Kind::kCompleted) {
      newest = std::max(newest, entry.entry.checkpoint);
    }
  }
  return newest;
}

std::optional<JobStatus> Simulation::Status() {
  std::optional<JobStatus> status;
  if (Coordinator* leads = leader()) {
    leads->GetJob(job_.value(), [&](StatusOr<JobStatus> answer) {
      if (answer.ok()) status = *answer;
    });
  }
  return status;
}

std::vector<CheckpointSummary> Simulation::Checkpoints() {
  std::vector<CheckpointSummary> checkpoints;
  if (Coordinator* leads = leader()) {
    leads->ListCheckpoints(job_.value(), [&](StatusOr<std::vector<CheckpointSummary>> answer) {
      if (answer.ok()) checkpoints = *answer;
    });
  }
  return checkpoints;
}

bool Simulation::Until(const std::function<bool()>& condition, int64_t us_max) {
  const int64_t until_us = scheduler_.now_us() + us_max;
  while (violation_.empty()) {
    if (condition()) return true;
    if (scheduler_.events() > kEventsMax) {
      Violation("liveness", "too many events: something runs in circles");
      return false;
    }
    if (!scheduler_.RunOne(until_us)) return condition();
  }
  return false;
}

void Simulation::ScheduleFault(const FaultPlan& plan) {
  const int64_t delay_us = scheduler_.Between(plan.every_us / 4, plan.every_us * 7 / 4);
  scheduler_.After(delay_us, [this, &plan] {
    if (!faults_on_) return;
    Inject(plan);
    ScheduleFault(plan);
  });
}

void Simulation::Inject(const FaultPlan& plan) {
  const int64_t dwell_us = scheduler_.Between(1, plan.dwell_us_max);
  ++faults_;
  if (scheduler_.tracing()) {
    scheduler_.Trace("fault", Concat(ToString(plan.kind), " for ", dwell_us / 1000, " ms"));
  }
  auto kill = [this, dwell_us](Machine* machine) {
    if (machine == nullptr) return;
    KillMachine(*machine);
    RestartLater(*machine, dwell_us);
  };
  auto pause = [this, dwell_us](Machine* machine) {
    if (machine != nullptr) PauseFor(*machine, dwell_us);
  };
  auto disk = [this, dwell_us](int which, void (Storage::*set)(bool)) {
    if (disk_faults_[which]++ == 0) (storage_.*set)(true);
    scheduler_.After(dwell_us, [this, which, set] {
      if (disk_faults_[which] > 0 && --disk_faults_[which] == 0) (storage_.*set)(false);
    });
  };
  switch (plan.kind) {
    case FaultKind::kKillWorker:
      kill(Pick(Living(false, true)));
      break;
    case FaultKind::kKillCoordinator:
      kill(Pick(Living(true, false)));
      break;
    case FaultKind::kKillAll:
    case FaultKind::kPowerLoss:
      for (Machine* machine : Living(true, true)) {
        KillMachine(*machine);
        RestartLater(*machine, scheduler_.Between(1, plan.dwell_us_max));
      }
      if (plan.kind == FaultKind::kPowerLoss) PowerLoss();
      break;
    case FaultKind::kPauseWorker:
      pause(Pick(Living(false, true)));
      break;
    case FaultKind::kPauseCoordinator:
      pause(Pick(Living(true, false)));
      break;
    case FaultKind::kStopWorker:
      if (Machine* machine = Pick(Living(false, true))) Stop(machine->name);
      break;
    case FaultKind::kPartition: {
      Machine* one = Pick(Living(true, true));
      Machine* other = Pick(Living(true, true));
      if (one == nullptr || one == other) break;
      network_.Block(one->name, other->name);
      if (scheduler_.Chance(0.7)) network_.Block(other->name, one->name);
      scheduler_.After(dwell_us, [this, a = one->name, b = other->name] {
        network_.Unblock(a, b);
        network_.Unblock(b, a);
      });
      break;
    }
    case FaultKind::kBreakConnection:
      if (scheduler_.Chance(0.7)) {
        fabric_.BreakOne();
      } else if (Machine* worker = Pick(Living(false, true))) {
        network_.BreakWatch(leader_name(), worker->name);
      }
      break;
    case FaultKind::kDiskFull:
      disk(0, &Storage::set_full);
      break;
    case FaultKind::kDiskReadOnly:
      disk(1, &Storage::set_read_only);
      break;
    case FaultKind::kDiskHanging:
      disk(2, &Storage::set_hanging);
      break;
    case FaultKind::kClockJump:
      if (Machine* machine = Pick(Living(true, true))) {
        probes_.Hit(Probe::kClockJump);
        machine->process->JumpWall(scheduler_.Between(-kClockJumpUsMax, kClockJumpUsMax));
      }
      break;
    case FaultKind::kKafkaDown:
      if (kafka_down_++ == 0) kafka_link_.set_down(true);
      scheduler_.After(dwell_us, [this] {
        if (kafka_down_ > 0 && --kafka_down_ == 0) kafka_link_.set_down(false);
      });
      break;
    case FaultKind::kKafkaPartition:
      if (Machine* worker = Pick(Living(false, true))) {
        kafka_link_.Block(worker->name);
        scheduler_.After(dwell_us, [this, name = worker->name] { kafka_link_.Unblock(name); });
      }
      break;
    case FaultKind::kCount:
      break;
  }
}

void Simulation::PowerLoss() {
  auto exists = [this](const Entry& entry) { return storage_.view().Exists(entry.path); };
  std::vector<bool> before;
  for (const Entry& entry : entries_) before.push_back(exists(entry));
  storage_.PowerLoss();
  // Entries that were not durable never were.
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!before[i] || exists(entries_[i])) std::swap(entries_[kept++], entries_[i]);
  }
  entries_.resize(kept);
  for (const auto& checker : checkers_) checker->OnPowerLoss();
}

void Simulation::Heal() {
  if (scheduler_.tracing()) scheduler_.Trace("fault", "everything heals");
  faults_on_ = false;
  storage_.set_faults_on(false);
  storage_.set_full(false);
  storage_.set_read_only(false);
  storage_.set_hanging(false);
  std::fill(std::begin(disk_faults_), std::end(disk_faults_), 0);
  network_.set_faults_on(false);
  network_.UnblockAll();
  kafka_down_ = 0;
  kafka_link_.set_faults_on(false);
  kafka_link_.set_down(false);
  kafka_link_.UnblockAll();
  is_supervised_ = true;
  for (const auto& machine : machines_) {
    if (machine->lives()) {
      Continue(machine->name);
    } else {
      StartMachine(machine->name);
    }
  }
}

void Simulation::Finish() {
  Heal();
  const int64_t healed_us = scheduler_.now_us();
  auto completed_since = [&] {
    return has_ended_ || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
             return entry.entry.kind == LogEntry::Kind::kCompleted && entry.at_us > healed_us;
           });
  };
  if (!Until(completed_since, kCheckpointAfterHealingUs) && violation_.empty()) {
    std::optional<JobStatus> status = Status();
    Violation("liveness", Concat("no checkpoint completed within ",
                                 kCheckpointAfterHealingUs / 1'000'000, " s after healing: ",
                                 status ? Concat(ToString(status->state), " ", status->waiting_for,
                                                 status->failure ? status->failure->message : "")
                                        : std::string("no coordinator knows the job")));
  }
  if (!Until([&] { return has_ended_; }, kEndAfterHealingUs) && violation_.empty()) {
    std::optional<JobStatus> status = Status();
    Violation("liveness",
              Concat("not FINISHED within ", kEndAfterHealingUs / 1'000'000, " s after healing: ",
                     status ? Concat(ToString(status->state), " ", status->waiting_for,
                                     status->failure ? status->failure->message : "")
                            : std::string("no coordinator knows the job")));
  }
  RunFor(kQuietUs);
  if (!violation_.empty()) return;
  if (Count(LogEntry::Kind::kFinished) == 0) {
    std::string reason;
    for (const Entry& entry : entries_) {
      if (!entry.entry.reason.empty()) reason = entry.entry.reason;
    }
    Violation("end", Concat("the job ended otherwise than FINISHED: ", reason));
    return;
  }
  for (const auto& checker : checkers_) checker->AtEnd();
}

Outcome Simulation::Run() {
  is_supervised_ = true;
  faults_on_ = true;
  storage_.set_faults_on(true);
  network_.set_faults_on(true);
  kafka_link_.set_faults_on(true);
  for (const FaultPlan& plan : world_.faults) ScheduleFault(plan);
  Start();
  Until([this] { return has_ended_; }, world_.faults_us);
  Finish();
  return outcome();
}

Outcome Simulation::outcome() const {
  Outcome outcome;
  outcome.seed = world_.seed;
  outcome.violation = violation_;
  outcome.trace_hash = scheduler_.trace_hash();
  outcome.rows = world_.rows;
  outcome.completed = Count(LogEntry::Kind::kCompleted);
  outcome.faults = faults_;
  outcome.restarts = std::max<int64_t>(0, Count(LogEntry::Kind::kStarted) - 1);
  outcome.events = scheduler_.events();
  outcome.simulated_us = scheduler_.now_us();
  outcome.probes = probes_;
  outcome.probes.Hit(Probe::kKafkaDisturbed, kafka_clients_.disturbed());
  outcome.probes.Hit(Probe::kKafkaFenced, kafka_clients_.fenced());
  outcome.probes.Hit(Probe::kKafkaTimedOut, kafka_broker_.timed_out());
  return outcome;
}

}  // namespace weir::sim

namespace weir {

void KillPoint(const char* name) {
  if (sim::Simulation* simulation = sim::Simulation::Current()) simulation->OnKillPoint(name);
}

bool PlantedBug(const char* name) { return sim::planted_bug == name; }

}  // namespace weir
