// Goal: storage that is full, read-only, away, slow or damaged is shown with reason, path and since
// when; nothing starts from less than what was completed; and the job goes on by itself when the
// disk is well again. Method: a real coordinator over a disk in memory that refuses what a full or
// unmounted one refuses, with the errors of the system; workers are fakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "common/base/concat.h"
#include "tests/unit/coordinator/job/fake_cluster.h"

namespace weir {
namespace {

const JobId kJob("0123456789abcdef0123456789abcdef");
constexpr int64_t kSecondUs = 1'000'000;
constexpr char kGraph[] = R"({"name": "stored",
    "options": {"parallelism": "2", "checkpoint.interval": "1s"},
    "vertices": [
      {"uid": "gen", "type": "generator", "config": {"rows": 100}},
      {"uid": "out", "type": "files.sink", "config": {"path": "out", "format": "json"}}],
    "edges": [{"from": "gen", "to": "out"}]})";

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CoordinatorStorageTest : public testing::Test {
 protected:
  std::unique_ptr<CoordinatorProcess> Lead(const std::string& name) {
    auto process = cluster_->StartCoordinator(name, /*take_over=*/true);
    cluster_->Follow(process.get());
    EXPECT_TRUE(cluster_->Until([&] { return process->coordinator->leading(); }));
    return process;
  }
  // A coordinator, two workers and the job with two completed checkpoints.
  std::unique_ptr<CoordinatorProcess> RunJob() {
    auto process = cluster_->StartCoordinator("a");
    cluster_->AddWorker("worker-1", 1);
    cluster_->AddWorker("worker-2", 1);
    cluster_->Follow(process.get());
    EXPECT_TRUE(cluster_->Until([&] { return process->coordinator->leading(); }));
    EXPECT_TRUE(cluster_->Submit(*process, kJob, kGraph).ok());
    EXPECT_TRUE(CompletesBeyond(*process, 1));
    return process;
  }
  JobStatus Get(CoordinatorProcess& process) {
    StatusOr<JobStatus> status = cluster_->Get(process, kJob.value());
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : JobStatus();
  }
  uint64_t LastCheckpoint(CoordinatorProcess& process) {
    JobStatus status = Get(process);
    return status.last_checkpoint ? status.last_checkpoint->id.value() : 0;
  }
  bool CompletesBeyond(CoordinatorProcess& process, uint64_t checkpoint) {
    return cluster_->Until([&] { return LastCheckpoint(process) > checkpoint; });
  }
  bool Fails(CoordinatorProcess& process) {
    return cluster_->Until(
        [&] { return cluster_->InState(process, kJob.value(), JobState::kFailed); });
  }
  static std::string JobPath(const std::string& below) {
    return Concat("/checkpoints/", kJob, below);
  }
  // Every primitive that needs room fails as on a full disk.
  static void Fill(CoordinatorProcess& process) {
    process.files->set_before([](std::string_view operation, const std::string& path) {
      bool needs_room =
          operation == "create" || operation == "write" || operation == "make_directory";
      return needs_room ? ErrnoError(ENOSPC, Concat("cannot ", operation, " ", path)) : Status();
    });
  }

  static bool SyncsJob(std::string_view operation, const std::string& path) {
    return operation == "sync_directory" && path == JobPath("");
  }
  static Status FailSyncOfJob(std::string_view operation, const std::string& path) {
    return SyncsJob(operation, path) ? ErrnoError(EIO, Concat("cannot sync ", path)) : Status();
  }
  // Workers that were told so of that checkpoint.
  std::set<std::string> Told(const std::string& what, uint64_t checkpoint) {
    std::set<std::string> workers;
    for (const FakeCluster::Call& call : cluster_->calls) {
      if (call.what == what && call.checkpoint.value() == checkpoint) workers.insert(call.worker);
    }
    return workers;
  }
  CheckpointSummary Summary(CoordinatorProcess& process, uint64_t checkpoint) {
    StatusOr<std::vector<CheckpointSummary>> all = cluster_->Checkpoints(process, kJob.value());
    EXPECT_TRUE(all.ok()) << all.status();
    for (const CheckpointSummary& one : *all) {
      if (one.id.value() == checkpoint) return one;
    }
    return {};
  }
  // Given a checkpoint that failed because its directory's name is not durable: every worker learns
  // of it, nothing of it stays or counts later, and the next one completes in the same generation.
  void ExpectAbortedAndTheNextCompletes(CoordinatorProcess& process, uint64_t failed,
                                        const std::string& reason) {
    EXPECT_TRUE(cluster_->Until([&] { return Summary(process, failed).state == "failed"; }));
    EXPECT_EQ(Summary(process, failed).failure_reason, reason);
    EXPECT_EQ(Get(process).failing_checkpoints->reason, reason);
    const std::string directory = JobPath(Concat("/chk-", failed, ".1"));
    EXPECT_TRUE(cluster_->Until([&] { return !cluster_->disk_view().Exists(directory); }));
    EXPECT_EQ(Told("aborted", failed), (std::set<std::string>{"worker-1:1", "worker-2:2"}));
    // Acks that were on their way change nothing.
    cluster_->Ack(kJob, Generation(1), CheckpointId(failed));
    process.files->set_before({});
    cluster_->auto_ack = true;
    ASSERT_TRUE(CompletesBeyond(process, failed));
    EXPECT_EQ(Summary(process, failed).state, "failed");
    EXPECT_TRUE(Told("completed", failed).empty());
    EXPECT_EQ(Get(process).generation.value(), 1u);
    EXPECT_FALSE(Get(process).failing_checkpoints.has_value());
    EXPECT_FALSE(cluster_->disk_view().Exists(directory));
    EXPECT_EQ(cluster_->violations, std::vector<std::string>());
  }

  std::unique_ptr<FakeCluster> cluster_ = std::make_unique<FakeCluster>();
};

