#include "worker/task/task.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/record/key_group.h"
#include "common/storage/file_flows.h"
#include "worker/checkpoint/snapshot_files.h"
#include "worker/task/task_node.h"

namespace weir {
namespace {

constexpr size_t kAbortedEarlyMax = 1024;
constexpr int64_t kProgressUs = 100'000;
// Which task the current thread is stepping.
thread_local const Task* stepping = nullptr;

// The rows that a batch stands for.
int64_t RowsOf(const RecordBatch& batch) {
  const int rows_column = batch.schema()->rows_column();
  if (rows_column < 0) return batch.rows();
  const int64_t* rows = batch.column(rows_column).values<int64_t>();
  return std::accumulate(rows, rows + batch.rows(), int64_t{0});
}

}  // namespace

std::string_view ToString(BlockingReason reason) {
  switch (reason) {
    case BlockingReason::kNone:
      return "";
    case BlockingReason::kStarting:
      return "restoring state";
    case BlockingReason::kSource:
      return "source does not answer";
    case BlockingReason::kCredit:
      return "credit of a receiver";
    case BlockingReason::kSink:
      return "sink";
    case BlockingReason::kDeadLetters:
      return "dead letters";
    case BlockingReason::kFinishing:
      return "last checkpoint";
  }
  return "";
}

// A snapshot on its way to being durable.
struct Task::PendingSnapshot {
  Barrier barrier;
  std::vector<OperatorSnapshot> parts;              // by node; handles and committables come later
  std::vector<FrozenState> states;                  // by node
  std::vector<std::shared_ptr<ChunkStream>> keyed;  // by node; those of states
  std::vector<SnapshotMetrics> metrics;
  int64_t frozen_us = 0;
  int64_t longest_step_us = 0;
  bool aborted = false;
  // By node, true: it has been asked for its committables.
  std::vector<bool> owners;
  std::vector<std::optional<StatusOr<std::vector<Committable>>>> prepared;
  CoSignal prepared_signal;
};

Task::Task(TaskDescription description, TaskEnvironment environment, TaskObserver& observer,
           std::vector<InputGate::Channel> inputs, std::vector<std::unique_ptr<EdgeOutput>> outputs)
    : description_(std::move(description)),
      staging_directory_(JoinPath(description_.job_directory, kStagingName)),
      environment_(std::move(environment)),
      observer_(observer),
      outputs_(std::move(outputs)),
      random_(environment_.seed),
      flows_(std::make_unique<CoScope>()) {
  files_ = environment_.make_files(*this);
  const JobGraph& graph = *description_.graph;
  const ExecutionPlan& plan = *description_.plan;
  const ExecutionPlan::TaskVertex& vertex = plan.tasks[description_.task];
  is_source_ = inputs.empty();
  if (!is_source_) gate_ = std::make_unique<InputGate>(std::move(inputs));
  // Before any task of the generation is stepped: the other ends read the wakers without a lock.
  if (gate_ != nullptr) gate_->SetArrivalWaker(environment_.wake);
  for (const auto& output : outputs_) output->SetCreditWaker(environment_.wake);
  for (size_t i = 0; i < vertex.chain.size(); ++i) {
    const JobVertex& operator_vertex = graph.vertices[vertex.chain[i]];
    auto node = std::make_unique<Node>(*this, i, operator_vertex, vertex.parallelism,
                                       vertex.max_parallelism);
    if (operator_vertex.output_schema) {
      node->output_schema = std::make_shared<const Schema>(*operator_vertex.output_schema);
    }
    if (i > 0) {
      node->input_schemas.push_back(nodes_.back()->output_schema);
      node->key_columns.emplace_back();
    } else {
      for (int edge_index : vertex.inputs) {
        const ExecutionPlan::Edge& edge = plan.edges[edge_index];
        size_t input = static_cast<size_t>(edge.input);
        if (node->input_schemas.size() <= input) {
          node->input_schemas.resize(input + 1);
          node->key_columns.resize(input + 1);
        }
        node->input_schemas[input] = edge.schema;
        node->key_columns[input] = edge.key_columns;
        if (edge.partial_schema != nullptr) {
          node->input_schemas.push_back(edge.partial_schema);
          node->key_columns.emplace_back(edge.key_columns.size());
          std::iota(node->key_columns.back().begin(), node->key_columns.back().end(), 0);
        }
      }
    }
    nodes_.push_back(std::move(node));
  }
}

Task::~Task() { WEIR_CHECK(stepping != this); }

void Task::Post(std::function<void()> mail) {
  if (closed_.load(std::memory_order_acquire)) return;
  {
    std::lock_guard lock(mail_mutex_);
    mail_.push_back(std::move(mail));
    has_mail_.store(true, std::memory_order_release);
  }
  environment_.wake();
}

bool Task::InOwnerThread() const { return stepping == this; }

void Task::RunMail() {
  if (!has_mail_.load(std::memory_order_acquire)) return;
  std::deque<std::function<void()>> mail;
  {
    std::lock_guard lock(mail_mutex_);
    mail.swap(mail_);
    has_mail_.store(false, std::memory_order_relaxed);
  }
  while (!mail.empty()) {
    std::function<void()> first = std::move(mail.front());
    mail.pop_front();
    first();
  }
}

StepResult Task::Step() {
  const Task* outer = std::exchange(stepping, this);
  Spends rested = spends_.load(std::memory_order_relaxed);
  const int64_t start_us = Account(Spends::kBusy);
  RunMail();
  StepResult result;
  switch (state_) {
    case State::kCreated:
    case State::kStarting:
      result = {StepResult::Kind::kBlocked, BlockingReason::kStarting};
      break;
    case State::kRunning:
    case State::kEndedInput:
      result = StepRunning();
      break;
    case State::kFailed:
    case State::kDone:
      result = {StepResult::Kind::kDone, BlockingReason::kNone};
      break;
  }
  if (!error_.ok() && state_ != State::kFailed && state_ != State::kDone) {
    Fail(error_uid_, std::exchange(error_, Status()));
    result = {StepResult::Kind::kDone, BlockingReason::kNone};
  }
  // To look around and find nothing is not work.
  if (result.kind != StepResult::Kind::kProgress) {
    spends_.store(rested, std::memory_order_relaxed);
  }
  const int64_t end_us = Account(SpendsAfter(result));
  const int64_t step_us = end_us - start_us;
  for (const auto& [checkpoint, snapshot] : snapshots_) {
    snapshot->longest_step_us = std::max(snapshot->longest_step_us, step_us);
  }
  blocked_on_.store(
      result.kind == StepResult::Kind::kBlocked ? result.reason : BlockingReason::kNone,
      std::memory_order_relaxed);
  PublishProgress(result.kind != StepResult::Kind::kProgress, end_us);
  stepping = outer;
  return result;
}

void Task::PublishProgress(bool rests, int64_t now_us) {
  Node& last = *nodes_.back();
  if (last.sink == nullptr || (!rests && now_us - progress_us_ < kProgressUs)) return;
  if (state_ != State::kRunning && state_ != State::kEndedInput) return;
  progress_us_ = now_us;
  if (std::optional<SinkProgress> progress = last.sink->progress()) last.progress.Set(*progress);
}

Task::Spends Task::SpendsAfter(StepResult result) {
  if (result.kind == StepResult::Kind::kProgress) return Spends::kBusy;
  bool held_back =
      result.kind == StepResult::Kind::kBlocked &&
      (result.reason == BlockingReason::kCredit || result.reason == BlockingReason::kSink ||
       result.reason == BlockingReason::kDeadLetters);
  return held_back ? Spends::kBackpressured : Spends::kIdle;
}

int64_t Task::Account(Spends from_now_on) {
  int64_t now_us = environment_.clock->MonotonicMicros();
  int64_t since_us = accounted_until_us_.load(std::memory_order_relaxed);
  if (since_us != 0) {
    Spends spends = spends_.load(std::memory_order_relaxed);
    std::atomic<int64_t>& counter = spends == Spends::kBusy            ? busy_us_
                                    : spends == Spends::kBackpressured ? backpressured_us_
                                                                       : idle_us_;
    counter.fetch_add(now_us - since_us, std::memory_order_relaxed);
  }
  spends_.store(from_now_on, std::memory_order_relaxed);
  // Last: who reads in between counts a little time too late, never twice.
  accounted_until_us_.store(now_us, std::memory_order_release);
  return now_us;
}

StepResult Task::StepRunning() {
  StepResult result = StepChain();
  if (in_progress_ != nullptr && error_.ok() &&
      ContinueSnapshot(environment_.snapshot_pace.step_bytes)) {
    result = {StepResult::Kind::kProgress, BlockingReason::kNone};
  }
  return result;
}

StepResult Task::StepChain() {
  if (!OutputsHaveCredit()) return {StepResult::Kind::kBlocked, BlockingReason::kCredit};
  BlockingReason blocked = BlockedByCommittables();
  if (blocked != BlockingReason::kNone) return {StepResult::Kind::kBlocked, blocked};
  StepResult result = is_source_ ? StepSource() : StepInputs();
  if (result.kind == StepResult::Kind::kProgress) {
    FlushIfDue(environment_.clock->MonotonicMicros());
  } else {
    FlushOutputs();
  }
  return result;
}

BlockingReason Task::BlockedByCommittables() const {
  // Only the ends of a chain can be a source or sink.
  const Node& last = *nodes_.back();
  if (last.sink != nullptr && !last.sink->Ready()) return BlockingReason::kSink;
  if (!is_source_) return BlockingReason::kNone;
  const CommittableOwner* owner = nodes_.front()->committable_owner();
  return owner != nullptr && !owner->Ready() ? BlockingReason::kDeadLetters : BlockingReason::kNone;
}

StepResult Task::StepSource() {
  if (state_ == State::kEndedInput) {
    return {StepResult::Kind::kBlocked, BlockingReason::kFinishing};
  }
  if (!source_ready_) return SourceIdles();
  Node& node = *nodes_[0];
  StatusOr<PollResult> polled = node.source->Poll(node.output);
  if (!polled.ok()) {
    if (error_.ok()) {
      error_ = polled.status();
      error_uid_ = node.vertex.uid;
    }
    return {StepResult::Kind::kProgress, BlockingReason::kNone};
  }
  switch (*polled) {
    case PollResult::kRows:
      return {StepResult::Kind::kProgress, BlockingReason::kNone};
    case PollResult::kIdle:
      source_ready_ = false;
      return SourceIdles();
    case PollResult::kEnded:
      EndInput();
      return {StepResult::Kind::kProgress, BlockingReason::kNone};
  }
  return {StepResult::Kind::kIdle, BlockingReason::kNone};
}

StepResult Task::SourceIdles() const {
  if (nodes_[0]->source->Reachable()) return {StepResult::Kind::kIdle, BlockingReason::kNone};
  return {StepResult::Kind::kBlocked, BlockingReason::kSource};
}

StepResult Task::StepInputs() {
  InputGate::Taken taken;
  StatusOr<bool> found = gate_->TryTake(&taken);
  if (!found.ok()) {
    error_ = found.status();
    error_uid_ = nodes_[0]->vertex.uid;
    return {StepResult::Kind::kProgress, BlockingReason::kNone};
  }
  if (!*found) {
    if (state_ == State::kEndedInput) {
      return {StepResult::Kind::kBlocked, BlockingReason::kFinishing};
    }
    return {StepResult::Kind::kIdle, BlockingReason::kNone};
  }
  if (auto* batch = std::get_if<RecordBatchPtr>(&taken.element)) {
    const bool partial = (*batch)->schema()->rows_column() >= 0;
    ProcessAt(0, gate_->input_of(taken.channel) + (partial ? 1 : 0), *batch);
  } else if (auto* barrier = std::get_if<Barrier>(&taken.element)) {
    OnBarrier(taken.channel, *barrier);
  } else if (gate_->MarkEnded(taken.channel)) {
    EndInput();
  }
  return {StepResult::Kind::kProgress, BlockingReason::kNone};
}

bool Task::OutputsHaveCredit() const {
  for (const auto& output : outputs_) {
    if (!output->HasCredit()) return false;
  }
  return true;
}

void Task::FlushOutputs() {
  if (held_since_us_ == 0) return;
  for (const auto& output : outputs_) output->Flush();
  held_since_us_ = 0;
}

void Task::Rest(int64_t until_us) {
  if (held_since_us_ == 0) return;
  const Task* outer = std::exchange(stepping, this);
  FlushIfDue(until_us);
  stepping = outer;
}

void Task::FlushIfDue(int64_t now_us) {
  bool holds = false;
  for (const auto& output : outputs_) holds = holds || output->holds_rows();
  if (!holds) {
    held_since_us_ = 0;
    return;
  }
  if (held_since_us_ == 0) held_since_us_ = now_us;
  if (now_us - held_since_us_ >= description_.options->batch_delay_max_us) FlushOutputs();
}

void Task::EmitToEdges(const RecordBatchPtr& batch) {
  for (const auto& output : outputs_) {
    Status status = output->Emit(batch);
    nodes_.back()->bytes_out.fetch_add(output->TakeEmittedBytes(), std::memory_order_relaxed);
    if (!status.ok() && error_.ok()) {
      error_ = std::move(status);
      error_uid_ = nodes_.back()->vertex.uid;
    }
  }
}

void Task::ProcessAt(size_t index, int input, const RecordBatchPtr& batch) {
  if (!error_.ok()) return;
  Node& node = *nodes_[index];
  node.records_in.fetch_add(RowsOf(*batch), std::memory_order_relaxed);
  Status status;
  if (node.sink != nullptr) {
    status = node.sink->Write(*batch);
  } else {
    bool keyed = node.keyed();
    if (keyed) node.state->BeginBatch(*batch, node.key_columns[input]);
    status = node.op->ProcessBatch(input, *batch, node.output);
    if (keyed) {
      Status stored = node.state->EndBatch();
      if (status.ok()) status = std::move(stored);
    }
  }
  if (!status.ok() && error_.ok()) {
    error_ = std::move(status);
    error_uid_ = node.vertex.uid;
  }
}

void Task::OnBarrier(int channel, const Barrier& barrier) {
  BarrierAligner& aligner = gate_->aligner();
  if (barrier.checkpoint > aligner.current()) {
    alignment_start_us_ = environment_.clock->MonotonicMicros();
    first_barrier_wall_us_ = environment_.clock->WallMicros();
  }
  switch (aligner.OnBarrier(channel, barrier.checkpoint)) {
    case BarrierAligner::Decision::kIgnore:
      return;
    case BarrierAligner::Decision::kAlign:
      KillPoint("task.during_alignment");
      return;
    case BarrierAligner::Decision::kSnapshot:
      TakeSnapshot(barrier, first_barrier_wall_us_,
                   environment_.clock->MonotonicMicros() - alignment_start_us_);
      return;
  }
}

void Task::EndInput() {
  for (size_t i = 0; i < nodes_.size() && error_.ok(); ++i) {
    Node& node = *nodes_[i];
    if (node.op == nullptr) continue;
    Status status = node.op->OnEndOfInput(node.output);
    if (!status.ok() && error_.ok()) {
      error_ = std::move(status);
      error_uid_ = node.vertex.uid;
    }
  }
  if (!error_.ok()) return;
  for (const auto& output : outputs_) output->Broadcast(EndOfInput{});
  held_since_us_ = 0;
  state_ = State::kEndedInput;
  TaskReport report;
  report.task = description_.task;
  report.subtask = description_.subtask;
  report.state = TaskState::kEndedInput;
  observer_.OnReport(std::move(report));
}

void Task::Trigger(Barrier barrier) {
  if (!is_source_ || (state_ != State::kRunning && state_ != State::kEndedInput)) return;
  if (barrier.checkpoint <= last_barrier_) return;
  last_barrier_ = barrier.checkpoint;
  if (std::erase(aborted_early_, barrier.checkpoint) > 0) return;
  TakeSnapshot(barrier, environment_.clock->WallMicros(), 0);
}

void Task::OnCompleted(CheckpointId checkpoint) {
  if (state_ != State::kRunning && state_ != State::kEndedInput) return;
  for (const auto& node : nodes_) {
    if (node->source != nullptr) node->source->OnCompleted(checkpoint.value());
    CommittableOwner* owner = node->committable_owner();
    if (owner == nullptr) continue;
    std::string uid = node->vertex.uid;
    owner->Publish(checkpoint, [this, uid, checkpoint](Status status) {
      if (status.ok()) {
        observer_.OnPublished({checkpoint, uid, description_.subtask});
      } else {
        Fail(uid, std::move(status));
      }
    });
  }
}

void Task::OnAborted(CheckpointId checkpoint) {
  if (gate_ != nullptr) {
    gate_->aligner().OnAbort(checkpoint);
  } else if (checkpoint > last_barrier_) {
    aborted_early_.push_back(checkpoint);
    if (aborted_early_.size() > kAbortedEarlyMax) aborted_early_.erase(aborted_early_.begin());
  }
  if (auto found = snapshots_.find(checkpoint); found != snapshots_.end()) {
    found->second->aborted = true;
    DropKeyedState(found->second);
  }
  if (state_ != State::kRunning && state_ != State::kEndedInput) return;
  for (const auto& node : nodes_) {
    if (CommittableOwner* owner = node->committable_owner()) owner->OnAborted(checkpoint);
  }
}

void Task::TakeSnapshot(Barrier barrier, int64_t first_barrier_wall_us, int64_t alignment_us) {
  if (!error_.ok()) return;
  int64_t start_us = environment_.clock->MonotonicMicros();
  // An earlier one that is not written down yet has to be now: this is a stall.
  while (in_progress_ != nullptr) ContinueSnapshot(INT64_MAX);
  auto snapshot = std::make_shared<PendingSnapshot>();
  snapshot->barrier = barrier;
  snapshot->owners.resize(nodes_.size());
  snapshot->prepared.resize(nodes_.size());
  int64_t state_bytes = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::unique_ptr<Node>& node = nodes_[i];
    FrozenState state;
    if (node->source != nullptr) {
      state.positions = node->source->SnapshotPositions();
      node->source->OnSnapshot(barrier.checkpoint.value());
      state.has_positions = true;
    }
    if (node->state != nullptr) {
      Status begun = node->state->BeginSnapshot();
      if (!begun.ok()) {
        error_ = std::move(begun);
        error_uid_ = node->vertex.uid;
        return;
      }
      state.keyed = std::make_shared<ChunkStream>();
      state_bytes += node->state->bytes();
    }
    snapshot->keyed.push_back(state.keyed);
    if (CommittableOwner* owner = node->committable_owner()) {
      snapshot->owners[i] = true;
      owner->Prepare(barrier.checkpoint,
                     [snapshot, i](StatusOr<std::vector<Committable>> committables) {
                       if (snapshot->prepared[i]) return;
                       snapshot->prepared[i].emplace(std::move(committables));
                       snapshot->prepared_signal.Notify();
                     });
    }
    OperatorSnapshot part;
    part.uid = node->vertex.uid;
    part.subtask = description_.subtask;
    part.records_in = node->records_in.load(std::memory_order_relaxed);
    part.records_out = node->records_out.load(std::memory_order_relaxed);
    part.dropped_rows = node->dropped_rows.load(std::memory_order_relaxed);
    part.lost_rows = node->lost_rows.load(std::memory_order_relaxed);
    snapshot->parts.push_back(std::move(part));
    SnapshotMetrics metrics;
    metrics.uid = node->vertex.uid;
    metrics.subtask = description_.subtask;
    metrics.barrier_wall_us = first_barrier_wall_us;
    metrics.alignment_us = alignment_us;
    snapshot->metrics.push_back(metrics);
    snapshot->states.push_back(std::move(state));
  }
  for (const auto& output : outputs_) output->Broadcast(barrier);
  held_since_us_ = 0;
  in_progress_ = snapshot;
  const SnapshotPace& pace = environment_.snapshot_pace;
  if (state_bytes <= pace.at_once_bytes) ContinueSnapshot(INT64_MAX);
  snapshot->frozen_us = environment_.clock->MonotonicMicros();
  for (SnapshotMetrics& metrics : snapshot->metrics) {
    metrics.synchronous_us = snapshot->frozen_us - start_us;
  }
  snapshots_[barrier.checkpoint] = snapshot;
  flows_->Spawn(SnapshotFlow(std::move(snapshot)));
}

