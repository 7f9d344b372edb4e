#include "common/threading/event_loop.h"

#include <pthread.h>

#include <chrono>

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
  // What owns captured state is destroyed here, outside the lock: it may post again.
  std::deque<std::function<void()>> mail;
  {
    std::lock_guard lock(mutex_);
    mail.swap(mail_);
  }
  mail.clear();
  timers_.clear();
  due_us_.clear();
}

void EventLoop::Post(std::function<void()> mail) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    mail_.push_back(std::move(mail));
  }
  wake_.notify_one();
}

bool EventLoop::InOwnerThread() const { return std::this_thread::get_id() == thread_.get_id(); }

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
  timers_.erase({it->second, id});
  due_us_.erase(it);
}

void EventLoop::Run() {
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
    while (!batch.empty()) {
      std::function<void()> mail = std::move(batch.front());
      batch.pop_front();
      mail();
    }
    while (!timers_.empty() && timers_.begin()->first.first <= clock_.MonotonicMicros()) {
      auto first = timers_.begin();
      std::function<void()> mail = std::move(first->second);
      due_us_.erase(first->first.second);
      timers_.erase(first);
      mail();
    }
  }
}

}  // namespace weir
