// Messages about checkpoints that come late, out of order, twice, or not at all.
#include <gtest/gtest.h>

#include "tests/sim/scenarios/b_common.h"

namespace weir::sim {
namespace {

using Fate = Network::Fate;
using Message = Network::Message;

// Given: the notice that checkpoint 3 completed takes longer than an interval. When: that of 4
// comes first. Then: it publishes the rows of both; the late one changes nothing.
TEST(Notices, OlderOneComesAfterANewerOne) {
  Scenario scenario(SplitOptions());
  Simulation& sim = scenario.sim();
  Renames renames(scenario);
  scenario.set_fate([](const Message& message) {
    Fate fate;
    if (message.method == "NotifyCompleted" && message.checkpoint == CheckpointId(3)) {
      fate.delay_us = 300'000;
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(4));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2)) << "3 completed, nobody was told";
  EXPECT_EQ(FilesOf(scenario, CheckpointId(2)), 2);
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(4)) == 2; }, 20'000));
  EXPECT_EQ(FilesOf(scenario, CheckpointId(3)), 2) << "the later notice covers it";
  EXPECT_EQ(sim.probes().count(Probe::kCompletedNoticeLate), 0);
  const auto visible = scenario.VisibleFiles();
  ASSERT_TRUE(sim.Until([&] { return sim.probes().count(Probe::kCompletedNoticeLate) == 2; }));
  sim.RunFor(20'000);
  EXPECT_EQ(scenario.VisibleFiles(), visible);
  ExpectAllRows(scenario);
  EXPECT_EQ(renames.files(), scenario.VisibleFiles().size());
  EXPECT_EQ(renames.most(), 1);
}

// Given: every notice is delivered twice, the second time after that of the next checkpoint. When:
// the job runs to its end. Then: each file was renamed once.
TEST(Notices, EachComesTwice) {
  Scenario scenario(SplitOptions());
  Renames renames(scenario);
  scenario.set_fate([](const Message& message) {
    Fate fate;
    if (message.method == "NotifyCompleted") fate.repeat_after_us = 250'000;
    return fate;
  });
  scenario.sim().Start();
  ExpectAllRows(scenario);
  EXPECT_GT(scenario.sim().probes().count(Probe::kCompletedNoticeLate), 10);
  EXPECT_GT(scenario.sim().probes().count(Probe::kRpcDuplicate), 20);
  EXPECT_EQ(scenario.Started().size(), 1u);
  EXPECT_EQ(renames.files(), scenario.VisibleFiles().size());
  EXPECT_EQ(renames.most(), 1);
}

// Given: no notice of checkpoint 3 arrives. When: 4 completes. Then: its notice publishes the rows
// of 3, and nobody asks for 3 again.
TEST(Notices, LostOneIsCoveredByTheNext) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.rows = 4000;
    return options;
  }());
  Simulation& sim = scenario.sim();
  Renames renames(scenario);
  scenario.set_fate([](const Message& message) {
    Fate fate;
    fate.lose_request =
        message.method == "NotifyCompleted" && message.checkpoint == CheckpointId(3);
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(4));
  EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(4)) == 2; }, 20'000));
  EXPECT_EQ(FilesOf(scenario, CheckpointId(3)), 2);
  sim.RunFor(6'000'000);  // longer than a call waits for its answer
  EXPECT_EQ(scenario.Calls("NotifyCompleted", CheckpointId(3)), 2) << "once for each worker";
  ExpectAllRows(scenario);
  EXPECT_EQ(renames.most(), 1);
}

// Given: a single checkpoint, the last one of a bounded job. When: its first notices are lost.
// Then: nothing covers them, so they are repeated: the rows come out after the second.
TEST(Notices, LastOneIsRepeatedUntilAnswered) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.rows = 200;
    options.interval = "off";
    return options;
  }());
  Simulation& sim = scenario.sim();
  int lost = 0;
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    fate.lose_request = message.method == "NotifyCompleted" && lost < 2;
    if (fate.lose_request) ++lost;
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(1));
  sim.RunFor(4'900'000);
  EXPECT_EQ(scenario.VisibleIds().size(), 0u);
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, JobState::kRunning) << "not FINISHED before its rows are out";
  EXPECT_TRUE(status->waiting_for.starts_with("out ")) << status->waiting_for;
  EXPECT_TRUE(status->waiting_for.ends_with(" to publish checkpoint 1 (and 1 more)"))
      << status->waiting_for;
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Calls("NotifyCompleted", CheckpointId(1)), 4);
  EXPECT_EQ(scenario.Completed(), std::vector<uint64_t>{1});
}

