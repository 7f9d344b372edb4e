#include "tests/sim/task_runner.h"

#include "worker/task/task.h"

namespace weir::sim {

struct SimTaskRunner::Place {
  std::shared_ptr<Task> task;
  bool is_ready = false;  // to be stepped; a step is due if there is a task
  bool is_due = false;
};

SimTaskRunner::~SimTaskRunner() = default;

TaskRunner::Seat SimTaskRunner::MakeSeat() {
  Seat seat;
  seat.id = next_seat_++;
  std::shared_ptr<Place>& place = places_[seat.id];
  place = std::make_shared<Place>();
  seat.timers = std::make_unique<ProcessLoop>(process_);
  seat.wake = [this, weak = std::weak_ptr<Place>(place), process = &process_] {
    std::shared_ptr<Place> place = weak.lock();
    if (!place || !process->alive()) return;
    place->is_ready = true;
    StepLater(place);
  };
  return seat;
}

void SimTaskRunner::StepLater(const std::shared_ptr<Place>& place) {
  if (!place->task || place->is_due) return;
  place->is_due = true;
  const int64_t delay_us = process_.scheduler().Between(0, world_.step_us_max);
  process_.After(delay_us, [this, weak = std::weak_ptr<Place>(place)] {
    std::shared_ptr<Place> place = weak.lock();
    if (!place) return;
    place->is_due = false;
    if (!place->task || !place->is_ready) return;
    place->is_ready = false;
    std::shared_ptr<Task> task = place->task;
    const StepResult result = task->Step();
    if (result.kind == StepResult::Kind::kBlocked && result.reason == BlockingReason::kCredit) {
      probes_.Hit(Probe::kBlockedForCredit);
    }
    if (result.kind == StepResult::Kind::kProgress) place->is_ready = true;
    if (place->is_ready) StepLater(place);
  });
}

void SimTaskRunner::Add(uint64_t seat, std::shared_ptr<Task> task) {
  const std::shared_ptr<Place>& place = places_.at(seat);
  place->task = std::move(task);
  place->is_ready = true;
  StepLater(place);
}

void SimTaskRunner::Remove(uint64_t seat, std::function<void()> removed) {
  process_.After(process_.scheduler().Between(0, world_.step_us_max),
                 [this, seat, removed = std::move(removed)] {
                   auto it = places_.find(seat);
                   if (it != places_.end()) {
                     std::shared_ptr<Task> task = std::move(it->second->task);
                     places_.erase(it);
                     if (task) task->Shutdown();
                   }
                   removed();
                 });
}

}  // namespace weir::sim
