#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/simulation.h"

namespace weir::sim {

// A world made by hand in which nothing fails unless the scenario makes it fail: source(s), a union
// where there are several, HASH by key into an aggregate, and its sink in JSON lines.
struct ScenarioOptions {
  uint64_t seed = 1;  // of delays alone
  int sources = 1;
  int source_parallelism = 1;
  int parallelism = 2;           // of the aggregate and, chained to it, the sink
  int64_t rows = 2000;           // of each source
  std::vector<int64_t> rows_of;  // by source, instead of `rows`; empty: the same of each
  // Key of the row of this number in its file; none: one after the other.
  std::function<int64_t(int64_t number)> key_of;
  int files = 2;  // of each source
  int64_t keys = 20;
  int64_t rate = 500;  // rows a second of each source
  std::string
      part_size_max;  // of the sink; "": its default. Small ones make several files a commit
  // Partitions of the Kafka topic that the sink publishes to; 0: it writes files.
  int kafka_partitions = 0;
  std::string kafka_config;  // more of its config: ", \"transaction_timeout\": \"5s\""
  std::map<std::string, std::string> options;  // of the job, over those below
  std::string interval = "200ms";

  int coordinators = 2;
  int workers = 3;
  int slots = 2;
  int64_t heartbeat_interval_us = 200'000;
  int64_t heartbeat_timeout_us = 1'000'000;
  int64_t lease_timeout_us = 2'000'000;
  int64_t channel_window_bytes = 1 << 20;
  int64_t rpc_us_max = 2'000;
  int64_t storage_us_max = 500;
  int64_t channel_us_max = 500;
  int64_t step_us_max = 50;
};

World MakeScenarioWorld(const ScenarioOptions& options);

// One named scenario: a Simulation of a world made by hand, and what tests look at. Of the
// environment: WEIR_SIM_TRACE (set) sends the readable trace to stderr, WEIR_SIM_SEED (a number) is
// added to the seed: what a scenario shows does not depend on it.
// Thread: confined to the test's.
class Scenario {
 public:
  explicit Scenario(const ScenarioOptions& options = {});

  Simulation& sim() const { return *sim_; }

  // A control call as it was sent, whatever became of it.
  struct Call {
    int64_t at_us = 0;
    std::string from;  // "coordinator-0": without the incarnation
    std::string to;    // address
    std::string method;
    Generation generation;
    CheckpointId checkpoint;
  };
  const std::vector<Call>& calls() const { return calls_; }
  int64_t Calls(std::string_view method) const;
  int64_t Calls(std::string_view method, CheckpointId checkpoint) const;
  // What becomes of a call: as Network's hook, which this class needs for itself.
  void set_fate(std::function<Network::Fate(const Network::Message&)> fate) {
    fate_ = std::move(fate);
  }

  // Starts everything and waits for so many checkpoints.
  bool StartUntilCompleted(int64_t checkpoints);
  // Until so many COMPLETED entries stand in the log, counted from its beginning.
  bool WaitForCompleted(int64_t checkpoints, int64_t us_max = 60'000'000);
  // Until one above `checkpoint` completed.
  bool WaitForCompletedAbove(CheckpointId checkpoint, int64_t us_max = 60'000'000);
  // Until every task of a generation above `generation` runs.
  bool WaitForRunningAbove(Generation generation, int64_t us_max = 60'000'000);
  bool WaitForLeader(const std::string& name, int64_t us_max = 60'000'000);
  // Names of all machines.
  std::vector<std::string> Machines() const;
  void KillAll();
  void StartAll();

  // Of the completion log, in the order in which they came to be.
  std::vector<uint64_t> Completed() const;
  bool IsCompleted(CheckpointId checkpoint) const;
  // STARTED entries: generation and the checkpoint that it starts from.
  std::vector<std::pair<uint64_t, uint64_t>> Started() const;
  std::pair<uint64_t, uint64_t> LastStarted() const;

  // Ids of the rows that a reader of the output sees now, sorted; twice if a row is there twice.
  std::vector<int64_t> VisibleIds() const;
  // Files that a reader sees, with their bytes.
  std::map<std::string, std::string> VisibleFiles() const;
  // The checkpoint whose number a visible file bears; by path.
  static CheckpointId CheckpointOf(const std::string& path);
  // The highest of all visible files; 0: none.
  CheckpointId HighestVisible() const;
  // Names of the pending files.
  std::vector<std::string> PendingFiles() const;
  // Names of the chk-* directories of the job.
  std::vector<std::string> CheckpointDirectories() const;
  // Paths of all files of the checkpoint, relative to its directory.
  std::vector<std::string> CheckpointFiles(CheckpointId checkpoint, Generation generation) const;
  bool HasManifest(CheckpointId checkpoint, Generation generation) const;
  // The machine that runs a subtask now, "worker-1"; "": nobody knows.
  std::string WorkerOf(std::string_view uid, int subtask) const;
  // What the leader tells of a checkpoint; id 0: nothing.
  CheckpointSummary Summary(CheckpointId checkpoint) const;
  // Ids of all rows of the input, sorted.
  std::vector<int64_t> AllIds() const;

 private:
  Network::Fate OnCall(const Network::Message& message);

  const std::unique_ptr<Simulation> sim_;
  std::vector<Call> calls_;
  std::function<Network::Fate(const Network::Message&)> fate_;
};

// Whether all files of `part` are in `whole` with the same bytes.
bool IsSubset(const std::map<std::string, std::string>& part,
              const std::map<std::string, std::string>& whole);

}  // namespace weir::sim
