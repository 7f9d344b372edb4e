#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/control/handlers.h"
#include "common/control/messages.h"
#include "common/graph/execution_plan.h"
#include "common/graph/job_options.h"
#include "common/threading/co.h"
#include "coordinator/checkpoint/checkpoint_coordinator.h"
#include "coordinator/job/coordinator_environment.h"
#include "coordinator/job/job_state.h"
#include "coordinator/job/log_driver.h"
#include "coordinator/job/settle_orders.h"
#include "coordinator/membership/leadership.h"
#include "coordinator/membership/worker_registry.h"
#include "coordinator/metadata/job_registry.h"

namespace weir {

// What a job waits for, as text for people, and since when it waits for anything at all.
// Thread: confined to its owner.
class WaitReason {
 public:
  explicit WaitReason(const Clock& clock) : clock_(clock) {}
  WaitReason& operator=(std::string text) {
    if (text.empty() || text_.empty()) since_wall_us_ = text.empty() ? 0 : clock_.WallMicros();
    text_ = std::move(text);
    return *this;
  }
  void clear() { *this = std::string(); }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  int64_t since_wall_us() const { return since_wall_us_; }

 private:
  const Clock& clock_;
  std::string text_;
  int64_t since_wall_us_ = 0;
};

// Who the job master acts for.
struct JobOffice {
  CoordinatorNumber number;  // of the leading coordinator
  WorkerRegistry& workers;
  JobRegistry& registry;
  Leadership& leadership;
  SettleOrders& settle_orders;
  // The job master has stopped for good without ending the job: deposed (kStale), or it can no
  // longer vouch for the completion log. Called as mail.
  std::function<void(const Status&)> halted;
};

// Owns one job while one coordinator leads: takes charge of it through the completion log, runs one
// generation of its tasks after the other, completes its checkpoints, and brings it to its end.
// What may be done when is decided by CompletionLog, CheckpointCoordinator and DecideFailover; this
// class carries it out. Lives until the job is forgotten or the lead is lost; destroying it stops
// it without any further effect.
//
// One main flow (Run) in job_scope_ walks through the job's life. A generation's flows live in
// generation_scope_ and end with it; what must not be given up half way (manifests, claims,
// deletions) lives in job_scope_. Nothing but mail wakes the main flow (Wake), so that it never
// ends a flow from inside itself.
//
// Thread: confined to the executor. Invariants: one claim in flight; no effect after halted_ is
// set; tasks run only in the generation whose STARTED entry is the newest.
//
// What a crash may leave behind: see docs/checkpoint_protocol.md; every step is repeated or undone
// by the next leader from the completion log alone.
class JobMaster {
 public:
  template <typename T>
  using DoneWith = std::function<void(StatusOr<T>)>;
  using Done = std::function<void(Status)>;

  JobMaster(CoordinatorEnvironment& environment, StoredJob job, JobOffice office);
  ~JobMaster();

  // Takes charge of a job that may be live.
  void Start();
  // Takes in a job that has ended, as its log tells.
  void StartEnded(const std::vector<NumberedEntry>& entries);

  const JobId& id() const { return record_.id; }
  const std::string& name() const { return record_.graph.name; }
  const JobRecord& record() const { return record_; }
  JobState state() const { return state_; }
  bool ended() const { return IsEnded(state_); }
  // Stopped for good without an end of its own in the log. kFailed (state) when its log is lost;
  // else the coordinator takes it up anew.
  bool halted() const { return halted_; }
  // Tells people why it could not be taken up again yet.
  void SetTrouble(const std::string& trouble) { trouble_ = trouble; }
  // Of a job that has ended: what another one can start from; "" if nothing is kept.
  const std::string& retained_checkpoint() const { return retained_checkpoint_; }
  // Of the newest STARTED entry; 0 before this leader has taken charge.
  Generation generation() const;

  // From workers. kStale: not of the generation that runs.
  Status OnTaskReports(const ReportTasksRequest& request);
  Status OnAcknowledge(AcknowledgeRequest request);
  Status OnPublished(const ReportPublishedRequest& request);
  // Whether the tasks of that generation run or are being started.
  Status CheckCurrent(Generation asked) const;
  // True: the worker must end that generation.
  bool OnHosted(const WorkerName& worker, const HostedGeneration& hosted);
  // What a heartbeat says, or does not say, of this job (`hosted`: nullptr if nothing of it is
  // there). Ends the present generation when one of its workers does not name it for the second
  // time in a row: the first may have crossed the start of the tasks. Removes what a worker made
  // after its generation had ended elsewhere, once nothing of that runs there any more.
  void OnHeartbeat(const WorkerName& worker, const HostedGeneration* hosted);
  void OnWorkerLost(const WorkerInfo& worker, const std::string& reason);

