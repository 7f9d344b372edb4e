// The two accounts of a channel's credit, by hand calculation.
#include "worker/network/channel_credit.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using Given = SenderCredit::Given;

TEST(SenderCreditTest, StartsWithTheWindowAndMayBeOverdrawn) {
  SenderCredit credit(100);
  EXPECT_TRUE(credit.HasCredit());
  credit.Take(99);
  EXPECT_TRUE(credit.HasCredit());
  credit.Take(1);
  EXPECT_FALSE(credit.HasCredit());  // none left is no credit
  credit.Take(500);
  EXPECT_EQ(credit.left_bytes(), -500);
}

TEST(SenderCreditTest, SaysWhenCreditBecomesPositive) {
  SenderCredit credit(100);
  credit.Take(300);
  EXPECT_EQ(credit.Give(100), Given::kCounted);  // -100
  EXPECT_EQ(credit.Give(100), Given::kCounted);  // 0 is not positive
  EXPECT_EQ(credit.Give(1), Given::kPositive);   // 1
  EXPECT_EQ(credit.Give(99), Given::kCounted);   // 100: the window again
}

TEST(SenderCreditTest, RefusesWhatWasNeverTaken) {
  SenderCredit credit(100);
  EXPECT_EQ(credit.Give(1), Given::kRefused);
  credit.Take(40);
  EXPECT_EQ(credit.Give(0), Given::kRefused);
  EXPECT_EQ(credit.Give(-1), Given::kRefused);
  EXPECT_EQ(credit.Give(41), Given::kRefused);
  EXPECT_EQ(credit.left_bytes(), 60);
  EXPECT_EQ(credit.Give(40), Given::kCounted);
}

TEST(ReceiverCreditTest, GivesBackInPortionsOfAQuarterOfTheWindow) {
  ReceiverCredit credit(100);
  EXPECT_EQ(credit.Pop(24), 0);
  EXPECT_EQ(credit.Pop(0), 0);
  EXPECT_EQ(credit.Pop(1), 25);
  EXPECT_EQ(credit.owed_bytes(), 0);
  EXPECT_EQ(credit.Pop(1000), 1000);  // larger than the window: at once
}

TEST(ReceiverCreditTest, NeverGivesNothingInATinyWindow) {
  ReceiverCredit credit(1);
  EXPECT_EQ(credit.Pop(0), 0);
  EXPECT_EQ(credit.Pop(1), 1);
}

// Whatever the sizes: a sender that has sent all it may and a receiver that has popped all it got
// never wait for each other.
TEST(ChannelCreditTest, AnEmptyQueueAlwaysLeavesTheSenderCredit) {
  for (const int64_t window : {1, 3, 4, 7, 100, 1000}) {
    for (const int64_t element : {1, 2, 3, 24, 25, 26, 99, 100, 5000}) {
      SenderCredit sender(window);
      ReceiverCredit receiver(window);
      for (int i = 0; i < 1000; ++i) {
        int64_t waiting = 0;
        while (sender.HasCredit()) {
          sender.Take(element);
          ++waiting;
        }
        while (waiting-- > 0) {
          const int64_t give = receiver.Pop(element);
          if (give > 0) {
            ASSERT_NE(sender.Give(give), Given::kRefused);
          }
        }
        ASSERT_TRUE(sender.HasCredit()) << "window " << window << " element " << element;
      }
    }
  }
}

}  // namespace
}  // namespace weir