bool Task::ContinueSnapshot(int64_t bytes) {
  const std::shared_ptr<PendingSnapshot> snapshot = in_progress_;
  bool progress = false;
  bool complete = true;
  for (size_t i = 0; i < nodes_.size() && complete; ++i) {
    const std::shared_ptr<ChunkStream>& keyed = snapshot->keyed[i];
    if (keyed == nullptr || keyed->closed()) continue;
    StateBackend& state = *nodes_[i]->state;
    // What batches had to save first.
    keyed->Put(state.TakeChunks());
    const int64_t ahead_bytes = keyed->bytes() - ChunkStream::kWriteBytes;
    if (bytes < INT64_MAX && ahead_bytes >= environment_.snapshot_pace.ahead_bytes_max) {
      return progress;
    }
    state.ContinueSnapshot(bytes);
    progress = true;
    keyed->Put(state.TakeChunks());
    complete = !state.in_snapshot();
    if (complete) keyed->Close();
  }
  if (complete) in_progress_ = nullptr;
  return progress;
}

// Nobody wants the keyed state of this snapshot any more.
void Task::DropKeyedState(const std::shared_ptr<PendingSnapshot>& snapshot) {
  if (in_progress_ == snapshot) in_progress_ = nullptr;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::shared_ptr<ChunkStream> keyed = snapshot->keyed[i];
    if (keyed == nullptr || keyed->dropped()) continue;
    if (!keyed->closed()) nodes_[i]->state->AbortSnapshot();
    keyed->Drop();
  }
}

