#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace weir::sim {

// Odds per effect (0…1) while faults are on.
struct EffectOdds {
  double rpc_lost_request = 0;
  double rpc_lost_reply = 0;
  double rpc_duplicate = 0;  // delivered twice, the second time later
  double rpc_slow = 0;       // takes up to rpc_slow_us instead of some ms
  int64_t rpc_slow_us = 0;
  double storage_error_before = 0;  // fails and was not carried out
  double storage_error_after = 0;   // fails and was carried out
  double storage_slow = 0;
  int64_t storage_slow_us = 0;
  // Of the links that make entries of the completion log, beside the odds above.
  double claim_slow = 0;         // takes up to storage_slow_us
  double claim_error_after = 0;  // fails and was carried out
  double kill_point = 0;  // the process dies at a kill point; for the points of `kill_points`
};

// A kind of fault that comes again and again while faults are on, and how long it lasts.
enum class FaultKind {
  kKillWorker,
  kKillCoordinator,
  kKillAll,      // every process at one time
  kPowerLoss,    // every process, and what storage had not synced
  kPauseWorker,  // as by SIGSTOP
  kPauseCoordinator,
  kStopWorker,       // SIGTERM
  kPartition,        // control calls between two processes, both ways or one way
  kBreakConnection,  // a data connection
  kDiskFull,
  kDiskReadOnly,
  kDiskHanging,
  kClockJump,  // of a process's wall clock
  // Of worlds with a Kafka broker.
  kKafkaDown,       // its process dies and is started again
  kKafkaPartition,  // nothing goes between a worker and the broker
  kCount
};
inline constexpr int kFaultKindsWithoutKafka = static_cast<int>(FaultKind::kKafkaDown);
std::string_view ToString(FaultKind kind);

struct FaultPlan {
  FaultKind kind;
  int64_t every_us = 0;      // mean time between two
  int64_t dwell_us_max = 0;  // until it is over: a dead process starts again, a paused one goes on
};

// A row of the input: its id says where it stands. Unique over all inputs.
struct WorldRow {
  int64_t id = 0;
  int32_t file = 0;  // of World::files
  int32_t key = -1;  // of World::keys; -1: null
  int32_t text = 0;  // of WorldTexts()
  bool has_value = false;
  int64_t value = 0;
};

struct WorldFile {
  std::string path;
  int source = 0;             // of World::vertices
  int32_t first_row = 0;      // of World::table; the rows of a file follow each other
  int64_t head_bytes = 0;     // what comes before the first row
  std::vector<int64_t> ends;  // offset behind each row, its line end included
};

// What a vertex of the graph does, for the plain fold of workload.h.
struct WorldVertex {
  enum class Kind { kSource, kFilter, kProject, kUnion, kRebalance, kAggregate, kSink };
  struct Input {
    int from = 0;  // of World::vertices, before this one
    bool broadcast = false;
  };
  Kind kind = Kind::kSource;
  std::string uid;
  int parallelism = 1;
  std::vector<Input> inputs;
  // kFilter: rows of which the id modulo `modulus` is not `rejected` pass; modulus 0: those that
  // have no value, or one above `above`.
  int64_t modulus = 0;
  int64_t rejected = 0;
  int64_t above = 0;
  // kProject: multiplies the value; -1: names no branch, else the branch of its rows ('a', 'b').
  int64_t factor = 1;
  int branch = -1;
  // kSink.
  std::vector<std::string> columns;  // of its rows, in order
  std::string directory;             // of files
  std::string topic;                 // of Kafka, instead of a directory; "": none
  bool csv = false;
  bool header = true;
};

// The Kafka broker of a world, and its faults while they are on.
struct WorldKafka {
  int partitions = 0;  // of each topic; 0: there is no broker
  double lost_request = 0;
  double lost_answer = 0;
  double cut = 0;
  double late = 0;  // carried out long after the sender gave it up
  int64_t late_us = 0;
  int64_t us_max = 3'000;         // an ordinary way
  int64_t end_marker_us = 5'000;  // at most, until a partition knows of an EndTxn
};

// Everything a seed decides before the first event: the job, its input, the cluster, the odds.
// Immutable once drawn.
struct World {
  uint64_t seed = 0;

  // The job.
  std::string shape;                          // "union of 2", "diamond", …
  std::string graph_json;                     // as submitted
  std::map<std::string, std::string> inputs;  // path to bytes
  std::vector<std::string> outputs;           // directories of the sinks
  int64_t rows = 0;                           // of all inputs
  int parallelism = 1;                        // the highest of any vertex: slots that it needs
  int retained = 1;                           // completed checkpoints

  // The same as plain data.
  std::string job_name;
  std::vector<WorldVertex> vertices;  // each behind those it gets rows from
  std::vector<WorldFile> files;
  std::vector<WorldRow> table;
  std::vector<std::string> keys;
  bool branches = false;  // output rows have a column that names theirs

  // The cluster.
  int coordinators = 1;
  int workers = 1;
  int slots = 1;                           // a worker
  bool fresh_worker_names = false;         // each start of a worker has a name of its own
  int64_t channel_window_bytes = 1 << 20;  // at most
  int64_t heartbeat_interval_us = 1'000'000;
  int64_t heartbeat_timeout_us = 5'000'000;
  int64_t lease_timeout_us = 5'000'000;

  // Speed of the surroundings.
  int64_t rpc_us_max = 0;      // ordinary control calls take up to
  int64_t storage_us_max = 0;  // ordinary file operations
  int64_t channel_us_max = 0;  // an element on a data connection
  int64_t step_us_max = 0;     // a step of a task

  // Faults.
  int64_t faults_us = 0;  // they last so long, then everything heals
  EffectOdds odds;
  WorldKafka kafka;
  std::vector<std::string> kill_points;  // two-stage: those that are on in this world
  std::vector<FaultPlan> faults;

  // All of it, some lines of text without the inputs' bytes.
  std::string ToString() const;
};

World DrawWorld(uint64_t seed);

// Texts with all that may go wrong in a text. WorldRow::text is an index.
const std::vector<std::string>& WorldTexts();
// Names of all kill points of coordinator and worker, and of those of kafka.sink.
const std::vector<std::string>& AllKillPoints();
const std::vector<std::string>& KafkaKillPoints();

}  // namespace weir::sim
