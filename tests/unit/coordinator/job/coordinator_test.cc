// Goal: a job goes through its life as design.md, sections 5 and 8, promises, whatever dies on the
// way. Method: real coordinators over one disk in memory, each with its own loop and clock; workers
// are fakes whose sinks seal one committable a checkpoint, and a world outside that notices what is
// doubled or lost.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/concat.h"
#include "coordinator/job/log_driver.h"
#include "tests/unit/coordinator/job/coordinator_fixture.h"

namespace weir {
namespace {

class CoordinatorTest : public CoordinatorFixture {
 protected:
  // A job that was cancelled with two checkpoints, and keeps the second.
  std::unique_ptr<CoordinatorProcess> RunJobAndKeepItsCheckpoint() {
    auto process = RunJob(Graph(R"("checkpoint.interval": "1s", "checkpoint.on_cancel": "keep")"));
    EXPECT_TRUE(Completes(*process, 2));
    Cancel(*process);
    EXPECT_TRUE(Reaches(*process, JobState::kCanceled));
    cluster_->Advance(kSecondUs);
    return process;
  }
};

TEST_F(CoordinatorTest, BoundedJobCommitsEverythingBeforeItIsFinished) {
  // Given a job that takes no checkpoint by itself for ten minutes.
  auto process = RunJob(Graph(R"("checkpoint.interval": "10min")"));
  EXPECT_EQ(Completed(*process), 0);
  // When all its sources end.
  cluster_->EndSources(kJob);
  // Then a final checkpoint completes at once, its output is published, and only then it ends.
  ASSERT_TRUE(Reaches(*process, JobState::kFinished, 2 * kSecondUs));
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 2);
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
  JobStatus status = Get(*process);
  EXPECT_EQ(status.restarts, 0);
  EXPECT_EQ(status.checkpoints_completed, 1);
  EXPECT_GT(status.end_wall_us, 0);
  EXPECT_EQ(CallsOf("finish"), 2);
  cluster_->Advance(kSecondUs);
  EXPECT_TRUE(Manifests().empty());  // deleted with the job's end
  ExpectOutsideSound();
}

TEST_F(CoordinatorTest, CheckpointsFollowOneAnotherAndOnlyTheNewestIsRetained) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 5));
  cluster_->Advance(kSecondUs / 2);
  EXPECT_EQ(Manifests(), std::vector<std::string>{Concat("/checkpoints/", kJob, "/chk-5.1")});
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 10);
  // The log is pruned: STARTED and COMPLETED{5}, and what may not be pruned.
  EXPECT_LE(Log().size(), 3u);
  StatusOr<std::vector<CheckpointSummary>> history = cluster_->Checkpoints(*process, kJob.value());
  ASSERT_TRUE(history.ok());
  EXPECT_EQ(history->front().id.value(), 1u);
  EXPECT_EQ(history->front().state, "completed");
  ExpectOutsideSound();
}

TEST_F(CoordinatorTest, LostWorkerEndsTheGenerationAndTheJobGoesOnFromTheNewestCheckpoint) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 3));
  cluster_->auto_publish = false;  // checkpoint 4 completes, its output stays hidden
  ASSERT_TRUE(Completes(*process, 4));
  cluster_->KillWorker("worker-2");
  // One slot is missing: the job waits, and says for what. To settle its output needs none.
  ASSERT_TRUE(Reaches(*process, JobState::kRestarting, kSecondUs));
  cluster_->Advance(3 * kSecondUs);
  EXPECT_EQ(Get(*process).waiting_for, "2 slots, 1 free");
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 8);
  cluster_->auto_publish = true;
  cluster_->AddWorker("worker-3", 1);
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, kSecondUs));
  JobStatus status = Get(*process);
  EXPECT_EQ(status.generation.value(), 2u);
  EXPECT_EQ(status.restarts, 1);
  ASSERT_TRUE(status.failure.has_value());
  EXPECT_NE(status.failure->message.find("worker-2"), std::string::npos);
  ASSERT_TRUE(Completes(*process, 6));
  ExpectOutsideSound();
  ExpectLogSound();
}

TEST_F(CoordinatorTest, OutputIsSettledDuringALongPauseBeforeARestart) {
  auto process = RunJob(Graph(R"("checkpoint.interval": "1s", "restart.backoff_initial": "20s")"));
  cluster_->auto_publish = false;
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  cluster_->Advance(3 * kSecondUs);
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 2);
}