// The state files of all operators, durable; their parts go into `ack`.
Co<Status> Task::WriteSnapshot(std::shared_ptr<PendingSnapshot> snapshot, TaskAck* ack) {
  std::string directory =
      CheckpointDirectoryName(snapshot->barrier.checkpoint, description_.generation);
  bool wrote = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (snapshot->aborted) co_return CancelledError("aborted");
    OperatorSnapshot part = std::move(snapshot->parts[i]);
    std::string unique = random_.HexName(16);
    StatusOr<std::vector<StateHandle>> handles =
        co_await WriteStateFiles(*files_, description_.job_directory, directory, part.uid,
                                 part.subtask, unique, std::move(snapshot->states[i]));
    if (!handles.ok()) co_return handles.status();
    int64_t bytes = 0;
    for (const StateHandle& handle : *handles) bytes += handle.length;
    snapshot->metrics[i].bytes = bytes;
    wrote = wrote || !handles->empty();
    part.handles = std::move(*handles);
    ack->snapshots.push_back(std::move(part));
  }
  if (!wrote) co_return Status();
  std::string path = JoinPath(description_.job_directory, directory);
  co_return co_await SyncDirectory(*files_, path);
}

Co<void> Task::SnapshotFlow(std::shared_ptr<PendingSnapshot> snapshot) {
  TaskAck ack;
  ack.checkpoint = snapshot->barrier.checkpoint;
  ack.task = description_.task;
  ack.subtask = description_.subtask;
  while (writing_snapshots_ >= std::max(1, description_.options->checkpoint_max_concurrent)) {
    co_await snapshot_written_.Wait();
  }
  ++writing_snapshots_;
  ack.error = co_await WriteSnapshot(snapshot, &ack);
  if (!ack.error.ok()) DropKeyedState(snapshot);
  --writing_snapshots_;
  snapshot_written_.Notify();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!snapshot->owners[i]) continue;
    // Sealed whatever became of the state files: a failure here is the owner's own.
    while (!snapshot->prepared[i]) co_await snapshot->prepared_signal.Wait();
    StatusOr<std::vector<Committable>>& committables = *snapshot->prepared[i];
    if (!committables.ok()) {
      Fail(nodes_[i]->vertex.uid, committables.status());
      co_return;
    }
    if (ack.error.ok()) ack.snapshots[i].committables = *std::move(committables);
    KillPoint("task.after_prepare");
  }
  snapshots_.erase(ack.checkpoint);
  if (snapshot->aborted) co_return;
  int64_t asynchronous_us = environment_.clock->MonotonicMicros() - snapshot->frozen_us;
  for (SnapshotMetrics& metrics : snapshot->metrics) {
    metrics.asynchronous_us = asynchronous_us;
    metrics.longest_step_us = snapshot->longest_step_us;
  }
  ack.metrics = std::move(snapshot->metrics);
  observer_.OnAcknowledge(std::move(ack));
}

