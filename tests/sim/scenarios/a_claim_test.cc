// Claims in the completion log whose answer is lost, or that storage carries out when their
// claimant is dead or deposed; and cancels that reach a coordinator which has been deposed.
#include <optional>

#include "tests/sim/scenarios/a_takeover.h"

namespace weir::sim {
namespace {

// A link request of a process that has it no more: carried out when the scenario says.
class LateLink {
 public:
  LateLink(Simulation& sim, const std::string& name)
      : process_(sim.scheduler(), name, 1),
        loop_(process_),
        files_(sim.storage().Open(process_, loop_)) {}

  void Ask(const std::string& from, const std::string& to) {
    files_->Link(from, to, [this](weir::Status status) { answer_ = std::move(status); });
  }
  const std::optional<weir::Status>& answer() const { return answer_; }

 private:
  Process process_;
  ProcessLoop loop_;
  std::unique_ptr<FileSystem> files_;
  std::optional<weir::Status> answer_;
};

class Claim : public Takeover {
 protected:
  // The leader's link request for the entry of checkpoint 3 does not get through: it is held back,
  // and `then` happens to its process.
  void HoldClaim(const std::function<void(Process&)>& then) {
    Simulation& sim = scenario_.sim();
    first_ = sim.leader_name();
    first_process_ = sim.process(first_);
    ASSERT_TRUE(sim.Until([&] { return scenario_.Calls("Trigger", CheckpointId(3)) > 0; }));
    auto written = std::make_shared<bool>(false);
    sim.set_kill_point_hook([=, this](Process& process, std::string_view point) {
      *written |= process.name() == first_ && point == "coordinator.after_manifest";
    });
    sim.storage().set_before([=, this](const Process& process, std::string_view operation,
                                       const std::string& path, const std::string& to) {
      if (process.name() != first_ || !*written || operation != "link" || !held_from_.empty()) {
        return weir::Status();
      }
      held_from_ = path;
      held_to_ = to;
      paused_.push_back({first_, process.title(), CheckpointId(3), Generation(1)});
      then(*first_process_);
      return UnavailableError("the storage does not answer");
    });
    ASSERT_TRUE(sim.Until([&] { return !held_from_.empty(); }));
    sim.set_kill_point_hook(nullptr);
    sim.storage().set_before(nullptr);
    late_.emplace(sim, first_);
  }

  // The held request is carried out between the successor's look into the term and its seal.
  void LinkBeforeSeal() {
    Simulation& sim = scenario_.sim();
    const std::string term = sim.job_directory() + "/log/000001";
    bool seen = false;
    sim.storage().set_after([&](const Process& process, std::string_view operation,
                                const std::string& path, const std::string&) {
      if (!seen && process.name() != first_ && operation == "list" && path == term) {
        seen = true;
        late_->Ask(held_from_, held_to_);
      }
      return weir::Status();
    });
    ASSERT_TRUE(sim.Until([&] { return late_->answer().has_value(); }));
    sim.storage().set_after(nullptr);
    EXPECT_TRUE(late_->answer()->ok()) << late_->answer()->message();
    EXPECT_EQ(sim.Count(LogEntry::Kind::kSealed), 0) << "the seal comes later";
    EXPECT_EQ(sim.entries().back().path, held_to_);
    EXPECT_EQ(sim.entries().back().entry.checkpoint, CheckpointId(3));
  }

  // It is carried out when the seal has just taken its number.
  void LinkAfterSeal() {
    Simulation& sim = scenario_.sim();
    bool sealed = false;
    sim.storage().set_after([&](const Process& process, std::string_view operation,
                                const std::string&, const std::string& to) {
      if (!sealed && process.name() != first_ && operation == "link" && to == held_to_) {
        sealed = true;
        late_->Ask(held_from_, held_to_);
      }
      return weir::Status();
    });
    ASSERT_TRUE(sim.Until([&] { return late_->answer().has_value(); }));
    sim.storage().set_after(nullptr);
    EXPECT_EQ(late_->answer()->code(), StatusCode::kAlreadyExists) << late_->answer()->message();
    EXPECT_EQ(sim.Count(LogEntry::Kind::kSealed), 1);
  }