TEST_F(CoordinatorStorageTest, AFullCheckpointDirectoryIsShownAndTheJobGoesOnWhenThereIsRoom) {
  auto process = RunJob();
  int64_t full_us = process->loop.clock().WallMicros();
  uint64_t before = LastCheckpoint(*process);
  Fill(*process);
  cluster_->Advance(10 * kSecondUs);
  // Then the job runs on, and says what fails, where and since when.
  JobStatus status = Get(*process);
  EXPECT_EQ(status.state, JobState::kRunning);
  EXPECT_LE(status.last_checkpoint->id.value(), before + 1);
  EXPECT_TRUE(Contains(status.waiting_for, "storage: cannot create /checkpoints/"))
      << status.waiting_for;
  EXPECT_TRUE(Contains(status.waiting_for, "No space left on device")) << status.waiting_for;
  EXPECT_GE(status.waiting_since_wall_us, full_us);
  EXPECT_LE(status.waiting_since_wall_us, full_us + 2 * kSecondUs);
  ASSERT_TRUE(status.failing_checkpoints.has_value());
  EXPECT_GE(status.failing_checkpoints->failures, 5);
  EXPECT_TRUE(Contains(status.failing_checkpoints->reason, JobPath("/chk-")));
  EXPECT_TRUE(Contains(status.failing_checkpoints->reason, "No space left on device"));
  EXPECT_LE(status.failing_checkpoints->since_wall_us, full_us + 2 * kSecondUs);
  EXPECT_GT(status.failing_checkpoints->wall_us, full_us + 7 * kSecondUs);
  StatusOr<std::vector<CheckpointSummary>> history = cluster_->Checkpoints(*process, kJob.value());
  EXPECT_EQ(history->back().state, "failed");
  EXPECT_TRUE(Contains(history->back().failure_reason, "No space left on device"));
  // A job that could not be stored is refused, not half stored.
  StatusOr<SubmitResponse> other =
      cluster_->Submit(*process, JobId("fedcba9876543210fedcba9876543210"), kGraph);
  EXPECT_TRUE(Contains(other.status().message(), "No space left on device"));
  // When there is room again, all of it is gone by itself.
  process->files->set_before({});
  ASSERT_TRUE(CompletesBeyond(*process, before + 1));
  cluster_->Advance(2 * kSecondUs);
  status = Get(*process);
  EXPECT_EQ(status.state, JobState::kRunning);
  EXPECT_EQ(status.generation.value(), 1u);
  EXPECT_EQ(status.waiting_for, "");
  EXPECT_EQ(status.waiting_since_wall_us, 0);
  EXPECT_FALSE(status.failing_checkpoints.has_value());
  EXPECT_EQ(cluster_->violations, std::vector<std::string>());
}