void Task::Start() {
  if (state_ != State::kCreated) return;
  state_ = State::kStarting;
  flows_->Spawn(StartFlow());
}

Co<void> Task::StartFlow() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    Status status = co_await RestoreNode(node);
    if (status.ok() && node.sink != nullptr) {
      Sink* sink = node.sink.get();
      Context* context = &node.context;
      Async<Status> opening(
          [sink, context](Async<Status>::Done done) { sink->Open(*context, std::move(done)); });
      status = co_await opening;
    }
    if (!status.ok()) {
      Fail(node.vertex.uid, std::move(status));
      co_return;
    }
  }
  KillPoint("task.while_restoring");
  state_ = State::kRunning;
  TaskReport report;
  report.task = description_.task;
  report.subtask = description_.subtask;
  report.state = TaskState::kRunning;
  observer_.OnReport(std::move(report));
  environment_.wake();
}

// Counts go on where the checkpoint left them: at another parallelism subtask 0 takes them all.
void Task::RestoreCounts(Node& node) {
  const std::vector<OperatorSnapshot>& parts = description_.restore->snapshots;
  int64_t of_operator = std::count_if(
      parts.begin(), parts.end(), [&](const auto& part) { return part.uid == node.vertex.uid; });
  bool same_parallelism = of_operator == node.parallelism;
  for (const OperatorSnapshot& part : parts) {
    if (part.uid != node.vertex.uid) continue;
    if (description_.subtask != (same_parallelism ? part.subtask : 0)) continue;
    node.records_in.fetch_add(part.records_in, std::memory_order_relaxed);
    node.records_out.fetch_add(part.records_out, std::memory_order_relaxed);
    node.dropped_rows.fetch_add(part.dropped_rows, std::memory_order_relaxed);
    node.lost_rows.fetch_add(part.lost_rows, std::memory_order_relaxed);
  }
}