// Given: checkpoint 3 expires before one of two sources was told to begin it. When: the order comes
// after the abort. Then: that source takes no snapshot and sends no barrier; the operators, which
// the other source's barrier made wait, go on without one; the number is not used again.
TEST(Abort, OvertakesItsTrigger) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.source_parallelism = 2;
    options.files = 2;
    options.rows = 3000;
    options.options = {{"checkpoint.timeout", "500ms"}, {"checkpoint.min_pause", "1s"}};
    return options;
  }());
  Simulation& sim = scenario.sim();
  MadeFiles made(scenario, CheckpointId(3));
  std::string second;
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method == "Trigger" && message.checkpoint == CheckpointId(3) &&
        message.to.starts_with(second)) {
      fate.delay_us = 800'000;
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  second = scenario.WorkerOf("in-0", 1);
  ASSERT_NE(second, scenario.WorkerOf("in-0", 0));
  ASSERT_TRUE(sim.Until([&] { return TriggeredAt(scenario, CheckpointId(3)) >= 0; }));
  const int64_t triggered_us = TriggeredAt(scenario, CheckpointId(3));
  sim.RunFor(600'000);
  EXPECT_TRUE(scenario.Summary(CheckpointId(3))
                  .failure_reason.starts_with(
                      "expired after 500ms: 3 of 4 subtasks have not acknowledged: "))
      << scenario.Summary(CheckpointId(3)).failure_reason;
  EXPECT_EQ(scenario.Calls("NotifyAborted", CheckpointId(3)), 2);
  EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(3))) << "its files went with it";
  sim.RunFor(triggered_us + 1'000'000 - sim.scheduler().now_us());  // the order has come
  ASSERT_EQ(made.names().size(), 1u) << "only that of the source that was told in time";
  EXPECT_TRUE(made.names().front().starts_with("in-0-0-")) << made.names().front();
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(3)), 2);
  ASSERT_TRUE(scenario.WaitForCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(3)), 2) << "the number is gone";
  EXPECT_EQ(made.names().size(), 1u);
}

// The same with the next checkpoint already begun: its barrier is ahead of the late order.
TEST(Abort, OvertakesItsTriggerAndTheNextOneIsBegun) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.source_parallelism = 2;
    options.files = 2;
    options.options = {{"checkpoint.timeout", "500ms"}};
    return options;
  }());
  Simulation& sim = scenario.sim();
  MadeFiles made(scenario, CheckpointId(3));
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method == "Trigger" && message.checkpoint == CheckpointId(3)) {
      fate.delay_us = 700'000;
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  sim.RunFor(1'000'000);
  EXPECT_EQ(made.names(), std::vector<std::string>());
  ExpectAllRows(scenario);
  EXPECT_EQ(made.names(), std::vector<std::string>());
  EXPECT_FALSE(scenario.IsCompleted(CheckpointId(3)));
}

// Given: the ack of one subtask for checkpoint 3 is 200 ms late. When: it comes after 3 expired.
// Then: it is late: 3 stays failed, and the next one completes as if nothing had come.
TEST(Ack, ComesAfterExpiry) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.options = {{"checkpoint.timeout", "500ms"}, {"checkpoint.min_pause", "1s"}};
    options.rows = 3000;
    return options;
  }());
  Simulation& sim = scenario.sim();
  std::string slow;
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method == "Acknowledge" && message.checkpoint == CheckpointId(3) &&
        message.from.name() == slow) {
      fate.delay_us = 700'000;
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  slow = scenario.WorkerOf("per-key", 1);
  ASSERT_NE(slow, scenario.WorkerOf("per-key", 0));
  ASSERT_TRUE(
      sim.Until([&] { return scenario.Summary(CheckpointId(3)).state == "failed"; }, 2'000'000));
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).failure_reason,
            "expired after 500ms: 1 of 3 subtasks have not acknowledged: per-key 1");
  const int64_t late = sim.probes().count(Probe::kLateAck);
  sim.RunFor(400'000);  // it has come
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).state, "failed");
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2));
  EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(3)));
  EXPECT_EQ(sim.probes().count(Probe::kLateAck), late) << "nothing newer completed meanwhile";
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(4)) == 2; }, 1'000'000));
  EXPECT_EQ(FilesOf(scenario, CheckpointId(3)), 2) << "what it had sealed comes with the next one";
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  ExpectAllRows(scenario);
}