TEST_F(CoordinatorStorageTest, AnUnmountedCheckpointDirectoryStopsNothingAndNothingIsMadeBelowIt) {
  auto process = RunJob();
  uint64_t before = LastCheckpoint(*process);
  // The mount point is there and empty: whatever is made in it is hidden later.
  std::vector<std::string> made;
  process->files->set_before([&](std::string_view operation, const std::string& path) {
    if (ParentPath(path) == "/checkpoints" &&
        (operation == "create" || operation == "make_directory")) {
      made.push_back(path);
    }
    return ErrnoError(ENOENT, Concat("cannot ", operation, " ", path));
  });
  cluster_->Advance(10 * kSecondUs);
  JobStatus status = Get(*process);
  EXPECT_EQ(status.state, JobState::kRunning);
  EXPECT_TRUE(Contains(status.waiting_for, "No such file or directory")) << status.waiting_for;
  EXPECT_EQ(made, std::vector<std::string>());
  process->files->set_before({});
  ASSERT_TRUE(CompletesBeyond(*process, before + 1));
  EXPECT_EQ(Get(*process).generation.value(), 1u);
  EXPECT_EQ(cluster_->violations, std::vector<std::string>());
}

TEST_F(CoordinatorStorageTest, AJobWhoseLogCannotBeVouchedForIsTakenUpAgainWhenItIsBack) {
  // Given a sync that fails: nobody knows what became of the entry, so the leader ends.
  auto process = RunJob();
  uint64_t before = LastCheckpoint(*process);
  bool away = false;
  process->files->set_before([&](std::string_view operation, const std::string& path) {
    bool log_sync = operation == "sync_directory" && Contains(path, "/log/");
    if (log_sync) away = true;
    return away ? ErrnoError(ENOENT, Concat("cannot ", operation, " ", path)) : Status();
  });
  ASSERT_TRUE(cluster_->Until([&] { return away; }));
  cluster_->Advance(10 * kSecondUs);
  // Then the job is still there to be seen, with what it waits for.
  JobStatus status = Get(*process);
  EXPECT_TRUE(Contains(status.waiting_for, "being taken up again: ")) << status.waiting_for;
  EXPECT_TRUE(Contains(status.waiting_for, "No such file or directory")) << status.waiting_for;
  EXPECT_EQ(cluster_->List(*process, false)->size(), 1u);
  // And it goes on when its directory is there again.
  process->files->set_before({});
  ASSERT_TRUE(CompletesBeyond(*process, before + 1));
  EXPECT_EQ(Get(*process).waiting_for, "");
  EXPECT_EQ(cluster_->violations, std::vector<std::string>());
}

TEST_F(CoordinatorStorageTest, ACheckpointWhoseDirectoryIsNotDurableFailsWhileItsBarriersFlow) {
  auto process = RunJob();
  const uint64_t failed = LastCheckpoint(*process) + 1;
  cluster_->auto_ack = false;
  process->files->set_before(FailSyncOfJob);
  ASSERT_TRUE(cluster_->Until([&] { return !Told("trigger", failed).empty(); }));
  ExpectAbortedAndTheNextCompletes(
      *process, failed,
      Concat("cannot make its directory: cannot sync ", JobPath(""), ": Input/output error"));
}

