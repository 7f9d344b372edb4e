// Goal: a job that is cancelled or fails comes to its end as docs/checkpoint_protocol.md promises,
// and nothing that completed is lost on the way. Method: as in coordinator_test.cc.
#include "tests/unit/coordinator/job/coordinator_fixture.h"

namespace weir {
namespace {

class CoordinatorEndingTest : public CoordinatorFixture {};

TEST_F(CoordinatorEndingTest, CancelWhileRunningAndWhileACheckpointIsInProgress) {
  for (bool during_checkpoint : {false, true}) {
    SCOPED_TRACE(during_checkpoint);
    cluster_ = std::make_unique<FakeCluster>();
    auto process = RunJob();
    ASSERT_TRUE(Completes(*process, 2));
    cluster_->auto_ack = !during_checkpoint;
    if (during_checkpoint) cluster_->Advance(3 * kSecondUs / 2);
    auto answer = Cancel(*process);
    ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 5 * kSecondUs));
    ASSERT_TRUE(answer->answer && answer->answer->ok());
    EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
    EXPECT_EQ(cluster_->Count(Fate::kPublished), 4);
    cluster_->Advance(kSecondUs);
    EXPECT_TRUE(Manifests().empty());
    ExpectOutsideSound();
    EXPECT_EQ(Cancel(*process)->answer->status().code(), StatusCode::kFailedPrecondition);
    // Forgotten on request, files and all.
    EXPECT_TRUE(Remove(*process).ok());
    EXPECT_TRUE(FilesOf("").empty());
  }
}

TEST_F(CoordinatorEndingTest, CancelWaitsForAnUnansweredClaimAndPublishesWhatItCompleted) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 2));
  cluster_->Advance(100'000);
  // Given a claim of checkpoint 3 that storage does not answer.
  int attempts = 0;
  process->files->set_before([&](std::string_view operation, const std::string& path) {
    bool claim = operation == "link" && path.find("/log/") != std::string::npos;
    attempts += claim ? 1 : 0;
    return claim ? UnavailableError("storage does not answer") : Status();
  });
  ASSERT_TRUE(cluster_->Until([&] { return attempts > 1; }));
  EXPECT_NE(Get(*process).waiting_for.find("storage does not answer"), std::string::npos);
  // When the job is cancelled, nothing is decided before that number is known to be occupied.
  auto answer = Cancel(*process);
  cluster_->Advance(2 * kSecondUs);
  EXPECT_FALSE(answer->answer.has_value());
  EXPECT_EQ(cluster_->Count(Fate::kAborted), 0);
  process->files->set_before({});
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 5 * kSecondUs));
  EXPECT_TRUE(answer->answer->ok());
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 6);
  ExpectOutsideSound();
  ExpectLogSound();
}

TEST_F(CoordinatorEndingTest, CancelWhileWaitingForSlotsAndDuringRecovery) {
  {
    auto process = cluster_->StartCoordinator("a");
    Lead(*process);
    ASSERT_TRUE(cluster_->Submit(*process, kJob, Graph()).ok());
    cluster_->Advance(kSecondUs);
    auto answer = Cancel(*process);
    ASSERT_TRUE(Reaches(*process, JobState::kCanceled, kSecondUs));  // no worker is needed
    EXPECT_TRUE(answer->answer->ok());
    process->Kill();
  }
  cluster_ = std::make_unique<FakeCluster>();
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->KillWorker("worker-1");
  ASSERT_TRUE(Reaches(*process, JobState::kRestarting));
  auto answer = Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 5 * kSecondUs));
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
  ExpectOutsideSound();
}

