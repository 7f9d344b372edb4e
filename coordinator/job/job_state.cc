#include "coordinator/job/job_state.h"

#include <algorithm>

#include "common/base/concat.h"

namespace weir {

RestartBackoff::RestartBackoff(const JobOptions& options)
    : initial_us_(std::min(options.restart_backoff_initial_us, options.restart_backoff_max_us)),
      max_us_(options.restart_backoff_max_us),
      attempts_max_(options.restart_attempts_max) {}

std::optional<int64_t> RestartBackoff::Next(Random& random) {
  if (attempts_max_ && attempts_ >= *attempts_max_) return std::nullopt;
  int64_t pause_us = initial_us_;
  for (int i = 0; i < attempts_ && pause_us < max_us_; ++i) {
    if (pause_us == 0) break;
    pause_us = pause_us > max_us_ / 2 ? max_us_ : pause_us * 2;
  }
  ++attempts_;
  const int64_t half_us = pause_us / 2;
  return pause_us - half_us +
         static_cast<int64_t>(random.Below(static_cast<uint64_t>(half_us) + 1));
}

void RestartBackoff::Reset() { attempts_ = 0; }

FailoverDecision DecideFailover(const Status& error, RestartBackoff& backoff, Random& random) {
  FailoverDecision decision;
  if (error.domain() == ErrorDomain::kUser && !error.retryable()) {
    decision.reason = error.message();
    return decision;
  }
  if (const std::optional<int64_t> delay_us = backoff.Next(random)) {
    decision.restart = true;
    decision.delay_us = *delay_us;
    return decision;
  }
  decision.reason =
      Concat(backoff.attempts(), backoff.attempts() == 1 ? " restart" : " restarts",
             " without a completed checkpoint, no more are allowed: ", error.message());
  return decision;
}

}  // namespace weir
