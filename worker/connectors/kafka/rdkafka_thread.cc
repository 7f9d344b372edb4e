#include "worker/connectors/kafka/rdkafka_thread.h"

#include <pthread.h>

#include <thread>

#include "common/base/concat.h"

namespace weir {

void RdkafkaThread::Post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void RdkafkaThread::End(std::function<void()> last) {
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    last_ = std::move(last);
    dropped.swap(jobs_);
  }
  wake_.notify_one();
}

void RdkafkaThread::Run() {
  while (true) {
    std::function<void()> job;
    bool ended = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      ended = ending_;
      if (ended) {
        job = std::move(last_);
      } else {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job) job();
    if (ended) return;
  }
}

std::shared_ptr<RdkafkaThread> RdkafkaThreads::Start() {
  auto started = std::make_shared<RdkafkaThread>();
  int number = 0;
  {
    std::lock_guard lock(living_->mutex);
    ++living_->count;
    number = living_->next++;
  }
  std::thread([started, number, living = living_]() mutable {
    pthread_setname_np(pthread_self(), Concat("kafka-", number).c_str());
    started->Run();
    started.reset();
    std::lock_guard lock(living->mutex);
    --living->count;
    living->fewer.notify_all();
  }).detach();
  return started;
}

bool RdkafkaThreads::WaitForEnd(std::chrono::milliseconds wait_max) {
  std::unique_lock lock(living_->mutex);
  return living_->fewer.wait_for(lock, wait_max, [this] { return living_->count == 0; });
}

}  // namespace weir
