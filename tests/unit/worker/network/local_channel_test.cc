// LocalChannel: order, credit and, with two threads that sleep whenever they may, no lost wake-up.
#include "worker/network/local_channel.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/worker/network/element_fixtures.h"

namespace weir {
namespace {

using network_test::NumberOf;
using network_test::Row;

TEST(LocalChannelTest, HandsOverTheSameBatchInOrderWithBarriersInPlace) {
  LocalChannel channel(1 << 20);
  const RecordBatchPtr first = Row(1);
  channel.Push(first);
  channel.Push(Barrier{CheckpointId(7), 42});
  channel.Push(Row(2));
  channel.Push(EndOfInput{});

  StreamElement element;
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_EQ(std::get<RecordBatchPtr>(element), first);
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_EQ(std::get<Barrier>(element), (Barrier{CheckpointId(7), 42}));
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_EQ(NumberOf(element), 2);
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_TRUE(std::holds_alternative<EndOfInput>(element));
  EXPECT_FALSE(channel.TryPop(&element).value());
  EXPECT_FALSE(channel.HasElement());
  EXPECT_EQ(channel.queued_bytes(), 0);
}

TEST(LocalChannelTest, CreditIsTheWindowLessTheBytesThatWait) {
  const RecordBatchPtr row = Row(1, "abc");
  const int64_t bytes = row->ByteSize();
  LocalChannel channel(2 * bytes);
  int credit_calls = 0;
  int arrival_calls = 0;
  channel.SetCreditWaker([&] { ++credit_calls; });
  channel.SetArrivalWaker([&] { ++arrival_calls; });

  EXPECT_TRUE(channel.HasCredit());
  channel.Push(row);
  EXPECT_TRUE(channel.HasCredit());
  channel.Push(row);
  EXPECT_FALSE(channel.HasCredit());
  channel.Push(row);  // overdrawn
  channel.Push(Barrier{CheckpointId(1)});
  EXPECT_EQ(channel.queued_bytes(), 3 * bytes);
  EXPECT_EQ(arrival_calls, 1);  // only the first found an empty queue

  StreamElement element;
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_FALSE(channel.HasCredit());
  EXPECT_EQ(credit_calls, 0);
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_TRUE(channel.HasCredit());
  EXPECT_EQ(credit_calls, 0);  // half of the window still waits
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_EQ(credit_calls, 1);
  ASSERT_TRUE(channel.TryPop(&element).value());
  EXPECT_EQ(credit_calls, 1);  // it had credit already
}

TEST(LocalChannelTest, BarriersAndTheEndAreFree) {
  LocalChannel channel(1);
  int arrival_calls = 0;
  channel.SetArrivalWaker([&] { ++arrival_calls; });
  for (int i = 0; i < 3; ++i) channel.Push(Barrier{CheckpointId(1)});
  channel.Push(EndOfInput{});
  EXPECT_TRUE(channel.HasCredit());
  EXPECT_EQ(channel.queued_bytes(), 0);
  EXPECT_EQ(arrival_calls, 1);
}

// Both sides sleep as soon as they may not go on: a lost wake-up would hang the test.
TEST(LocalChannelTest, TwoThreadsNeverMissAWakeUp) {
  constexpr int64_t kElements = 100'000;
  const int64_t bytes = Row(0)->ByteSize();
  for (const int64_t window_bytes : {int64_t{1}, 3 * bytes}) {
    LocalChannel channel(window_bytes);
    Gate arrival;
    Gate credit;
    channel.SetArrivalWaker([&] { arrival.Notify(); });
    channel.SetCreditWaker([&] { credit.Notify(); });
    int64_t queued_bytes_max = 0;

    std::thread sender([&] {
      for (int64_t i = 0; i < kElements; ++i) {
        while (!channel.HasCredit()) credit.Wait();
        channel.Push(Row(i));
        if (i % 100 == 99) channel.Push(Barrier{CheckpointId(static_cast<uint64_t>(i / 100 + 1))});
      }
      channel.Push(EndOfInput{});
    });

    int64_t next = 0;
    uint64_t barriers = 0;
    bool ended = false;
    bool in_order = true;
    while (!ended) {
      StreamElement element;
      queued_bytes_max = std::max(queued_bytes_max, channel.queued_bytes());
      if (!channel.TryPop(&element).value()) {
        arrival.Wait();
        continue;
      }
      if (const Barrier* barrier = std::get_if<Barrier>(&element)) {
        in_order &= barrier->checkpoint == CheckpointId(++barriers);
        in_order &= next == static_cast<int64_t>(barriers * 100);
      } else if (std::holds_alternative<EndOfInput>(element)) {
        ended = true;
      } else {
        in_order &= NumberOf(element) == next++;
      }
    }
    sender.join();
    EXPECT_TRUE(in_order);
    EXPECT_EQ(next, kElements);
    EXPECT_EQ(barriers, static_cast<uint64_t>(kElements / 100));
    EXPECT_LT(queued_bytes_max, window_bytes + bytes);
  }
}

}  // namespace
}  // namespace weir