// Given a source with dead letters, then they are published and settled like the rows of the sink.
TEST_F(CoordinatorTest, WhatASourceSealedIsSettledLikeTheOutputOfASink) {
  auto process = RunJob(R"({
    "name": "letters", "options": {"parallelism": "2", "checkpoint.interval": "1s"},
    "vertices": [
      {"uid": "rows", "type": "files.source",
       "config": {"path": "/data/*", "format": "json", "schema": {"id": "INT64"},
                  "bad_data": "dead_letter", "dead_letter_path": "/dead"}},
      {"uid": "out", "type": "files.sink", "config": {"path": "/out", "format": "json"}}],
    "edges": [{"from": "rows", "to": "out"}]})");
  ASSERT_TRUE(Completes(*process, 2));
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 8);  // two vertices, two subtasks, two checkpoints
  cluster_->auto_publish = false;
  ASSERT_TRUE(Completes(*process, 3));
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 4);
  cluster_->auto_ack = false;
  ASSERT_TRUE(cluster_->Until([&] { return cluster_->Count(Fate::kSealed) == 8; }));
  cluster_->KillWorker("worker-2");
  cluster_->auto_publish = cluster_->auto_ack = true;
  cluster_->AddWorker("worker-3", 1);
  ASSERT_TRUE(cluster_->Until([&] { return Get(*process).generation.value() == 2; }));
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  EXPECT_EQ(cluster_->Count(Fate::kPublished), 12);
  EXPECT_EQ(cluster_->Count(Fate::kAborted), 4);
  auto cancel = Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
  ExpectOutsideSound();
}

TEST_F(CoordinatorTest, OnlyTheGenerationThatRunsIsConfirmed) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 1));
  EXPECT_EQ(Confirm(*process, kJob, 1), StatusCode::kOk);
  EXPECT_EQ(Confirm(*process, kJob, 2), StatusCode::kStale);
  EXPECT_EQ(Confirm(*process, kOther, 1), StatusCode::kStale);
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  ASSERT_TRUE(Reaches(*process, JobState::kRestarting));
  EXPECT_EQ(Confirm(*process, kJob, 1), StatusCode::kStale);  // while none runs
  ASSERT_TRUE(cluster_->Until([&] { return Get(*process).generation.value() == 2; }));
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  EXPECT_EQ(Confirm(*process, kJob, 1), StatusCode::kStale);
  EXPECT_EQ(Confirm(*process, kJob, 2), StatusCode::kOk);
  Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  EXPECT_EQ(Confirm(*process, kJob, 2), StatusCode::kStale);
}

TEST_F(CoordinatorTest, WhoIsDeposedAndDoesNotKnowYetConfirmsNothing) {
  auto first = RunJob();
  ASSERT_TRUE(Completes(*first, 1));
  first->loop.Pause();
  auto second = cluster_->StartCoordinator("b", /*take_over=*/true);
  Lead(*second);
  ASSERT_TRUE(cluster_->Until([&] { return Get(*second).generation.value() == 2; }));
  first->loop.Continue();
  EXPECT_EQ(Confirm(*first, kJob, 1), StatusCode::kUnavailable);
  EXPECT_EQ(Confirm(*second, kJob, 1), StatusCode::kStale);
}

// A worker that settles late must not take the output from the one that was told to after it.
TEST_F(CoordinatorTest, AnOrderToSettleIsConfirmedWhileItsOutcomeIsWaitedFor) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->hold_settles = true;
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  ASSERT_TRUE(cluster_->Until([&] { return cluster_->settles.size() == 1; }));
  EXPECT_EQ(cluster_->settles[0].job_directory, Concat("/checkpoints/", kJob));
  EXPECT_EQ(Confirm(*process, cluster_->settles[0]), StatusCode::kOk);
  SettleRequest of_another = cluster_->settles[0];
  of_another.coordinator = CoordinatorNumber(of_another.coordinator.value() + 1);
  EXPECT_EQ(Confirm(*process, of_another), StatusCode::kStale);
  ASSERT_TRUE(cluster_->Until([&] { return cluster_->settles.size() == 2; }));
  EXPECT_EQ(Confirm(*process, cluster_->settles[0]), StatusCode::kStale);
  EXPECT_EQ(Confirm(*process, cluster_->settles[1]), StatusCode::kOk);
  cluster_->hold_settles = false;
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  for (const SettleRequest& settle : cluster_->settles) {
    EXPECT_EQ(Confirm(*process, settle), StatusCode::kStale);
  }
  // Of a job that ends: the generation is one above its last.
  cluster_->settles.clear();
  cluster_->hold_settles = true;
  Cancel(*process);
  ASSERT_TRUE(cluster_->Until([&] { return cluster_->settles.size() == 1; }));
  EXPECT_EQ(Confirm(*process, cluster_->settles[0]), StatusCode::kOk);
  cluster_->hold_settles = false;
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
}

TEST_F(CoordinatorTest, SilentWorkerIsLostAfterTheTimeout) {
  auto process = RunJob();
  cluster_->AddWorker("worker-3", 1);
  for (int i = 1; i < 9; ++i) {
    if (FakeCluster::Worker* worker = cluster_->At(Concat("worker-2:", i))) worker->silent = true;
  }
  ASSERT_TRUE(
      cluster_->Until([&] { return Get(*process).generation.value() == 2; }, 8 * kSecondUs));
  // Old tasks get three seconds to end; a lost worker is not waited for.
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 4 * kSecondUs));
  EXPECT_NE(Get(*process).failure->message.find("silent"), std::string::npos);
}

