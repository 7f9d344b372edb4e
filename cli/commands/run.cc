#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/commands/commands.h"
#include "cli/commands/job_file.h"
#include "cli/commands/signals.h"
#include "cli/json_output.h"
#include "cli/text.h"
#include "common/base/clock.h"
#include "common/base/concat.h"
#include "common/base/random.h"
#include "common/graph/execution_plan.h"
#include "common/graph/job_options.h"
#include "common/rpc/coordinator_client.h"

namespace weir::cli {
namespace {

constexpr int64_t kPollUs = 200'000;
// Lines of progress: each second on a terminal, where they replace each other; else each ten.
constexpr int64_t kTerminalLineUs = 1'000'000;
constexpr int64_t kPipeLineUs = 10'000'000;
constexpr int64_t kWaitingLineUs = 2'000'000;
// A coordinator that does not answer may be restarting: the job goes on meanwhile.
constexpr int64_t kAwayMaxUs = 60'000'000;
constexpr int kSubmitAttempts = 3;

int ExitCodeOf(JobState state) {
  switch (state) {
    case JobState::kFinished:
      return kDone;
    case JobState::kCanceled:
      return kCancelled;
    default:
      return kFailed;
  }
}

std::string FirstLine(const JobStatus& job, bool colour) {
  int64_t subtasks = 0;
  std::vector<std::string> workers;
  for (const VertexStatus& vertex : job.vertices) {
    for (const SubtaskStatus& subtask : vertex.subtasks) {
      ++subtasks;
      if (!subtask.worker.empty() &&
          std::find(workers.begin(), workers.end(), subtask.worker) == workers.end()) {
        workers.push_back(subtask.worker);
      }
    }
  }
  std::string line = Concat(job.name, "  ", ShortId(job.id), "  ", ColouredState(job.state, colour),
                            "  parallelism ", job.parallelism);
  if (!workers.empty()) {
    line += Concat(", ", Plural(subtasks, "subtask"), " on ",
                   Plural(static_cast<int64_t>(workers.size()), "worker"));
  }
  if (!job.waiting_for.empty()) line += Concat("  waits for ", job.waiting_for);
  return line;
}

std::string WithoutNumbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Follows a job to its end. Thread: the main thread.
class Attached {
 public:
  Attached(const Session& session, JobId job)
      : session_(session),
        job_(std::move(job)),
        client_(session.coordinator),
        terminal_(StdoutIsTerminal()) {}

  int Follow() {
    int64_t start_us = clock_.MonotonicMicros();
    int64_t away_since_us = 0;
    int64_t last_line_us = start_us;
    int64_t last_rows = 0;
    int64_t last_told_us = 0;
    std::string last_state;
    std::string last_waiting_for;
    std::string last_failure;
    while (true) {
      int64_t now_us = clock_.MonotonicMicros();
      if (Interrupts() > 0) return Detach();
      StatusOr<JobStatus> job = client_.GetJob(job_.value());
      if (!job.ok()) {
        if (job.status().code() != StatusCode::kUnavailable &&
            job.status().code() != StatusCode::kNotFound) {
          EndLine();
          return Report(session_, job.status());
        }
        if (away_since_us == 0) {
          away_since_us = now_us;
          EndLine();
          std::fprintf(stderr, "weir: %s; the job goes on, trying again\n",
                       job.status().message().c_str());
        }
        if (now_us - away_since_us > kAwayMaxUs) return Report(session_, job.status());
        Pause(kPollUs);
        continue;
      }
      away_since_us = 0;
      if (IsEnded(job->state)) return End(*job, now_us - start_us);
      // A change of state is told at once; what a job waits for may change many times a second,
      // or in nothing but numbers.
      std::string state(weir::ToString(job->state));
      std::string waiting_for = WithoutNumbers(job->waiting_for);
      bool waits_for_other =
          waiting_for != last_waiting_for && now_us - last_told_us >= kWaitingLineUs;
      if (state != last_state || waits_for_other) {
        last_state = state;
        last_waiting_for = std::move(waiting_for);
        last_told_us = now_us;
        EndLine();
        if (!session_.json) std::printf("%s\n", FirstLine(*job, terminal_).c_str());
        if (job->state == JobState::kRestarting && job->failure && !session_.json &&
            job->failure->message != last_failure) {
          last_failure = job->failure->message;
          std::printf("  restarts: %s\n", last_failure.c_str());
        }
        std::fflush(stdout);
      }
      int64_t every_us = terminal_ ? kTerminalLineUs : kPipeLineUs;
      if (!session_.json && now_us - last_line_us >= every_us) {
        double seconds = static_cast<double>(now_us - last_line_us) / 1e6;
        int64_t rate = static_cast<int64_t>(
            static_cast<double>(std::max<int64_t>(0, job->records_in - last_rows)) / seconds);
        PrintProgress(*job, now_us - start_us, rate);
        last_line_us = now_us;
        last_rows = job->records_in;
      }
      Pause(kPollUs);
    }
  }

