#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/threading/executor.h"

namespace weir {

// Whether the owner of requests still wants their outcomes: lives as long as it does. Thread:
// confined to the owner's executor.
using Wanted = std::shared_ptr<bool>;

// `done` wrapped so that it may be called on any thread and runs as mail on `executor`, provided
// that `wanted` still lives then.
template <typename T>
std::function<void(T)> MailBack(Executor& executor, const Wanted& wanted,
                                std::function<void(T)> done) {
  return [&executor, alive = std::weak_ptr<bool>(wanted), done = std::move(done)](T outcome) {
    executor.Post([alive, done, outcome = std::move(outcome)]() mutable {
      if (!alive.expired()) done(std::move(outcome));
    });
  };
}

}  // namespace weir