TEST_F(CoordinatorTest, FailedTaskRestartsTheJobUnlessTheErrorIsTheUsers) {
  auto process = RunJob();
  ASSERT_TRUE(Completes(*process, 1));
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  ASSERT_TRUE(cluster_->Until([&] { return Get(*process).generation.value() == 2; }));
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  EXPECT_EQ(Get(*process).failure->message, "disk is slow");

  cluster_->FailTask(kJob, InvalidArgumentError("part-0.csv:17: 'x' is no INT64"));
  ASSERT_TRUE(Reaches(*process, JobState::kFailed));
  JobStatus status = Get(*process);
  EXPECT_NE(status.failure->message.find("part-0.csv:17"), std::string::npos);
  EXPECT_EQ(status.failure->uid, "gen");
  EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
  // on_failure: keep.
  cluster_->Advance(kSecondUs);
  ASSERT_EQ(Manifests().size(), 1u);
  EXPECT_EQ(Get(*process).retained_checkpoint, Manifests()[0]);
  ExpectOutsideSound();
}

TEST_F(CoordinatorTest, AttemptsAreLimited) {
  auto process = RunJob(Graph(R"("checkpoint.interval": "10min", "restart.attempts_max": "2")"));
  for (uint64_t generation = 2; generation <= 3; ++generation) {
    cluster_->FailTask(kJob, UnavailableError("disk is gone"));
    ASSERT_TRUE(cluster_->Until([&] {
      return Get(*process).generation.value() == generation &&
             Get(*process).state == JobState::kRunning;
    }));
  }
  cluster_->FailTask(kJob, UnavailableError("disk is gone"));
  ASSERT_TRUE(Reaches(*process, JobState::kFailed));
}

TEST_F(CoordinatorTest, TooFewSlotsWaitVisiblyAndStartByThemselves) {
  auto process = cluster_->StartCoordinator("a");
  Lead(*process);
  // No worker at all: accepted, and checked when one comes.
  ASSERT_TRUE(cluster_->Submit(*process, kJob, Graph()).ok());
  cluster_->Advance(kSecondUs);
  EXPECT_EQ(Get(*process).state, JobState::kCreated);
  EXPECT_EQ(Get(*process).waiting_for, "2 slots, 0 free (no worker is there)");
  cluster_->AddWorker("worker-1", 1);
  ASSERT_TRUE(cluster_->Until([&] { return Get(*process).waiting_for == "2 slots, 1 free"; }));
  EXPECT_EQ(CallsOf("check"), 1);
  cluster_->AddWorker("worker-2", 1);
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  EXPECT_EQ(Get(*process).restarts, 0);
}

TEST_F(CoordinatorTest, JobThatAWorkerRefusesIsNotAccepted) {
  auto process = cluster_->StartCoordinator("a");
  cluster_->AddWorker("worker-1", 2);
  Lead(*process);
  cluster_->Until([&] { return Workers(*process) == 1; });
  cluster_->check_answer = NotFoundError("no file matches data/*.csv");
  StatusOr<SubmitResponse> answer = cluster_->Submit(*process, kJob, Graph());
  EXPECT_EQ(answer.status().message(), "no file matches data/*.csv");
  EXPECT_FALSE(cluster_->disk_view().Exists(Concat("/checkpoints/", kJob)));
  EXPECT_TRUE(cluster_->List(*process, true)->empty());
  // Without a worker it is accepted, and fails when one has looked.
  cluster_->KillWorker("worker-1");
  cluster_->Until([&] { return Workers(*process) == 0; });
  ASSERT_TRUE(cluster_->Submit(*process, kJob, Graph()).ok());
  cluster_->AddWorker("worker-2", 2);
  ASSERT_TRUE(Reaches(*process, JobState::kFailed));
  EXPECT_NE(Get(*process).failure->message.find("data/*.csv"), std::string::npos);
}