  std::string first_;  // the leader whose claim it is
  Process* first_process_ = nullptr;
  std::string held_from_, held_to_;
  std::optional<LateLink> late_;
};

class AnswerLost : public Claim, public ::testing::WithParamInterface<int> {};

// Given: the entry of checkpoint 3 has been linked. When: an error is answered instead, so often.
// Then: the leader claims again and finds its own token; the entry stands once, the job goes on.
TEST_P(AnswerLost, ClaimsAgain) {
  Simulation& sim = scenario_.sim();
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  ASSERT_TRUE(sim.Until([&] { return scenario_.Calls("Trigger", CheckpointId(3)) > 0; }));
  const std::string entry = sim.job_directory() + "/log/000001/0000000004";
  int asked = 0;
  sim.storage().set_before(
      [&](const Process&, std::string_view operation, const std::string&, const std::string& to) {
        if (operation != "link" || to != entry) return weir::Status();
        return ++asked == 1 || asked > GetParam() ? weir::Status()
                                                  : UnavailableError("the storage does not answer");
      });
  int linked = 0;
  sim.storage().set_after(
      [&](const Process&, std::string_view operation, const std::string&, const std::string& to) {
        if (operation != "link" || to != entry) return weir::Status();
        ++linked;
        return UnavailableError("the answer is lost");
      });
  ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(3)));
  EXPECT_EQ(asked, GetParam() + 1) << "so many answers were lost, the last one came";
  EXPECT_EQ(linked, 1);
  EXPECT_EQ(scenario_.Completed(), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(sim.entries().back().path, sim.job_directory() + "/log/000001/0000000005");
  EXPECT_EQ(scenario_.Calls("NotifyCompleted", CheckpointId(3)), 2) << "one for each worker";
  EXPECT_EQ(scenario_.Started().size(), 1u);
  ExpectEnd();
}

INSTANTIATE_TEST_SUITE_P(Times, AnswerLost, ::testing::Values(1, 2, 5));

// Given: the leader has died with its claim on the way. When: storage carries that out after the
// next one has looked into the term and before it seals it. Then: checkpoint 3 counts.
TEST_F(Claim, OfADeadLeaderBeforeTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  HoldClaim([this](Process& process) { scenario_.sim().Kill(process.name()); });
  LinkBeforeSeal();
  if (HasFatalFailure()) return;
  AwaitNextLeader();
  ExpectTakenOver(paused_[0], true);
  EXPECT_TRUE(scenario_.sim().storage().view().Exists(scenario_.sim().job_directory() +
                                                      "/log/000001/0000000005"))
      << "the seal took the next number";
  ExpectEnd();
}

// When: it is carried out behind the seal. Then: it finds the seal; checkpoint 3 does not count.
TEST_F(Claim, OfADeadLeaderAfterTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  HoldClaim([this](Process& process) { scenario_.sim().Kill(process.name()); });
  LinkAfterSeal();
  if (HasFatalFailure()) return;
  AwaitNextLeader();
  ExpectTakenOver(paused_[0], false);
  ExpectEnd();
  EXPECT_FALSE(scenario_.IsCompleted(CheckpointId(3)));
}

// The same of a leader that is paused and goes on later, with an error for an answer: it asks again
// and finds its own entry, which counts.
TEST_F(Claim, OfADeposedLeaderBeforeTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  HoldClaim([this](Process& process) { scenario_.sim().Pause(process.name()); });
  LinkBeforeSeal();
  if (HasFatalFailure()) return;
  AwaitNextLeader();
  ExpectTakenOver(paused_[0], true);
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
}

// … or the seal.
TEST_F(Claim, OfADeposedLeaderAfterTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  HoldClaim([this](Process& process) { scenario_.sim().Pause(process.name()); });
  LinkAfterSeal();
  if (HasFatalFailure()) return;
  AwaitNextLeader();
  ExpectTakenOver(paused_[0], false);
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(scenario_.Started().size(), 2u);
  ExpectEnd();
  EXPECT_FALSE(scenario_.IsCompleted(CheckpointId(3)));
}

class DeposedCancel : public Takeover {
 protected:
  DeposedCancel() : Takeover({{"checkpoint.on_cancel", "keep"}}) {}

  // Asks a coordinator to cancel the job, as a request that it finds when it runs next.
  void Cancel(const std::string& name) {
    Simulation& sim = scenario_.sim();
    sim.process(name)->After(0, [this, coordinator = sim.coordinator(name), job = sim.job()] {
      coordinator->Cancel(job.value(), false, [this](StatusOr<std::vector<std::string>> answer) {
        answer_ = answer.status();
      });
    });
  }

  // The leader is paused, another one leads and has completed a checkpoint.
  void Depose(const std::function<void()>& when_paused = [] {}) {
    Simulation& sim = scenario_.sim();
    PauseNow(*sim.process(sim.leader_name()));
    when_paused();
    AwaitNextLeader();
    ASSERT_TRUE(scenario_.WaitForCompletedAbove(CheckpointId(3)));
  }