// Given: the ack of one subtask for checkpoint 3 is lost, and a copy of it wanders about for 7 s.
// When: the copy comes after 3 expired and later ones completed. Then: it changes nothing.
TEST(Ack, ComesAfterTheNextOneCompleted) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.options = {{"checkpoint.timeout", "500ms"}};
    options.rows = 6000;
    return options;
  }());
  Simulation& sim = scenario.sim();
  std::string slow;
  int64_t copy_at_us = 0;
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method == "Acknowledge" && message.checkpoint == CheckpointId(3) &&
        message.from.name() == slow && copy_at_us == 0) {
      fate.lose_request = true;
      fate.repeat_after_us = 7'000'000;
      copy_at_us = sim.scheduler().now_us() + 7'000'000;
    }
    return fate;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  slow = scenario.WorkerOf("per-key", 1);
  // The worker asks again after 5 s without an answer; until then nothing it acknowledges arrives.
  ASSERT_TRUE(scenario.WaitForCompleted(3, 7'000'000));
  EXPECT_EQ(scenario.Completed()[2], 2 + 11u)
      << "ten of 500 ms expired meanwhile, and this is next";
  for (uint64_t expired = 3; expired < 13; ++expired) {
    EXPECT_EQ(scenario.Summary(CheckpointId(expired)).failure_reason,
              "expired after 500ms: 1 of 3 subtasks have not acknowledged: per-key 1")
        << expired;
  }
  ASSERT_LT(sim.scheduler().now_us(), copy_at_us);
  sim.RunFor(copy_at_us - 1 - sim.scheduler().now_us());
  const int64_t late = sim.probes().count(Probe::kLateAck);
  sim.RunFor(5'000);
  EXPECT_EQ(sim.probes().count(Probe::kLateAck), late + 1);
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).state, "failed");
  EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(3)));
  ExpectAllRows(scenario);
  EXPECT_FALSE(scenario.IsCompleted(CheckpointId(3)));
}

// A subtask that has heard of the abort acknowledges no more.
Network::Fate LateAborts(const Network::Message& message) {
  Network::Fate fate;
  if (message.method == "NotifyAborted") fate.delay_us = 1'000'000;
  return fate;
}

// Given: three checkpoints may be under way; the sink of one subtask is slow to make the rows of 3
// durable, and the notice that 3 is aborted comes late. When: its ack for 3 comes after 4
// completed. Then: 3 ended as superseded and its ack is late; the rows it had sealed came out with
// those of 4.
TEST(Ack, OfAnOlderOneComesAfterANewerOneCompleted) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.options = {{"checkpoint.max_concurrent", "3"}};
    return options;
  }());
  Simulation& sim = scenario.sim();
  std::string slow;
  bool slowed = false;
  sim.storage().set_slowness([&](const Process& process, std::string_view operation,
                                 const std::string& path, const std::string&) -> int64_t {
    // Behind the rows: the name, of 3 alone.
    if (process.name() != slow || operation != "sync_directory" || path != "/out/out") return 0;
    if (TriggeredAt(scenario, CheckpointId(3)) < 0 || slowed) return 0;
    slowed = true;
    return 500'000;
  });
  scenario.set_fate(LateAborts);
  ASSERT_TRUE(scenario.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(2)) == 2; }));
  sim.RunFor(50'000);  // the names of 2 are durable
  slow = scenario.WorkerOf("per-key", 1);
  ASSERT_TRUE(scenario.WaitForCompleted(3));
  EXPECT_TRUE(slowed);
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(scenario.Calls("Trigger", CheckpointId(3)), 1);
  EXPECT_EQ(scenario.HighestVisible(), CheckpointId(2));
  ASSERT_TRUE(sim.Until([&] { return FilesOf(scenario, CheckpointId(4)) == 2; }, 20'000));
  EXPECT_EQ(FilesOf(scenario, CheckpointId(3)), 2);
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).failure_reason, "superseded by checkpoint 4");
  EXPECT_EQ(sim.probes().count(Probe::kLateAck), 0);
  ASSERT_TRUE(sim.Until([&] { return sim.probes().count(Probe::kLateAck) == 1; }, 1'000'000));
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).state, "failed");
  EXPECT_TRUE(sim.Until([&] { return !HasDirectoryOf(scenario, CheckpointId(3)); }, 2'000'000));
  ExpectAllRows(scenario);
  EXPECT_FALSE(scenario.IsCompleted(CheckpointId(3)));
  EXPECT_EQ(scenario.Started().size(), 1u);
}