TEST_F(CoordinatorTest, SubmissionIsIdempotent) {
  auto process = RunJob();
  EXPECT_TRUE(cluster_->Submit(*process, kJob, Graph()).ok());
  StatusOr<SubmitResponse> other =
      cluster_->Submit(*process, kJob, Graph(R"("checkpoint.interval": "2s")"));
  EXPECT_EQ(other.status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(cluster_->List(*process, true)->size(), 1u);
  EXPECT_EQ(CallsOf("check"), 1);
  // The sink's path starts at the client's directory.
  EXPECT_NE(Get(*process).vertices.size(), 0u);
}

TEST_F(CoordinatorTest, JobsAreFoundByIdPrefixAndName) {
  auto process = RunJob();
  ASSERT_TRUE(
      cluster_->Submit(*process, kOther, Graph(R"("checkpoint.interval": "1s")", "second")).ok());
  EXPECT_EQ(cluster_->Get(*process, "0123")->id, kJob);
  EXPECT_EQ(cluster_->Get(*process, "second")->id, kOther);
  EXPECT_EQ(cluster_->Get(*process, "third").status().code(), StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, TheNameOfALiveJobIsNotTakenAwayByTheIdOfAnEndedOne) {
  auto process = RunJob();
  Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  // "0123" is how the id of the ended one begins.
  ASSERT_TRUE(
      cluster_->Submit(*process, kOther, Graph(R"("checkpoint.interval": "1s")", "0123")).ok());
  std::optional<StatusOr<JobStatus>> found;
  process->coordinator->GetJob("0123", [&](StatusOr<JobStatus> job) { found = std::move(job); });
  ASSERT_TRUE(cluster_->Until([&] { return found.has_value(); }));
  ASSERT_TRUE(found->ok()) << found->status();
  EXPECT_EQ((*found)->id, kOther);
}

TEST_F(CoordinatorTest, RestartedCoordinatorTakesUpLiveJobsAndNoEndedOnes) {
  auto first = RunJob();
  ASSERT_TRUE(Completes(*first, 2));
  cluster_->auto_ack = false;  // killed in the middle of checkpoint 3
  ASSERT_TRUE(cluster_->Until([&] { return CallsOf("trigger") >= 6; }));
  first->Kill();
  cluster_->auto_ack = true;
  auto second = cluster_->StartCoordinator("b");
  Lead(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kRunning));
  JobStatus status = Get(*second);
  EXPECT_EQ(status.generation.value(), 2u);
  // Two subtasks with 20 rows up to checkpoint 2: tasks have told nothing yet.
  EXPECT_EQ(status.records_in, 40);
  ASSERT_TRUE(Completes(*second, 3));
  // Number 3 is taken by the directory of the one that never completed.
  EXPECT_EQ(Get(*second).last_checkpoint->id.value(), 4u);
  ExpectOutsideSound();
  ExpectLogSound();
  Cancel(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kCanceled));
  JobStatus ended = Get(*second);
  second->Kill();

  auto third = cluster_->StartCoordinator("c", /*take_over=*/true);
  Lead(*third);
  cluster_->Advance(kSecondUs);
  size_t entries = Log().size();
  EXPECT_TRUE(cluster_->List(*third, false)->empty());
  StatusOr<std::vector<JobStatus>> all = cluster_->List(*third, true);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().state, JobState::kCanceled);
  EXPECT_EQ(all->front().name, "keyed-count");
  EXPECT_GT(all->front().end_wall_us, 0);
  EXPECT_EQ(all->front().restarts, 1);
  EXPECT_EQ(all->front().checkpoints_completed, ended.checkpoints_completed);
  EXPECT_EQ(Log().size(), entries);
}

TEST_F(CoordinatorTest, SecondCoordinatorWaitsAndSaysForWhom) {
  auto first = RunJob();
  auto second = cluster_->StartCoordinator("b");
  cluster_->Advance(20 * kSecondUs);
  EXPECT_FALSE(second->coordinator->leading());
  std::string message;
  second->coordinator->ListJobs(
      true, [&](StatusOr<std::vector<JobStatus>> jobs) { message = jobs.status().message(); });
  EXPECT_NE(message.find("coordinator 1 at a:7070 (host host-a, pid 1)"), std::string::npos)
      << message;
  // A clean stop releases the lease: no waiting.
  bool stopped = false;
  first->coordinator->Stop([&] { stopped = true; });
  ASSERT_TRUE(cluster_->Until([&] { return stopped; }, kSecondUs));
  cluster_->Follow(second.get());
  ASSERT_TRUE(cluster_->Until([&] { return second->coordinator->leading(); }, kSecondUs));
  ASSERT_TRUE(Reaches(*second, JobState::kRunning));
  EXPECT_EQ(CallsOf("end", "a"), 0);
}