TEST_F(CoordinatorStorageTest, ACheckpointWaitsForItsDirectoryToBeDurableAndFailsWithIt) {
  // Given a disk that is slow with the name of the directory alone: all have acknowledged and the
  // manifest is written meanwhile.
  auto process = RunJob();
  const auto hold_sync_until_manifest_is_written = [&](uint64_t checkpoint) {
    process->files->set_hold(SyncsJob);
    const std::string manifest = JobPath(Concat("/chk-", checkpoint, ".1/_metadata"));
    ASSERT_TRUE(cluster_->Until([&] { return cluster_->disk_view().Exists(manifest); }));
    cluster_->Advance(5 * kSecondUs);
    EXPECT_EQ(LastCheckpoint(*process), checkpoint - 1);
    EXPECT_EQ(Summary(*process, checkpoint).state, "in_progress");
  };
  const uint64_t slow = LastCheckpoint(*process) + 1;
  hold_sync_until_manifest_is_written(slow);
  process->files->Release();
  ASSERT_TRUE(CompletesBeyond(*process, slow - 1));
  EXPECT_EQ(Summary(*process, slow).state, "completed");
  // When it fails in the end, the checkpoint does.
  const uint64_t failed = LastCheckpoint(*process) + 1;
  hold_sync_until_manifest_is_written(failed);
  process->files->set_before(FailSyncOfJob);
  process->files->Release();
  ExpectAbortedAndTheNextCompletes(
      *process, failed,
      Concat("cannot write its manifest: cannot sync ", JobPath(""), ": Input/output error"));
}

TEST_F(CoordinatorStorageTest, ACancelWhileTheStartIsWrittenLeavesNothingOfIt) {
  auto process = cluster_->StartCoordinator("a");
  cluster_->AddWorker("worker-1", 2);
  cluster_->Follow(process.get());
  ASSERT_TRUE(cluster_->Until([&] { return process->coordinator->leading(); }));
  process->files->set_hold([](std::string_view operation, const std::string& path) {
    return operation == "sync" && Contains(path, "/started.tmp-");
  });
  ASSERT_TRUE(cluster_->Submit(*process, kJob, kGraph).ok());
  const auto half_written = [&] {
    const std::vector<std::string> paths = cluster_->disk_view().Files(JobPath(""));
    return std::any_of(paths.begin(), paths.end(),
                       [](const std::string& path) { return Contains(path, "/started.tmp-"); });
  };
  ASSERT_TRUE(cluster_->Until(half_written));
  process->coordinator->Cancel(kJob.value(), false, [](const auto&) {});
  ASSERT_TRUE(cluster_->Until(
      [&] { return cluster_->InState(*process, kJob.value(), JobState::kCanceled); }));
  EXPECT_TRUE(cluster_->Until([&] { return !half_written(); }));
}

TEST_F(CoordinatorStorageTest, ADeletedLogFailsTheJobAndIsNeverAFreshStart) {
  auto first = RunJob();
  first->Kill();
  cluster_->disk_view().Delete(JobPath("/log"));
  auto second = Lead("b");
  ASSERT_TRUE(Fails(*second));
  EXPECT_EQ(Get(*second).failure->message,
            Concat("completion log ", JobPath("/log"), " does not exist: it was removed"));
  cluster_->Advance(5 * kSecondUs);
  EXPECT_FALSE(cluster_->disk_view().Exists(JobPath("/log")));
  for (const FakeCluster::Call& call : cluster_->calls) {
    EXPECT_FALSE(call.coordinator == "b" && (call.what == "start" || call.what == "settle"))
        << call.what;
  }
  EXPECT_TRUE(cluster_->disk_view().Exists(JobPath("/chk-2.1/_metadata")));
}