  // The job went on as if nobody had asked.
  void ExpectUncancelled() {
    EXPECT_EQ(scenario_.sim().Count(LogEntry::Kind::kCancelling), 0);
    EXPECT_EQ(scenario_.Started().size(), 2u);
    ExpectEnd();
    EXPECT_EQ(scenario_.sim().Count(LogEntry::Kind::kCancelling), 0);
    EXPECT_EQ(scenario_.sim().Count(LogEntry::Kind::kCanceled), 0);
  }

  std::optional<weir::Status> answer_;
};

// Given: a deposed coordinator that does not know it yet. When: the first it hears is a cancel.
// Then: it finds the seal where CANCELLING should be; the client is told that nothing happened.
TEST_F(DeposedCancel, BeforeItKnows) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  Depose([this] { Cancel(paused_[0].name); });
  if (HasFatalFailure()) return;
  WakeAndExpectNothing(paused_[0]);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), StatusCode::kUnavailable) << answer_->message();
  ExpectUncancelled();
}

// When: the cancel comes when it knows. Then: it is refused and names who leads.
TEST_F(DeposedCancel, WhenItKnows) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  Depose();
  if (HasFatalFailure()) return;
  WakeAndExpectNothing(paused_[0]);
  Cancel(paused_[0].name);
  ASSERT_TRUE(scenario_.sim().Until([&] { return answer_.has_value(); }));
  EXPECT_EQ(answer_->code(), StatusCode::kUnavailable) << answer_->message();
  EXPECT_NE(answer_->message().find(scenario_.sim().leader_name() + ":7070"), std::string::npos)
      << answer_->message();
  ExpectUncancelled();
}

// Given: a leader that is paused with the entry CANCELLING written, not yet linked. When: another
// one takes over, then the first goes on. Then: it loses; the job was not cancelled.
TEST_F(DeposedCancel, ClaimBehindTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  Simulation& sim = scenario_.sim();
  const std::string first = sim.leader_name();
  Cancel(first);
  sim.storage().set_after([&](const Process& process, std::string_view operation,
                              const std::string& path, const std::string& to) {
    if (paused_.empty() && process.name() == first && operation == "sync" &&
        PlaceOf(path, to) == "temporary") {
      PauseNow(process);
    }
    return weir::Status();
  });
  ASSERT_TRUE(sim.Until([&] { return !paused_.empty(); }));
  AwaitNextLeader();
  if (HasFatalFailure()) return;
  WakeAndExpectNothing(paused_[0]);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), StatusCode::kUnavailable) << answer_->message();
  ExpectUncancelled();
}

// Given: the entry CANCELLING stands, and its leader is paused before it knows. When: another one
// takes over. Then: that carries the cancel on; the first, when it goes on, does nothing more.
TEST_F(DeposedCancel, ClaimBeforeTheSeal) {
  ASSERT_TRUE(scenario_.StartUntilCompleted(2));
  Simulation& sim = scenario_.sim();
  const std::string first = sim.leader_name();
  Cancel(first);
  sim.storage().set_after([&](const Process& process, std::string_view operation,
                              const std::string& path, const std::string& to) {
    if (paused_.empty() && process.name() == first && operation == "link" &&
        PlaceOf(path, to) == "entry") {
      PauseNow(process);
    }
    return weir::Status();
  });
  ASSERT_TRUE(sim.Until([&] { return !paused_.empty(); }));
  sim.storage().set_after(nullptr);
  EXPECT_EQ(sim.entries().back().entry.kind, LogEntry::Kind::kCancelling);
  ASSERT_TRUE(sim.Until([&] { return sim.Count(LogEntry::Kind::kCanceled) == 1; }));
  EXPECT_NE(sim.entries().back().process, paused_[0].title);
  const uint64_t newest = sim.newest_completed().value();
  EXPECT_EQ(scenario_.HighestVisible(), CheckpointId(newest)) << "what completed is published";
  EXPECT_EQ(scenario_.PendingFiles(), std::vector<std::string>()) << "and nothing else is there";
  const std::map<std::string, std::string> visible = scenario_.VisibleFiles();
  WakeAndExpectNothing(paused_[0]);
  EXPECT_EQ(scenario_.VisibleFiles(), visible);
  EXPECT_EQ(sim.entries().back().entry.kind, LogEntry::Kind::kCanceled);
  EXPECT_EQ(scenario_.Started().size(), 1u + 1u) << "the successor's own, in which nothing runs";
  EXPECT_EQ(sim.violation(), "");
}

}  // namespace
}  // namespace weir::sim
