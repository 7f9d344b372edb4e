#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/kill_point.h"

namespace weir {
namespace {

// What the environment asks for. Thread: immutable but for the count.
class KillPlan {
 public:
  KillPlan() {
    const char* point = std::getenv("WEIR_KILL_POINT");
    if (point == nullptr) return;
    name_ = point;
    size_t colon = name_.rfind(':');
    if (colon != std::string::npos) {
      left_ = std::atoi(name_.c_str() + colon + 1);
      name_.resize(colon);
      WEIR_CHECK_MESSAGE(left_ >= 1, "WEIR_KILL_POINT: the count is at least 1");
    }
    const char* signal = std::getenv("WEIR_KILL_SIGNAL");
    std::string_view signal_name = signal != nullptr ? signal : "KILL";
    WEIR_CHECK_MESSAGE(signal_name == "KILL" || signal_name == "STOP",
                       "WEIR_KILL_SIGNAL is KILL or STOP");
    signal_ = signal_name == "STOP" ? SIGSTOP : SIGKILL;
    const char* file = std::getenv("WEIR_KILL_POINT_FILE");
    if (file != nullptr) file_ = file;
  }

  void Reach(std::string_view name) {
    if (name != name_) return;
    const int left = left_.fetch_sub(1);
    if (left > 1 || (left < 1 && file_.empty())) return;
    if (!file_.empty()) {
      int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (file < 0) return;
      ::close(file);
    }
    ::kill(::getpid(), signal_);
  }

 private:
  std::string name_;
  std::atomic<int> left_ = 1;
  int signal_ = SIGKILL;
  std::string file_;
};

}  // namespace

void KillPoint(const char* name) {
  static KillPlan* plan = new KillPlan();
  plan->Reach(name);
}

bool PlantedBug(const char* name) {
  (void)name;
  return false;
}

}  // namespace weir