  // From clients.
  void Cancel(bool force, DoneWith<std::vector<std::string>> done);
  JobStatus GetStatus() const;
  std::vector<CheckpointSummary> Checkpoints() const;
  std::vector<JobEvent> Events() const;

  static constexpr size_t kEventsMax = 1000;
  // How long old tasks may take to end before new ones start or the job ends without them.
  static constexpr int64_t kEndTasksUs = 3'000'000;

 private:
  struct TaskEntry {
    TaskState state = TaskState::kStarting;
    WorkerName worker;
  };
  struct SubtaskEntry {
    SubtaskMetrics metrics;
    double busy = 0;
    double idle = 0;
    double backpressured = 0;
  };
  // Why a generation ended.
  struct Outcome {
    bool finished = false;
    Status error;
    std::string uid;
    int subtask = -1;
    std::string worker;
    bool permanent = false;  // a restart cannot help, whatever the error's kind
  };
  // One generation as it runs.
  struct RunningGeneration {
    bool live = false;
    bool checkpointing = false;  // the checkpoint coordinator knows it
    bool all_running = false;
    bool sources_ended = false;
    std::vector<TaskAssignment> assignments;
    std::set<WorkerName> workers;
    std::map<WorkerName, int> missed;  // heartbeats in a row without this generation
    std::map<std::pair<int, int>, TaskEntry> tasks;
    std::map<std::pair<std::string, int>, SubtaskEntry> subtasks;
    std::map<CheckpointId, bool> triggered;  // in progress
  };
  // A checkpoint to start from.
  struct Restore {
    CheckpointManifest manifest;  // checkpoint 0: none
    std::string directory;        // its paths are relative to
    bool own = true;              // false: another job's, copied at submission
  };
  struct Gather {  // several flows, waited for together
    int open = 0;
    CoSignal changed;
  };

  // job_master.cc: the main flow.
  Co<void> Run();
  Co<void> ReadStartedMark();
  Co<void> ReadEvidence();
  Co<void> RunCharged();
  Co<bool> RunGeneration();
  Co<void> PauseUntil(int64_t monotonic_us);
  Co<Status> Drive();
  void Halt(const Status& reason);
  void Stop();
  void Condemn(const Status& reason);
  void Wake();
  void EndRun(Outcome outcome);
  void EndRunOf(const WorkerName& worker);
  Co<void> SweepAfter(WorkerName worker, Generation below);
  void StopRun();
  void EnterState(JobState state);
  void RememberFailure(const Outcome& outcome);
  // One line for `weir logs` and one for the log, there with the checkpoint it is about.
  void Event(const std::string& text, CheckpointId checkpoint = CheckpointId(0),
             log::Level level = log::Level::kInfo);
  std::string Tag() const;
  Moment Now() const;
  const CompletionLog& log() const { return driver_.log(); }

  // job_recovery.cc: from STARTED to running tasks.
  Co<void> StartGeneration();
  Co<bool> CheckBeforeStart();
  Co<Status> SettleForeign();
  Co<Status> LoadRestore();
  // The counts of a subtask are at least those of its snapshot.
  void NoteCounts(const OperatorSnapshot& part);
  // False: there are not enough; what is missing is said.
  bool TakeSlots();
  Co<void> SettleOlder();
  Co<void> SettleWithoutSlots(std::shared_ptr<Gather> gather);
  Co<void> SettleOwn(bool tells);
  Co<void> SettleInPause();
  Co<void> MarkStarted();
  Co<CheckpointId> SweepCheckpoints();
  Co<void> StartTasksAt(WorkerName worker);
  StartTasksRequest MakeStartTasks() const;
  Status AdoptGraph(JobGraph graph);
  int SlotsNeeded() const;

  // job_checkpoints.cc: what the checkpoint coordinator asks for.
  void Pump();
  void ArmTick();
  Co<void> TriggerFlow(CheckpointAction action);
  Co<void> TriggerAt(WorkerName worker, TriggerRequest request);
  Co<void> WriteManifest(CheckpointAction action);
  Co<void> ClaimCompletion(CheckpointId checkpoint);
  Co<void> NotifyAt(WorkerName worker, CheckpointNotice notice, bool completed,
                    std::shared_ptr<Gather> gather);
  Co<void> AbortFlow(CheckpointNotice notice);
  Co<void> DropFlow(CheckpointId checkpoint, Generation generation);
  void OnAllTasksRunning();

  // job_status.cc: what people see.
  VertexStatus GetVertexStatus(const JobVertex& vertex) const;
  std::optional<SinkProgress> ProgressAtEnd(const SinkProgress& told) const;
  int ParallelismOf(const JobVertex& vertex) const;
  struct Waiting {
    std::string what;
    int64_t since_wall_us = 0;
  };
  Waiting WaitingFor() const;
  Waiting WaitingSubtasks() const;
  std::string Place(const std::string& uid, int subtask) const;
  std::string UnpublishedText() const;
  std::string SlowStorage() const;

