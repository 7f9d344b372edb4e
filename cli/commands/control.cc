#include <cstdio>

#include "cli/commands/commands.h"
#include "cli/commands/signals.h"
#include "cli/json_output.h"
#include "cli/text.h"
#include "common/base/concat.h"
#include "common/rpc/coordinator_client.h"

namespace weir::cli {
namespace {

constexpr int64_t kPollUs = 100'000;
// How long `cancel` stays to see the job end before it says that it goes on by itself.
constexpr int64_t kCancelWaitUs = 30'000'000;

}  // namespace

int Cancel(const Session& session, const std::string& name, bool force) {
  CoordinatorClient client(session.coordinator);
  StatusOr<JobStatus> job = client.GetJob(name);
  if (!job.ok()) return Report(session, job.status());
  std::string id = job->id.value();
  // Asked for once more, or by two: it is done.
  StatusOr<std::vector<std::string>> left =
      job->state == JobState::kCanceled ? std::vector<std::string>() : client.Cancel(id, force);
  if (!left.ok()) return Report(session, left.status());
  CatchInterrupts();
  for (int64_t waited_us = 0;; waited_us += kPollUs) {
    StatusOr<JobStatus> now = client.GetJob(id);
    if (!now.ok()) return Report(session, now.status());
    if (IsEnded(now->state) || waited_us >= kCancelWaitUs || Interrupts() > 0) {
      if (session.json) {
        std::printf("%s\n", JobToJson(*now).ToPrettyJson().c_str());
      } else {
        std::string note;
        if (!IsEnded(now->state) && !now->waiting_for.empty()) {
          const bool failing = now->state != JobState::kCancelling && now->failure.has_value();
          note = Concat(failing ? "  has failed, and is not cancelled; waits for " : "  waits for ",
                        now->waiting_for);
        } else if (now->state == JobState::kFailed && now->failure) {
          note = Concat("  it had failed before: ", now->failure->message);
        }
        std::printf("%s  %s  %s%s\n", now->name.c_str(), ShortId(now->id).c_str(),
                    ColouredState(now->state, StdoutIsTerminal()).c_str(), note.c_str());
      }
      for (const std::string& item : *left) {
        std::fprintf(stderr, "weir: left behind: %s\n", item.c_str());
      }
      return now->state == JobState::kCanceled || now->state == JobState::kCancelling ? kDone
                                                                                      : kFailed;
    }
    Pause(kPollUs);
  }
}

int Remove(const Session& session, const std::string& job, bool force) {
  CoordinatorClient client(session.coordinator);
  Status removed = client.Remove(job, force);
  if (!removed.ok()) return Report(session, removed);
  if (session.json) {
    ConfigValue out;
    out.Set("removed", job);
    std::printf("%s\n", out.ToPrettyJson().c_str());
  } else {
    std::printf("removed %s\n", job.c_str());
  }
  return kDone;
}

int Logs(const Session& session, const std::string& job, bool follow) {
  CoordinatorClient client(session.coordinator);
  CatchInterrupts();
  int64_t shown_until_us = 0;
  size_t shown_at_that_time = 0;
  bool ended = false;  // then what was said up to its end is shown once more, and that is all
  while (true) {
    StatusOr<std::vector<JobEvent>> events = client.GetEvents(job);
    if (follow && shown_until_us > 0 && events.status().code() == StatusCode::kUnavailable &&
        Interrupts() == 0) {
      Pause(500'000);  // a coordinator that restarts
      continue;
    }
    if (!events.ok()) return Report(session, events.status());
    if (session.json && !follow) {
      std::printf("%s\n", EventsToJson(*events).ToPrettyJson().c_str());
      return kDone;
    }
    size_t same_time = 0;
    for (const JobEvent& event : *events) {
      if (event.wall_us < shown_until_us) continue;
      if (event.wall_us == shown_until_us && ++same_time <= shown_at_that_time) continue;
      if (event.wall_us > shown_until_us) {
        shown_until_us = event.wall_us;
        same_time = 1;
      }
      shown_at_that_time = same_time;
      if (session.json) {
        std::printf("%s\n", EventsToJson({event}).as_list()[0].ToJson().c_str());
      } else {
        std::printf("%s  %s\n", FormatTime(event.wall_us).c_str(), event.text.c_str());
      }
    }
    std::fflush(stdout);
    if (!follow || Interrupts() > 0) return kDone;
    if (ended) return kDone;
    StatusOr<JobStatus> status = client.GetJob(job);
    ended = status.ok() && IsEnded(status->state);
    Pause(500'000);
  }
}

}  // namespace weir::cli
