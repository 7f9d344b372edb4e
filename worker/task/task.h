#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/checkpoint/manifest.h"
#include "common/control/messages.h"
#include "common/graph/execution_plan.h"
#include "common/graph/job_options.h"
#include "common/operator/registry.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/task/edge_output.h"
#include "worker/task/input_gate.h"
#include "worker/task/snapshot_pace.h"

namespace weir {

// Why a task that has something to do does not go on.
enum class BlockingReason {
  kNone,
  kStarting,     // restoring state or opening operators
  kSource,       // what the source reads from does not answer
  kCredit,       // a receiver has to take rows first
  kSink,         // the sink has too much in flight
  kDeadLetters,  // the source has too many of them in flight
  kFinishing,    // input ended; waits for the last checkpoint and its commit
};
std::string_view ToString(BlockingReason reason);

struct StepResult {
  enum class Kind { kProgress, kIdle, kBlocked, kDone };
  Kind kind = Kind::kIdle;
  BlockingReason reason = BlockingReason::kNone;
};

// What a task tells its worker. Called on the task's thread; implementations post it on.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void OnReport(TaskReport report) = 0;
  virtual void OnAcknowledge(TaskAck ack) = 0;
  virtual void OnPublished(PublishReport report) = 0;
  // Wants to know whether its generation is current; answered by OnConfirmed(question, …), or never
  // when the generation ends.
  virtual void OnConfirmWanted(int task, int subtask, uint64_t question) = 0;
};

// What a task needs from its surroundings. All of it outlives the task.
struct TaskEnvironment {
  std::function<std::unique_ptr<FileSystem>(Executor& owner)> make_files;
  std::unique_ptr<Timers> timers;  // of the thread that steps the task
  const Clock* clock = nullptr;
  uint64_t seed = 0;           // for unique names
  std::function<void()> wake;  // thread-safe: the task wants to be stepped
  const Registry* registry = nullptr;
  SnapshotPace snapshot_pace;
};

// Which task this is and what it is part of.
struct TaskDescription {
  JobId job;
  Generation generation;
  std::string job_directory;
  std::string restore_directory;
  int task = 0;  // index into plan.tasks
  int subtask = 0;
  std::shared_ptr<const JobGraph> graph;
  std::shared_ptr<const ExecutionPlan> plan;
  std::shared_ptr<const JobOptions> options;
  std::shared_ptr<const CheckpointManifest> restore;  // checkpoint 0: fresh
};

// One subtask of a chain of operators: takes one element at a time, passes it through the chain and
// into the outgoing channels; cuts snapshots at barriers. Never blocks and never sleeps: Step does
// what can be done now and says what it waits for; whoever owns the task calls Step again after
// `wake`. Mail posted to the task runs first.
// Lifetime: constructed before any task at the other end of its channels is stepped, Start posted,
// stepped until kDone or Shutdown. Thread: confined to the
// thread that steps it, except Post, counters and the constructor.
// Crash: leaves what its snapshot files, sink and sources say.
class Task : public Executor {
 public:
  Task(TaskDescription description, TaskEnvironment environment, TaskObserver& observer,
       std::vector<InputGate::Channel> inputs, std::vector<std::unique_ptr<EdgeOutput>> outputs);
  ~Task() override;

  // Executor: mail for the task. Thread-safe.
  void Post(std::function<void()> mail) override;
  bool InOwnerThread() const override;

  // One step. See the class comment.
  StepResult Step();
  // The next step comes at about `until_us` (monotonic) though there is more to do: pushes what
  // would be held back for too long by then.
  void Rest(int64_t until_us);

  // The rest is called as mail (or by Step's thread).
  // Restores and opens the chain; reports kRunning, or kFailed.
  void Start();
  // Source tasks: the barrier goes into the outputs now.
  void Trigger(Barrier barrier);
  void OnCompleted(CheckpointId checkpoint);
  void OnAborted(CheckpointId checkpoint);
  void OnConfirmed(uint64_t question, Status status);
  // Ends the task where it is: operators are closed, nothing is reported any more.
  void Shutdown();

  // Whether the task reads its rows from a source (and takes triggers).
  bool is_source() const { return is_source_; }
  const TaskDescription& description() const { return description_; }

  // What the chain's operators moved and how the task spent its time. Thread-safe.
  std::vector<SubtaskMetrics> Metrics() const;

