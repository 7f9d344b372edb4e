#include "common/base/kill_point.h"

namespace weir {

void KillPoint(const char* name) { (void)name; }

}  // namespace weir