Co<Status> Task::RestoreNode(Node& node) {
  const std::string& type = node.vertex.type;
  const CheckpointManifest& restore = *description_.restore;
  std::vector<SplitState> positions;
  bool keyed = false;
  for (const std::vector<int>& columns : node.key_columns) keyed = keyed || !columns.empty();
  if (keyed) {
    KeyGroupRange range = KeyGroupsOf(description_.subtask, node.max_parallelism, node.parallelism);
    StatusOr<std::unique_ptr<StateBackend>> made =
        MakeStateBackend(description_.options->state_backend, range, node.max_parallelism);
    if (!made.ok()) co_return made.status();
    node.state = std::move(*made);
  }
  RestoreCounts(node);
  for (const OperatorSnapshot& part : restore.snapshots) {
    if (part.uid != node.vertex.uid) continue;
    for (const StateHandle& handle : part.handles) {
      bool wanted = handle.kind == StateKind::kPositions;
      if (node.state != nullptr) {
        for (const KeyGroupSlice& slice : handle.slices) {
          wanted = wanted || node.state->range().Contains(slice.key_group);
        }
      }
      if (!wanted) continue;
      StatusOr<std::string> bytes =
          co_await ReadStateFile(*files_, description_.restore_directory, handle);
      if (!bytes.ok()) co_return bytes.status();
      if (handle.kind == StateKind::kPositions) {
        StatusOr<std::vector<SplitState>> decoded = DecodePositions(*bytes);
        if (!decoded.ok()) co_return decoded.status().WithContext(handle.path).WithRetry(false);
        if (!decoded->empty() && PlantedBug("lost_offset")) decoded->pop_back();
        positions.insert(positions.end(), decoded->begin(), decoded->end());
        continue;
      }
      for (const KeyGroupSlice& slice : handle.slices) {
        if (!node.state->range().Contains(slice.key_group)) continue;
        if (slice.offset < 0 || slice.length < 0 ||
            slice.offset + slice.length > static_cast<int64_t>(bytes->size())) {
          co_return DataLossError(Concat("state file ", handle.path, " has no key group ",
                                         slice.key_group, " at ", slice.offset))
              .WithRetry(false);
        }
        std::string_view piece(*bytes);
        piece = piece.substr(static_cast<size_t>(slice.offset), static_cast<size_t>(slice.length));
        Status taken = node.state->Restore(slice.key_group, piece);
        if (!taken.ok()) co_return taken.WithContext(handle.path).WithRetry(false);
      }
    }
  }
  if (const SourceFactory* source = environment_.registry->FindSource(type)) {
    node.source = (*source)();
    co_return node.source->Open(node.context, positions);
  }
  if (const SinkFactory* sink = environment_.registry->FindSink(type)) {
    node.sink = sink->sink();
    co_return Status();
  }
  const OperatorFactory* factory = environment_.registry->FindOperator(type);
  if (factory == nullptr) {
    co_return InvalidArgumentError(
        Concat("operator '", node.vertex.uid, "': this worker knows no type '", type, "'"));
  }
  node.op = (*factory)();
  Status opened = node.op->Open(node.context);
  Status keyed_error = node.context.TakeError();
  co_return opened.ok() ? keyed_error : opened;
}