TEST_F(CoordinatorEndingTest, WhatAWorkerMadeThatSleptThroughTheEndIsSweptOnceItHasEnded) {
  auto process = RunJob();
  FakeCluster::Worker& sleeper = cluster_->AddWorker("worker-3", 1);
  ASSERT_TRUE(Completes(*process, 1));
  auto answer = Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 5 * kSecondUs));
  auto sweeps = [&] {
    return std::count_if(cluster_->calls.begin(), cluster_->calls.end(), [&](const auto& call) {
      return call.what == "settle" && call.worker == sleeper.info.control_address &&
             call.generation == Generation(2);
    });
  };
  cluster_->Advance(5 * kSecondUs);
  auto before = sweeps();
  // Given a worker whose heartbeat names a generation that ended long ago, and then no more.
  sleeper.hosted[kJob] = Generation(1);
  cluster_->Advance(5 * kSecondUs);
  EXPECT_FALSE(sleeper.hosted.contains(kJob));  // it was told to end
  EXPECT_EQ(sweeps(), before + 1);
  cluster_->Advance(5 * kSecondUs);
  EXPECT_EQ(sweeps(), before + 1);
  ExpectOutsideSound();
}

TEST_F(CoordinatorEndingTest, CancelWithoutAWorkerWaitsAndForceNamesWhatItLeaves) {
  auto process = RunJob();
  cluster_->auto_publish = false;
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->KillWorker("worker-1");
  cluster_->KillWorker("worker-2");
  auto answer = Cancel(*process);
  cluster_->Advance(10 * kSecondUs);
  EXPECT_TRUE(answer->answer && answer->answer->ok());
  EXPECT_EQ(Get(*process).state, JobState::kCancelling);
  EXPECT_EQ(Get(*process).waiting_for, "a worker to settle the output of out");
  auto forced = Cancel(*process, true);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 5 * kSecondUs));
  ASSERT_TRUE(forced->answer && forced->answer->ok());
  ASSERT_EQ((**forced->answer).size(), 1u) << "one line for each sink";
  EXPECT_NE((**forced->answer)[0].find("rows of 2 subtasks, checkpoints 1 to 1"), std::string::npos)
      << (**forced->answer)[0];
}

// Given a job that failed, or is cancelled, whose output nobody can settle. Then who cancels it
// gets an answer, and is told what ends it.
TEST_F(CoordinatorEndingTest, CancelIsAnsweredWhereTheOutputIsRefusedAndSaysWhatEndsTheJob) {
  for (bool failed : {false, true}) {
    SCOPED_TRACE(failed);
    cluster_ = std::make_unique<FakeCluster>();
    auto process = RunJob();
    ASSERT_TRUE(Completes(*process, 1));
    cluster_->settle_answer = FailedPreconditionError("the marker is missing");
    if (failed) {
      cluster_->FailTask(kJob, InvalidArgumentError("the marker is missing"));
      ASSERT_TRUE(Reaches(*process, JobState::kRestarting));
    }
    auto answer = Cancel(*process);
    cluster_->Advance(5 * kSecondUs);
    ASSERT_TRUE(answer->answer.has_value());
    EXPECT_TRUE(answer->answer->ok());
    EXPECT_NE(Get(*process).waiting_for.find("the marker is missing"), std::string::npos);
    EXPECT_NE(Get(*process).waiting_for.find("weir cancel --force"), std::string::npos);
    auto forced = Cancel(*process, true);
    ASSERT_TRUE(Reaches(*process, failed ? JobState::kFailed : JobState::kCanceled, 5 * kSecondUs));
    ASSERT_TRUE(forced->answer && forced->answer->ok());
    EXPECT_EQ((**forced->answer).size(), 1u);
  }
}

// Then no generation waits for ever to start: whether it was the task that failed by it, or not.
TEST_F(CoordinatorEndingTest, AJobWhoseRowsAreRefusedForGoodFails) {
  for (const Status& error : {OutOfRangeError("a row is too large"), UnavailableError("lost")}) {
    cluster_ = std::make_unique<FakeCluster>();
    auto process = RunJob();
    ASSERT_TRUE(Completes(*process, 1));
    cluster_->settle_answer = OutOfRangeError("a row is too large");
    cluster_->FailTask(kJob, error);
    ASSERT_TRUE(Reaches(*process, JobState::kFailed, 10 * kSecondUs));
    EXPECT_EQ(Get(*process).failure->message, "a row is too large");
  }
}