// The leader stops at each storage operation between the last acknowledgement of a checkpoint and
// what follows its completion, another one takes over, and the first comes back.
TEST_F(CoordinatorTest, PausedLeaderNeverCompletesAnythingAfterItsSuccessorTookOver) {
  int stops = 0;
  // By --take-over the pause is short, and the first still knows its workers when it comes back.
  for (int64_t turn = 0; turn < 80; ++turn) {
    int64_t stop = turn / 2;
    bool take_over = turn % 2 == 1;
    SCOPED_TRACE(Concat(stop, take_over ? " with take-over" : ""));
    cluster_ = std::make_unique<FakeCluster>();
    auto first = RunJob();
    ASSERT_TRUE(Completes(*first, 2));
    cluster_->Advance(200'000);
    // Paused at the stop-th storage operation from the next trigger on.
    int64_t seen = 0;
    first->files->set_before([&](std::string_view operation, const std::string& path) {
      bool counts =
          !seen ? operation == "mkdir" || path.find("/chk-3.1") != std::string::npos : true;
      if (counts && seen++ == stop) first->loop.Pause();
      return Status();
    });
    bool paused = cluster_->Until([&] { return first->loop.paused(); }, 3 * kSecondUs);
    first->files->set_before({});
    if (!paused) break;
    ++stops;
    auto second = cluster_->StartCoordinator("b", take_over);
    Lead(*second);
    ASSERT_TRUE(Reaches(*second, JobState::kRunning, 10 * kSecondUs));
    int64_t base = Completed(*second);
    size_t calls = cluster_->calls.size();
    // The first comes back while the second goes on. For a while it does not even see that another
    // one leads: the completion log alone decides.
    first->files->set_before([](std::string_view operation, const std::string& path) {
      bool blind = operation == "list" && path == "/checkpoints/coordinators";
      return blind ? UnavailableError("does not see it") : Status();
    });
    first->loop.Continue();
    cluster_->Advance(600'000);
    first->files->set_before({});
    cluster_->Advance(5 * kSecondUs);
    EXPECT_FALSE(first->coordinator->leading());
    EXPECT_TRUE(second->coordinator->leading());
    // It may still tell of what completed before: then its successor started from that.
    CheckpointId restored;
    for (const LogEntry& entry : Log()) {
      if (entry.kind == LogEntry::Kind::kStarted) restored = std::max(restored, entry.checkpoint);
    }
    for (size_t i = calls; i < cluster_->calls.size(); ++i) {
      const FakeCluster::Call& call = cluster_->calls[i];
      if (call.coordinator == "a" && call.what == "completed") {
        EXPECT_LE(call.checkpoint, restored);
      }
    }
    ASSERT_TRUE(Completes(*second, base + 2));
    EXPECT_EQ(Get(*second).state, JobState::kRunning);
    ExpectOutsideSound();
    ExpectLogSound();
  }
  EXPECT_GT(stops, 16);
}

// The coordinator dies at each storage operation of a whole life, and a new one carries on.
TEST_F(CoordinatorTest, KilledAtEveryStorageOperationTheJobStillFinishesExactlyOnce) {
  int kills = 0;
  for (int64_t stop = 0; stop < 400; ++stop) {
    SCOPED_TRACE(stop);
    cluster_ = std::make_unique<FakeCluster>();
    auto first = RunJob();
    int64_t seen = 0;
    first->files->set_before([&](std::string_view, const std::string&) {
      if (seen++ == stop) first->loop.Pause();
      return Status();
    });
    bool dead = cluster_->Until([&] { return first->loop.paused(); }, 8 * kSecondUs);
    if (!dead) break;
    ++kills;
    first->Kill();
    auto second = cluster_->StartCoordinator("b", /*take_over=*/true);
    Lead(*second);
    ASSERT_TRUE(Reaches(*second, JobState::kRunning, 10 * kSecondUs));
    cluster_->Advance(1'500'000);
    cluster_->EndSources(kJob);
    ASSERT_TRUE(Reaches(*second, JobState::kFinished, 5 * kSecondUs));
    EXPECT_EQ(cluster_->Count(Fate::kSealed), 0);
    ExpectOutsideSound();
    ExpectLogSound();
  }
  EXPECT_GT(kills, 50);
}

TEST_F(CoordinatorTest, DamagedManifestFailsTheJobByName) {
  auto first = RunJob();
  ASSERT_TRUE(Completes(*first, 2));
  first->Kill();
  std::string path = Concat("/checkpoints/", kJob, "/chk-2.1/_metadata");
  std::string bytes = cluster_->disk_view().Bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  cluster_->disk_view().PutFile(path, bytes);
  auto second = cluster_->StartCoordinator("b", /*take_over=*/true);
  Lead(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kFailed));
  EXPECT_NE(Get(*second).failure->message.find(path), std::string::npos);
  EXPECT_EQ(CallsOf("settle", "b"), 0);  // nobody knows what is listed: nothing is aborted
}

TEST_F(CoordinatorTest, JobStartsFromTheRetainedCheckpointOfAnEndedOne) {
  auto process = RunJob(Graph(R"("checkpoint.interval": "1s", "checkpoint.on_cancel": "keep")"));
  ASSERT_TRUE(Completes(*process, 2));
  std::string live = Concat("/checkpoints/", kJob, "/chk-2.1");
  StatusOr<SubmitResponse> refused = cluster_->Submit(*process, kOther, Graph(), live);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition) << refused.status();
  Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  cluster_->Advance(kSecondUs);
  std::string retained = Get(*process).retained_checkpoint;
  ASSERT_FALSE(retained.empty());
  cluster_->disk_view().PutDirectory(Concat("/checkpoints/", kJob, "/staged"));
  cluster_->disk_view().PutFile(Concat("/checkpoints/", kJob, "/staged/2-out-0-2-0-77"), "rows");
  cluster_->settles.clear();
  StatusOr<SubmitResponse> accepted = cluster_->Submit(*process, kOther, Graph(), retained);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  // The old job may go: the new one has what it uses.
  process->coordinator->Remove(kJob.value(), /*force=*/true, [](Status) {});
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 10 * kSecondUs, kOther));
  ExpectOutsideSound();
  // What the old one had staged is published from there too, in the name of the old one.
  ASSERT_EQ(cluster_->settles.size(), 1u);
  EXPECT_EQ(cluster_->settles[0].job, kJob);
  const std::string copy = Concat("/checkpoints/", kOther, "/restored");
  EXPECT_EQ(cluster_->settles[0].job_directory, copy);
  EXPECT_EQ(cluster_->disk_view().Bytes(copy + "/staged/2-out-0-2-0-77"), "rows");
  EXPECT_EQ(cluster_->Submit(*process, JobId(std::string(32, 'a')), Graph(), "/nowhere/chk-1.1")
                .status()
                .code(),
            StatusCode::kNotFound);
}

