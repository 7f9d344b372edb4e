#include "worker/task/threaded_task_runner.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/concat.h"
#include "worker/network/link.h"
#include "worker/task/task.h"

namespace weir {
namespace {

// How long a task is stepped before others have their turn, for each task of the thread: rows of a
// source spread over its receivers, and short turns of many tasks would cut them into batches of a
// few rows each.
constexpr int64_t kTurnPerTaskUs = 10;
// Where there are so many that batches would not become full.
constexpr size_t kManyTasks = 16;
constexpr int64_t kTurnPerTaskOfManyUs = 30;
constexpr int64_t kTurnMaxUs = 2000;
// How long what tasks send to other workers may wait for more.
constexpr int64_t kSendDelayMaxUs = 200;

}  // namespace

// One thread. Commands (add, remove) come through a queue; a task's wake sets its flag and rouses
// the thread if it sleeps.
// Lost wake-ups: a flag is set before the thread's `sleeping` is looked at, and the thread says
// that it sleeps before it looks at the flags once more; both are sequentially consistent.
class ThreadedTaskRunner::TaskThread {
 public:
  // What outlives a task for the sake of late wakers.
  struct Flag {
    std::atomic<bool> ready{false};
    TaskThread* thread = nullptr;
  };

  explicit TaskThread(int index) : name_(Concat("task-", index)) {}
  ~TaskThread() { Stop(); }

  void Start() {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), name_.c_str());
      Run();
    });
  }

  void Stop() {
    Command([this] { stopping_ = true; });
    if (thread_.joinable()) thread_.join();
  }

  std::shared_ptr<Flag> MakeFlag(uint64_t seat) {
    auto flag = std::make_shared<Flag>();
    flag->thread = this;
    std::lock_guard lock(mutex_);
    flags_[seat] = flag;
    return flag;
  }

  void Wake(Flag& flag) {
    if (flag.ready.exchange(true)) return;
    if (sleeping_.load()) Rouse();
  }

  void Add(uint64_t seat, std::shared_ptr<Task> task) {
    Command([this, seat, task = std::move(task)] {
      std::shared_ptr<Flag> flag;
      {
        std::lock_guard lock(mutex_);
        flag = flags_[seat];
      }
      flag->ready.store(true);
      slots_.push_back({.seat = seat, .task = task, .flag = flag});
    });
  }

  void Remove(uint64_t seat, std::function<void()> removed) {
    Command([this, seat, removed = std::move(removed)] {
      {
        std::lock_guard lock(mutex_);
        flags_.erase(seat);
      }
      auto it = std::find_if(slots_.begin(), slots_.end(),
                             [seat](const Slot& slot) { return slot.seat == seat; });
      if (it != slots_.end()) {
        std::shared_ptr<Task> task = std::move(it->task);
        slots_.erase(it);
        task->Shutdown();
        task.reset();
      }
      removed();
    });
  }

  // Timers of this thread for one task; what is left of them is dropped with it.
  class TaskTimers : public Timers {
   public:
    explicit TaskTimers(TaskThread& thread) : thread_(thread) {}
    ~TaskTimers() override {
      for (const auto& [id, due_us] : due_us_) thread_.timers_.erase({due_us, id});
    }
    TimerId After(int64_t delay_us, std::function<void()> mail) override {
      TimerId id = thread_.next_timer_++;
      int64_t due_us = thread_.clock_.MonotonicMicros() + std::max<int64_t>(delay_us, 0);
      due_us_[id] = due_us;
      thread_.timers_[{due_us, id}] = [this, id, mail = std::move(mail)] {
        due_us_.erase(id);
        mail();
      };
      return id;
    }
    void Cancel(TimerId id) override {
      auto it = due_us_.find(id);
      if (it == due_us_.end()) return;
      thread_.timers_.erase({it->second, id});
      due_us_.erase(it);
    }

   private:
    TaskThread& thread_;
    std::map<TimerId, int64_t> due_us_;
  };

 private:
  struct Slot {
    uint64_t seat;
    std::shared_ptr<Task> task;
    std::shared_ptr<Flag> flag;
    int64_t turn_began_us = 0;  // the last one
  };

  void Command(std::function<void()> command) {
    {
      std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
      has_commands_.store(true);
    }
    Rouse();
  }

  void Rouse() {
    std::lock_guard lock(mutex_);
    wake_.notify_one();
  }

  void Run() {
    FlushScope sends;
    int64_t sent_us = clock_.MonotonicMicros();
    const auto send_if_due = [&] {
      const int64_t now_us = clock_.MonotonicMicros();
      if (now_us - sent_us < kSendDelayMaxUs) return;
      sends.Flush();
      sent_us = now_us;
    };
    while (!stopping_) {
      RunCommands();
      RunTimers();
      bool progress = false;
      for (Slot& slot : slots_) {
        if (!slot.task->is_source()) continue;
        progress |= TakeTurn(slot);
        progress |= TakeTurnsOfReceivers();
        send_if_due();
        RunTimers();  // with many sources a round is long
      }
      progress |= TakeTurnsOfReceivers();
      send_if_due();
      if (!progress && !stopping_) {
        sends.Flush();
        Sleep();
      }
    }
  }

  // What one source made is taken on before the next makes more: it is in the cache still, and
  // what waits in channels stays little however many sources there are.
  bool TakeTurnsOfReceivers() {
    bool progress = false;
    for (Slot& slot : slots_) {
      if (!slot.task->is_source()) progress |= TakeTurn(slot);
    }
    return progress;
  }

  // Whether the task got on.
  bool TakeTurn(Slot& slot) {
    // Cleared before the step: what comes during it makes the task ready again.
    if (!slot.flag->ready.load() || !slot.flag->ready.exchange(false)) return false;
    const int64_t began_us = clock_.MonotonicMicros();
    const int64_t round_us = began_us - std::exchange(slot.turn_began_us, began_us);
    const int64_t per_task_us = slots_.size() >= kManyTasks ? kTurnPerTaskOfManyUs : kTurnPerTaskUs;
    const int64_t turn_us = std::min(static_cast<int64_t>(slots_.size()) * per_task_us, kTurnMaxUs);
    int64_t now_us = began_us;
    bool progress = false;
    do {
      if (slot.task->Step().kind != StepResult::Kind::kProgress) return progress;
      progress = true;
      now_us = clock_.MonotonicMicros();
    } while (now_us - began_us < turn_us && !has_commands_.load(std::memory_order_relaxed));
    slot.task->Rest(now_us + round_us);
    slot.flag->ready.store(true);
    return true;
  }

  bool AnythingReady() const {
    if (has_commands_.load()) return true;
    for (const Slot& slot : slots_) {
      if (slot.flag->ready.load()) return true;
    }
    return false;
  }

  void Sleep() {
    std::unique_lock lock(mutex_);
    sleeping_.store(true);
    while (!AnythingReady()) {
      if (timers_.empty()) {
        wake_.wait(lock);
        continue;
      }
      int64_t wait_us = timers_.begin()->first.first - clock_.MonotonicMicros();
      if (wait_us <= 0) break;
      wake_.wait_for(lock, std::chrono::microseconds(wait_us));
    }
    sleeping_.store(false);
  }

  void RunCommands() {
    if (!has_commands_.load()) return;
    std::deque<std::function<void()>> commands;
    {
      std::lock_guard lock(mutex_);
      commands.swap(commands_);
      has_commands_.store(false);
    }
    for (auto& command : commands) command();
  }

  void RunTimers() {
    if (timers_.empty()) return;
    int64_t now_us = clock_.MonotonicMicros();
    while (!timers_.empty() && timers_.begin()->first.first <= now_us) {
      std::function<void()> mail = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      mail();
    }
  }

  const std::string name_;
  SystemClock clock_;
  std::vector<Slot> slots_;                                              // thread's own
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;  // thread's own
  TimerId next_timer_ = 1;
  bool stopping_ = false;  // thread's own

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> commands_;       // guarded by mutex_
  std::map<uint64_t, std::shared_ptr<Flag>> flags_;  // guarded by mutex_
  std::atomic<bool> has_commands_{false};
  std::atomic<bool> sleeping_{false};
  std::thread thread_;
};

