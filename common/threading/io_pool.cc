#include "common/threading/io_pool.h"

#include <pthread.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {

IoPool::IoPool(int threads) : threads_count_(threads) { WEIR_CHECK(threads >= 1); }

IoPool::~IoPool() { Stop(); }

void IoPool::Start() {
  WEIR_CHECK(threads_.empty());
  for (int i = 0; i < threads_count_; ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), Concat("io-", i).c_str());
      Run();
    });
  }
}

void IoPool::Stop() {
  std::deque<std::function<void()>> unrun;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    unrun.swap(jobs_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void IoPool::Post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void IoPool::Run() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace weir
