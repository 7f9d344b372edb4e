#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/operator/committable_owner.h"

namespace weir {

// Two owners whose committables are sealed and published by the same checkpoints, as one. Those of
// the second bear part numbers from kSecondPartsBegin on, so that no two have one identity.
// Lifetime: both outlive it, and answer nothing once they are closed. Thread: the task's.
class JoinedOwners : public CommittableOwner {
 public:
  static constexpr int kSecondPartsBegin = 1 << 20;

  JoinedOwners(CommittableOwner& first, CommittableOwner& second)
      : first_(first), second_(second) {}

  // Each notes that it was asked, and wakes when it can go on.
  bool Ready() const override {
    const bool first = first_.Ready();
    return second_.Ready() && first;
  }
  std::string blocking_reason() const override {
    std::string reason = first_.blocking_reason();
    return reason.empty() ? second_.blocking_reason() : reason;
  }

  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    auto joined = std::make_shared<Joined>();
    const auto add = [joined, done = std::move(done)](StatusOr<std::vector<Committable>> answer,
                                                      int parts_begin) {
      if (answer.ok()) {
        for (Committable& committable : *answer) {
          committable.part += parts_begin;
          joined->committables.push_back(std::move(committable));
        }
      }
      if (!joined->Add(answer.status())) return;
      if (!joined->status.ok()) {
        done(joined->status);
      } else {
        done(std::move(joined->committables));
      }
    };
    first_.Prepare(checkpoint, [add](auto answer) { add(std::move(answer), 0); });
    second_.Prepare(checkpoint, [add](auto answer) { add(std::move(answer), kSecondPartsBegin); });
  }

  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override {
    auto joined = std::make_shared<Joined>();
    const auto add = [joined, done = std::move(done)](const Status& status) {
      if (joined->Add(status)) done(joined->status);
    };
    first_.Publish(checkpoint, add);
    second_.Publish(checkpoint, add);
  }

  void OnAborted(CheckpointId checkpoint) override {
    first_.OnAborted(checkpoint);
    second_.OnAborted(checkpoint);
  }

 private:
  // The answers of both: the first error.
  struct Joined {
    // Whether that was the last one.
    bool Add(const Status& answer) {
      if (status.ok()) status = answer;
      return --waiting == 0;
    }
    int waiting = 2;
    Status status;
    std::vector<Committable> committables;
  };

  CommittableOwner& first_;
  CommittableOwner& second_;
};

}  // namespace weir
