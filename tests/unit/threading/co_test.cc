// Flows: they go on when their answers come, in the order of the answers, and end where they wait.
#include "common/threading/co.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace weir {
namespace {

using testing::ElementsAre;

// A request whose answers the test gives.
template <typename T>
class Requests {
 public:
  Async<T> Ask() {
    return Async<T>([this](typename Async<T>::Done done) { waiting_.push_back(std::move(done)); });
  }
  void Answer(size_t i, T value) { waiting_[i](std::move(value)); }
  size_t size() const { return waiting_.size(); }

 private:
  std::vector<typename Async<T>::Done> waiting_;
};

// Tells when it is destroyed.
struct Witness {
  explicit Witness(bool* gone) : gone(gone) {}
  ~Witness() { *gone = true; }
  bool* gone;
};

TEST(Co, GoesOnWithTheAnswer) {
  Requests<int> requests;
  std::vector<int> seen;
  CoScope scope;
  scope.Spawn([](Requests<int>& requests, std::vector<int>& seen) -> Co<void> {
    seen.push_back(co_await requests.Ask());
    seen.push_back(co_await requests.Ask());
  }(requests, seen));
  EXPECT_EQ(requests.size(), 1u);  // started inside Spawn
  requests.Answer(0, 10);
  EXPECT_THAT(seen, ElementsAre(10));
  requests.Answer(0, 11);  // a second answer is ignored
  EXPECT_THAT(seen, ElementsAre(10));
  requests.Answer(1, 12);
  EXPECT_THAT(seen, ElementsAre(10, 12));
}

Co<int> Add(Requests<int>& requests) {
  int a = co_await requests.Ask();
  int b = co_await requests.Ask();
  co_return a + b;
}
Co<int> AddTwice(Requests<int>& requests) {
  int first = co_await Add(requests);
  int second = co_await Add(requests);
  co_return first* second;
}

TEST(Co, FlowsNest) {
  Requests<int> requests;
  int result = 0;
  CoScope scope;
  scope.Spawn([](Requests<int>& requests, int& result) -> Co<void> {
    result = co_await AddTwice(requests);
  }(requests, result));
  for (int i = 0; i < 4; ++i) requests.Answer(i, i + 1);
  EXPECT_EQ(result, (1 + 2) * (3 + 4));
}

TEST(Co, AnAnswerInsideTheCallDoesNotSuspend) {
  auto now = [](int value) { return Async<int>([value](auto done) { done(value); }); };
  int sum = 0;
  CoScope scope;
  scope.Spawn([](decltype(now) now, int& sum) -> Co<void> {
    for (int i = 0; i < 100'000; ++i) sum += co_await now(1);  // no recursion either
  }(now, sum));
  EXPECT_EQ(sum, 100'000);
}

TEST(Co, ValuesAreMovedNotCopied) {
  std::string result;
  std::unique_ptr<int> pointer;
  CoScope scope;
  auto make = []() -> Co<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto text = []() -> Co<StatusOr<std::string>> { co_return std::string(1000, 'x'); };
  scope.Spawn([](auto make, auto text, auto& pointer, auto& result) -> Co<void> {
    pointer = co_await make();
    StatusOr<std::string> value = co_await text();
    result = *std::move(value);
  }(make, text, pointer, result));
  EXPECT_EQ(*pointer, 7);
  EXPECT_EQ(result, std::string(1000, 'x'));

  Requests<std::shared_ptr<int>> requests;
  std::shared_ptr<int> got;
  scope.Spawn(
      [](auto& requests, auto& got) -> Co<void> { got = co_await requests.Ask(); }(requests, got));
  requests.Answer(0, std::make_shared<int>(1));
  EXPECT_EQ(got.use_count(), 1);
}

TEST(Co, AnErrorReturnsThroughNestedFlows) {
  auto fails = []() -> Co<Status> { co_return UnavailableError("disk"); };
  auto outer = [](auto fails) -> Co<Status> {
    Status status = co_await fails();
    if (!status.ok()) co_return status.WithContext("outer");
    co_return Status();
  };
  Status result;
  CoScope scope;
  scope.Spawn([](auto outer, auto fails, Status& result) -> Co<void> {
    result = co_await outer(fails);
  }(outer, fails, result));
  EXPECT_EQ(result.message(), "outer: disk");
}

TEST(Co, DestroyingAScopeEndsFlowsWhereTheyWait) {
  Requests<int> requests;
  bool inner_gone = false, outer_gone = false, went_on = false;
  auto inner = [](Requests<int>& requests, bool* gone, bool* went_on) -> Co<int> {
    Witness witness(gone);
    int value = co_await requests.Ask();
    *went_on = true;
    co_return value;
  };
  {
    CoScope scope;
    scope.Spawn([](auto inner, Requests<int>& requests, bool* inner_gone, bool* outer_gone,
                   bool* went_on) -> Co<void> {
      Witness witness(outer_gone);
      co_await inner(requests, inner_gone, went_on);
      *went_on = true;
    }(inner, requests, &inner_gone, &outer_gone, &went_on));
    EXPECT_FALSE(inner_gone);
  }
  EXPECT_TRUE(inner_gone);
  EXPECT_TRUE(outer_gone);
  requests.Answer(0, 1);  // a late answer is harmless
  EXPECT_FALSE(went_on);
}

TEST(Co, AFlowThatNeverStartedIsDestroyed) {
  bool gone = false, started = false;
  {
    auto flow = [](std::shared_ptr<Witness>, bool* started) -> Co<void> {
      *started = true;
      co_return;
    }(std::make_shared<Witness>(&gone), &started);
  }
  EXPECT_TRUE(gone);
  EXPECT_FALSE(started);
}

TEST(Co, AFlowMayAnswerAnotherAndSpawnMore) {
  Requests<int> requests;
  std::vector<int> order;
  CoScope scope;
  scope.Spawn([](Requests<int>& requests, std::vector<int>& order) -> Co<void> {
    order.push_back(co_await requests.Ask());
    order.push_back(3);
  }(requests, order));
  scope.Spawn([](CoScope& scope, Requests<int>& requests, std::vector<int>& order) -> Co<void> {
    order.push_back(1);
    requests.Answer(0, 2);  // the other runs on inside the call
    order.push_back(4);
    scope.Spawn([](std::vector<int>& order) -> Co<void> {
      order.push_back(5);
      co_return;
    }(order));
    co_return;
  }(scope, requests, order));
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5));
}

TEST(CoSignal, WakesAllThatWaitOnce) {
  CoSignal signal;
  std::vector<int> woken;
  CoScope scope;
  for (int i = 0; i < 3; ++i) {
    scope.Spawn([](CoSignal& signal, std::vector<int>& woken, int i) -> Co<void> {
      while (true) {
        co_await signal.Wait();
        woken.push_back(i);
      }
    }(signal, woken, i));
  }
  EXPECT_THAT(woken, ElementsAre());
  signal.Notify();
  EXPECT_THAT(woken, ElementsAre(0, 1, 2));  // those that wait again are not woken by this one
  signal.Notify();
  EXPECT_THAT(woken, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(CoSignal, NotifyAfterAWaitingFlowEnded) {
  CoSignal signal;
  bool woken = false;
  {
    CoScope scope;
    scope.Spawn([](CoSignal& signal, bool& woken) -> Co<void> {
      co_await signal.Wait();
      woken = true;
    }(signal, woken));
  }
  signal.Notify();
  EXPECT_FALSE(woken);
}

TEST(CoScope, ClearEndsAllAndMayBeUsedAgain) {
  Requests<int> requests;
  bool gone = false;
  CoScope scope;
  scope.Spawn([](Requests<int>& requests, bool* gone) -> Co<void> {
    Witness witness(gone);
    co_await requests.Ask();
  }(requests, &gone));
  scope.Clear();
  EXPECT_TRUE(gone);
  int result = 0;
  scope.Spawn([](Requests<int>& requests, int& result) -> Co<void> {
    result = co_await requests.Ask();
  }(requests, result));
  requests.Answer(1, 9);
  EXPECT_EQ(result, 9);
}

}  // namespace
}  // namespace weir