// Given a kept checkpoint, when another job starts from it, then workers learn which one goes on
// from the output, at submission and when it is settled, and who has nothing more to publish.
TEST_F(CoordinatorTest, WhoGoesOnFromAnOutputIsSaidWhenItIsSettled) {
  auto process = RunJob(Graph(R"("checkpoint.interval": "1s", "checkpoint.on_cancel": "keep")"));
  ASSERT_TRUE(Completes(*process, 2));
  Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  ASSERT_EQ(cluster_->settles.size(), 1u);
  EXPECT_TRUE(cluster_->settles[0].ends);
  EXPECT_EQ(cluster_->settles[0].successor, JobId());
  cluster_->Advance(kSecondUs);
  const std::string retained = Get(*process).retained_checkpoint;

  cluster_->settles.clear();
  ASSERT_TRUE(
      cluster_->Submit(*process, kOther, Graph(R"("checkpoint.interval": "off")"), retained).ok());
  ASSERT_EQ(cluster_->checked_succession.size(), 1u);
  EXPECT_EQ(cluster_->checked_succession[0].job, kJob);
  EXPECT_EQ(cluster_->checked_succession[0].successor, kOther);
  EXPECT_EQ(cluster_->checked_succession[0].committables.size(), 2u);
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 10 * kSecondUs, kOther));
  ASSERT_EQ(cluster_->settles.size(), 1u);
  EXPECT_EQ(cluster_->settles[0].job, kJob);
  EXPECT_EQ(cluster_->settles[0].successor, kOther);
  EXPECT_FALSE(cluster_->settles[0].ends);
  ASSERT_EQ(cluster_->settles[0].successor_vertices.size(), 1u);
  EXPECT_EQ(cluster_->settles[0].successor_vertices[0].uid, "out");

  // It ends without a checkpoint: another one may go on.
  cluster_->settles.clear();
  process->coordinator->Cancel(kOther.value(), false, [](auto) {});
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 10 * kSecondUs, kOther));
  ASSERT_EQ(cluster_->settles.size(), 2u);
  EXPECT_EQ(cluster_->settles[0].job, kOther);
  EXPECT_EQ(cluster_->settles[1].job, kJob);
  EXPECT_EQ(cluster_->settles[1].successor, kOther);
  EXPECT_TRUE(cluster_->settles[1].ends);
}

// Given a job that starts from another one's checkpoint, when it is cancelled while a worker stands
// still, then it is the other worker that gives the output back: the one attempt is not lost.
TEST_F(CoordinatorTest, AnOutputIsGivenBackByAWorkerThatAnswers) {
  auto process = RunJobAndKeepItsCheckpoint();
  const std::string retained = Get(*process).retained_checkpoint;
  ASSERT_TRUE(
      cluster_->Submit(*process, kOther, Graph(R"("checkpoint.interval": "off")"), retained).ok());
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 10 * kSecondUs, kOther));
  cluster_->calls.clear();
  process->coordinator->Cancel(kOther.value(), false, [](auto) {});
  std::string silent;
  for (int i = 1; i < 10; ++i) {
    FakeCluster::Worker* worker = cluster_->At(Concat("worker-1:", i));
    if (worker == nullptr) continue;
    worker->silent = true;
    silent = worker->info.control_address;
  }
  ASSERT_NE(silent, "");
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled, 30 * kSecondUs, kOther));
  int settles = 0;
  for (const FakeCluster::Call& call : cluster_->calls) {
    if (call.what != "settle") continue;
    ++settles;
    EXPECT_NE(call.worker, silent);
  }
  EXPECT_EQ(settles, 2) << "its own output, and what it took over";
}

TEST_F(CoordinatorTest, AJobThatMayNotGoOnFromAnOutputFailsBeforeItRuns) {
  auto process = RunJobAndKeepItsCheckpoint();
  const std::string retained = Get(*process).retained_checkpoint;
  cluster_->settle_answer = FailedPreconditionError("another job has gone on");
  ASSERT_TRUE(cluster_->Submit(*process, kOther, Graph(), retained).ok());
  ASSERT_TRUE(Reaches(*process, JobState::kFailed, 10 * kSecondUs, kOther));
  const std::string why = cluster_->Get(*process, kOther.value())->failure->message;
  EXPECT_NE(why.find(Concat("cannot start from checkpoint 2 of job ", kJob)), std::string::npos)
      << why;
  EXPECT_NE(why.find("another job has gone on"), std::string::npos) << why;
  EXPECT_EQ(CallsOf("start", "a"), 2) << "of the first job alone";
}

