#include "common/control/messages.h"

#include "common/base/check.h"

namespace weir {

std::string_view ToString(JobState state) {
  switch (state) {
    case JobState::kCreated:
      return "CREATED";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kRestarting:
      return "RESTARTING";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kCanceled:
      return "CANCELED";
    case JobState::kFinished:
      return "FINISHED";
    case JobState::kFailed:
      return "FAILED";
  }
  WEIR_CHECK_MESSAGE(false, "not a JobState");
}

bool IsEnded(JobState state) {
  return state == JobState::kCanceled || state == JobState::kFinished || state == JobState::kFailed;
}

}  // namespace weir
