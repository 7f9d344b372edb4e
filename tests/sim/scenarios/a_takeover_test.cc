// A coordinator that is paused between the last ack of a checkpoint and the notice of its
// completion, at every step, while another takes over, and then a third: the checkpoint counts
// exactly if its entry stood before the term was sealed, and whoever was deposed does nothing more.
#include "tests/sim/scenarios/a_takeover.h"

#include <tuple>

namespace weir::sim {
namespace {

class TakeoverAt : public Takeover, public ::testing::WithParamInterface<Step> {};

// Given: a leader paused at the step. When: another takes over, completes two checkpoints, and the
// first goes on. Then: its checkpoint counts or not, as the step says, and it does nothing more.
TEST_P(TakeoverAt, FirstWakesUnderSecond) {
  const Step step = GetParam();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseLeaderAt(step);
  if (HasFatalFailure()) return;
  EXPECT_EQ(paused_[0].open, CheckpointId(3));
  AwaitNextLeader();
  if (HasFatalFailure()) return;
  ExpectTakenOver(paused_[0], step.counts);
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(4)));
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(scenario_.Started().size(), 2u) << "the job went on as it was";
  ExpectEnd();
}

// The same, but the first goes on as soon as its term is sealed, before the second has started
// anything.
TEST_P(TakeoverAt, FirstWakesWhenSealed) {
  const Step step = GetParam();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseLeaderAt(step);
  if (HasFatalFailure()) return;
  Simulation& sim = scenario_.sim();
  ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kSealed) == 1; }));
  EXPECT_EQ(scenario_.Started().size(), 1u);
  WakeAndExpectNothing(paused_[0]);
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(4)));
  EXPECT_EQ(scenario_.IsCompleted(CheckpointId(3)), step.counts);
  EXPECT_EQ(scenario_.Started()[1], std::make_pair(uint64_t{2}, step.counts ? uint64_t{3} : 2));
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
}

// Given: a leader paused at the step. When: another takes over and has dropped all that the first
// knew of, and only then the first goes on. Then: the seal of its term is still there, so that it
// loses; it does nothing more.
TEST_P(TakeoverAt, FirstWakesWhenPruned) {
  const Step step = GetParam();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseLeaderAt(step);
  if (HasFatalFailure()) return;
  Simulation& sim = scenario_.sim();
  const std::string term = sim.job_directory() + "/log/000001";
  auto names = [&] {  // of entries
    std::vector<std::string> names = sim.storage().view().disk()->Names(term);
    std::erase_if(names, [](const std::string& name) { return name.find(".tmp-") < name.size(); });
    return names;
  };
  ASSERT_TRUE(sim.Until([&] {
    return sim.newest_completed() > CheckpointId(5) && names().size() == 1;
  })) << ::testing::PrintToString(names());
  // STARTED, COMPLETED 1 and 2, perhaps 3; then the seal.
  EXPECT_EQ(names(), std::vector<std::string>{step.counts ? "0000000005" : "0000000004"});
  StatusOr<LogEntry> seal =
      DecodeLogEntry(sim.storage().view().Bytes(Concat(term, "/", names().front())));
  ASSERT_TRUE(seal.ok());
  EXPECT_EQ(seal->kind, LogEntry::Kind::kSealed);
  for (const std::string& name : scenario_.CheckpointDirectories()) {
    EXPECT_FALSE(name.ends_with(".1")) << name << " is of the first";
  }
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(names().size(), 1u);
  EXPECT_EQ(scenario_.IsCompleted(CheckpointId(3)), step.counts);
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
}

// Given: a leader paused at the step, its next checkpoint soon due. When: another takes over and
// brings the job to its end, and only then the first goes on. Then: it makes no directory for that
// checkpoint, which nobody would ever remove.
TEST_P(TakeoverAt, FirstWakesBehindTheEnd) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseLeaderAt(GetParam());
  if (HasFatalFailure()) return;
  Simulation& sim = scenario_.sim();
  AwaitNextLeader();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kFinished) == 1; }));
  ASSERT_TRUE(sim.Until([&] { return scenario_.CheckpointDirectories().empty(); }, 5'000'000));
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>());
  ExpectEnd();
}

class ThirdTakesOver : public Takeover,
                       public ::testing::WithParamInterface<std::tuple<Step, bool>> {};

