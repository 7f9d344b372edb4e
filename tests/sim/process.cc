#include "tests/sim/process.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"

namespace weir::sim {
namespace {

constexpr int64_t kWallAtStartUs = 1'700'000'000'000'000;
constexpr int64_t kMonotonicAtStartUs = 1'000'000;

Process* current = nullptr;

}  // namespace

Process::Process(Scheduler& scheduler, std::string name, int incarnation)
    : scheduler_(scheduler), name_(std::move(name)), title_(Concat(name_, ".", incarnation)) {}

Process::~Process() = default;

Process* Process::Current() { return current; }

void Process::Kill() {
  if (!alive_) return;
  alive_ = false;
  paused_ = false;
  life_.reset();
}

void Process::Pause() { paused_ = alive_; }

void Process::Continue() {
  if (!alive_ || !paused_) return;
  paused_ = false;
  if (waiting_.empty() || std::exchange(draining_, true)) return;
  scheduler_.After(0, [this] { Drain(); });
}

void Process::Drain() {
  if (!alive_ || paused_) {
    draining_ = false;
    return;
  }
  std::function<void()> event = std::move(waiting_.front());
  waiting_.pop_front();
  Run(event);
  draining_ = !waiting_.empty();
  if (draining_) scheduler_.After(0, [this] { Drain(); });
}

void Process::Run(const std::function<void()>& event) {
  Process* before = std::exchange(current, this);
  event();
  current = before;
}

int64_t Process::WallMicros() const {
  return kWallAtStartUs + wall_offset_us_ + scheduler_.now_us();
}

int64_t Process::MonotonicMicros() const { return kMonotonicAtStartUs + scheduler_.now_us(); }

void Process::After(int64_t delay_us, std::function<void()> event) {
  if (!alive_) return;
  scheduler_.After(delay_us, [this, event = std::move(event)]() mutable {
    if (!alive_) return;
    if (paused_ || !waiting_.empty()) {
      waiting_.push_back(std::move(event));
    } else {
      Run(event);
    }
  });
}

void ProcessLoop::Post(std::function<void()> mail) {
  process_.After(0, [here = std::weak_ptr<int>(here_), mail = std::move(mail)] {
    if (!here.expired()) mail();
  });
}

TimerId ProcessLoop::After(int64_t delay_us, std::function<void()> mail) {
  TimerId id = next_timer_++;
  timers_.emplace(id, std::move(mail));
  process_.After(delay_us, [this, here = std::weak_ptr<int>(here_), id] {
    if (here.expired()) return;
    auto it = timers_.find(id);
    if (it == timers_.end()) return;
    std::function<void()> due = std::move(it->second);
    timers_.erase(it);
    due();
  });
  return id;
}

void ProcessLoop::Cancel(TimerId id) { timers_.erase(id); }

}  // namespace weir::sim
