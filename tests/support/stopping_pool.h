#pragma once

#include <memory>

#include "common/threading/io_pool.h"

namespace weir {

// Until somebody has asked the pool to stop: posts are dropped from then on.
inline void WaitUntilItStops(IoPool& pool) {
  auto probe = std::make_shared<int>();
  while (true) {
    pool.Post([probe] {});
    if (probe.use_count() == 1) return;
    probe = std::make_shared<int>();
  }
}

}  // namespace weir
