// Goal: what is put into the outbox arrives, in order, through failures, and never after the
// coordinator called it stale. Method: a scripted receiver under a manual clock.

#include "worker/task/outbox.h"

#include <gtest/gtest.h>

#include "tests/support/manual_executor.h"

namespace weir {
namespace {

class OutboxTest : public testing::Test {
 protected:
  ManualExecutor executor_;
  std::vector<std::vector<int>> calls_;
  std::vector<std::function<void(Status)>> answers_;
  int stale_ = 0;
  Outbox<int> outbox_{executor_,
                      [this](std::vector<int> items, Outbox<int>::Done done) {
                        calls_.push_back(std::move(items));
                        answers_.push_back(std::move(done));
                      },
                      [this] { ++stale_; }};
};

TEST_F(OutboxTest, WhatIsAddedMeanwhileTravelsTogetherInOrder) {
  outbox_.Add(1);
  outbox_.Add(2);
  outbox_.Add(3);
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_EQ(calls_[0], std::vector<int>{1});
  answers_[0](Status());
  ASSERT_EQ(calls_.size(), 2u);
  EXPECT_EQ(calls_[1], (std::vector<int>{2, 3}));
  answers_[1](Status());
  EXPECT_EQ(calls_.size(), 2u);
}

TEST_F(OutboxTest, AFailedCallIsRepeatedWithTheSameContentAfterAPause) {
  outbox_.Add(1);
  answers_[0](UnavailableError("lost"));
  outbox_.Add(2);
  EXPECT_EQ(calls_.size(), 1u);
  executor_.Advance(Outbox<int>::kRetryUs);
  ASSERT_EQ(calls_.size(), 2u);
  EXPECT_EQ(calls_[1], std::vector<int>{1});
  answers_[1](Status());
  ASSERT_EQ(calls_.size(), 3u);
  EXPECT_EQ(calls_[2], std::vector<int>{2});
}

TEST_F(OutboxTest, AStaleAnswerEndsIt) {
  outbox_.Add(1);
  answers_[0](StaleError("generation 3 has ended"));
  EXPECT_EQ(stale_, 1);
  outbox_.Add(2);
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(OutboxTest, AfterCloseALateAnswerDoesNothing) {
  outbox_.Add(1);
  outbox_.Add(2);
  outbox_.Close();
  answers_[0](Status());
  executor_.Advance(10 * Outbox<int>::kRetryUs);
  EXPECT_EQ(calls_.size(), 1u);
  EXPECT_EQ(stale_, 0);
}

}  // namespace
}  // namespace weir
