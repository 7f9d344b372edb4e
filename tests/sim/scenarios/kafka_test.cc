// kafka.sink against the model of a broker: the orders of events that no reader may see.
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/scenarios/b_common.h"

namespace weir::sim {
namespace {

using Fate = KafkaLink::Fate;
using Request = KafkaLink::Request;

constexpr int64_t kSecond = 1'000'000;

ScenarioOptions Options() {
  ScenarioOptions options;
  options.kafka_partitions = 3;
  options.rows = 3000;
  return options;
}

// What is planted during a test.
class Planted {
 public:
  explicit Planted(const char* bug) { Simulation::Plant(bug); }
  ~Planted() { Simulation::Plant(""); }
};

TEST(Kafka, RowsComeOnceAndNothingStaysOpen) {
  Scenario scenario(Options());
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  EXPECT_TRUE(scenario.sim().Until([&] { return scenario.VisibleIds().size() > 100; }));
  EXPECT_LT(scenario.VisibleIds().size(), 3000u) << "checkpoint by checkpoint";
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// Given: an EndTxn of sink 0 is held back for 4.5 s, its client asks again on a new connection,
// with success. When: it is let go while the next transaction has its rows and not its marker.
// Then: nothing, for the next transaction is of a new instance. Without that, a late commit shows
// rows without their marker, which come again after a crash, and a late abort loses them.
class Torn : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Torn, TransactionIsNotEndedHalfWay) {
  const auto [commit, planted] = GetParam();
  Planted bug(planted ? "no_new_instance_after_disturbed" : "");
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  bool armed = false;
  bool marker_lost = false;
  int64_t held_until_us = 0;
  bool slowed = false;
  sim.kafka().set_hook([&](const Request& request) {
    Fate fate;
    if (!armed || !request.id.ends_with("-out-0")) return fate;
    if (!commit && !marker_lost && request.api == "TxnOffsetCommit") {
      // So that it aborts.
      fate.lose_answer = fate.cut = marker_lost = true;
    } else if (held_until_us == 0 && request.api == "EndTxn") {
      fate.lose_answer = fate.cut = true;
      fate.delay_us = 2 * kSecond;
      held_until_us = sim.scheduler().now_us() + fate.delay_us;
    } else if (held_until_us > 0 && !slowed && request.api == "AddOffsetsToTxn") {
      slowed = true;
      fate.delay_us = held_until_us + 200'000 - sim.scheduler().now_us();
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  armed = true;
  ASSERT_TRUE(sim.Until([&] { return slowed; }, 10 * kSecond));
  ASSERT_LT(sim.scheduler().now_us(), held_until_us);
  sim.RunFor(held_until_us + 100'000 - sim.scheduler().now_us());
  EXPECT_GT(sim.probes().count(Probe::kKafkaLateEnd), 0);
  if (commit) sim.Kill(scenario.WorkerOf("per-key", 0));
  if (!planted) {
    ExpectAllRows(scenario);
    return;
  }
  sim.Finish();
  EXPECT_NE(sim.violation(), "");
  EXPECT_NE(sim.violation().find(commit ? "visible 2 times" : "misses"), std::string::npos)
      << sim.violation();
}

INSTANTIATE_TEST_SUITE_P(, Torn, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Commit" : "Abort") +
                                  (std::get<1>(info.param) ? "WithoutTheDefence" : "");
                         });

// Given: a worker is cut off from the coordinators while it publishes, not from the broker. When:
// its job goes on elsewhere. Then: what it was publishing appears once.
TEST(Kafka, AZombieWorkerPublishesNothingTwice) {
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  const std::string zombie = scenario.WorkerOf("per-key", 0);
  bool paused = false;
  sim.kafka().set_hook([&](const Request& request) {
    if (!paused && request.from.name() == zombie && request.api == "TxnOffsetCommit") {
      paused = true;
      sim.scheduler().After(1, [&] { sim.Pause(zombie); });
    }
    return Fate();
  });
  ASSERT_TRUE(sim.Until([&] { return paused; }));
  ASSERT_TRUE(scenario.WaitForRunningAbove(Generation(1)));
  ASSERT_TRUE(scenario.WaitForCompletedAbove(sim.newest_completed()));
  sim.Continue(zombie);
  sim.RunFor(2 * kSecond);
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 2u) << "the zombie disturbs nobody";
}

// Given: a worker that its coordinator cannot reach any more has rows in a transaction. When: it
// commits just before the next generation initialises the id. Then: the marker, read after that,
// says so. Read before, it would have them published again.
class CommitsLate : public ::testing::TestWithParam<bool> {};

TEST_P(CommitsLate, BeforeTheNextGenerationHasTheId) {
  Planted bug(GetParam() ? "marker_before_init" : "");
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  const std::string zombie = scenario.WorkerOf("per-key", 0);
  int64_t since_us = 0;
  sim.kafka().set_hook([&](const Request& request) {
    Fate fate;
    if (!request.id.ends_with("-out-0")) return fate;
    const int64_t now_us = sim.scheduler().now_us();
    if (since_us == 0 && request.api == "AddOffsetsToTxn" && request.from.name() == zombie) {
      since_us = now_us;
      fate.delay_us = 2 * kSecond;
      for (const std::string& machine : scenario.Machines()) {
        sim.network().Block(zombie, machine);
        sim.network().Block(machine, zombie);
      }
    } else if (since_us > 0 && request.api == "EndTxn" && request.from.name() == zombie) {
      fate.lose_answer = true;  // so that it does not remove what is published
    } else if (since_us > 0 && request.api == "InitProducerId" && request.from.name() != zombie) {
      fate.delay_us = std::max<int64_t>(0, since_us + 2 * kSecond + 200'000 - now_us);
    }
    return fate;
  });
  const bool runs = scenario.WaitForRunningAbove(Generation(1));
  if (!GetParam()) {
    ASSERT_TRUE(runs);
    ExpectAllRows(scenario);
    return;
  }
  // The end of one transaction comes to its partitions and its marker in any order.
  EXPECT_TRUE(sim.violation().find("visible 2 times") != std::string::npos ||
              sim.violation().find("-out-0 goes from ") != std::string::npos)
      << sim.violation();
}

INSTANTIATE_TEST_SUITE_P(, CommitsLate, ::testing::Bool(), [](const auto& info) {
  return info.param ? "AndTheMarkerIsReadTooEarly" : "AndTheMarkerTells";
});

// Given: the broker is away for half a minute, longer than a transaction may take. Then: rows wait
// in their stages and come out afterwards.
TEST(Kafka, ABrokerThatIsAwayForLongIsWaitedFor) {
  ScenarioOptions options = Options();
  options.kafka_config = ", \"transaction_timeout\": \"5s\"";
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  sim.kafka().set_down(true);
  sim.RunFor(kSecond);
  const size_t visible = scenario.VisibleIds().size();
  sim.RunFor(29 * kSecond);
  EXPECT_EQ(scenario.VisibleIds().size(), visible);
  sim.kafka().set_down(false);
  ExpectAllRows(scenario);
}

// Given: a worker cannot reach the broker for longer than its transaction may take. When: the
// broker gives the transaction up. Then: the generation fails, the next one publishes the rows.
TEST(Kafka, ATransactionThatTakesTooLongIsDoneAgain) {
  ScenarioOptions options = Options();
  options.kafka_config = ", \"transaction_timeout\": \"4s\"";
  Scenario scenario(options);
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  bool cut = false;
  const std::string worker = scenario.WorkerOf("per-key", 0);
  sim.kafka().set_hook([&](const Request& request) {
    if (!cut && request.from.name() == worker && request.api == "TxnOffsetCommit") {
      cut = true;
      sim.scheduler().After(50'000, [&] { sim.kafka().Block(worker); });
      return Fate{.lose_request = true};
    }
    return Fate();
  });
  ASSERT_TRUE(sim.Until([&] { return cut; }));
  ASSERT_TRUE(sim.Until([&] { return sim.kafka().broker().timed_out() > 0; }));
  sim.kafka().UnblockAll();
  ExpectAllRows(scenario);
}

// Given: stages of completed checkpoints are pending while the broker is away. When: the job is
// cancelled, and the broker comes back. Then: readers see the rows of all completed checkpoints,
// once, and no transaction holds them back.
TEST(Kafka, ACancelledJobPublishesWhatIsPendingAndLeavesNothingOpen) {
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  bool down = false;
  sim.kafka().set_hook([&](const Request& request) {
    if (!down && request.api == "TxnOffsetCommit") {
      down = true;
      sim.scheduler().After(0, [&] { sim.kafka().set_down(true); });
    }
    return Fate();
  });
  ASSERT_TRUE(sim.Until([&] { return down; }));
  sim.RunFor(kSecond);
  EXPECT_FALSE(sim.kafka().broker().OpenTransactions().empty());
  const CheckpointId newest = sim.newest_completed();
  bool answered = false;
  sim.leader()->Cancel(sim.job().value(), false,
                       [&](const StatusOr<std::vector<std::string>>& answer) {
                         answered = true;
                         EXPECT_TRUE(answer.ok()) << answer.status().message();
                       });
  sim.RunFor(2 * kSecond);
  sim.kafka().set_down(false);
  ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kCanceled) > 0; }));
  sim.RunFor(5 * kSecond);
  EXPECT_TRUE(answered);
  EXPECT_EQ(sim.violation(), "");
  EXPECT_GE(sim.newest_completed(), newest);
  KafkaBroker& broker = sim.kafka().broker();
  EXPECT_TRUE(broker.OpenTransactions().empty());
  const std::vector<int64_t> ids = scenario.VisibleIds();
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), ids.size());
  // Every sink has rows, and so a stage, at each checkpoint.
  for (int subtask = 0; subtask < 2; ++subtask) {
    const std::string group = Concat(sim.job().value(), "-out-", subtask);
    EXPECT_EQ(broker.Committed(group, "out", 0).offset,
              static_cast<int64_t>(sim.newest_completed().value()));
  }
}

// A worker dies at each point of publishing; another one settles.
class DiesWhilePublishing : public ::testing::TestWithParam<std::string> {};

TEST_P(DiesWhilePublishing, RowsComeOnce) {
  Scenario scenario(Options());
  Simulation& sim = scenario.sim();
  bool armed = false;
  int deaths = 0;
  sim.set_kill_point_hook([&](Process& process, std::string_view name) {
    if (!armed || name != GetParam() || deaths >= 2) return;
    ++deaths;
    sim.Kill(process.name());
    sim.scheduler().After(kSecond, [&sim, name = process.name()] { sim.StartMachine(name); });
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  armed = true;
  if (GetParam().ends_with("_init")) sim.Kill(scenario.WorkerOf("per-key", 0));
  ASSERT_TRUE(sim.Until([&] { return deaths == 2; }));
  ExpectAllRows(scenario);
}

INSTANTIATE_TEST_SUITE_P(, DiesWhilePublishing, ::testing::ValuesIn(KafkaKillPoints()),
                         [](const auto& info) { return info.param.substr(6); });

}  // namespace
}  // namespace weir::sim
