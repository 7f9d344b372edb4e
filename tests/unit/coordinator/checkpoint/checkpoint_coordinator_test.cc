// Goal: the rules of the checkpoint protocol as one job's checkpoints follow them. Method: facts
// are told by hand on a clock that the test moves; the actions asked for are compared as text.

#include "coordinator/checkpoint/checkpoint_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/concat.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000;

std::string Text(const CheckpointAction& action) {
  using Kind = CheckpointAction::Kind;
  switch (action.kind) {
    case Kind::kTrigger:
      return Concat("trigger ", action.checkpoint, " base ", action.base);
    case Kind::kWriteManifest:
      return Concat("manifest ", action.checkpoint);
    case Kind::kClaimCompletion:
      return Concat("claim ", action.checkpoint);
    case Kind::kNotifyCompleted:
      return Concat("completed ", action.checkpoint);
    case Kind::kAbort:
      return Concat("abort ", action.checkpoint);
    case Kind::kDrop:
      return Concat("drop ", action.checkpoint, ".", action.generation);
    case Kind::kFailGeneration:
      return "fail";
    case Kind::kFinish:
      return Concat("finish ", action.checkpoint);
  }
  return "";
}

JobOptions Options() {
  JobOptions options;
  options.checkpoint_interval_us = 10 * kSecond;
  options.checkpoint_timeout_us = 60 * kSecond;
  return options;
}

// Two tasks: "in -> map" with two subtasks, "out" with one.
const std::vector<CheckpointedTask> kTasks = {{2, {"in", "map"}}, {1, {"out"}}};

class CheckpointCoordinatorTest : public testing::Test {
 protected:
  void Make(const JobOptions& options,
            std::vector<std::pair<CheckpointId, Generation>> completed = {}) {
    coordinator_.emplace(options, std::move(completed));
  }
  void Start(uint64_t generation = 1, uint64_t first_usable = 1) {
    generation_ = Generation(generation);
    coordinator_->OnGenerationStarted({generation_, kTasks, CheckpointId(first_usable)});
  }
  void Run(const JobOptions& options) {
    Make(options);
    Start();
    coordinator_->OnAllRunning(now_);
  }
  void Advance(int64_t us) {
    now_.monotonic_us += us;
    now_.wall_us += us;
    coordinator_->OnTick(now_);
  }
  std::vector<std::string> Actions() {
    last_ = coordinator_->TakeActions();
    std::vector<std::string> result;
    for (const CheckpointAction& action : last_) result.push_back(Text(action));
    return result;
  }
  TaskAck MakeAck(uint64_t checkpoint, int task, int subtask) {
    TaskAck ack;
    ack.checkpoint = CheckpointId(checkpoint);
    ack.task = task;
    ack.subtask = subtask;
    for (const std::string& uid : kTasks[static_cast<size_t>(task)].uids) {
      OperatorSnapshot snapshot;
      snapshot.uid = uid;
      snapshot.subtask = subtask;
      if (uid == "map") {
        snapshot.handles.push_back(
            {StateKind::kKeyed,
             Concat("chk-", checkpoint, ".", generation_, "/map-", subtask, "-ff"),
             100,
             7,
             {}});
      }
      if (uid == "out") {
        snapshot.committables.push_back(
            {uid, subtask, generation_, CheckpointId(checkpoint), 0, "part"});
      }
      ack.snapshots.push_back(snapshot);
      ack.metrics.push_back({uid, subtask, 0, 1, 2, 3, 100, 0});
    }
    return ack;
  }
  AckOutcome Ack(uint64_t checkpoint, int task, int subtask) {
    return coordinator_->OnAck(generation_, MakeAck(checkpoint, task, subtask), now_);
  }
  void AckAll(uint64_t checkpoint) {
    EXPECT_EQ(Ack(checkpoint, 0, 0), AckOutcome::kAccepted);
    EXPECT_EQ(Ack(checkpoint, 0, 1), AckOutcome::kAccepted);
    EXPECT_EQ(Ack(checkpoint, 1, 0), AckOutcome::kAccepted);
  }
  void Complete(uint64_t checkpoint) {
    AckAll(checkpoint);
    coordinator_->OnManifestWritten(CheckpointId(checkpoint), now_);
    coordinator_->OnCompletionClaimed(CheckpointId(checkpoint), now_);
  }
  void Publish(uint64_t checkpoint) {
    coordinator_->OnPublished(generation_, {CheckpointId(checkpoint), "out", 0});
  }