TEST_F(CoordinatorEndingTest, CancellingAndFailingAreCarriedOnByTheNextLeader) {
  auto first = RunJob();
  ASSERT_TRUE(Completes(*first, 1));
  cluster_->settle_answer = UnavailableError("output disk is gone");
  auto answer = Cancel(*first);
  ASSERT_TRUE(Reaches(*first, JobState::kCancelling));
  cluster_->Advance(kSecondUs);
  EXPECT_NE(Get(*first).waiting_for.find("output disk is gone"), std::string::npos);
  first->Kill();
  cluster_->settle_answer = Status();
  auto second = cluster_->StartCoordinator("b");
  Lead(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kCanceled, 5 * kSecondUs));
  EXPECT_EQ(CallsOf("start", "b"), 0);
}

// Who cancels a job decides whether rows that nobody takes are given up, whoever leads by then.
TEST_F(CoordinatorEndingTest, ACancelledJobWhoseRowsAreRefusedWaitsUnderTheNextLeaderToo) {
  auto first = RunJob();
  cluster_->auto_publish = false;
  ASSERT_TRUE(Completes(*first, 1));
  cluster_->settle_answer = OutOfRangeError("a row is too large");
  Cancel(*first);
  ASSERT_TRUE(Reaches(*first, JobState::kCancelling));
  cluster_->Advance(5 * kSecondUs);
  EXPECT_EQ(Get(*first).state, JobState::kCancelling);
  first->Kill();
  auto second = cluster_->StartCoordinator("b");
  Lead(*second);
  ASSERT_TRUE(cluster_->Until([&] { return CallsOf("settle", "b") >= 3; }));
  EXPECT_EQ(Get(*second).state, JobState::kCancelling);
  EXPECT_NE(Get(*second).waiting_for.find("a row is too large"), std::string::npos);
  EXPECT_NE(Get(*second).waiting_for.find("weir cancel --force"), std::string::npos);
  EXPECT_EQ(Manifests().size(), 1u);
  // When they are taken after all, they are published.
  cluster_->settle_answer = Status();
  ASSERT_TRUE(Reaches(*second, JobState::kCanceled, 5 * kSecondUs));
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 2);
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
  ExpectOutsideSound();
}

// Given options by which an ended job's checkpoint is deleted, and rows that it leaves unpublished,
// as the topic refuses them or a user gives them up. Then the checkpoint which lists them is kept,
// by later leaders too, for they can be published from there alone.
TEST_F(CoordinatorEndingTest, TheCheckpointOfRowsThatAreLeftBehindIsKept) {
  for (bool failed : {false, true}) {
    SCOPED_TRACE(failed);
    cluster_ = std::make_unique<FakeCluster>();
    auto first = RunJob(Graph(R"("checkpoint.interval": "1s", "checkpoint.on_failure": "delete")"));
    cluster_->auto_publish = false;
    ASSERT_TRUE(Completes(*first, 1));
    cluster_->settle_answer = OutOfRangeError("a row is too large");
    if (failed) {
      cluster_->FailTask(kJob, UnavailableError("lost"));
      ASSERT_TRUE(Reaches(*first, JobState::kFailed, 10 * kSecondUs));
    } else {
      Cancel(*first, /*force=*/true);
      ASSERT_TRUE(Reaches(*first, JobState::kCanceled, 10 * kSecondUs));
    }
    cluster_->Advance(kSecondUs);
    const std::string kept = Concat("/checkpoints/", kJob, "/chk-1.1");
    EXPECT_EQ(Manifests(), std::vector{kept});
    EXPECT_EQ(Get(*first).retained_checkpoint, kept);
    first->Kill();
    auto second = cluster_->StartCoordinator("b", /*take_over=*/true);
    Lead(*second);
    cluster_->Advance(kSecondUs);
    EXPECT_EQ(Manifests(), std::vector{kept});
    EXPECT_EQ(Get(*second).retained_checkpoint, kept);
    // Who wants to remove the job is told where its rows can be published from.
    cluster_->disk_view().PutDirectory(Concat("/checkpoints/", kJob, "/staged"));
    cluster_->disk_view().PutFile(Concat("/checkpoints/", kJob, "/staged/1-out-0-1-0-77"), "rows");
    const Status removed = Remove(*second);
    EXPECT_EQ(removed.code(), StatusCode::kFailedPrecondition) << removed;
    EXPECT_NE(removed.message().find(Concat("weir run --from ", kept)), std::string::npos)
        << removed;
    // Another job that starts from there publishes them.
    cluster_->settle_answer = Status();
    ASSERT_TRUE(cluster_->Submit(*second, kOther, Graph(), kept).ok());
    ASSERT_TRUE(Reaches(*second, JobState::kRunning, 10 * kSecondUs, kOther));
    EXPECT_EQ(cluster_->Count(Fate::kPublished), 2);
  }
}