// Given a kept checkpoint whose record cannot be read for a while, when a job starts from it, then
// it waits: "no record" would mean its own graph, which may name another output.
TEST_F(CoordinatorTest, ARecordThatCannotBeReadIsNotTakenForOneThatIsNotThere) {
  auto process = RunJobAndKeepItsCheckpoint();
  const std::string retained = Get(*process).retained_checkpoint;
  cluster_->settles.clear();
  int reads = 0;
  process->files->set_before([&](std::string_view operation, const std::string& path) {
    if (operation != "read" || !path.ends_with("/restored/job.pb")) return Status();
    ++reads;
    return UnavailableError("input/output error");
  });
  ASSERT_TRUE(cluster_->Submit(*process, kOther, Graph(), retained).ok());
  cluster_->Advance(3 * kSecondUs);
  EXPECT_GT(reads, 1);
  EXPECT_EQ(cluster_->settles.size(), 0u);
  EXPECT_NE(Get(*process, kOther).waiting_for.find("input/output error"), std::string::npos);
  process->files->set_before({});
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 10 * kSecondUs, kOther));
  EXPECT_EQ(cluster_->settles.size(), 1u);
}

// A record that is damaged is no missing one either; and without any a job that lacks a vertex
// with rows to be published would leave them behind in silence.
TEST_F(CoordinatorTest, NoJobStartsWhereNothingTellsWhereListedRowsBelong) {
  auto process = RunJobAndKeepItsCheckpoint();
  const std::string retained = Get(*process).retained_checkpoint;
  const std::string record = Concat("/checkpoints/", kJob, "/job.pb");
  const std::string bytes = cluster_->disk_view().Bytes(record);
  cluster_->settles.clear();

  std::string damaged = bytes;
  damaged[damaged.size() / 2] ^= 1;
  cluster_->disk_view().PutFile(record, damaged);
  Status status = cluster_->Submit(*process, kOther, Graph(), retained).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find(record), std::string::npos) << status;

  cluster_->disk_view().Delete(record);
  std::string renamed = Graph();
  for (size_t at = renamed.find(R"("out")"); at != std::string::npos;
       at = renamed.find(R"("out")", at + 1)) {
    renamed.replace(at, 5, R"("new")");
  }
  status = cluster_->Submit(*process, kOther, renamed, retained).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  for (const std::string& word :
       {std::string("checkpoint 2"), std::string("rows of out"), record}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << word << ": " << status;
  }
  EXPECT_EQ(cluster_->settles.size(), 0u);
  // The same vertex in a job of one's own: as if the graph had been this one.
  ASSERT_TRUE(cluster_->Submit(*process, kOther, Graph(), retained).ok());
  ASSERT_TRUE(Reaches(*process, JobState::kRunning, 10 * kSecondUs, kOther));
  EXPECT_EQ(cluster_->settles.size(), 1u);
}

// What is staged belongs to the sinks: a coordinator knows none of it to be superfluous.
TEST_F(CoordinatorTest, WhatIsStagedStaysUntilTheJobIsRemoved) {
  auto first = RunJob();
  const std::string staged = Concat("/checkpoints/", kJob, "/staged");
  cluster_->disk_view().PutDirectory(staged);
  cluster_->disk_view().PutFile(staged + "/1-out-0-1-0-77", "rows");
  ASSERT_TRUE(Completes(*first, 3));  // the first ones are dropped
  cluster_->FailTask(kJob, UnavailableError("disk is slow"));
  ASSERT_TRUE(cluster_->Until([&] { return Get(*first).generation.value() == 2; }));
  ASSERT_TRUE(Reaches(*first, JobState::kRunning));
  first->Kill();
  auto second = cluster_->StartCoordinator("b", /*take_over=*/true);
  Lead(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kRunning));
  ASSERT_TRUE(Completes(*second, 5));
  Cancel(*second);
  ASSERT_TRUE(Reaches(*second, JobState::kCanceled));
  cluster_->Advance(kSecondUs);
  EXPECT_TRUE(Manifests().empty());
  EXPECT_EQ(FilesOf("/staged"), std::vector{staged + "/1-out-0-1-0-77"});
  const Status removed = Remove(*second);
  EXPECT_EQ(removed.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(removed.message().find(staged), std::string::npos) << removed;
  EXPECT_EQ(removed.message().find("--from"), std::string::npos) << "nothing to start from";
  EXPECT_EQ(FilesOf("/staged"), std::vector{staged + "/1-out-0-1-0-77"});
  EXPECT_TRUE(Remove(*second, /*force=*/true).ok());
  EXPECT_TRUE(FilesOf("").empty());
}