 private:
  void PrintProgress(const JobStatus& job, int64_t elapsed_us, int64_t rate) {
    std::string line =
        Concat(FormatClock(elapsed_us), "  in ", FormatCount(job.records_in), " rows ",
               FormatCount(rate), "/s  out ", FormatCount(job.records_out));
    if (job.last_checkpoint) {
      line += Concat("  checkpoint ", job.last_checkpoint->id, " (",
                     FormatElapsed(job.last_checkpoint->duration_us), ")");
    }
    line += Concat("  restarts ", job.restarts);
    if (terminal_) {
      std::printf("\r\033[K%s", line.c_str());
      open_line_ = true;
    } else {
      std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  void EndLine() {
    if (open_line_) std::printf("\n");
    open_line_ = false;
  }
  int End(const JobStatus& job, int64_t elapsed_us) {
    EndLine();
    if (session_.json) {
      std::printf("%s\n", JobToJson(job).ToPrettyJson().c_str());
      return ExitCodeOf(job.state);
    }
    if (job.end_wall_us > job.start_wall_us && job.start_wall_us > 0) {
      elapsed_us = job.end_wall_us - job.start_wall_us;
    }
    std::printf("%s  %s  %s  in %s  out %s%s  %s  %s  %s\n", job.name.c_str(),
                ShortId(job.id).c_str(), ColouredState(job.state, terminal_).c_str(),
                FormatCount(job.records_in).c_str(), FormatCount(job.records_out).c_str(),
                FormatLeftOut(job).c_str(), Plural(job.checkpoints_completed, "checkpoint").c_str(),
                Plural(job.restarts, "restart").c_str(), FormatElapsed(elapsed_us).c_str());
    std::fflush(stdout);
    if (job.state == JobState::kFailed && job.failure) {
      std::fprintf(stderr, "weir: job failed: %s\n", job.failure->message.c_str());
    }
    return ExitCodeOf(job.state);
  }
  int Detach() {
    EndLine();
    std::fprintf(stderr,
                 "detached: the job goes on.  weir status %s shows it, weir cancel %s ends it\n",
                 ShortId(job_).c_str(), ShortId(job_).c_str());
    return kDetached;
  }

  const Session& session_;
  const JobId job_;
  CoordinatorClient client_;
  SystemClock clock_;
  const bool terminal_;
  bool open_line_ = false;
};

}  // namespace

int Run(const Session& session, const RunOptions& options) {
  StatusOr<LoadedJob> loaded = LoadJob(options);
  if (!loaded.ok()) return Report(session, loaded.status(), kRefused);
  Random random = Random::FromSystem();
  SubmitRequest request;
  request.job = JobId(random.HexName(32));
  request.graph = std::move(loaded->graph);
  request.library = std::move(loaded->library);
  char* directory = get_current_dir_name();
  request.client_directory = directory == nullptr ? "/" : directory;
  free(directory);
  if (!options.restore_from.empty()) {
    request.restore_from = options.restore_from[0] == '/'
                               ? options.restore_from
                               : Concat(request.client_directory, "/", options.restore_from);
  }
  CoordinatorClient client(session.coordinator);
  StatusOr<SubmitResponse> submitted = UnavailableError("not submitted");
  // The id is ours: repeating a submission that may have arrived is harmless.
  for (int attempt = 0; attempt < kSubmitAttempts; ++attempt) {
    submitted = client.Submit(request);
    if (submitted.ok() || submitted.status().code() != StatusCode::kUnavailable) break;
    if (attempt + 1 < kSubmitAttempts) Pause(300'000);
  }
  if (!submitted.ok()) return Report(session, submitted.status(), kRefused);
  if (options.detached) {
    if (session.json) {
      ConfigValue out;
      out.Set("id", submitted->job.value());
      out.Set("name", submitted->name);
      std::printf("%s\n", out.ToPrettyJson().c_str());
    } else {
      std::printf("%s  %s  submitted\n", submitted->name.c_str(), submitted->job.value().c_str());
    }
    return kDone;
  }
  CatchInterrupts();
  return Attached(session, submitted->job).Follow();
}

int Info(const Session& session, const RunOptions& options) {
  StatusOr<LoadedJob> loaded = LoadJob(options);
  if (!loaded.ok()) return Report(session, loaded.status(), kRefused);
  if (session.json) {
    std::printf("%s\n", ToJson(loaded->graph).c_str());
    return kDone;
  }
  if (!loaded->unknown_schemas.empty()) {
    return Report(session,
                  InvalidArgumentError(
                      Concat("the plan needs the columns of vertex '", loaded->unknown_schemas[0],
                             "', which only a worker can see: give it a \"schema\"")),
                  kRefused);
  }
  StatusOr<JobOptions> parsed = ParseJobOptions(loaded->graph.options);
  if (!parsed.ok()) return Report(session, parsed.status(), kRefused);
  std::printf("%s", DescribePlan(loaded->graph, MakeExecutionPlan(loaded->graph, *parsed)).c_str());
  return kDone;
}

}  // namespace weir::cli
