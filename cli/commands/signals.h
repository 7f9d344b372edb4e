#pragma once

#include <cstdint>

namespace weir::cli {

// From now on Ctrl-C and SIGTERM are noted instead of ending the process.
void CatchInterrupts();
// How many came since.
int Interrupts();
// Sleeps for `us`, shorter when an interrupt comes.
void Pause(int64_t us);

}  // namespace weir::cli