// Two sinks under one transactional id would fence each other for ever.
TEST_F(CoordinatorTest, APrefixOfTransactionalIdsBelongsToOneLiveJob) {
  auto graph = [](const std::string& name, const std::string& prefix, const std::string& uid) {
    return Concat(R"({"name": ")", name, R"(", "options": {"parallelism": "1"},
      "vertices": [
        {"uid": "gen", "type": "generator", "config": {"rows": 100}},
        {"uid": ")",
                  uid, R"(", "type": "kafka.sink",
         "config": {"brokers": "127.0.0.1:9092", "topic": "counts", "format": "json",
                    "transactional_id_prefix": ")",
                  prefix, R"("}}],
      "edges": [{"from": "gen", "to": ")",
                  uid, R"("}]})");
  };
  auto process = cluster_->StartCoordinator("a");
  cluster_->AddWorker("worker-1", 4);
  Lead(*process);
  ASSERT_TRUE(cluster_->Until([&] { return Workers(*process) == 1; }));
  ASSERT_TRUE(cluster_->Submit(*process, kJob, graph("bills", "a-b", "c")).ok());
  ASSERT_TRUE(Reaches(*process, JobState::kRunning));
  // Said again by a client that has not heard the answer.
  EXPECT_TRUE(cluster_->Submit(*process, kJob, graph("bills", "a-b", "c")).ok());
  StatusOr<SubmitResponse> refused =
      cluster_->Submit(*process, kOther, graph("late", "a-b", "other"));
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(),
            Concat("job 'late': job ", kJob, " (bills, RUNNING) has the transactional_id_prefix ",
                   "'a-b' already, which no two live jobs may share: cancel it first, or set "
                   "another one"));
  refused = cluster_->Submit(*process, kOther, graph("late", "a", "b-c"));
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("transactional ids 'a-b-c-…'"), std::string::npos)
      << refused.status();
  // Two at the same time.
  std::vector<StatusCode> answers;
  const JobId third(std::string(32, 'a'));
  process->loop.Post([&] {
    for (const JobId& job : {kOther, third}) {
      SubmitRequest request;
      request.job = job;
      request.graph = *ParseJobGraph(graph("twin", "twin", "out"));
      process->coordinator->Submit(
          request, [&](StatusOr<SubmitResponse> one) { answers.push_back(one.status().code()); });
    }
  });
  ASSERT_TRUE(cluster_->Until([&] { return answers.size() == 2; }));
  EXPECT_EQ(answers, (std::vector{StatusCode::kFailedPrecondition, StatusCode::kOk}));
  // An ended one holds nothing.
  Cancel(*process);
  ASSERT_TRUE(Reaches(*process, JobState::kCanceled));
  EXPECT_TRUE(
      cluster_->Submit(*process, JobId(std::string(32, 'b')), graph("next", "a-b", "c")).ok());
}

TEST_F(CoordinatorTest, WorkersProveThatTheySeeTheDirectoryAndNamesAreUnique) {
  auto process = cluster_->StartCoordinator("a");
  Lead(*process);
  RegisterRequest request;
  request.worker.name = WorkerName("w");
  request.worker.incarnation = WorkerIncarnation("1");
  request.worker.control_address = "w:1";
  request.worker.host = "elsewhere";
  request.worker.slots = 1;
  request.coordinator = CoordinatorNumber(1);
  request.nonce = "something else";
  std::optional<Status> answer;
  auto register_it = [&] {
    answer.reset();
    process->coordinator->Register(request,
                                   [&](StatusOr<RegisterResponse> one) { answer = one.status(); });
    cluster_->Until([&] { return answer.has_value(); });
  };
  register_it();
  EXPECT_EQ(answer->code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(answer->message().find("elsewhere"), std::string::npos);
  EXPECT_NE(answer->message().find("host-a"), std::string::npos);

  request.nonce = cluster_->disk_view().Bytes("/checkpoints/coordinators/000001");
  request.worker.version = "9.8.7";
  for (uint32_t other : {0u, kControlProtocolVersion + 1}) {
    request.protocol = other;
    register_it();
    EXPECT_EQ(answer->code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(answer->message(),
              Concat("worker w is of another version: it is Weir 9.8.7 and speaks protocol ", other,
                     ", this coordinator is Weir 0.1.0 and speaks protocol 2. All processes of a "
                     "cluster must be of one version"));
  }
  EXPECT_EQ(Workers(*process), 0u);
  request.protocol = kControlProtocolVersion;
  register_it();
  EXPECT_TRUE(answer->ok()) << *answer;
  // Another one of that name while the first sends heartbeats: refused.
  request.worker.incarnation = WorkerIncarnation("2");
  answer.reset();
  process->coordinator->Register(request,
                                 [&](StatusOr<RegisterResponse> one) { answer = one.status(); });
  cluster_->Advance(kSecondUs);
  HeartbeatRequest heartbeat;
  heartbeat.name = WorkerName("w");
  heartbeat.incarnation = WorkerIncarnation("1");
  process->coordinator->Heartbeat(heartbeat, [](StatusOr<HeartbeatResponse>) {});
  cluster_->Until([&] { return answer.has_value(); });
  EXPECT_EQ(answer->code(), StatusCode::kAlreadyExists);
  // When the first is silent it has died, and its successor takes the name.
  register_it();
  EXPECT_TRUE(answer->ok()) << *answer;
  bool known = true;
  process->coordinator->Heartbeat(heartbeat,
                                  [&](StatusOr<HeartbeatResponse> one) { known = one->known; });
  EXPECT_FALSE(known);
}

}  // namespace
}  // namespace weir
