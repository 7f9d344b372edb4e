// Blocks between a filler that is run when it is told so and a reader that is woken when it is told
// so: what goes in comes out once and in order, nobody sleeps while there is something to do, and a
// reader that stands still stops the filler.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/gate.h"
#include "worker/connectors/kafka/handover.h"

namespace weir {
namespace {

struct Numbers {
  std::vector<int> numbers;
  void Clear() { numbers.clear(); }
  size_t bytes() const { return numbers.size(); }
};

TEST(HandoverTest, AReaderThatStandsStillStopsTheFiller) {
  Handover<Numbers> handover(2, 100);
  ASSERT_TRUE(handover.Ask());
  EXPECT_FALSE(handover.Ask()) << "it runs";
  for (int i = 0; i < 2; ++i) {
    std::unique_ptr<Numbers> block = handover.TakeEmpty();
    ASSERT_NE(block, nullptr);
    block->numbers.push_back(i);
    EXPECT_FALSE(handover.PutFull(std::move(block))) << "nobody waits";
  }
  EXPECT_EQ(handover.TakeEmpty(), nullptr);
  std::unique_ptr<Numbers> first = handover.TakeFull();
  EXPECT_EQ(first->numbers, std::vector<int>{0});
  EXPECT_TRUE(handover.GiveBack(std::move(first))) << "it has stopped for want of a block";
  std::unique_ptr<Numbers> empty = handover.TakeEmpty();
  ASSERT_NE(empty, nullptr);
  EXPECT_TRUE(empty->numbers.empty());
}

TEST(HandoverTest, LargeBlocksStopTheFiller) {
  Handover<Numbers> handover(3, 100);
  ASSERT_TRUE(handover.Ask());
  std::unique_ptr<Numbers> block = handover.TakeEmpty();
  block->numbers.resize(1000);
  handover.PutFull(std::move(block));
  EXPECT_EQ(handover.TakeEmpty(), nullptr);
  block = handover.TakeFull();
  EXPECT_FALSE(handover.Ask() && handover.TakeEmpty() != nullptr) << "the reader still has it";
  EXPECT_TRUE(handover.GiveBack(std::move(block)));
  EXPECT_NE(handover.TakeEmpty(), nullptr);
}

TEST(HandoverTest, WhoComesBackToAStoppedFillerIsEmptiedAtOnce) {
  Handover<Numbers> handover(2, 100);
  ASSERT_TRUE(handover.Ask());
  EXPECT_EQ(handover.TakeFull(), nullptr);
  std::unique_ptr<Numbers> block = handover.TakeEmpty();
  block->numbers.push_back(1);
  EXPECT_TRUE(handover.PutFull(std::move(block))) << "the reader waits";
  EXPECT_FALSE(handover.PutEmpty(handover.TakeEmpty()));
  block = handover.TakeFull();
  const Numbers* given = block.get();
  EXPECT_FALSE(handover.GiveBack(std::move(block)));
  EXPECT_TRUE(given->numbers.empty());
  EXPECT_TRUE(handover.Ask());
}

TEST(HandoverTest, AFillerThatWasAskedMeanwhileGoesOn) {
  Handover<Numbers> handover(2, 100);
  ASSERT_TRUE(handover.Ask());
  std::unique_ptr<Numbers> block = handover.TakeEmpty();
  EXPECT_FALSE(handover.Ask());
  EXPECT_TRUE(handover.PutEmpty(std::move(block)));
  EXPECT_FALSE(handover.PutEmpty(handover.TakeEmpty()));
}

TEST(HandoverTest, EachNumberComesOnceAndInOrder) {
  constexpr int kNumbers = 200'000;
  constexpr size_t kAtOnce = 7;
  Handover<Numbers> handover(3, 100);
  Gate fill;
  Gate read;
  std::atomic<int> written = 0;
  std::atomic<bool> over = false;

  std::thread source([&] {
    for (int i = 1; i <= kNumbers; ++i) {
      written = i;
      if (handover.Ask()) fill.Notify();
      if (i % 1000 == 0) std::this_thread::yield();
    }
  });
  std::thread filler([&] {
    int next = 0;
    while (true) {
      fill.Wait();
      if (over) return;
      while (std::unique_ptr<Numbers> block = handover.TakeEmpty()) {
        EXPECT_TRUE(block->numbers.empty());
        const int end = written;
        while (next < end && block->numbers.size() < kAtOnce) block->numbers.push_back(next++);
        if (block->numbers.empty()) {
          if (!handover.PutEmpty(std::move(block))) break;
        } else if (handover.PutFull(std::move(block))) {
          read.Notify();
        }
      }
    }
  });

  int due = 0;
  while (due < kNumbers) {
    std::unique_ptr<Numbers> block = handover.TakeFull();
    if (block == nullptr) {
      read.Wait();
      continue;
    }
    for (const int number : block->numbers) ASSERT_EQ(number, due++);
    if (handover.GiveBack(std::move(block))) fill.Notify();
  }
  source.join();
  over = true;
  fill.Notify();
  filler.join();
}

}  // namespace
}  // namespace weir
