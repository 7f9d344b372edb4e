// Mail in order of posting, timers in order of due time, nothing after Stop.
#include "common/threading/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace weir {
namespace {

// Runs `mail` on the loop and waits for its end.
void RunOn(EventLoop& loop, std::function<void()> mail) {
  std::promise<void> done;
  loop.Post([&] {
    mail();
    done.set_value();
  });
  done.get_future().wait();
}

TEST(EventLoop, RunsMailOfEachSenderInOrder) {
  EventLoop loop("test");
  loop.Start();
  constexpr int kSenders = 4, kEach = 5000;
  std::vector<std::vector<int>> seen(kSenders);
  std::vector<std::thread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (int i = 0; i < kEach; ++i) loop.Post([&, s, i] { seen[s].push_back(i); });
    });
  }
  for (std::thread& sender : senders) sender.join();
  RunOn(loop, [] {});
  loop.Stop();
  for (const std::vector<int>& numbers : seen) {
    ASSERT_EQ(numbers.size(), static_cast<size_t>(kEach));
    for (int i = 0; i < kEach; ++i) ASSERT_EQ(numbers[i], i);
  }
}

TEST(EventLoop, NoMailRunsBeforeStartOrAfterStop) {
  std::atomic<int> runs = 0;
  EventLoop loop("test");
  loop.Post([&] { ++runs; });
  EXPECT_EQ(runs, 0);
  loop.Start();
  RunOn(loop, [] {});
  EXPECT_EQ(runs, 1);
  loop.Stop();
  loop.Post([&] { ++runs; });
  EXPECT_EQ(runs, 1);
  loop.Stop();  // again: nothing
}

TEST(EventLoop, KnowsItsOwnThread) {
  EventLoop loop("test");
  EXPECT_FALSE(loop.InOwnerThread());
  bool inside = false;
  loop.Post([&] { inside = loop.InOwnerThread(); });  // may run while Start has not returned yet
  loop.Start();
  RunOn(loop, [] {});
  EXPECT_TRUE(inside);
  EXPECT_FALSE(loop.InOwnerThread());
}

TEST(EventLoop, TimersRunInOrderOfDueTimeAndCancelledOnesNever) {
  EventLoop loop("test");
  std::vector<int> order;
  std::promise<void> last;
  loop.After(3000, [&] {
    order.push_back(3);
    last.set_value();
  });
  loop.After(1000, [&] { order.push_back(1); });
  TimerId cancelled = loop.After(1500, [&] { order.push_back(99); });
  loop.After(2000, [&] { order.push_back(2); });
  loop.Cancel(cancelled);
  loop.Cancel(cancelled);
  loop.Cancel(123456);
  loop.Start();
  last.get_future().wait();
  loop.Stop();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST(EventLoop, ATimerMayCancelOneThatIsDueInTheSameRound) {
  EventLoop loop("test");
  std::vector<int> order;
  TimerId second = 0;
  loop.After(0, [&] {
    order.push_back(1);
    loop.Cancel(second);
  });
  second = loop.After(0, [&] { order.push_back(2); });
  std::promise<void> done;
  loop.After(1, [&] { done.set_value(); });
  loop.Start();
  done.get_future().wait();
  loop.Stop();
  EXPECT_THAT(order, testing::ElementsAre(1));
}

TEST(EventLoop, ATimerThatSetsItselfAnewDoesNotStarveMail) {
  EventLoop loop("test");
  std::function<void()> again = [&] { loop.After(0, again); };
  loop.After(0, again);
  loop.Start();
  for (int i = 0; i < 100; ++i) RunOn(loop, [] {});
  loop.Stop();
}

TEST(EventLoop, MailThatPostsMailDoesNotStarveTimers) {
  EventLoop loop("test");
  std::promise<void> fired;
  std::function<void()> again = [&] { loop.Post(again); };
  loop.Post(again);
  loop.After(1000, [&] { fired.set_value(); });
  loop.Start();
  fired.get_future().wait();
  loop.Stop();
}

TEST(EventLoop, StopDoesNotWaitForAllThatIsQueued) {
  EventLoop loop("test");
  std::promise<void> entered, leave;
  std::atomic<int> runs = 0;
  loop.Post([&] {
    entered.set_value();
    leave.get_future().wait();
  });
  for (int i = 0; i < 10; ++i) loop.Post([&] { ++runs; });
  loop.Start();
  entered.get_future().wait();
  std::thread stopper([&] { loop.Stop(); });
  // The stop has been asked for once posts are dropped.
  auto witness = std::make_shared<int>();
  while (true) {
    loop.Post([witness] {});
    if (witness.use_count() == 1) break;
    witness = std::make_shared<int>();
  }
  leave.set_value();
  stopper.join();
  EXPECT_EQ(runs, 0);
}

TEST(EventLoop, WhatMailAndTimersHoldIsDestroyedByStop) {
  auto witness = std::make_shared<int>();
  EventLoop loop("test");
  // Its end posts and cancels once more, as the end of an actor does.
  auto at_end = std::shared_ptr<int>(new int, [&loop](int* p) {
    loop.Post([] {});
    loop.Cancel(1);
    delete p;
  });
  loop.Post([witness, at_end] {});
  loop.After(1, [witness, at_end] {});
  at_end.reset();
  loop.Stop();
  EXPECT_EQ(witness.use_count(), 1);
}

}  // namespace
}  // namespace weir
