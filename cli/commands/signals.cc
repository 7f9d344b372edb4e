#include "cli/commands/signals.h"

#include <signal.h>
#include <time.h>

namespace weir::cli {
namespace {

volatile sig_atomic_t interrupts = 0;

void OnInterrupt(int) { interrupts = interrupts + 1; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int Interrupts() { return interrupts; }

void Pause(int64_t us) {
  timespec duration{us / 1'000'000, us % 1'000'000 * 1000};
  nanosleep(&duration, nullptr);
}

}  // namespace weir::cli
