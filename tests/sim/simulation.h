#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest_codec.h"
#include "common/operator/registry.h"
#include "coordinator/job/coordinator.h"
#include "tests/sim/checkers/checker.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/kafka/sim_kafka_client.h"
#include "tests/sim/network.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/storage.h"
#include "tests/sim/task_runner.h"
#include "tests/sim/world.h"
#include "worker/task/worker_node.h"

namespace weir::sim {

// What came of a world.
struct Outcome {
  uint64_t seed = 0;
  std::string violation;  // "" when all promises were kept
  uint64_t trace_hash = 0;
  int64_t rows = 0;
  int64_t completed = 0;  // checkpoints
  int64_t faults = 0;
  int64_t restarts = 0;  // generations after the first
  int64_t events = 0;
  int64_t simulated_us = 0;
  Probes probes;
  bool ok() const { return violation.empty(); }
};

// A whole cluster in one process and one thread: real coordinators, workers, tasks, channels, state
// and file connectors over simulated machines. Only one at a time lives in a process, for kill
// points and the log have no other way to find theirs.
// Thread: confined to the caller's.
class Simulation {
 public:
  // What is passed to `tracer` is the readable trace; none: no trace is made.
  explicit Simulation(World world, std::function<void(const std::string&)> tracer = nullptr);
  ~Simulation();

  // The whole life of a world: submit, faults, healing, and what must hold then.
  Outcome Run();

  // In parts, for scenarios: all processes start and the job is submitted.
  void Start();
  // Runs until the condition holds; false: not within so long.
  bool Until(const std::function<bool()>& condition, int64_t us_max = 60'000'000);
  void RunFor(int64_t us) {
    Until([] { return false; }, us);
  }
  // Heals everything, then requires a checkpoint, the end of the job, and what checkers ask for.
  void Finish();
  // What has been seen so far.
  Outcome outcome() const;
  const std::string& violation() const { return violation_; }
  void Violation(const std::string& who, const std::string& text);

  // Machines by name: "coordinator-0", "worker-1". A dead one stays dead until it is started.
  void StartMachine(const std::string& name);
  void Kill(const std::string& name);
  void Pause(const std::string& name);
  void Continue(const std::string& name);
  // As by SIGTERM.
  void Stop(const std::string& name);
  // What storage had not synced is lost. REQUIRES: every machine is dead.
  void PowerLoss();
  Process* process(const std::string& name);  // nullptr: dead
  Coordinator* coordinator(const std::string& name);
  // The one that leads, by the highest number; nullptr: none.
  Coordinator* leader();
  std::string leader_name();
  // Dead ones start again by themselves some time after their death (not in scenarios, unless set).
  void set_supervised(bool on) { is_supervised_ = on; }

  Scheduler& scheduler() { return scheduler_; }
  Network& network() { return network_; }
  Fabric& fabric() { return fabric_; }
  Storage& storage() { return storage_; }
  Probes& probes() { return probes_; }
  // The broker of a world that has one, and the way to it.
  KafkaLink& kafka() { return kafka_link_; }
  const World& world() const { return world_; }
  const JobId& job() const { return job_; }
  std::string job_directory() const { return "/checkpoints/" + job_.value(); }

  // Entries of the completion log in the order in which they came to be.
  struct Entry {
    std::string path;
    LogEntry entry;
    std::string process;
    int64_t at_us = 0;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  int64_t Count(LogEntry::Kind kind) const;
  CheckpointId newest_completed() const;
  // The answer of the leader about the job, at once.
  std::optional<JobStatus> Status();
  std::vector<CheckpointSummary> Checkpoints();

  // Called at each kill point of a living process; may kill or pause it.
  void set_kill_point_hook(std::function<void(Process&, std::string_view)> hook) {
    kill_point_hook_ = std::move(hook);
  }
  void OnKillPoint(std::string_view name);
  // A bug to be planted, by name; "": none.
  static void Plant(const std::string& bug);

  static Simulation* Current();

 private:
  struct Machine;

  void StartCoordinator(Machine& machine);
  void StartWorker(Machine& machine);
  void Bury(Machine& machine);
  void KillMachine(Machine& machine);
  void PauseFor(Machine& machine, int64_t dwell_us);
  void RestartLater(Machine& machine, int64_t delay_us);
  void Submit();
  void OnStorage(const StorageEvent& event);
  void OnLogEntry(const StorageEvent& event);
  void OnAck(const AcknowledgeRequest& request);
  // Faults.
  void ScheduleFault(const FaultPlan& plan);
  void Inject(const FaultPlan& plan);
  std::vector<Machine*> Living(bool coordinators, bool workers);
  Machine* Pick(std::vector<Machine*> machines);
  void Heal();

  const World world_;
  Scheduler scheduler_;
  Probes probes_;
  Storage storage_;
  Network network_;
  Fabric fabric_;
  KafkaBroker kafka_broker_;
  KafkaLink kafka_link_;
  SimKafkaClients kafka_clients_;
  Registry registry_;
  JobId job_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<Process>> dead_;  // their events may still come due
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::vector<Entry> entries_;
  Generation newest_generation_;
  std::function<void(Process&, std::string_view)> kill_point_hook_;
  std::string violation_;
  bool is_supervised_ = false;
  bool faults_on_ = false;
  bool is_submitted_ = false;
  bool has_ended_ = false;  // the job
  int64_t faults_ = 0;
  int64_t kafka_down_ = 0;              // how many such faults last
  int64_t disk_faults_[3] = {0, 0, 0};  // full, read-only, hanging: how many last
};

}  // namespace weir::sim