// It is a state file of 3 that comes late: its directory is gone by then, and it leaves nothing
// behind.
TEST(Ack, OfAnOlderOneWhoseFilesComeLate) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.options = {{"checkpoint.max_concurrent", "3"}};
    return options;
  }());
  Simulation& sim = scenario.sim();
  MadeFiles made(scenario, CheckpointId(3));
  sim.storage().set_slowness([](const Process&, std::string_view operation, const std::string& path,
                                const std::string&) -> int64_t {
    const bool late = operation == "create" && path.find("/chk-3.1/per-key-1-") != path.npos;
    return late ? 700'000 : 0;
  });
  ASSERT_TRUE(scenario.StartUntilCompleted(3));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(made.names().size(), 2u) << "of the source and the other subtask";
  sim.RunFor(1'000'000);
  EXPECT_EQ(sim.probes().count(Probe::kLateAck), 0) << "it has heard of the abort";
  EXPECT_EQ(scenario.Summary(CheckpointId(3)).failure_reason, "superseded by checkpoint 4");
  EXPECT_EQ(made.names().size(), 2u);
  EXPECT_FALSE(HasDirectoryOf(scenario, CheckpointId(3)));
  ExpectAllRows(scenario);
  EXPECT_EQ(scenario.Started().size(), 1u) << "a late refusal fails nothing";
}

// Given: a pause of 1 s between checkpoints, an interval of 100 ms. When: one completes, one
// expires, one is declined. Then: each of the next is triggered 1 s after the end of the one
// before.
TEST(Pause, CountsFromTheEndOfFailedAndExpiredOnes) {
  Scenario scenario([] {
    ScenarioOptions options = SplitOptions();
    options.interval = "100ms";
    options.rows = 5000;
    options.options = {{"checkpoint.timeout", "700ms"}, {"checkpoint.min_pause", "1s"}};
    return options;
  }());
  Simulation& sim = scenario.sim();
  scenario.set_fate([&](const Message& message) {
    Fate fate;
    if (message.method == "Trigger" && message.checkpoint == CheckpointId(2)) {
      fate.delay_us = 2'000'000;
    }
    return fate;
  });
  sim.storage().set_before(
      [](const Process&, std::string_view operation, const std::string& path, const std::string&) {
        const bool refused = operation == "create" && path.find("/chk-4.1/per-key-0-") != path.npos;
        return refused ? UnavailableError("the disk is on fire") : Status();
      });
  sim.Start();
  ASSERT_TRUE(sim.Until([&] { return scenario.Summary(CheckpointId(6)).state == "completed"; }));
  EXPECT_EQ(scenario.Completed(), (std::vector<uint64_t>{1, 3, 5, 6}));
  EXPECT_TRUE(scenario.Summary(CheckpointId(2)).failure_reason.starts_with("expired after 700ms"));
  EXPECT_NE(scenario.Summary(CheckpointId(4)).failure_reason.find("the disk is on fire"),
            std::string::npos)
      << scenario.Summary(CheckpointId(4)).failure_reason;
  EXPECT_EQ(scenario.Summary(CheckpointId(2)).duration_us, 700'000);
  for (uint64_t id = 2; id <= 6; ++id) {
    const CheckpointSummary before = scenario.Summary(CheckpointId(id - 1));
    const CheckpointSummary after = scenario.Summary(CheckpointId(id));
    EXPECT_EQ(after.trigger_wall_us - (before.trigger_wall_us + before.duration_us), 1'000'000)
        << id;
  }
  ExpectAllRows(scenario);
}

}  // namespace
}  // namespace weir::sim
