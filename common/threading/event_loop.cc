#include "common/threading/event_loop.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace weir {

EventLoop::EventLoop(std::string name) : name_(std::move(name)) {}

EventLoop::~EventLoop() { Stop(); }

void EventLoop::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  });
}

void EventLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  // Captured state is destroyed outside the lock and the maps: it may post or cancel.
  std::deque<std::function<void()>> mail;
  {
    std::lock_guard lock(mutex_);
    mail.swap(mail_);
  }
  auto timers = std::exchange(timers_, {});
  due_us_.clear();
}

void EventLoop::Post(std::function<void()> mail) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    mail_.push_back(std::move(mail));
    if (mail_.size() > 1) return;  // the loop has been told
  }
  wake_.notify_one();
}

bool EventLoop::InOwnerThread() const { return std::this_thread::get_id() == owner_; }

TimerId EventLoop::After(int64_t delay_us, std::function<void()> mail) {
  TimerId id = next_timer_++;
  int64_t due = clock_.MonotonicMicros() + (delay_us < 0 ? 0 : delay_us);
  timers_.emplace(std::pair(due, id), std::move(mail));
  due_us_.emplace(id, due);
  return id;
}

void EventLoop::Cancel(TimerId id) {
  auto it = due_us_.find(id);
  if (it == due_us_.end()) return;
  auto node = timers_.extract({it->second, id});  // its state may cancel others at its end
  due_us_.erase(it);
}

void EventLoop::Run() {
  owner_ = std::this_thread::get_id();
  std::deque<std::function<void()>> batch;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      while (!stopping_ && mail_.empty()) {
        if (timers_.empty()) {
          wake_.wait(lock);
          continue;
        }
        int64_t wait_us = timers_.begin()->first.first - clock_.MonotonicMicros();
        if (wait_us <= 0) break;
        wake_.wait_for(lock, std::chrono::microseconds(wait_us));
      }
      if (stopping_) return;
      batch.swap(mail_);
    }
    while (!batch.empty() && !stopping_) {
      std::function<void()> mail = std::move(batch.front());
      batch.pop_front();
      mail();
    }
    // Those due by now and set before: a timer that sets itself anew waits for the next round.
    int64_t now_us = clock_.MonotonicMicros();
    TimerId set_before = next_timer_;
    auto next = timers_.begin();
    while (next != timers_.end() && next->first.first <= now_us && !stopping_) {
      auto [due, id] = next->first;
      if (id < set_before) {
        std::function<void()> mail = std::move(next->second);
        due_us_.erase(id);
        timers_.erase(next);
        mail();
      }
      next = timers_.upper_bound({due, id});
    }
  }
}

}  // namespace weir
