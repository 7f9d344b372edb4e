// Goal: one coordinator leads at a time as far as liveness goes, and a paused one steps down when
// it comes back. Method: two of them over one disk in memory; time is moved by hand.
#include "coordinator/membership/leadership.h"

#include <gtest/gtest.h>

#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

struct Candidate {
  Candidate(std::shared_ptr<MemoryFileSystem::Disk> disk, std::string host, uint64_t seed,
            bool take_over = false)
      : files(loop, std::move(disk)), random(seed) {
    LeadershipOptions options;
    options.checkpoint_dir = "/c";
    options.address = host + ":7070";
    options.host = host;
    options.pid = 4711;
    options.take_over = take_over;
    leadership.emplace(options, loop, files, loop.clock(), random);
    Leadership::Listener listener;
    listener.won = [this] { ++won; };
    listener.lost = [this](std::string why) { lost = std::move(why); };
    listener.waiting = [this] { waited_for = leadership->waits_for(); };
    leadership->Start(std::move(listener));
  }
  ManualExecutor loop;
  MemoryFileSystem files;
  Random random;
  std::optional<Leadership> leadership;
  int won = 0;
  std::string lost;
  std::string waited_for;
};

class LeadershipTest : public testing::Test {
 protected:
  ManualExecutor loop_;
  MemoryFileSystem view_{loop_};
};

void Advance(std::initializer_list<Candidate*> candidates, int64_t us) {
  for (int64_t at = 0; at < us; at += 50'000) {
    for (Candidate* one : candidates) one->loop.Advance(50'000);
  }
}

TEST_F(LeadershipTest, FirstLeadsAtOnceAndTheSecondWaitsWhileItsLeaseChanges) {
  Candidate a(view_.disk(), "a", 1);
  Advance({&a}, 50'000);
  EXPECT_TRUE(a.leadership->leading());
  EXPECT_EQ(a.leadership->number().value(), 1u);
  EXPECT_EQ(view_.Bytes(a.leadership->nonce_path()), a.leadership->nonce());
  Candidate b(view_.disk(), "b", 2);
  Advance({&a, &b}, 30 * kSecondUs);
  EXPECT_EQ(b.won, 0);
  EXPECT_EQ(b.waited_for, "coordinator 1 at a:7070 (host a, pid 4711)");
  // Making a number deposes: one who waits has made none.
  EXPECT_FALSE(view_.Exists("/c/coordinators/000002"));
}

TEST_F(LeadershipTest, PausedLeaderIsReplacedAfterTheTimeoutAndStepsDown) {
  Candidate a(view_.disk(), "a", 1);
  Advance({&a}, kSecondUs);
  Candidate b(view_.disk(), "b", 2);
  Advance({&b}, 4'800'000);
  EXPECT_EQ(b.won, 0);
  Advance({&b}, 700'000);
  EXPECT_EQ(b.won, 1);
  EXPECT_EQ(b.leadership->number().value(), 2u);
  Advance({&a, &b}, 2 * kSecondUs);
  EXPECT_FALSE(a.leadership->leading());
  EXPECT_EQ(a.lost, "coordinator 2 leads now");
  EXPECT_TRUE(b.leadership->leading());
  // It waits again, and leads again when the other one has gone.
  Advance({&a}, 6 * kSecondUs);
  EXPECT_EQ(a.won, 2);
  EXPECT_EQ(a.leadership->number().value(), 3u);
}

TEST_F(LeadershipTest, ReleasedLeaseAndTakeOverNeedNoWaiting) {
  Candidate a(view_.disk(), "a", 1);
  Candidate b(view_.disk(), "b", 2);
  Advance({&a, &b}, 2 * kSecondUs);
  ASSERT_TRUE(a.leadership->leading());
  bool stopped = false;
  a.leadership->Stop([&] { stopped = true; });
  Advance({&a, &b}, 300'000);
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(b.leadership->leading());
  Candidate c(view_.disk(), "c", 3, /*take_over=*/true);
  Advance({&c}, 50'000);
  EXPECT_TRUE(c.leadership->leading());
  Advance({&b, &c}, 2 * kSecondUs);
  EXPECT_FALSE(b.leadership->leading());
}

TEST_F(LeadershipTest, OfTwoThatWaitOneTakesOver) {
  Candidate a(view_.disk(), "a", 1);
  Advance({&a}, kSecondUs);
  Candidate b(view_.disk(), "b", 2);
  Candidate c(view_.disk(), "c", 3);
  Advance({&b, &c}, 20 * kSecondUs);
  EXPECT_EQ(b.won + c.won, 1);
  EXPECT_TRUE(b.leadership->leading() != c.leadership->leading());
}

TEST_F(LeadershipTest, StorageErrorsAreWaitedOut) {
  Candidate a(view_.disk(), "a", 1);
  a.files.set_before(
      [](std::string_view, const std::string&) { return UnavailableError("mount is away"); });
  Advance({&a}, 5 * kSecondUs);
  EXPECT_EQ(a.won, 0);
  a.files.set_before({});
  Advance({&a}, 2 * kSecondUs);
  EXPECT_TRUE(a.leadership->leading());
}

TEST_F(LeadershipTest, OneWhoseNumberIsNotThereSaysSoAndWritesNothing) {
  Candidate a(view_.disk(), "a", 1);
  Advance({&a}, 2 * kSecondUs);
  // When another directory is mounted in the place of its own.
  view_.Delete("/c/coordinators/000001");
  view_.Delete("/c/coordinator.lease");
  int64_t away_us = a.loop.clock().WallMicros();
  Advance({&a}, 5 * kSecondUs);
  EXPECT_TRUE(a.leadership->leading());
  EXPECT_EQ(a.leadership->trouble(),
            "/c/coordinators/000001, by which it leads, is not there (is it mounted?)");
  EXPECT_LE(a.leadership->trouble_since_wall_us(), away_us + kSecondUs + 50'000);
  EXPECT_FALSE(view_.Exists("/c/coordinator.lease"));
  view_.PutFile("/c/coordinators/000001", a.leadership->nonce());
  Advance({&a}, 2 * kSecondUs);
  EXPECT_EQ(a.leadership->trouble(), "");
  EXPECT_EQ(a.leadership->trouble_since_wall_us(), 0);
  EXPECT_TRUE(view_.Exists("/c/coordinator.lease"));
}

}  // namespace
}  // namespace weir
