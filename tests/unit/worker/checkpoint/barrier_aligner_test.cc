// Goal: the cut of an aligned checkpoint is one exact position on every channel, whatever order
// barriers, newer barriers and aborts come in. Method: each rule of design.md (section 5) as a
// short story, then random stories against a plain re-statement of the rule.

#include "worker/checkpoint/barrier_aligner.h"

#include <gtest/gtest.h>

#include <random>

namespace weir {
namespace {

using Decision = BarrierAligner::Decision;

CheckpointId Id(uint64_t n) { return CheckpointId(n); }

TEST(BarrierAligner, ASingleChannelSnapshotsAtOnce) {
  BarrierAligner aligner(1);
  EXPECT_EQ(aligner.OnBarrier(0, Id(1)), Decision::kSnapshot);
  EXPECT_FALSE(aligner.IsBlocked(0));
  EXPECT_EQ(aligner.OnBarrier(0, Id(2)), Decision::kSnapshot);
}

TEST(BarrierAligner, EarlyChannelsAreBlockedUntilTheLastBarrierComes) {
  BarrierAligner aligner(3);
  EXPECT_EQ(aligner.OnBarrier(1, Id(7)), Decision::kAlign);
  EXPECT_FALSE(aligner.IsBlocked(0));
  EXPECT_TRUE(aligner.IsBlocked(1));
  EXPECT_EQ(aligner.OnBarrier(0, Id(7)), Decision::kAlign);
  EXPECT_TRUE(aligner.IsBlocked(0));
  EXPECT_EQ(aligner.current(), Id(7));
  EXPECT_EQ(aligner.OnBarrier(2, Id(7)), Decision::kSnapshot);
  for (int channel = 0; channel < 3; ++channel) EXPECT_FALSE(aligner.IsBlocked(channel));
  EXPECT_EQ(aligner.current(), Id(0));
}

TEST(BarrierAligner, ANewerBarrierEndsAnOlderAlignment) {
  BarrierAligner aligner(2);
  EXPECT_EQ(aligner.OnBarrier(0, Id(3)), Decision::kAlign);
  EXPECT_EQ(aligner.OnBarrier(1, Id(4)), Decision::kAlign);
  EXPECT_FALSE(aligner.IsBlocked(0));
  EXPECT_TRUE(aligner.IsBlocked(1));
  EXPECT_EQ(aligner.OnBarrier(0, Id(4)), Decision::kSnapshot);
}

TEST(BarrierAligner, ALateBarrierOfASupersededCheckpointIsIgnored) {
  BarrierAligner aligner(2);
  EXPECT_EQ(aligner.OnBarrier(0, Id(4)), Decision::kAlign);
  EXPECT_EQ(aligner.OnBarrier(1, Id(3)), Decision::kIgnore);
  EXPECT_FALSE(aligner.IsBlocked(1));
  EXPECT_EQ(aligner.OnBarrier(1, Id(4)), Decision::kSnapshot);
  EXPECT_EQ(aligner.OnBarrier(0, Id(4)), Decision::kIgnore);
}

TEST(BarrierAligner, AnAbortUnblocksTheAlignmentUnderWay) {
  BarrierAligner aligner(2);
  EXPECT_EQ(aligner.OnBarrier(0, Id(5)), Decision::kAlign);
  aligner.OnAbort(Id(5));
  EXPECT_FALSE(aligner.IsBlocked(0));
  EXPECT_EQ(aligner.OnBarrier(1, Id(5)), Decision::kIgnore);
  EXPECT_FALSE(aligner.IsBlocked(1));
}

TEST(BarrierAligner, AnAbortThatOvertakesTheBarriersIsRemembered) {
  BarrierAligner aligner(2);
  aligner.OnAbort(Id(5));
  EXPECT_EQ(aligner.OnBarrier(0, Id(5)), Decision::kIgnore);
  EXPECT_EQ(aligner.OnBarrier(1, Id(5)), Decision::kIgnore);
  EXPECT_EQ(aligner.OnBarrier(0, Id(6)), Decision::kAlign);
  EXPECT_EQ(aligner.OnBarrier(1, Id(6)), Decision::kSnapshot);
}

TEST(BarrierAligner, AnAbortOfAnotherCheckpointLeavesTheAlignmentAlone) {
  BarrierAligner aligner(2);
  EXPECT_EQ(aligner.OnBarrier(0, Id(5)), Decision::kAlign);
  aligner.OnAbort(Id(4));
  aligner.OnAbort(Id(6));
  EXPECT_TRUE(aligner.IsBlocked(0));
  EXPECT_EQ(aligner.OnBarrier(1, Id(5)), Decision::kSnapshot);
  EXPECT_EQ(aligner.OnBarrier(1, Id(6)), Decision::kIgnore);
}

// Each channel carries an increasing run of barriers, some dropped; a channel that is blocked
// brings nothing. A snapshot of n must find that every channel brought n and nothing newer, and
// that n was not aborted.
TEST(BarrierAligner, RandomStoriesKeepTheCutExact) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    int channels = 1 + static_cast<int>(random() % 4);
    BarrierAligner aligner(channels);
    std::vector<uint64_t> newest(channels, 0);
    std::vector<bool> aborted(64, false);
    uint64_t last_snapshot = 0;
    for (int step = 0; step < 200; ++step) {
      if (random() % 8 == 0) {
        uint64_t n = 1 + random() % 40;
        aborted[n] = true;
        aligner.OnAbort(Id(n));
        continue;
      }
      int channel = static_cast<int>(random() % channels);
      if (aligner.IsBlocked(channel) || newest[channel] >= 40) continue;
      uint64_t n = newest[channel] + 1 + (random() % 5 == 0 ? 1 : 0);
      newest[channel] = n;
      bool was_aborted = aborted[n];
      Decision decision = aligner.OnBarrier(channel, Id(n));
      if (was_aborted) {
        EXPECT_EQ(decision, Decision::kIgnore);
      }
      if (decision != Decision::kSnapshot) continue;
      EXPECT_GT(n, last_snapshot);
      last_snapshot = n;
      EXPECT_FALSE(was_aborted);
      for (int other = 0; other < channels; ++other) {
        EXPECT_EQ(newest[other], n) << "seed " << seed;
        EXPECT_FALSE(aligner.IsBlocked(other));
      }
    }
  }
}

}  // namespace
}  // namespace weir
