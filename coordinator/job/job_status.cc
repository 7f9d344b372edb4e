// What people see of a job.
#include <algorithm>

#include "common/base/concat.h"
#include "coordinator/job/job_master.h"

namespace weir {
namespace {

// Publishing that takes no longer is not worth a word.
constexpr int64_t kPublishPatienceUs = 2'000'000;

std::string_view Describe(TaskState state) {
  switch (state) {
    case TaskState::kStarting:
      return "starting";
    case TaskState::kRunning:
      return "running";
    case TaskState::kEndedInput:
      return "ended_input";
    case TaskState::kFinished:
      return "finished";
    case TaskState::kFailed:
      return "failed";
  }
  return "waiting";
}

}  // namespace

void JobMaster::StartEnded(const std::vector<NumberedEntry>& entries) {
  for (const NumberedEntry& numbered : entries) {
    const LogEntry& entry = numbered.entry;
    CompletedCheckpoint completed{entry.checkpoint, entry.generation, entry.manifest_checksum};
    switch (entry.kind) {
      case LogEntry::Kind::kStarted:
        completed.generation = entry.checkpoint_generation;
        ended_generation_ = std::max(ended_generation_, entry.generation);
        break;
      case LogEntry::Kind::kCompleted:
        ended_generation_ = std::max(ended_generation_, entry.generation);
        break;
      case LogEntry::Kind::kCanceled:
      case LogEntry::Kind::kFailed:
      case LogEntry::Kind::kFinished:
        AdoptEnd(entry);
        continue;
      default:
        continue;
    }
    if (completed.checkpoint.value() == 0) continue;
    if (!ended_newest_ || completed.checkpoint > ended_newest_->checkpoint) {
      ended_newest_ = completed;
    }
  }
  if (ended_newest_) completed_before_ = static_cast<int64_t>(ended_newest_->checkpoint.value());
  job_scope_.Spawn(TidyEnded());
}

// An earlier leader may have died between the end and what follows from it.
Co<void> JobMaster::TidyEnded() {
  co_await ReadStartedMark();
  co_await ApplyRetention();
  AnswerCancels(state_);
}

std::optional<CompletedCheckpoint> JobMaster::NewestCompleted() const {
  return log().newest_completed() ? log().newest_completed() : ended_newest_;
}

int JobMaster::ParallelismOf(const JobVertex& vertex) const {
  return vertex.parallelism > 0 ? vertex.parallelism : options_.parallelism;
}

JobMaster::Waiting JobMaster::WaitingFor() const {
  Waiting waiting;
  if (!trouble_.empty()) {
    waiting = {trouble_.text(), trouble_.since_wall_us()};
  } else if (!waiting_for_.empty()) {
    waiting = {waiting_for_.text(), waiting_for_.since_wall_us()};
    if (run_.live && run_.checkpointing && !run_.all_running) {
      int starting = 0;
      for (const auto& [place, task] : run_.tasks) {
        if (task.state == TaskState::kStarting) ++starting;
      }
      waiting.what = Concat(starting, " of ", run_.tasks.size(), " tasks to start");
    }
  } else if (!office_.leadership.trouble().empty()) {
    waiting = {Concat("storage: ", office_.leadership.trouble()),
               office_.leadership.trouble_since_wall_us()};
  }
  if (Waiting subtasks = WaitingSubtasks(); !subtasks.what.empty()) {
    // Why tasks do not start, too.
    if (!trouble_.empty()) subtasks.what = Concat(waiting.what, "; ", subtasks.what);
    if (!waiting.what.empty()) {
      subtasks.since_wall_us = std::min(subtasks.since_wall_us, waiting.since_wall_us);
    }
    waiting = std::move(subtasks);
  } else if (std::string unpublished = UnpublishedText();
             waiting.what.empty() && !unpublished.empty()) {
    waiting = {std::move(unpublished), checkpoints_->last_completed()->complete_wall_us};
  }
  std::string slow = SlowStorage();
  if (slow.empty()) return waiting;
  if (waiting.what.empty()) {
    waiting.what = std::move(slow);
  } else {
    waiting.what += Concat("; ", slow);
  }
  return waiting;
}

// What subtasks of the generation that runs cannot go on without: the one that has waited longest,
// and how many others there are.
JobMaster::Waiting JobMaster::WaitingSubtasks() const {
  Waiting longest;
  int waiting = 0;
  if (!run_.live) return longest;
  for (const auto& [place, subtask] : run_.subtasks) {
    const SubtaskMetrics& metrics = subtask.metrics;
    if (metrics.waits_for.empty()) continue;
    ++waiting;
    if (waiting > 1 && metrics.waits_since_wall_us >= longest.since_wall_us) continue;
    longest = {Concat(Place(place.first, place.second), ": ", metrics.waits_for),
               metrics.waits_since_wall_us};
  }
  if (waiting > 1) longest.what += Concat(" (and ", waiting - 1, " more)");
  return longest;
}

// What storage has not answered to this coordinator, or to a worker of the job.
std::string JobMaster::SlowStorage() const {
  std::string slow = environment_.slow_storage ? environment_.slow_storage() : "";
  if (!slow.empty()) return Concat("storage of the coordinator: ", slow);
  for (const WorkerName& worker : run_.workers) {
    slow = office_.workers.SlowStorage(worker);
    if (!slow.empty()) return Concat("storage of worker ", worker, ": ", slow);
  }
  return "";
}

// "out 0 on worker-1".
std::string JobMaster::Place(const std::string& uid, int subtask) const {
  std::string text = Concat(uid, " ", subtask);
  for (size_t task = 0; plan_ && task < plan_->tasks.size(); ++task) {
    for (int index : plan_->tasks[task].chain) {
      if (record_.graph.vertices[index].uid != uid) continue;
      auto entry = run_.tasks.find({static_cast<int>(task), subtask});
      if (entry != run_.tasks.end()) text += Concat(" on ", entry->second.worker);
    }
  }
  return text;
}

std::string JobMaster::UnpublishedText() const {
  if (!checkpoints_ || !run_.live) return "";
  std::vector<std::pair<std::string, int>> unpublished = checkpoints_->Unpublished();
  const std::optional<CheckpointSummary>& last = checkpoints_->last_completed();
  if (unpublished.empty() || !last ||
      environment_.clock.WallMicros() - last->complete_wall_us < kPublishPatienceUs) {
    return "";
  }
  const auto& [uid, subtask] = unpublished.front();
  std::string text = Concat(Place(uid, subtask), " to publish checkpoint ", last->id);
  if (unpublished.size() > 1) text += Concat(" (and ", unpublished.size() - 1, " more)");
  return text;
}

// Of a sink of an ended job, which last told so much: what completed was published since, and the
// rest removed. Not known where something was left behind.
std::optional<SinkProgress> JobMaster::ProgressAtEnd(const SinkProgress& told) const {
  if (halted_ || !left_behind_.empty()) return std::nullopt;
  SinkProgress progress;
  const std::optional<CompletedCheckpoint> newest = NewestCompleted();
  if (!newest) return progress;
  progress.committed = newest->checkpoint;
  progress.committed_wall_us =
      told.committed < newest->checkpoint ? end_wall_us_ : told.committed_wall_us;
  return progress;
}

VertexStatus JobMaster::GetVertexStatus(const JobVertex& vertex) const {
  VertexStatus status;
  status.uid = vertex.uid;
  status.type = vertex.type;
  status.parallelism = ParallelismOf(vertex);
  int task = -1;
  for (size_t i = 0; plan_ && i < plan_->tasks.size(); ++i) {
    for (int index : plan_->tasks[i].chain) {
      if (record_.graph.vertices[index].uid == vertex.uid) task = static_cast<int>(i);
    }
  }
  // In the pause before a restart what the tasks were last seen at is past.
  const bool pauses = !run_.live && state_ == JobState::kRestarting;
  for (int subtask = 0; subtask < status.parallelism; ++subtask) {
    SubtaskStatus one;
    one.subtask = subtask;
    one.state = "waiting";
    one.metrics.uid = vertex.uid;
    one.metrics.subtask = subtask;
    if (auto entry = run_.tasks.find({task, subtask}); entry != run_.tasks.end() && !pauses) {
      one.worker = entry->second.worker.value();
      one.state = std::string(Describe(entry->second.state));
      if (state_ == JobState::kFinished) one.state = "finished";
    }
    if (auto entry = run_.subtasks.find({vertex.uid, subtask}); entry != run_.subtasks.end()) {
      one.metrics = entry->second.metrics;
      if (!run_.live) {
        one.metrics.blocked_on.clear();
        one.metrics.waits_for.clear();
        one.metrics.waits_since_wall_us = 0;
      }
      if (pauses) {
        one.metrics.sink.reset();
      } else if (!ended()) {
        one.busy = entry->second.busy;
        one.idle = entry->second.idle;
        one.backpressured = entry->second.backpressured;
      } else if (one.metrics.sink) {
        one.metrics.sink = ProgressAtEnd(*one.metrics.sink);
      }
    }
    status.subtasks.push_back(std::move(one));
  }
  return status;
}

JobStatus JobMaster::GetStatus() const {
  JobStatus status;
  status.id = record_.id;
  status.name = record_.graph.name;
  status.state = state_;
  status.generation = generation();
  if (first_started_.value() > 0 && generation() > first_started_) {
    status.restarts = static_cast<int64_t>(generation().value() - first_started_.value());
  }
  status.parallelism = options_.parallelism;
  status.start_wall_us = record_.submit_wall_us;
  status.end_wall_us = end_wall_us_;
  if (!ended()) {
    Waiting waiting = WaitingFor();
    status.waiting_for = std::move(waiting.what);
    status.waiting_since_wall_us = waiting.since_wall_us;
  }
  status.failure = failure_;
  status.last_checkpoint = last_before_;
  status.checkpoints_completed = completed_before_;
  if (checkpoints_) {
    status.checkpoints_completed += checkpoints_->completed_count();
    if (!ended()) status.failing_checkpoints = checkpoints_->failing();
    if (checkpoints_->last_completed()) status.last_checkpoint = checkpoints_->last_completed();
  }
  status.retained_checkpoint = retained_checkpoint_;
  // Records since the job began: tasks count on from the checkpoint they were restored from.
  for (const JobVertex& vertex : record_.graph.vertices) {
    bool has_input = false;
    bool has_output = false;
    for (const JobEdge& edge : record_.graph.edges) {
      has_input |= edge.to == vertex.uid;
      has_output |= edge.from == vertex.uid;
    }
    VertexStatus one = GetVertexStatus(vertex);
    for (const SubtaskStatus& subtask : one.subtasks) {
      if (!has_input) status.records_in += subtask.metrics.records_out;
      if (!has_output) status.records_out += subtask.metrics.records_in;
    }
    status.vertices.push_back(std::move(one));
  }
  if (ended_totals_) {
    status.records_in = ended_totals_->records_in;
    status.records_out = ended_totals_->records_out;
    status.checkpoints_completed = ended_totals_->checkpoints_completed;
    status.restarts = ended_totals_->restarts;
  }
  return status;
}

std::vector<CheckpointSummary> JobMaster::Checkpoints() const {
  return checkpoints_ ? checkpoints_->History() : std::vector<CheckpointSummary>();
}

std::vector<JobEvent> JobMaster::Events() const { return {events_.begin(), events_.end()}; }

}  // namespace weir
