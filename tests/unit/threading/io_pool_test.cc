// Jobs run side by side on a bounded number of threads; Stop waits for those that run.
#include "common/threading/io_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/support/stopping_pool.h"

namespace weir {
namespace {

TEST(IoPool, RunsEveryJobOnNamedThreads) {
  IoPool pool(3);
  std::mutex mutex;
  std::set<std::string> names;
  std::atomic<int> runs = 0;
  std::promise<void> done;
  for (int i = 0; i < 1000; ++i) {
    pool.Post([&] {
      char name[16];
      pthread_getname_np(pthread_self(), name, sizeof(name));
      {
        std::lock_guard lock(mutex);
        names.insert(name);
      }
      if (++runs == 1000) done.set_value();
    });
  }
  EXPECT_EQ(runs, 0);
  pool.Start();
  done.get_future().wait();
  pool.Stop();
  for (const std::string& name : names) {
    EXPECT_TRUE(name == "io-0" || name == "io-1" || name == "io-2") << name;
  }
}

TEST(IoPool, JobsRunSideBySideAndNoMoreThanThreads) {
  IoPool pool(2);
  pool.Start();
  std::atomic<int> running = 0, most = 0;
  std::promise<void> both;
  std::shared_future<void> go = both.get_future().share();
  std::promise<void> done;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 20; ++i) {
    pool.Post([&, go] {
      int now = ++running;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      if (now == 2 && ended == 0) both.set_value();
      go.wait();
      --running;
      if (++ended == 20) done.set_value();
    });
    if (i == 1) go.wait();  // two run at once, or this never ends
  }
  done.get_future().wait();
  pool.Stop();
  EXPECT_EQ(most, 2);
}

TEST(IoPool, TheJobThatRunsLongestIsNamed) {
  IoPool pool(2);
  pool.Start();
  std::promise<void> leave;
  std::shared_future<void> go = leave.get_future().share();
  std::promise<void> first_entered, second_entered;
  EXPECT_EQ(pool.Slowest(std::chrono::milliseconds(0)), "");
  pool.Post([&, go] { first_entered.set_value(), go.wait(); }, "sync /out/x");
  first_entered.get_future().wait();
  pool.Post([&, go] { second_entered.set_value(), go.wait(); }, "read /in/y");
  second_entered.get_future().wait();
  EXPECT_EQ(pool.Slowest(std::chrono::milliseconds(0)), "sync /out/x for 0 s");
  EXPECT_EQ(pool.Slowest(std::chrono::hours(1)), "");
  leave.set_value();
  pool.Stop();
  EXPECT_EQ(pool.Slowest(std::chrono::milliseconds(0)), "");
}

TEST(IoPool, StopWaitsForTheRunningJobAndDropsTheRest) {
  IoPool pool(1);
  std::promise<void> entered, leave;
  bool finished = false;
  auto witness = std::make_shared<int>();
  bool ran = false;
  pool.Post([&] {
    entered.set_value();
    leave.get_future().wait();
    finished = true;
  });
  pool.Post([&ran, witness] { ran = true; });
  pool.Start();
  entered.get_future().wait();
  std::thread stopper([&] { pool.Stop(); });
  WaitUntilItStops(pool);
  leave.set_value();
  stopper.join();
  EXPECT_TRUE(finished);
  EXPECT_FALSE(ran);
  EXPECT_EQ(witness.use_count(), 1);
  pool.Post([&ran] { ran = true; });
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace weir