void Task::Fail(const std::string& uid, Status error) {
  if (state_ == State::kFailed || state_ == State::kDone) return;
  state_ = State::kFailed;
  TaskReport report;
  report.task = description_.task;
  report.subtask = description_.subtask;
  report.state = TaskState::kFailed;
  report.uid = uid;
  report.error = std::move(error);
  observer_.OnReport(std::move(report));
}

void Task::OnConfirmed(uint64_t question, Status status) {
  auto asked = confirming_.find(question);
  if (asked == confirming_.end()) return;
  std::function<void(Status)> done = std::move(asked->second);
  confirming_.erase(asked);
  done(std::move(status));
}

void Task::Shutdown() {
  if (state_ == State::kDone && closed_) return;
  const Task* outer = std::exchange(stepping, this);
  state_ = State::kDone;
  in_progress_ = nullptr;
  closed_.store(true, std::memory_order_release);
  for (const auto& node : nodes_) {
    if (node->source != nullptr) node->source->Close();
    if (node->sink != nullptr) node->sink->Close();
    if (node->op != nullptr) {
      Status closed = node->op->Close();
      if (!closed.ok()) {
        log::Warning("closing operator failed job=", description_.job, " uid=", node->vertex.uid,
                     " subtask=", description_.subtask, " error=", closed.message());
      }
    }
  }
  flows_->Clear();
  confirming_.clear();
  for (const auto& node : nodes_) {
    node->sink.reset();
    node->source.reset();
    node->op.reset();
  }
  files_.reset();  // late answers find nobody
  environment_.timers.reset();
  std::deque<std::function<void()>> mail;
  {
    std::lock_guard lock(mail_mutex_);
    mail.swap(mail_);
  }
  mail.clear();
  stepping = outer;
}

