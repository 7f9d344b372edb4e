#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/threading/executor.h"

namespace weir {

// A thread of its own for calls of one client of librdkafka: those that block, so that a broker
// that does not answer holds up nobody else, or those that would cost a task's thread too much; a
// client has three threads or more of its own anyway. Lifetime: ends itself after End, and may
// outlive everything else when a call hangs. Thread: thread-safe.
class RdkafkaThread {
 public:
  // Runs `job` after those before it. Dropped after End.
  void Post(std::function<void()> job);
  // Drops what has not begun; when the running job has returned, `last` runs and the thread ends.
  void End(std::function<void()> last);
  // Long jobs look here between their calls.
  bool ending() const { return ending_.load(std::memory_order_relaxed); }

 private:
  friend class RdkafkaThreads;
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  std::function<void()> last_;              // guarded by mutex_
  std::atomic<bool> ending_ = false;        // changed under mutex_
};

// Starts them and knows how many live. Thread: thread-safe.
class RdkafkaThreads {
 public:
  // Threads "kafka-<n>".
  std::shared_ptr<RdkafkaThread> Start();
  // Waits until all have ended, at most `wait_max`; whether they have.
  bool WaitForEnd(std::chrono::milliseconds wait_max);

 private:
  struct Living {
    std::mutex mutex;
    std::condition_variable fewer;
    int count = 0;  // guarded by mutex
    int next = 0;   // guarded by mutex
  };
  const std::shared_ptr<Living> living_ = std::make_shared<Living>();
};

// The way back from such threads to an owner that may go away. Callbacks stay on the owner's side:
// no other thread runs or destroys one. Destroying this drops them all. Thread: confined to the
// owner's.
class RdkafkaAnswers {
 public:
  explicit RdkafkaAnswers(Executor& owner) : link_(std::make_shared<Link>(owner)) {}
  RdkafkaAnswers(const RdkafkaAnswers&) = delete;
  ~RdkafkaAnswers() {
    link_->Cut();
    waiting_->clear();
  }

  // What other threads call as often as they like; each call is mail to the owner.
  std::function<void()> ExpectMany(std::function<void()> done) {
    auto callback = std::make_shared<std::function<void()>>(std::move(done));
    waiting_->insert(callback);
    return [link = link_, kept = std::weak_ptr<std::function<void()>>(callback)] {
      link->Post([kept] {
        if (const std::shared_ptr<std::function<void()>> done = kept.lock()) (*done)();
      });
    };
  }
  // What another thread calls once with the answer, which is mail to the owner then.
  template <typename T>
  std::function<void(T)> Expect(std::function<void(T)> done) {
    auto callback = std::make_shared<std::function<void(T)>>(std::move(done));
    waiting_->insert(callback);
    return [link = link_, waiting = waiting_,
            kept = std::weak_ptr<std::function<void(T)>>(callback)](T answer) {
      link->Post([waiting, kept, answer = std::move(answer)]() mutable {
        std::shared_ptr<std::function<void(T)>> done = kept.lock();
        if (done == nullptr) return;
        waiting->erase(done);
        (*done)(std::move(answer));
      });
    };
  }

 private:
  class Link {
   public:
    explicit Link(Executor& owner) : owner_(&owner) {}
    void Post(std::function<void()> mail) {
      std::lock_guard lock(mutex_);
      if (owner_ != nullptr) owner_->Post(std::move(mail));
    }
    void Cut() {
      std::lock_guard lock(mutex_);
      owner_ = nullptr;
    }

   private:
    std::mutex mutex_;
    Executor* owner_;  // guarded by mutex_
  };
  using Waiting = std::set<std::shared_ptr<void>>;

  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

}  // namespace weir