TEST_F(CoordinatorStorageTest, ALogThatLostItsTermsFailsTheJobForEveryLeader) {
  auto first = RunJob();
  first->Kill();
  cluster_->disk_view().Delete(JobPath("/log/000001"));
  for (const char* name : {"b", "c"}) {
    auto next = Lead(name);
    ASSERT_TRUE(Fails(*next));
    std::string message = Get(*next).failure->message;
    EXPECT_TRUE(Contains(message, Concat("completion log ", JobPath("/log"),
                                         " has lost entries: its last generation is 0, but ")))
        << message;
    EXPECT_TRUE(Contains(message, "generation 1")) << message;
    next->Kill();
  }
}

TEST_F(CoordinatorStorageTest, ALogThatIsDeletedWhileTheJobRunsStopsIt) {
  auto process = RunJob();
  cluster_->disk_view().Delete(JobPath("/log"));
  ASSERT_TRUE(Fails(*process));
  EXPECT_TRUE(Contains(Get(*process).failure->message,
                       Concat("completion log ", JobPath("/log/000001"), " does not exist")));
  cluster_->Advance(5 * kSecondUs);
  EXPECT_FALSE(cluster_->disk_view().Exists(JobPath("/log")));
  // Workers are told to end its tasks.
  EXPECT_TRUE(cluster_->At("worker-1:1")->hosted.empty());
}

TEST_F(CoordinatorStorageTest, ADamagedLogEntryFailsTheJobByName) {
  auto first = RunJob();
  first->Kill();
  std::string path = cluster_->disk_view().Files(JobPath("/log")).front();
  std::string bytes = cluster_->disk_view().Bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  cluster_->disk_view().PutFile(path, bytes);
  auto second = Lead("b");
  ASSERT_TRUE(Fails(*second));
  EXPECT_TRUE(Contains(Get(*second).failure->message, path)) << Get(*second).failure->message;
  EXPECT_TRUE(Contains(Get(*second).failure->message, "its checksum does not hold"));
}

TEST_F(CoordinatorStorageTest, AManifestThatIsCutIsNamed) {
  auto first = RunJob();
  first->Kill();
  std::string path = JobPath("/chk-2.1/_metadata");
  std::string bytes = cluster_->disk_view().Bytes(path);
  cluster_->disk_view().PutFile(path, bytes.substr(0, bytes.size() - 1));
  auto second = Lead("b");
  ASSERT_TRUE(Fails(*second));
  std::string message = Get(*second).failure->message;
  EXPECT_TRUE(Contains(message, Concat("the checkpoint to start from is damaged: ", path)));
  EXPECT_TRUE(Contains(message, Concat("the ", bytes.size() - 1, " bytes end with "))) << message;
}

TEST_F(CoordinatorStorageTest, AManifestThatIsMissingIsNamed) {
  auto first = RunJob();
  first->Kill();
  std::string path = JobPath("/chk-2.1/_metadata");
  cluster_->disk_view().Delete(path);
  auto second = Lead("b");
  ASSERT_TRUE(Fails(*second));
  EXPECT_EQ(Get(*second).failure->message,
            Concat("the checkpoint to start from is damaged: ", path, " does not exist"));
}

TEST_F(CoordinatorStorageTest, AJobWhoseRecordIsDamagedIsNamedWhenItIsAskedFor) {
  auto first = RunJob();
  first->Kill();
  std::string path = JobPath("/job.pb");
  std::string bytes = cluster_->disk_view().Bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  cluster_->disk_view().PutFile(path, bytes);
  auto second = Lead("b");
  StatusOr<JobStatus> status = cluster_->Get(*second, kJob.value().substr(0, 8));
  EXPECT_TRUE(
      Contains(status.status().message(), Concat("job ", kJob, " cannot be taken up: ", path,
                                                 ": job record is "
                                                 "damaged: its checksum does not hold")))
      << status.status();
}

}  // namespace
}  // namespace weir