  std::optional<CheckpointCoordinator> coordinator_;
  Generation generation_{1};
  Moment now_{1'000 * kSecond, 5'000 * kSecond};
  std::vector<CheckpointAction> last_;
};

TEST_F(CheckpointCoordinatorTest, GoesFromTriggerOverAcksManifestAndClaimToTheNotice) {
  Run(Options());
  EXPECT_EQ(coordinator_->NextWakeMicros(), 1'010 * kSecond);
  Advance(10 * kSecond - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  Advance(1);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0"));
  EXPECT_EQ(last_[0].trigger_wall_us, 5'010 * kSecond);
  EXPECT_EQ(last_[0].generation, Generation(1));
  EXPECT_EQ(coordinator_->History().back().state, "in_progress");
  Ack(1, 1, 0);
  Ack(1, 0, 1);
  EXPECT_THAT(Actions(), IsEmpty());
  now_.monotonic_us += 2 * kSecond;
  now_.wall_us += 2 * kSecond;
  Ack(1, 0, 0);
  EXPECT_THAT(Actions(), ElementsAre("manifest 1"));
  std::vector<std::string> order;
  for (const OperatorSnapshot& snapshot : last_[0].snapshots) {
    order.push_back(Concat(snapshot.uid, snapshot.subtask));
  }
  EXPECT_THAT(order, ElementsAre("in0", "map0", "in1", "map1", "out0"));
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  EXPECT_THAT(Actions(), ElementsAre("claim 1"));
  EXPECT_TRUE(coordinator_->claim_in_flight());
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  EXPECT_THAT(Actions(), ElementsAre("completed 1"));
  EXPECT_FALSE(coordinator_->claim_in_flight());
  const CheckpointSummary summary = *coordinator_->last_completed();
  EXPECT_EQ(summary.state, "completed");
  EXPECT_EQ(summary.duration_us, 2 * kSecond);
  EXPECT_EQ(summary.complete_wall_us, 5'012 * kSecond);
  EXPECT_EQ(summary.size_bytes, 200);
  ASSERT_EQ(summary.subtasks.size(), 5u);
  EXPECT_EQ(summary.subtasks[0].uid, "out");
  EXPECT_EQ(summary.subtasks[0].ack_wall_us, 5'010 * kSecond);
  EXPECT_EQ(summary.subtasks[4].ack_wall_us, 5'012 * kSecond);
  EXPECT_EQ(coordinator_->completed_count(), 1);
  Advance(8 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 2 base 1"));
}

TEST_F(CheckpointCoordinatorTest, TriggersOnlyWhileEverySubtaskRuns) {
  Make(Options());
  EXPECT_EQ(coordinator_->NextWakeMicros(), std::nullopt);
  Start();
  Advance(100 * kSecond);
  EXPECT_EQ(coordinator_->NextWakeMicros(), std::nullopt);
  EXPECT_THAT(Actions(), IsEmpty());
  coordinator_->OnAllRunning(now_);
  coordinator_->OnGenerationEnded("worker lost", now_);
  Advance(100 * kSecond);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, BeginsAboveWhatWasUsedBefore) {
  Make(Options(), {{CheckpointId(17), Generation(3)}});
  Start(4, 12);
  coordinator_->OnAllRunning(now_);
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 18 base 17"));
  coordinator_->OnGenerationEnded("x", now_);
  EXPECT_THAT(Actions(), ElementsAre("abort 18"));
  Start(5, 30);
  coordinator_->OnAllRunning(now_);
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 30 base 17"));
  coordinator_->OnGenerationEnded("x", now_);
  Start(6, 1);
  coordinator_->OnAllRunning(now_);
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("abort 30", "trigger 31 base 17"));
}

TEST_F(CheckpointCoordinatorTest, TriggersNoneWhenTheIntervalIsOff) {
  JobOptions options = Options();
  options.checkpoint_interval_us.reset();
  Run(options);
  EXPECT_EQ(coordinator_->NextWakeMicros(), std::nullopt);
  Advance(10'000 * kSecond);
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, NamesWhatBecameOfEachAck) {
  Run(Options());
  Advance(10 * kSecond);
  EXPECT_EQ(Ack(1, 0, 0), AckOutcome::kAccepted);
  EXPECT_EQ(Ack(1, 0, 0), AckOutcome::kDuplicate);
  EXPECT_EQ(Ack(2, 0, 0), AckOutcome::kUnknown);
  EXPECT_EQ(Ack(0, 0, 0), AckOutcome::kUnknown);
  TaskAck ack = MakeAck(1, 0, 1);
  EXPECT_EQ(coordinator_->OnAck(Generation(2), ack, now_), AckOutcome::kStale);
  ack.task = 2;
  std::string reason;
  EXPECT_EQ(coordinator_->OnAck(Generation(1), ack, now_, &reason), AckOutcome::kUnexpected);
  EXPECT_EQ(reason, "task 2 subtask 1 does not exist");
  ack.task = 0;
  for (int subtask : {-1, 2}) {
    ack.subtask = subtask;
    EXPECT_EQ(coordinator_->OnAck(Generation(1), ack, now_), AckOutcome::kUnexpected);
  }
  Actions();
  Ack(1, 0, 1);
  Ack(1, 1, 0);
  EXPECT_EQ(Ack(1, 1, 0), AckOutcome::kDuplicate) << "complete, its manifest on the way";
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  EXPECT_EQ(Ack(1, 1, 0), AckOutcome::kLate);
  coordinator_->OnGenerationEnded("x", now_);
  EXPECT_EQ(Ack(1, 1, 0), AckOutcome::kStale);
}

TEST_F(CheckpointCoordinatorTest, RefusesAnAckThatNamesFilesWhichAreNotItsCheckpointsOwn) {
  for (const std::string path :
       {"shared/1-ab", "chk-2.1/map-0-ff", "chk-1.2/map-0-ff", "chk-1.1/", "chk-1.1/../x",
        "chk-1.1/a/b", "chk-1.1/..", "chk-1.1/_metadata", "/chk-1.1/x", "chk-1.10/x", ""}) {
    SCOPED_TRACE(path);
    Run(Options());
    Advance(10 * kSecond);
    Actions();
    TaskAck ack = MakeAck(1, 0, 0);
    ack.snapshots[1].handles[0].path = path;
    std::string reason;
    EXPECT_EQ(coordinator_->OnAck(generation_, ack, now_, &reason), AckOutcome::kRefused);
    EXPECT_THAT(reason, HasSubstr("map 0 names file"));
    EXPECT_THAT(Actions(), ElementsAre("abort 1"));
    EXPECT_EQ(Ack(1, 0, 0), AckOutcome::kLate);
  }
}

TEST_F(CheckpointCoordinatorTest, RefusesAnAckWithOtherOperatorsThanTheTasksOwn) {
  for (int variant = 0; variant < 4; ++variant) {
    SCOPED_TRACE(variant);
    Run(Options());
    Advance(10 * kSecond);
    TaskAck ack = MakeAck(1, 0, 0);
    if (variant == 0) ack.snapshots.pop_back();
    if (variant == 1) ack.snapshots[0].uid = "out";
    if (variant == 2) ack.snapshots[0].subtask = 1;
    if (variant == 3) ack.snapshots[0].uid = "map";  // twice
    EXPECT_EQ(coordinator_->OnAck(generation_, ack, now_), AckOutcome::kRefused);
  }
}

TEST_F(CheckpointCoordinatorTest, AbortsADeclinedCheckpointAndWaitsForTheNextInterval) {
  Run(Options());
  Advance(10 * kSecond);
  Actions();
  TaskAck ack = MakeAck(1, 0, 1);
  ack.snapshots.clear();
  ack.error = UnavailableError("disk full");
  EXPECT_EQ(coordinator_->OnAck(generation_, ack, now_), AckOutcome::kDeclined);
  EXPECT_THAT(Actions(), ElementsAre("abort 1"));
  EXPECT_EQ(last_[0].reason, "in subtask 1 could not take its snapshot: disk full");
  EXPECT_EQ(coordinator_->History().back().state, "failed");
  EXPECT_EQ(coordinator_->History().back().failure_reason, last_[0].reason);
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 2 base 0"));
}

TEST_F(CheckpointCoordinatorTest, ExpiresWhatIsNotAcknowledgedInTimeAndSaysWhoIsMissing) {
  Run(Options());
  Advance(10 * kSecond);
  Ack(1, 0, 0);
  Actions();
  EXPECT_EQ(coordinator_->NextWakeMicros(), 1'070 * kSecond);
  Advance(60 * kSecond - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  Advance(1);
  EXPECT_THAT(Actions(), ElementsAre("abort 1", "trigger 2 base 0"));
  EXPECT_EQ(last_[0].reason,
            "expired after 1min: 2 of 3 subtasks have not acknowledged: in 1, out 0");
  EXPECT_EQ(Ack(1, 0, 1), AckOutcome::kLate);
}

TEST_F(CheckpointCoordinatorTest, NeverAbortsOnceTheClaimWasAskedFor) {
  Run(Options());
  Advance(10 * kSecond);
  AckAll(1);
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0", "manifest 1", "claim 1"));
  Advance(10'000 * kSecond);
  coordinator_->OnManifestFailed(CheckpointId(1), InternalError("late"), now_);
  coordinator_->OnGenerationEnded("worker lost", now_);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_TRUE(coordinator_->claim_in_flight());
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  EXPECT_THAT(Actions(), IsEmpty()) << "nobody is left to be told";
  EXPECT_EQ(coordinator_->completed().rbegin()->first, CheckpointId(1));
  Start(2);
  coordinator_->OnAllRunning(now_);
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 2 base 1"));
}

TEST_F(CheckpointCoordinatorTest, HasOneClaimInFlightAndEndsOlderPendingOnesAsSuperseded) {
  JobOptions options = Options();
  options.checkpoint_max_concurrent = 4;
  options.checkpoint_retained = 10;
  Run(options);
  for (int i = 0; i < 5; ++i) Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0", "trigger 2 base 0", "trigger 3 base 0",
                                     "trigger 4 base 0"))
      << "not more than max_concurrent";
  AckAll(2);
  AckAll(3);
  EXPECT_THAT(Actions(), ElementsAre("manifest 2", "manifest 3"));
  coordinator_->OnManifestWritten(CheckpointId(3), now_);
  coordinator_->OnManifestWritten(CheckpointId(2), now_);
  EXPECT_THAT(Actions(), ElementsAre("claim 3"));
  coordinator_->OnCompletionClaimed(CheckpointId(2), now_);
  EXPECT_THAT(Actions(), IsEmpty()) << "2 was never claimed";
  coordinator_->OnCompletionClaimed(CheckpointId(3), now_);
  EXPECT_THAT(Actions(), ElementsAre("completed 3", "abort 1", "abort 2", "trigger 5 base 3"));
  EXPECT_EQ(last_[1].reason, "superseded by checkpoint 3");
  EXPECT_EQ(Ack(1, 0, 0), AckOutcome::kLate);
  EXPECT_EQ(Ack(4, 0, 0), AckOutcome::kAccepted);
}

TEST_F(CheckpointCoordinatorTest, ClaimsTheOlderOfTwoReadyOnesFirst) {
  JobOptions options = Options();
  options.checkpoint_max_concurrent = 3;
  options.checkpoint_retained = 10;
  Run(options);
  for (int i = 0; i < 3; ++i) Advance(10 * kSecond);
  for (uint64_t n : {1, 3, 2}) {
    AckAll(n);
    coordinator_->OnManifestWritten(CheckpointId(n), now_);
  }
  Actions();
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  EXPECT_THAT(Actions(), ElementsAre("completed 1", "claim 2"));
  coordinator_->OnCompletionClaimed(CheckpointId(2), now_);
  EXPECT_THAT(Actions(), ElementsAre("completed 2", "claim 3"));
}

TEST_F(CheckpointCoordinatorTest, KeepsTheMinimumPauseAfterCompletedFailedAndExpiredOnes) {
  JobOptions options = Options();
  options.checkpoint_min_pause_us = 25 * kSecond;
  Run(options);
  Advance(10 * kSecond);
  Advance(5 * kSecond);
  Complete(1);
  Advance(25 * kSecond - 1);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0", "manifest 1", "claim 1", "completed 1"));
  EXPECT_EQ(coordinator_->NextWakeMicros(), now_.monotonic_us + 1);
  Advance(1);
  EXPECT_THAT(Actions(), ElementsAre("trigger 2 base 1"));
  TaskAck ack = MakeAck(2, 0, 1);
  ack.error = InternalError("no");
  Advance(11 * kSecond);
  coordinator_->OnAck(generation_, ack, now_);
  EXPECT_EQ(coordinator_->NextWakeMicros(), now_.monotonic_us + 25 * kSecond);
  Advance(25 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("abort 2", "trigger 3 base 1"));
  Advance(60 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("abort 3"));
  Advance(25 * kSecond - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  Advance(1);
  EXPECT_THAT(Actions(), ElementsAre("trigger 4 base 1"));
}

TEST_F(CheckpointCoordinatorTest, TriggersAtOnceWhenTheLastOneTookLongerThanTheInterval) {
  Run(Options());
  Advance(10 * kSecond);
  Advance(15 * kSecond);
  Actions();
  Complete(1);
  EXPECT_THAT(Actions(), ElementsAre("manifest 1", "claim 1", "completed 1", "trigger 2 base 1"));
}

TEST_F(CheckpointCoordinatorTest, EndsTheGenerationAfterMoreFailuresInARowThanTolerated) {
  JobOptions options = Options();
  options.checkpoint_tolerable_failures = 1;
  Run(options);
  const auto fail = [this](uint64_t checkpoint) {
    Advance(10 * kSecond);
    TaskAck ack = MakeAck(checkpoint, 1, 0);
    ack.error = InternalError("no");
    coordinator_->OnAck(generation_, ack, now_);
  };
  fail(1);
  Advance(10 * kSecond);
  Complete(2);
  Actions();
  fail(3);
  EXPECT_THAT(Actions(), ElementsAre("trigger 3 base 2", "abort 3")) << "2 completed in between";
  Advance(10 * kSecond);
  AckAll(4);
  coordinator_->OnManifestFailed(CheckpointId(4), UnavailableError("disk gone"), now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 4 base 2", "manifest 4", "abort 4", "fail"));
  EXPECT_EQ(last_[3].reason,
            "2 checkpoints in a row failed (tolerated: 1); the last, 4: cannot write its "
            "manifest: disk gone");
  Advance(100 * kSecond);
  EXPECT_THAT(Actions(), IsEmpty()) << "nothing more is triggered in this generation";
  coordinator_->OnGenerationEnded("failures", now_);
  Start(2);
  coordinator_->OnAllRunning(now_);
  fail(5);
  EXPECT_THAT(Actions(), ElementsAre("trigger 5 base 2", "abort 5")) << "counted from zero again";
}

TEST_F(CheckpointCoordinatorTest, AnAbortedOneIsNotRevivedByItsManifest) {
  Run(Options());
  Advance(10 * kSecond);
  AckAll(1);
  coordinator_->OnGenerationEnded("worker lost", now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0", "manifest 1", "abort 1"));
  EXPECT_EQ(last_[2].reason, "worker lost");
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  coordinator_->OnGenerationEnded("again", now_);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_THAT(coordinator_->completed(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, AsksForNothingMoreOnceDeposed) {
  Run(Options());
  Advance(10 * kSecond);
  AckAll(1);
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  coordinator_->OnDeposed();
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  coordinator_->OnSourcesEnded(now_);
  coordinator_->OnGenerationEnded("x", now_);
  Start(2);
  coordinator_->OnAllRunning(now_);
  Advance(100 * kSecond);
  EXPECT_EQ(Ack(1, 0, 0), AckOutcome::kStale);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(coordinator_->NextWakeMicros(), std::nullopt);
  EXPECT_THAT(coordinator_->completed(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, TriggersTheFinalOneAtOnceAndFinishesWhenAllIsPublished) {
  JobOptions options = Options();
  options.checkpoint_interval_us.reset();
  options.checkpoint_min_pause_us = 1'000 * kSecond;
  Run(options);
  coordinator_->OnSourcesEnded(now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0"));
  Complete(1);
  EXPECT_THAT(Actions(), ElementsAre("manifest 1", "claim 1", "completed 1"));
  EXPECT_TRUE(coordinator_->final_completed());
  EXPECT_THAT(coordinator_->Unpublished(), ElementsAre(std::pair("out", 0)));
  coordinator_->OnPublished(Generation(2), {CheckpointId(1), "out", 0});
  coordinator_->OnPublished(generation_, {CheckpointId(0), "out", 0});
  coordinator_->OnPublished(generation_, {CheckpointId(1), "out", 1});
  EXPECT_THAT(Actions(), IsEmpty());
  Publish(1);
  Publish(1);
  EXPECT_THAT(Actions(), ElementsAre("finish 1"));
  EXPECT_THAT(coordinator_->Unpublished(), IsEmpty());
  EXPECT_EQ(coordinator_->NextWakeMicros(), std::nullopt);
}

TEST_F(CheckpointCoordinatorTest, TriggersTheFinalOneWhenTheLastSubtaskRuns) {
  Make(Options());
  Start();
  coordinator_->OnSourcesEnded(now_);
  EXPECT_THAT(Actions(), IsEmpty());
  coordinator_->OnAllRunning(now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0"));
}

TEST_F(CheckpointCoordinatorTest, TriggersTheFinalOneAgainWhenItWasAborted) {
  JobOptions options = Options();
  options.checkpoint_interval_us.reset();
  options.checkpoint_min_pause_us = 1'000 * kSecond;
  Run(options);
  coordinator_->OnSourcesEnded(now_);
  Actions();
  TaskAck ack = MakeAck(1, 1, 0);
  ack.error = InternalError("no");
  coordinator_->OnAck(generation_, ack, now_);
  EXPECT_THAT(Actions(), ElementsAre("abort 1"));
  EXPECT_EQ(coordinator_->NextWakeMicros(),
            now_.monotonic_us + CheckpointCoordinator::kFinalRetryPauseUs);
  Advance(CheckpointCoordinator::kFinalRetryPauseUs);
  EXPECT_THAT(Actions(), ElementsAre("trigger 2 base 0"));
}

TEST_F(CheckpointCoordinatorTest, ACheckpointFromBeforeTheEndOfTheSourcesIsNotTheFinalOne) {
  Run(Options());
  Advance(10 * kSecond);
  coordinator_->OnSourcesEnded(now_);
  EXPECT_THAT(Actions(), ElementsAre("trigger 1 base 0"));
  Complete(1);
  Publish(1);
  EXPECT_FALSE(coordinator_->final_completed());
  EXPECT_THAT(Actions(), ElementsAre("manifest 1", "claim 1", "completed 1", "trigger 2 base 1"));
  Complete(2);
  Publish(2);
  EXPECT_THAT(Actions(),
              ElementsAre("manifest 2", "claim 2", "completed 2", "drop 1.1", "finish 2"));
}

TEST_F(CheckpointCoordinatorTest, FinishesAtOnceWhenTheFinalOneListsNothingToPublish) {
  Run(Options());
  coordinator_->OnSourcesEnded(now_);
  Ack(1, 0, 0);
  Ack(1, 0, 1);
  TaskAck ack = MakeAck(1, 1, 0);
  ack.snapshots[0].committables.clear();
  coordinator_->OnAck(generation_, ack, now_);
  coordinator_->OnManifestWritten(CheckpointId(1), now_);
  coordinator_->OnCompletionClaimed(CheckpointId(1), now_);
  EXPECT_THAT(Actions(),
              ElementsAre("trigger 1 base 0", "manifest 1", "claim 1", "completed 1", "finish 1"));
}

TEST_F(CheckpointCoordinatorTest, DropsWhatIsNoLongerRetainedButNotWhatAPendingOneBuildsOn) {
  JobOptions options = Options();
  options.checkpoint_retained = 2;
  options.checkpoint_max_concurrent = 2;
  Make(options, {{CheckpointId(5), Generation(1)},
                 {CheckpointId(6), Generation(1)},
                 {CheckpointId(4), Generation(1)}});
  Start(2, 7);
  coordinator_->OnAllRunning(now_);
  EXPECT_THAT(Actions(), IsEmpty());
  Advance(10 * kSecond);
  Advance(10 * kSecond);
  Actions();
  Complete(7);
  EXPECT_THAT(Actions(),
              ElementsAre("manifest 7", "claim 7", "completed 7", "drop 4.1", "drop 5.1"));
  Advance(10 * kSecond);
  EXPECT_THAT(Actions(), ElementsAre("trigger 9 base 7"));
  Complete(9);
  EXPECT_THAT(Actions(), ElementsAre("manifest 9", "claim 9", "completed 9", "abort 8", "drop 6.1"))
      << "8 was built on 6";
  EXPECT_EQ(coordinator_->completed(),
            (std::map<CheckpointId, Generation>{{CheckpointId(7), Generation(2)},
                                                {CheckpointId(9), Generation(2)}}));
}

TEST_F(CheckpointCoordinatorTest, RemembersTheLastHundredCheckpoints) {
  Run(Options());
  for (uint64_t n = 1; n <= 105; ++n) {
    Advance(10 * kSecond);
    Complete(n);
  }
  const std::vector<CheckpointSummary> history = coordinator_->History();
  ASSERT_EQ(history.size(), 100u);
  EXPECT_EQ(history.front().id, CheckpointId(6));
  EXPECT_EQ(history.back().id, CheckpointId(105));
  EXPECT_EQ(coordinator_->completed_count(), 105);
}

}  // namespace
}  // namespace weir
