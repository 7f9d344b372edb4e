#pragma once

namespace weir {

// Marks a place between two effects where a test may let the process die. Two libraries define it:
// weir_kill_point_off (does nothing; in the released daemons) and weir_kill_point_on. Library code
// calls it and links to neither: the executable chooses, so that the tested code is the released
// code. The `on` version reads the environment once:
//   WEIR_KILL_POINT       name[:count]: the count-th (default first) arrival at that point …
//   WEIR_KILL_SIGNAL      KILL (default) or STOP: … sends the process this signal
//   WEIR_KILL_POINT_FILE  … after it made this file; if that exists already, nothing happens: the
//                         process that is started again with the same environment survives. Whoever
//                         removes it has one that was stopped stop at its next arrival again
// Thread: thread-safe.
void KillPoint(const char* name);

// Whether the simulation has planted the bug of this name: a mistake in the protocol, made on
// purpose at the place that asks, that its checkers must find. Never true but in the simulation.
// Thread: thread-safe.
bool PlantedBug(const char* name);

}  // namespace weir