std::vector<SubtaskMetrics> Task::Metrics() const {
  std::vector<SubtaskMetrics> result;
  int64_t busy_us = busy_us_.load(std::memory_order_relaxed);
  int64_t idle_us = idle_us_.load(std::memory_order_relaxed);
  int64_t backpressured_us = backpressured_us_.load(std::memory_order_relaxed);
  // And what is under way: it may have been for long.
  if (int64_t since_us = accounted_until_us_.load(std::memory_order_acquire); since_us != 0) {
    int64_t passed_us = std::max<int64_t>(0, environment_.clock->MonotonicMicros() - since_us);
    Spends spends = spends_.load(std::memory_order_relaxed);
    (spends == Spends::kBusy            ? busy_us
     : spends == Spends::kBackpressured ? backpressured_us
                                        : idle_us) += passed_us;
  }
  for (const auto& node : nodes_) {
    SubtaskMetrics metrics;
    metrics.uid = node->vertex.uid;
    metrics.subtask = description_.subtask;
    metrics.records_in = node->records_in.load(std::memory_order_relaxed);
    metrics.records_out = node->records_out.load(std::memory_order_relaxed);
    metrics.bytes_out = node->bytes_out.load(std::memory_order_relaxed);
    metrics.busy_us = busy_us;
    metrics.idle_us = idle_us;
    metrics.backpressured_us = backpressured_us;
    metrics.dropped_rows = node->dropped_rows.load(std::memory_order_relaxed);
    metrics.lost_rows = node->lost_rows.load(std::memory_order_relaxed);
    metrics.sink = node->progress.Get();
    PublishedWaiting::Waiting waiting = node->waiting.Get();
    metrics.waits_for = std::move(waiting.what);
    metrics.waits_since_wall_us = waiting.since_wall_us;
    metrics.blocked_on = ToString(blocked_on_.load(std::memory_order_relaxed));
    result.push_back(std::move(metrics));
  }
  return result;
}

}  // namespace weir
