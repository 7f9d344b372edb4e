#include <algorithm>
#include <cstdio>
#include <map>

#include "cli/commands/commands.h"
#include "cli/json_output.h"
#include "cli/sinks.h"
#include "cli/text.h"
#include "common/base/clock.h"
#include "common/base/concat.h"
#include "common/rpc/coordinator_client.h"

namespace weir::cli {
namespace {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void PrintJson(const ConfigValue& value) { Print(value.ToPrettyJson() + "\n"); }

std::string Percent(double share) { return Concat(static_cast<int64_t>(share * 100 + 0.5), "%"); }

std::string FailureText(const Failure& failure) {
  std::string place;
  if (!failure.uid.empty()) place = Concat("operator '", failure.uid, "'");
  if (failure.subtask >= 0) place += Concat(place.empty() ? "" : ", ", "subtask ", failure.subtask);
  if (!failure.worker.empty())
    place += Concat(place.empty() ? "" : ", ", "worker ", failure.worker);
  std::string text = failure.message;
  if (!place.empty()) text += Concat(" (", place, ")");
  return text;
}

}  // namespace

int Report(const Session& session, const Status& status, int code) {
  if (status.ok()) return kDone;
  if (status.code() == StatusCode::kUnavailable) code = kNotReached;
  std::fprintf(stderr, "weir: %s\n", status.message().c_str());
  if (session.json) PrintJson(ErrorToJson(status, code));
  return code;
}

int List(const Session& session, bool all) {
  CoordinatorClient client(session.coordinator);
  StatusOr<std::vector<JobStatus>> jobs = client.ListJobs(all);
  if (!jobs.ok()) return Report(session, jobs.status());
  if (session.json) {
    PrintJson(JobsToJson(*jobs));
    return kDone;
  }
  if (jobs->empty()) {
    std::fprintf(stderr, all ? "no jobs\n" : "no live jobs (weir list -a shows ended ones)\n");
    return kDone;
  }
  bool colour = StdoutIsTerminal();
  Table table({"NAME", "ID", "STATE", "PARALLELISM", "IN", "OUT", "CHECKPOINT", "RESTARTS",
               "STARTED", "NOTE"});
  for (const JobStatus& job : *jobs) {
    std::string note = job.waiting_for.empty() ? "" : Concat("waits for ", job.waiting_for);
    if (note.empty() && job.failure && job.state != JobState::kFinished) {
      note = job.failure->message;
    }
    table.AddRow({job.name, ShortId(job.id), std::string(weir::ToString(job.state)),
                  Concat(job.parallelism), FormatCount(job.records_in),
                  FormatCount(job.records_out),
                  job.last_checkpoint ? Concat(job.last_checkpoint->id) : "-", Concat(job.restarts),
                  FormatTime(job.start_wall_us), note});
  }
  Print(table.ToString(colour));
  return kDone;
}

int ShowStatus(const Session& session, const std::string& name) {
  CoordinatorClient client(session.coordinator);
  StatusOr<JobStatus> found = client.GetJob(name);
  if (!found.ok()) return Report(session, found.status());
  const JobStatus& job = *found;
  if (session.json) {
    PrintJson(JobToJson(job));
    return kDone;
  }
  bool colour = StdoutIsTerminal();
  std::string text = Concat(job.name, "  ", job.id, "  ", ColouredState(job.state, colour), "\n");
  text += Concat("  generation ", job.generation, "  parallelism ", job.parallelism, "  restarts ",
                 job.restarts, "\n");
  text += Concat("  started ", FormatTime(job.start_wall_us));
  if (job.end_wall_us != 0) text += Concat("  ended ", FormatTime(job.end_wall_us));
  text += Concat("\n  in ", FormatCount(job.records_in), "  out ", FormatCount(job.records_out));
  text += FormatLeftOut(job);
  text += "\n";
  if (job.last_checkpoint) {
    const CheckpointSummary& last = *job.last_checkpoint;
    text += Concat("  last checkpoint ", last.id, " at ", FormatTime(last.complete_wall_us), "  (",
                   FormatElapsed(last.duration_us), ", ", FormatBytes(last.size_bytes), ")  ",
                   FormatCount(job.checkpoints_completed), " completed\n");
  } else {
    text += "  no checkpoint completed yet\n";
  }
  const int64_t now_wall_us = SystemClock().WallMicros();
  for (const VertexStatus& vertex : job.vertices) {
    if (std::optional<SinkProgress> progress = ProgressOf(vertex)) {
      text += Concat("  ", ProgressText(vertex.uid, *progress, now_wall_us), "\n");
    }
  }
  if (!job.waiting_for.empty()) {
    text += Concat("  waits for ", job.waiting_for);
    if (job.waiting_since_wall_us != 0) {
      text += Concat("  (since ", FormatTime(job.waiting_since_wall_us), ")");
    }
    text += "\n";
  }
  if (job.failing_checkpoints) {
    const FailingCheckpoints& failing = *job.failing_checkpoints;
    text += Concat("  checkpoints fail since ", FormatTime(failing.since_wall_us), " (",
                   FormatCount(failing.failures), "), the last, ", failing.id, ": ", failing.reason,
                   "\n");
  }
  if (job.failure) {
    text += Concat(job.state == JobState::kFailed ? "  failed: " : "  last failure: ",
                   FailureText(*job.failure), " at ", FormatTime(job.failure->wall_us));
    if (job.failure->since_wall_us < job.failure->wall_us && job.state != JobState::kFailed) {
      text += Concat(" (failing since ", FormatTime(job.failure->since_wall_us), ")");
    }
    text += "\n";
  }
  if (!job.retained_checkpoint.empty()) {
    text += Concat("  kept checkpoint ", job.retained_checkpoint, "\n");
  }
  Print(text);
  if (job.vertices.empty()) return kDone;
  Print("\n");
  Table table({"OPERATOR", "TYPE", "SUBTASK", "WORKER", "STATE", "IN", "OUT", "BUSY", "IDLE",
               "BACKPRESSURED", "BLOCKED ON"});
  for (const VertexStatus& vertex : job.vertices) {
    for (const SubtaskStatus& subtask : vertex.subtasks) {
      table.AddRow({vertex.uid, vertex.type, Concat(subtask.subtask),
                    subtask.worker.empty() ? "-" : subtask.worker, subtask.state,
                    FormatCount(subtask.metrics.records_in),
                    FormatCount(subtask.metrics.records_out), Percent(subtask.busy),
                    Percent(subtask.idle), Percent(subtask.backpressured),
                    subtask.metrics.blocked_on});
    }
  }
  Print(table.ToString(colour));
  return kDone;
}

int Checkpoints(const Session& session, const std::string& job, bool subtasks) {
  CoordinatorClient client(session.coordinator);
  StatusOr<std::vector<CheckpointSummary>> found = client.ListCheckpoints(job);
  if (!found.ok()) return Report(session, found.status());
  if (session.json) {
    PrintJson(CheckpointsToJson(*found, subtasks));
    return kDone;
  }
  if (found->empty()) {
    std::fprintf(stderr, "no checkpoints yet\n");
    return kDone;
  }
  bool colour = StdoutIsTerminal();
  Table table({"ID", "GENERATION", "STATE", "TRIGGERED", "DURATION", "SIZE", "REASON"});
  for (const CheckpointSummary& checkpoint : *found) {
    table.AddRow({Concat(checkpoint.id), Concat(checkpoint.generation), checkpoint.state,
                  FormatTime(checkpoint.trigger_wall_us), FormatElapsed(checkpoint.duration_us),
                  FormatBytes(checkpoint.size_bytes), checkpoint.failure_reason});
  }
  Print(table.ToString(colour));
  if (!subtasks) return kDone;
  for (const CheckpointSummary& checkpoint : *found) {
    if (checkpoint.subtasks.empty()) continue;
    Print(Concat("\ncheckpoint ", checkpoint.id, ": after the trigger\n"));
    Table parts({"OPERATOR", "SUBTASK", "BARRIER", "ALIGNMENT", "SYNC", "ASYNC", "LONGEST STEP",
                 "SIZE", "ACK"});
    for (const SnapshotMetrics& metrics : checkpoint.subtasks) {
      auto after = [&](int64_t wall_us) {
        return wall_us == 0
                   ? std::string("-")
                   : FormatElapsed(std::max<int64_t>(0, wall_us - checkpoint.trigger_wall_us));
      };
      parts.AddRow({metrics.uid, Concat(metrics.subtask), after(metrics.barrier_wall_us),
                    FormatElapsed(metrics.alignment_us), FormatElapsed(metrics.synchronous_us),
                    FormatElapsed(metrics.asynchronous_us), FormatElapsed(metrics.longest_step_us),
                    FormatBytes(metrics.bytes), after(metrics.ack_wall_us)});
    }
    Print(parts.ToString(colour));
  }
  return kDone;
}

int Workers(const Session& session) {
  CoordinatorClient client(session.coordinator);
  StatusOr<std::vector<WorkerStatus>> workers = client.ListWorkers();
  if (!workers.ok()) return Report(session, workers.status());
  if (session.json) {
    PrintJson(WorkersToJson(*workers));
    return kDone;
  }
  if (workers->empty()) {
    std::fprintf(stderr, "no workers\n");
    return kDone;
  }
  Table table({"NAME", "HOST", "PID", "SLOTS", "FREE", "CONTROL", "DATA", "LAST HEARTBEAT"});
  for (const WorkerStatus& worker : *workers) {
    table.AddRow({worker.info.name.value(), worker.info.host, Concat(worker.info.pid),
                  Concat(worker.info.slots), Concat(worker.slots_free), worker.info.control_address,
                  worker.info.data_address,
                  Concat(FormatElapsed(worker.last_heartbeat_age_us), " ago")});
  }
  Print(table.ToString(StdoutIsTerminal()));
  return kDone;
}

}  // namespace weir::cli