ThreadedTaskRunner::ThreadedTaskRunner(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int i = 0; i < threads; ++i) threads_.push_back(std::make_unique<TaskThread>(i));
  seats_of_thread_.resize(threads_.size());
}

ThreadedTaskRunner::~ThreadedTaskRunner() { Stop(); }

void ThreadedTaskRunner::Start() {
  for (auto& thread : threads_) thread->Start();
}

void ThreadedTaskRunner::Stop() {
  for (auto& thread : threads_) thread->Stop();
}

TaskRunner::Seat ThreadedTaskRunner::MakeSeat() {
  std::lock_guard lock(mutex_);
  size_t index =
      static_cast<size_t>(std::min_element(seats_of_thread_.begin(), seats_of_thread_.end()) -
                          seats_of_thread_.begin());
  ++seats_of_thread_[index];
  Seat seat;
  seat.id = next_seat_++;
  thread_of_seat_[seat.id] = index;
  TaskThread& thread = *threads_[index];
  seat.timers = std::make_unique<TaskThread::TaskTimers>(thread);
  std::shared_ptr<TaskThread::Flag> flag = thread.MakeFlag(seat.id);
  seat.wake = [flag] { flag->thread->Wake(*flag); };
  return seat;
}

void ThreadedTaskRunner::Add(uint64_t seat, std::shared_ptr<Task> task) {
  size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    index = thread_of_seat_.at(seat);
  }
  threads_[index]->Add(seat, std::move(task));
}

void ThreadedTaskRunner::Remove(uint64_t seat, std::function<void()> removed) {
  size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    auto it = thread_of_seat_.find(seat);
    WEIR_CHECK(it != thread_of_seat_.end());
    index = it->second;
    thread_of_seat_.erase(it);
    --seats_of_thread_[index];
  }
  threads_[index]->Remove(seat, std::move(removed));
}

}  // namespace weir
