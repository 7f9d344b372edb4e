// Goal: who counts as dead, and when. Method: times told by hand; timeout 5 s.

#include "coordinator/membership/heartbeat_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Registration = HeartbeatMonitor::Registration;

constexpr int64_t kSecond = 1'000'000;
const WorkerName kA("a"), kB("b");
const WorkerIncarnation kOne("one"), kTwo("two");

class HeartbeatMonitorTest : public testing::Test {
 protected:
  HeartbeatMonitor monitor_{5 * kSecond};
};

TEST_F(HeartbeatMonitorTest, AWorkerIsDeadWhenSilentForTheTimeout) {
  EXPECT_EQ(monitor_.NextWakeMicros(), std::nullopt);
  EXPECT_EQ(monitor_.OnRegistered(kA, kOne, 10 * kSecond), Registration::kNew);
  EXPECT_EQ(monitor_.NextWakeMicros(), 15 * kSecond);
  EXPECT_TRUE(monitor_.OnHeartbeat(kA, kOne, 12 * kSecond));
  EXPECT_EQ(monitor_.NextWakeMicros(), 17 * kSecond);
  EXPECT_EQ(monitor_.LastHeardMicros(kA), 12 * kSecond);
  EXPECT_THAT(monitor_.TakeDead(17 * kSecond - 1), IsEmpty());
  EXPECT_THAT(monitor_.TakeDead(17 * kSecond), ElementsAre(HeartbeatMonitor::Worker{kA, kOne}));
  EXPECT_THAT(monitor_.TakeDead(17 * kSecond), IsEmpty());
  EXPECT_EQ(monitor_.LastHeardMicros(kA), std::nullopt);
  EXPECT_FALSE(monitor_.OnHeartbeat(kA, kOne, 18 * kSecond)) << "it has to register again";
}

TEST_F(HeartbeatMonitorTest, OnlyTheSilentOnesDie) {
  monitor_.OnRegistered(kA, kOne, 0);
  monitor_.OnRegistered(kB, kOne, 0);
  monitor_.OnHeartbeat(kB, kOne, 3 * kSecond);
  EXPECT_THAT(monitor_.TakeDead(5 * kSecond), ElementsAre(HeartbeatMonitor::Worker{kA, kOne}));
  EXPECT_EQ(monitor_.NextWakeMicros(), 8 * kSecond);
}

TEST_F(HeartbeatMonitorTest, ALiveNameIsTakenAndAFreedOneIsNot) {
  monitor_.OnRegistered(kA, kOne, 0);
  EXPECT_EQ(monitor_.OnRegistered(kA, kTwo, kSecond), Registration::kNameTaken);
  EXPECT_FALSE(monitor_.OnHeartbeat(kA, kTwo, kSecond));
  EXPECT_EQ(monitor_.LastHeardMicros(kA), 0) << "the other one's words do not keep it alive";
  EXPECT_EQ(monitor_.OnRegistered(kA, kOne, 2 * kSecond), Registration::kRepeated);
  EXPECT_EQ(monitor_.NextWakeMicros(), 7 * kSecond);
  EXPECT_FALSE(monitor_.Remove(kA, kTwo));
  EXPECT_TRUE(monitor_.Remove(kA, kOne));
  EXPECT_FALSE(monitor_.Remove(kA, kOne));
  EXPECT_EQ(monitor_.OnRegistered(kA, kTwo, 3 * kSecond), Registration::kNew);
}

TEST_F(HeartbeatMonitorTest, AHeartbeatThatArrivesLateDoesNotTurnTimeBack) {
  monitor_.OnRegistered(kA, kOne, 4 * kSecond);
  EXPECT_TRUE(monitor_.OnHeartbeat(kA, kOne, 2 * kSecond));
  EXPECT_EQ(monitor_.LastHeardMicros(kA), 4 * kSecond);
}

TEST_F(HeartbeatMonitorTest, APauseOfTheCoordinatorItselfIsNotHeldAgainstWorkers) {
  monitor_.OnRegistered(kA, kOne, 0);
  monitor_.OnRegistered(kB, kOne, kSecond);
  // Asked for 5 s, called at 100 s: the process stood still.
  EXPECT_THAT(monitor_.TakeDead(100 * kSecond), IsEmpty());
  EXPECT_TRUE(monitor_.OnHeartbeat(kB, kOne, 101 * kSecond));
  EXPECT_EQ(monitor_.NextWakeMicros(), 102 * kSecond + kSecond / 2);
  EXPECT_THAT(monitor_.TakeDead(102 * kSecond + kSecond / 2),
              ElementsAre(HeartbeatMonitor::Worker{kA, kOne}));
}

}  // namespace
}  // namespace weir
