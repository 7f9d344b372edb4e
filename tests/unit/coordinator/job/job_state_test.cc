// Goal: which state follows which, and what a failure leads to. Method: the table written out once
// more as pairs of words; pauses worked out by hand.

#include "coordinator/job/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace weir {
namespace {

using testing::HasSubstr;

constexpr JobState kAll[] = {JobState::kCreated,    JobState::kRunning,  JobState::kRestarting,
                             JobState::kCancelling, JobState::kCanceled, JobState::kFinished,
                             JobState::kFailed};

TEST(JobState, FollowsOnlyLegalTransitions) {
  const std::set<std::pair<std::string, std::string>> legal = {
      {"CREATED", "RUNNING"},       {"CREATED", "RESTARTING"}, {"CREATED", "CANCELLING"},
      {"CREATED", "FAILED"},        {"RUNNING", "RESTARTING"}, {"RUNNING", "CANCELLING"},
      {"RUNNING", "FINISHED"},      {"RUNNING", "FAILED"},     {"RESTARTING", "RUNNING"},
      {"RESTARTING", "CANCELLING"}, {"RESTARTING", "FAILED"},  {"CANCELLING", "CANCELED"}};
  for (JobState from : kAll) {
    for (JobState to : kAll) {
      EXPECT_EQ(IsLegalTransition(from, to),
                legal.contains({std::string(ToString(from)), std::string(ToString(to))}))
          << ToString(from) << " -> " << ToString(to);
    }
  }
}

TEST(RestartBackoff, DoublesUpToTheLimitAndJittersBetweenHalfAndAll) {
  JobOptions options;
  options.restart_backoff_initial_us = 100'000;
  options.restart_backoff_max_us = 1'000'000;
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    RestartBackoff backoff(options);
    for (int64_t full_us : {100'000, 200'000, 400'000, 800'000, 1'000'000, 1'000'000}) {
      const int64_t pause_us = *backoff.Next(random);
      EXPECT_GE(pause_us, full_us / 2);
      EXPECT_LE(pause_us, full_us);
    }
  }
}

TEST(RestartBackoff, JobsThatFailTogetherDoNotRestartTogether) {
  Random random(1);
  std::set<int64_t> pauses;
  for (int job = 0; job < 20; ++job) pauses.insert(*RestartBackoff(JobOptions()).Next(random));
  EXPECT_GT(pauses.size(), 15u);
}

TEST(RestartBackoff, BeginsAnewAfterACompletedCheckpoint) {
  JobOptions options;
  options.restart_attempts_max = 3;
  Random random(1);
  RestartBackoff backoff(options);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(backoff.Next(random));
  EXPECT_FALSE(backoff.Next(random));
  backoff.Reset();
  const std::optional<int64_t> pause_us = backoff.Next(random);
  ASSERT_TRUE(pause_us);
  EXPECT_LE(*pause_us, 100'000);
}

TEST(RestartBackoff, TakesAnyOptionsWithoutOverflow) {
  JobOptions options;
  options.restart_backoff_initial_us = 0;
  Random random(1);
  RestartBackoff none(options);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(none.Next(random), 0);
  options.restart_backoff_initial_us = 3;
  options.restart_backoff_max_us = INT64_MAX;
  RestartBackoff large(options);
  for (int i = 0; i < 200; ++i) EXPECT_GE(*large.Next(random), 2);
  options.restart_backoff_initial_us = 50;
  options.restart_backoff_max_us = 10;
  RestartBackoff capped(options);
  EXPECT_LE(*capped.Next(random), 10);
}

TEST(Failover, AUserErrorThatARepetitionDoesNotHealFailsTheJobAtOnce) {
  Random random(1);
  RestartBackoff backoff{JobOptions()};
  const FailoverDecision decision =
      DecideFailover(InvalidArgumentError("part-0.csv line 7: not a number"), backoff, random);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.reason, "part-0.csv line 7: not a number");
}

TEST(Failover, EverythingElseRestarts) {
  Random random(1);
  RestartBackoff backoff{JobOptions()};
  for (const Status& error :
       {UnavailableError("worker lost"), InternalError("broken"), StaleError("old"),
        InvalidArgumentError("not there yet").WithRetry(true),
        UnavailableError("for good").WithRetry(false)}) {
    const FailoverDecision decision = DecideFailover(error, backoff, random);
    EXPECT_TRUE(decision.restart) << error;
    EXPECT_GT(decision.delay_us, 0);
  }
}

TEST(Failover, FailsTheJobWhenItsAttemptsAreUsedUp) {
  JobOptions options;
  options.restart_attempts_max = 1;
  Random random(1);
  RestartBackoff backoff(options);
  EXPECT_TRUE(DecideFailover(UnavailableError("disk gone"), backoff, random).restart);
  const FailoverDecision decision = DecideFailover(UnavailableError("disk gone"), backoff, random);
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("1 restart without a completed checkpoint"));
  EXPECT_THAT(decision.reason, HasSubstr("disk gone"));
}

}  // namespace
}  // namespace weir