// Given: a leader paused at the step, its successor paused at the same step, a third that leads and
// has completed a checkpoint. When: both go on, in either order. Then: the checkpoint of each
// counts or not, as the step says, and they do nothing more.
TEST_P(ThirdTakesOver, BothWake) {
  const auto [step, first_wakes_first] = GetParam();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseLeaderAt(step);
  if (HasFatalFailure()) return;
  AwaitNextLeader();
  if (HasFatalFailure()) return;
  ExpectTakenOver(paused_[0], step.counts);
  PauseLeaderAt(step);
  if (HasFatalFailure()) return;
  EXPECT_NE(paused_[0].name, paused_[1].name);
  EXPECT_EQ(paused_[1].open, CheckpointId(4)) << "the number 3 is not used again";
  AwaitNextLeader();
  if (HasFatalFailure()) return;
  EXPECT_EQ(scenario_.IsCompleted(CheckpointId(3)), step.counts);
  EXPECT_EQ(scenario_.IsCompleted(CheckpointId(4)), step.counts);
  EXPECT_EQ(scenario_.LastStarted(), std::make_pair(uint64_t{3}, step.counts ? uint64_t{4} : 2));
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(4)));
  WakeAndExpectNothing(paused_[first_wakes_first ? 0 : 1]);
  WakeAndExpectNothing(paused_[first_wakes_first ? 1 : 0]);
  EXPECT_EQ(scenario_.Started().size(), 3u) << "the job went on as it was";
  ExpectEnd();
}

class AtTheEnd : public Takeover, public ::testing::WithParamInterface<bool> {
 protected:
  // The leader is paused when FINISHED has been synced, or linked.
  void PauseAtFinished(bool linked) {
    Simulation& sim = scenario_.sim();
    const std::string leader = sim.leader_name();
    bool ends = false;
    sim.storage().set_after([&](const Process& process, std::string_view operation,
                                const std::string& path, const std::string& to) {
      ends |= scenario_.Calls("EndTasks") > 0;
      if (process.name() == leader && ends && paused_.empty() &&
          operation == (linked ? "link" : "sync") &&
          PlaceOf(path, to) == (linked ? "entry" : "temporary")) {
        PauseNow(process);
      }
      return weir::Status();
    });
    ASSERT_TRUE(sim.Until([&] { return !paused_.empty(); }));
    sim.storage().set_after(nullptr);
  }
};

// Given: the final checkpoint has completed and is published, the tasks have ended; the leader is
// paused before the entry FINISHED stands, or behind it. When: another takes over and the first
// goes on. Then: the other starts from the final checkpoint, has nothing to read, and finishes; or
// leaves the job as it is. Either way there is one FINISHED, and the output is what it was.
TEST_P(AtTheEnd, OneFinishes) {
  const bool linked = GetParam();
  Simulation& sim = scenario_.sim();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  PauseAtFinished(linked);
  if (HasFatalFailure()) return;
  const CheckpointId final_checkpoint = sim.newest_completed();
  EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
  const std::map<std::string, std::string> visible = scenario_.VisibleFiles();
  ASSERT_TRUE(sim.Until([&] { return sim.leader_name() != ""; }));
  if (!linked) {
    AwaitNextLeader();
    EXPECT_EQ(scenario_.LastStarted(), std::make_pair(uint64_t{2}, final_checkpoint.value()));
    EXPECT_EQ(sim.Count(LogEntry::Kind::kFinished), 0);
  }
  WakeAndExpectNothing(paused_[0]);
  ExpectEnd();
  EXPECT_EQ(sim.Count(LogEntry::Kind::kFinished), 1);
  EXPECT_EQ(scenario_.Started().size(), linked ? 1u : 2u);
  EXPECT_EQ(scenario_.VisibleFiles(), visible);
}

INSTANTIATE_TEST_SUITE_P(Finished, AtTheEnd, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Stands" : "IsWritten");
});

INSTANTIATE_TEST_SUITE_P(Step, TakeoverAt, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Step, ThirdTakesOver,
                         ::testing::Combine(::testing::ValuesIn(kSteps), ::testing::Bool()),
                         [](const auto& info) {
                           return Concat(std::get<0>(info.param).name,
                                         std::get<1>(info.param) ? "_first" : "_second");
                         });

}  // namespace
}  // namespace weir::sim