// The next order to settle fences the one before it in the middle of its transaction: one of them
// has to be given as long as a transaction may take.
TEST_F(CoordinatorEndingTest, AnOrderToSettleIsWaitedForAsLongAsATransactionMayTake) {
  auto process = RunJob(R"({"name": "slow", "options": {"checkpoint.interval": "1s"},
    "vertices": [
      {"uid": "gen", "type": "generator", "config": {"rows": 100}},
      {"uid": "out", "type": "kafka.sink",
       "config": {"brokers": "127.0.0.1:9092", "topic": "counts", "format": "json",
                  "transaction_timeout": "5min"}}],
    "edges": [{"from": "gen", "to": "out"}]})");
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->hold_settles = true;
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  ASSERT_TRUE(cluster_->Until(
      [&] {
        return !cluster_->settles.empty() &&
               cluster_->settles.back().answer_within_us > 300 * kSecondUs;
      },
      900 * kSecondUs));
  cluster_->Advance(300 * kSecondUs);
  EXPECT_EQ(Confirm(*process, cluster_->settles.back()), StatusCode::kOk);
  // Who ends the job by force does not wait for that.
  cluster_->settles.clear();
  Cancel(*process);
  ASSERT_TRUE(cluster_->Until(
      [&] {
        return !cluster_->settles.empty() &&
               cluster_->settles.back().answer_within_us > 100 * kSecondUs;
      },
      300 * kSecondUs));
  Cancel(*process, /*force=*/true);
  EXPECT_TRUE(Reaches(*process, JobState::kCanceled, 3 * kSecondUs));
}

// What subtasks were last seen to wait for is past when nothing of them runs.
TEST_F(CoordinatorEndingTest, NoSubtaskOfAJobThatPausesOrEndsIsShownToWait) {
  for (bool cancelled : {false, true}) {
    SCOPED_TRACE(cancelled);
    cluster_ = std::make_unique<FakeCluster>();
    auto process = RunJob(Graph(
        R"("checkpoint.interval": "1s", "restart.backoff_initial": "60s", "restart.backoff_max": "60s")"));
    ASSERT_TRUE(Completes(*process, 1));
    SubtaskMetrics waits;
    waits.uid = "out";
    waits.records_in = 7;
    waits.blocked_on = "sink";
    waits.waits_for = "brokers do not answer";
    waits.waits_since_wall_us = 1;
    cluster_->metrics = {waits};
    auto shown = [&] { return Get(*process).vertices.back().subtasks.front().metrics; };
    ASSERT_TRUE(cluster_->Until([&] { return shown().waits_for == "brokers do not answer"; }));
    EXPECT_EQ(shown().blocked_on, "sink");
    if (cancelled) {
      cluster_->settle_answer = FailedPreconditionError("the marker is missing");
      Cancel(*process);
      ASSERT_TRUE(Reaches(*process, JobState::kCancelling));
    } else {
      cluster_->FailTask(kJob, UnavailableError("lost"));
      ASSERT_TRUE(Reaches(*process, JobState::kRestarting));
    }
    auto expect_none = [&] {
      EXPECT_EQ(shown().waits_for, "");
      EXPECT_EQ(shown().waits_since_wall_us, 0);
      EXPECT_EQ(shown().blocked_on, "");
      EXPECT_GT(shown().records_in, 0);
    };
    cluster_->Advance(3 * kSecondUs);
    expect_none();
    if (!cancelled) continue;
    Cancel(*process, /*force=*/true);
    ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
    expect_none();
  }
}

}  // namespace
}  // namespace weir
