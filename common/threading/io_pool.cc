#include "common/threading/io_pool.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

IoPool::IoPool(int threads) : wakes_(static_cast<size_t>(std::max(threads, 0))) {
  WEIR_CHECK(threads >= 1);
}

IoPool::~IoPool() { Stop(); }

void IoPool::Start() {
  WEIR_CHECK(threads_.empty());
  for (int i = 0; i < static_cast<int>(wakes_.size()); ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), Concat("io-", i).c_str());
      Run(i);
    });
  }
}

void IoPool::Stop() {
  std::deque<Job> unrun;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    unrun.swap(jobs_);
  }
  for (std::condition_variable& wake : wakes_) wake.notify_one();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Job& job : unrun) {
    if (job.never_dropped) job.run();
  }
}

void IoPool::Post(std::function<void()> job, std::string what, bool never_dropped) {
  std::condition_variable* wake = nullptr;
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      if (never_dropped) job();
      return;
    }
    jobs_.push_back(Job{std::move(job), std::move(what), never_dropped});
    if (!idle_.empty()) {
      wake = idle_.back();
      idle_.pop_back();
    }
  }
  if (wake != nullptr) wake->notify_one();
}

std::string IoPool::Slowest(std::chrono::milliseconds least) const {
  std::lock_guard lock(mutex_);
  const Running* slowest = nullptr;
  for (const auto& [thread, running] : running_) {
    if (slowest == nullptr || running.since < slowest->since) slowest = &running;
  }
  if (slowest == nullptr) return "";
  auto passed = std::chrono::steady_clock::now() - slowest->since;
  if (passed < least) return "";
  return Concat(slowest->what, " for ",
                std::chrono::duration_cast<std::chrono::seconds>(passed).count(), " s");
}

void IoPool::Run(int thread) {
  std::condition_variable& wake = wakes_[static_cast<size_t>(thread)];
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      running_.erase(thread);
      while (!stopping_ && jobs_.empty()) {
        idle_.push_back(&wake);
        wake.wait(lock);
        std::erase(idle_, &wake);  // still there when it woke for nothing
      }
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      running_[thread] = Running{std::move(job.what), std::chrono::steady_clock::now()};
    }
    job.run();
  }
}

}  // namespace weir