 private:
  class Node;
  class ChainOutput;
  class Context;
  friend class ChainOutput;
  friend class Context;
  struct PendingSnapshot;

  void RunMail();
  StepResult StepRunning();
  StepResult StepChain();
  StepResult StepSource();
  StepResult SourceIdles() const;
  StepResult StepInputs();
  bool OutputsHaveCredit() const;
  void FlushOutputs();
  // As far as it is held back since longer than batch.delay_max at `now_us`.
  void FlushIfDue(int64_t now_us);
  void EmitToEdges(const RecordBatchPtr& batch);
  void ProcessAt(size_t node, int input, const RecordBatchPtr& batch);
  void OnBarrier(int channel, const Barrier& barrier);
  void EndInput();
  void TakeSnapshot(Barrier barrier, int64_t first_barrier_wall_us, int64_t alignment_us);
  // Writes down more of the snapshot in progress; true: there was some to write and room for it.
  bool ContinueSnapshot(int64_t bytes);
  void DropKeyedState(const std::shared_ptr<PendingSnapshot>& snapshot);
  Co<void> StartFlow();
  void RestoreCounts(Node& node);
  Co<Status> RestoreNode(Node& node);
  Co<void> SnapshotFlow(std::shared_ptr<PendingSnapshot> snapshot);
  BlockingReason BlockedByCommittables() const;
  Co<Status> WriteSnapshot(std::shared_ptr<PendingSnapshot> snapshot, TaskAck* ack);
  // Publishes what the sink tells of itself, while there is much to do not more often than people
  // can see.
  void PublishProgress(bool rests, int64_t now_us);
  void Fail(const std::string& uid, Status error);
  // Where its time goes from now on; what has passed since goes where it was.
  enum class Spends { kBusy, kIdle, kBackpressured };
  static Spends SpendsAfter(StepResult result);
  int64_t Account(Spends from_now_on);  // the time now

  const TaskDescription description_;
  const std::string staging_directory_;
  TaskEnvironment environment_;
  TaskObserver& observer_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<InputGate> gate_;  // none for sources
  std::vector<std::unique_ptr<EdgeOutput>> outputs_;
  std::vector<std::unique_ptr<Node>> nodes_;
  bool is_source_ = false;
  Random random_;

  enum class State { kCreated, kStarting, kRunning, kEndedInput, kFailed, kDone };
  State state_ = State::kCreated;
  bool source_ready_ = true;  // Poll may be called
  Status error_;              // first error inside the chain, until Step reports it
  std::string error_uid_;
  CheckpointId last_barrier_;                // highest injected (sources)
  std::vector<CheckpointId> aborted_early_;  // sources: aborts that came before their trigger
  int64_t held_since_us_ = 0;                // outputs hold rows back since; 0: they do not
  int64_t alignment_start_us_ = 0;
  int64_t first_barrier_wall_us_ = 0;
  // Snapshots that are not durable yet. Files of as many are written at a time as checkpoints may
  // be under way, and of one that is aborted before its turn nothing is: storage that hangs holds
  // up so many, not all of those that expire meanwhile.
  std::map<CheckpointId, std::shared_ptr<PendingSnapshot>> snapshots_;
  std::shared_ptr<PendingSnapshot> in_progress_;  // the one whose keyed state is being written down
  int writing_snapshots_ = 0;
  CoSignal snapshot_written_;
  std::map<uint64_t, std::function<void(Status)>> confirming_;  // by question
  uint64_t last_question_ = 0;
  int64_t progress_us_ = 0;  // when the sink was last asked

  std::mutex mail_mutex_;
  std::deque<std::function<void()>> mail_;  // guarded by mail_mutex_
  std::atomic<bool> has_mail_{false};
  std::atomic<bool> closed_{false};

  std::atomic<int64_t> busy_us_{0};
  std::atomic<int64_t> idle_us_{0};
  std::atomic<int64_t> backpressured_us_{0};
  std::atomic<BlockingReason> blocked_on_{BlockingReason::kStarting};
  // The time since is under way: a task that rests is not stepped. 0: never stepped.
  std::atomic<int64_t> accounted_until_us_{0};
  std::atomic<Spends> spends_{Spends::kIdle};
  std::unique_ptr<CoScope> flows_;
};

}  // namespace weir