  // job_ending.cc: tasks end, output is settled, the job ends.
  Co<void> EndTasksEverywhere(Generation up_to, bool finish);
  Co<void> EndTasksAt(WorkerName worker, EndTasksRequest request, int64_t until_us,
                      std::shared_ptr<Gather> gather);
  // All workers; those that did not end their tasks in time may not answer anything else either.
  std::vector<WorkerName> ResponsiveFirst() const;
  Co<bool> SettleVertex(SettleRequest request, Status* refusal = nullptr);
  // An order that is waited for at the end of the job is so for little longer.
  void HurrySettle();
  Co<void> CancelJob();
  Co<void> FailJob(std::string reason);
  Co<void> EndJob(JobState end, std::string reason);
  Co<bool> SettleForEnd(JobState end);
  Co<void> GiveBackForeign();
  Co<void> ApplyRetention();
  void AdoptEnd(const LogEntry& end);
  // To those who wait for no more than the intent.
  void AnswerIntent();
  void AnswerCancels(JobState end);
  std::optional<CompletedCheckpoint> NewestCompleted() const;
  Co<void> TidyEnded();
  // One for each vertex that owns committables, with what `manifest` lists of it.
  std::vector<SettleRequest> MakeSettles(const CheckpointManifest& manifest,
                                         Generation generation) const;
  // Of what the job that restore_ is from left behind, this job its successor.
  Co<StatusOr<std::vector<SettleRequest>>> MakeForeignSettles();
  std::vector<SettleRequest> WithSender(std::vector<SettleRequest> requests) const;

  CoordinatorEnvironment& environment_;
  JobOffice office_;
  JobRecord record_;
  bool checked_;
  const std::string directory_;
  Status unusable_;  // the stored options cannot be read: the job fails
  JobOptions options_;
  std::optional<ExecutionPlan> plan_;  // of a checked graph

  LogDriver driver_;
  std::optional<CheckpointCoordinator> checkpoints_;  // once in charge
  RestartBackoff backoff_;
  // What the log of a job that had ended before this leader told.
  Generation ended_generation_;
  std::optional<CompletedCheckpoint> ended_newest_;
  std::optional<JobTotals> ended_totals_;
  Generation first_started_;  // the first generation that started tasks; 0: none did
  bool halted_ = false;

  JobState state_ = JobState::kCreated;
  int64_t end_wall_us_ = 0;
  WaitReason waiting_for_;
  WaitReason trouble_;  // storage's
  std::optional<Failure> failure_;
  Generation failure_generation_;
  int64_t failing_since_wall_us_ = 0;  // 0: a checkpoint completed since the last failure
  bool failure_replaceable_ = false;   // a peer's word: a lost worker explains it better
  std::string retained_checkpoint_;
  int64_t completed_before_ = 0;
  std::optional<CheckpointSummary> last_before_;  // completed under an earlier leader
  std::deque<JobEvent> events_;

  RunningGeneration run_;
  std::optional<Outcome> outcome_;
  Restore restore_;
  // Manifests of this leader from the moment they are durable; the newest completed one stays.
  struct Written {
    CheckpointManifest manifest;
    uint64_t checksum = 0;
  };
  std::map<CheckpointId, Written> written_;
  std::set<CheckpointId> writing_;  // manifests that have not answered
  // Of directories of checkpoints that are under way: whether they are durable in the job's.
  struct DirectorySync {
    bool answered = false;
    Status status;
    CoSignal changed;
  };
  std::map<CheckpointId, std::shared_ptr<DirectorySync>> syncing_;

  bool cancel_requested_ = false;  // of this leader or of one before it
  bool cancelling_durable_ = false;
  bool ending_ = false;  // EndJob is under way
  bool force_ = false;
  std::vector<DoneWith<std::vector<std::string>>> cancels_;  // wait for the intent
  std::vector<DoneWith<std::vector<std::string>>> forced_;   // wait for the end
  std::vector<std::string> left_behind_;
  bool leaves_rows_ = false;  // some of left_behind_ are rows of completed checkpoints
  std::function<void(Status)> give_up_settle_;  // the order that is waited for, if any

  // Workers that may still run tasks of an earlier generation.
  std::set<WorkerName> may_have_tasks_;
  bool all_may_have_tasks_ = false;
  // Workers that named a generation after its end, with their heartbeats since that named none.
  std::map<WorkerName, int> late_;
  std::set<WorkerName> unresponsive_;

  TimerId tick_timer_ = 0;
  CoSignal wake_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope generation_scope_;
  CoScope job_scope_;
};

}  // namespace weir
