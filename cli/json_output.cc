#include "cli/json_output.h"

#include <cmath>

#include "cli/sinks.h"
#include "cli/text.h"

namespace weir::cli {
namespace {

ConfigValue Time(int64_t wall_us) {
  return wall_us == 0 ? ConfigValue() : ConfigValue(FormatTime(wall_us));
}
ConfigValue TextOrNull(const std::string& text) {
  return text.empty() ? ConfigValue() : ConfigValue(text);
}
double Milliseconds(int64_t us) { return std::round(static_cast<double>(us) / 10.0) / 100.0; }
double Share(double value) { return std::round(value * 1000.0) / 1000.0; }
int64_t Number(uint64_t value) { return static_cast<int64_t>(value); }

ConfigValue SnapshotToJson(const SnapshotMetrics& metrics) {
  ConfigValue out;
  out.Set("uid", metrics.uid);
  out.Set("subtask", metrics.subtask);
  out.Set("barrier_time", Time(metrics.barrier_wall_us));
  out.Set("alignment_ms", Milliseconds(metrics.alignment_us));
  out.Set("synchronous_ms", Milliseconds(metrics.synchronous_us));
  out.Set("asynchronous_ms", Milliseconds(metrics.asynchronous_us));
  out.Set("longest_step_ms", Milliseconds(metrics.longest_step_us));
  out.Set("size_bytes", metrics.bytes);
  out.Set("ack_time", Time(metrics.ack_wall_us));
  return out;
}

ConfigValue ProgressToJson(const std::optional<SinkProgress>& progress) {
  ConfigValue out;
  if (!progress) return out;
  out.Set("staged_rows", progress->staged_rows);
  out.Set("staged_bytes", progress->staged_bytes);
  out.Set("publishing_rows", progress->publishing_rows);
  out.Set("publishing_bytes", progress->publishing_bytes);
  out.Set("committed_checkpoint", Number(progress->committed.value()));
  out.Set("committed_time", Time(progress->committed_wall_us));
  return out;
}

}  // namespace

ConfigValue ErrorToJson(const Status& status, int exit_code) {
  ConfigValue error;
  error.Set("message", status.message());
  error.Set("code", std::string(weir::ToString(status.code())));
  error.Set("exit_code", exit_code);
  ConfigValue out;
  out.Set("error", error);
  return out;
}

ConfigValue JobToJson(const JobStatus& job) {
  ConfigValue out;
  out.Set("id", job.id.value());
  out.Set("name", job.name);
  out.Set("state", std::string(weir::ToString(job.state)));
  out.Set("generation", Number(job.generation.value()));
  out.Set("restarts", job.restarts);
  out.Set("parallelism", job.parallelism);
  out.Set("start_time", Time(job.start_wall_us));
  out.Set("end_time", Time(job.end_wall_us));
  out.Set("waiting_for", TextOrNull(job.waiting_for));
  out.Set("waiting_since", Time(job.waiting_since_wall_us));
  ConfigValue failure;
  if (job.failure) {
    failure.Set("message", job.failure->message);
    failure.Set("uid", TextOrNull(job.failure->uid));
    failure.Set("subtask",
                job.failure->subtask < 0 ? ConfigValue() : ConfigValue(job.failure->subtask));
    failure.Set("worker", TextOrNull(job.failure->worker));
    failure.Set("time", Time(job.failure->wall_us));
    failure.Set("since", Time(job.failure->since_wall_us));
  }
  out.Set("failure", failure);
  ConfigValue last;
  if (job.last_checkpoint) {
    last.Set("id", Number(job.last_checkpoint->id.value()));
    last.Set("completed_time", Time(job.last_checkpoint->complete_wall_us));
    last.Set("duration_ms", Milliseconds(job.last_checkpoint->duration_us));
    last.Set("size_bytes", job.last_checkpoint->size_bytes);
  }
  out.Set("last_checkpoint", last);
  ConfigValue failing;
  if (job.failing_checkpoints) {
    failing.Set("id", Number(job.failing_checkpoints->id.value()));
    failing.Set("reason", job.failing_checkpoints->reason);
    failing.Set("time", Time(job.failing_checkpoints->wall_us));
    failing.Set("failures", job.failing_checkpoints->failures);
    failing.Set("since", Time(job.failing_checkpoints->since_wall_us));
  }
  out.Set("failing_checkpoints", failing);
  out.Set("checkpoints_completed", job.checkpoints_completed);
  out.Set("records_in", job.records_in);
  out.Set("records_out", job.records_out);
  out.Set("retained_checkpoint", TextOrNull(job.retained_checkpoint));
  ConfigList vertices;
  for (const VertexStatus& vertex : job.vertices) {
    ConfigValue v;
    v.Set("uid", vertex.uid);
    v.Set("type", vertex.type);
    v.Set("parallelism", vertex.parallelism);
    v.Set("sink_progress", ProgressToJson(ProgressOf(vertex)));
    ConfigList subtasks;
    for (const SubtaskStatus& subtask : vertex.subtasks) {
      ConfigValue s;
      s.Set("subtask", subtask.subtask);
      s.Set("worker", TextOrNull(subtask.worker));
      s.Set("state", subtask.state);
      s.Set("records_in", subtask.metrics.records_in);
      s.Set("records_out", subtask.metrics.records_out);
      s.Set("dropped_rows", subtask.metrics.dropped_rows);
      s.Set("lost_rows", subtask.metrics.lost_rows);
      s.Set("waits_for", TextOrNull(subtask.metrics.waits_for));
      s.Set("sink_progress", ProgressToJson(subtask.metrics.sink));
      s.Set("busy", Share(subtask.busy));
      s.Set("idle", Share(subtask.idle));
      s.Set("backpressured", Share(subtask.backpressured));
      s.Set("blocked_on", TextOrNull(subtask.metrics.blocked_on));
      subtasks.push_back(std::move(s));
    }
    v.Set("subtasks", std::move(subtasks));
    vertices.push_back(std::move(v));
  }
  out.Set("vertices", std::move(vertices));
  return out;
}

ConfigValue JobsToJson(const std::vector<JobStatus>& jobs) {
  ConfigList list;
  for (const JobStatus& job : jobs) list.push_back(JobToJson(job));
  return list;
}

ConfigValue CheckpointsToJson(const std::vector<CheckpointSummary>& checkpoints, bool subtasks) {
  ConfigList list;
  for (const CheckpointSummary& checkpoint : checkpoints) {
    ConfigValue c;
    c.Set("id", Number(checkpoint.id.value()));
    c.Set("generation", Number(checkpoint.generation.value()));
    c.Set("state", checkpoint.state);
    c.Set("trigger_time", Time(checkpoint.trigger_wall_us));
    c.Set("completed_time", Time(checkpoint.complete_wall_us));
    c.Set("duration_ms", Milliseconds(checkpoint.duration_us));
    c.Set("size_bytes", checkpoint.size_bytes);
    c.Set("failure_reason", TextOrNull(checkpoint.failure_reason));
    if (subtasks) {
      ConfigList parts;
      for (const SnapshotMetrics& metrics : checkpoint.subtasks) {
        parts.push_back(SnapshotToJson(metrics));
      }
      c.Set("subtasks", std::move(parts));
    }
    list.push_back(std::move(c));
  }
  return list;
}

ConfigValue WorkersToJson(const std::vector<WorkerStatus>& workers) {
  ConfigList list;
  for (const WorkerStatus& worker : workers) {
    ConfigValue w;
    w.Set("name", worker.info.name.value());
    w.Set("host", worker.info.host);
    w.Set("pid", worker.info.pid);
    w.Set("control_address", worker.info.control_address);
    w.Set("data_address", worker.info.data_address);
    w.Set("slots", worker.info.slots);
    w.Set("slots_free", worker.slots_free);
    w.Set("version", worker.info.version);
    w.Set("registered_time", Time(worker.registered_wall_us));
    w.Set("last_heartbeat_age_ms", Milliseconds(worker.last_heartbeat_age_us));
    list.push_back(std::move(w));
  }
  return list;
}

ConfigValue EventsToJson(const std::vector<JobEvent>& events) {
  ConfigList list;
  for (const JobEvent& event : events) {
    ConfigValue e;
    e.Set("time", Time(event.wall_us));
    e.Set("text", event.text);
    list.push_back(std::move(e));
  }
  return list;
}

}  // namespace weir::cli
