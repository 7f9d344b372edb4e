#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/control/messages.h"
#include "common/graph/job_options.h"

namespace weir {

// Which state may follow which. An ended one is never left; no state follows itself.
constexpr bool IsLegalTransition(JobState from, JobState to) {
  switch (from) {
    case JobState::kCreated:  // waits for slots, or starts its tasks for the first time
    case JobState::kRestarting:
      return to == JobState::kRunning || to == JobState::kCancelling || to == JobState::kFailed ||
             (from == JobState::kCreated && to == JobState::kRestarting);
    case JobState::kRunning:
      return to == JobState::kRestarting || to == JobState::kCancelling ||
             to == JobState::kFinished || to == JobState::kFailed;
    case JobState::kCancelling:
      return to == JobState::kCanceled;
    case JobState::kCanceled:
    case JobState::kFinished:
    case JobState::kFailed:
      return false;
  }
  return false;
}

// How long to wait before the next restart: the initial pause, doubled with each restart up to the
// limit, each time a uniformly random share between half and all of it, so that jobs which failed
// together do not restart together. Thread: confined to coord-loop.
class RestartBackoff {
 public:
  explicit RestartBackoff(const JobOptions& options);

  // Microseconds until the next restart; absent when attempts_max restarts have been made since the
  // last completed checkpoint.
  std::optional<int64_t> Next(Random& random);
  // A checkpoint completed: the job makes progress, so all begins anew.
  void Reset();
  int attempts() const { return attempts_; }

 private:
  const int64_t initial_us_;
  const int64_t max_us_;
  const std::optional<int> attempts_max_;
  int attempts_ = 0;
};

// What follows when a generation ends with an error.
struct FailoverDecision {
  bool restart = false;
  int64_t delay_us = 0;  // restart only
  std::string reason;    // !restart: why the job fails, for people
};

// The failover policy, the only reader of domain and retry hint: an error of the user's (wrong
// data, code or options) that a repetition does not heal fails the job at once; everything else
// restarts it, as long as `backoff` has attempts left. REQUIRES: !error.ok().
FailoverDecision DecideFailover(const Status& error, RestartBackoff& backoff, Random& random);

}  // namespace weir
