#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/concat.h"
#include "common/checkpoint/manifest_codec.h"
#include "tests/unit/coordinator/job/fake_cluster.h"

namespace weir {

using Fate = FakeCluster::Fate;

inline const JobId kJob("0123456789abcdef0123456789abcdef");
inline const JobId kOther("fedcba9876543210fedcba9876543210");
inline constexpr int64_t kSecondUs = 1'000'000;

inline std::string Graph(const std::string& options = R"("checkpoint.interval": "1s")",
                         const std::string& name = "keyed-count") {
  return Concat(R"({"name": ")", name, R"(", "options": {"parallelism": "2", )", options, R"(},
    "vertices": [
      {"uid": "gen", "type": "generator", "config": {"rows": 100}},
      {"uid": "count", "type": "aggregate",
       "config": {"keys": ["key"], "emit": "every_row",
                  "aggregates": [{"function": "count", "as": "rows"}]}},
      {"uid": "out", "type": "files.sink", "config": {"path": "out", "format": "json"}}],
    "edges": [{"from": "gen", "to": "count", "partitioning": "HASH", "columns": ["key"]},
              {"from": "count", "to": "out"}]})");
}

// Jobs under coordinators over one disk in memory. Thread: the test's.
class CoordinatorFixture : public testing::Test {
 protected:
  void Lead(CoordinatorProcess& process) {
    cluster_->Follow(&process);
    ASSERT_TRUE(cluster_->Until([&] { return process.coordinator->leading(); }));
  }
  // A coordinator, two workers with one slot each and the job, running.
  std::unique_ptr<CoordinatorProcess> RunJob(const std::string& graph = Graph()) {
    auto process = cluster_->StartCoordinator("a");
    cluster_->AddWorker("worker-1", 1);
    cluster_->AddWorker("worker-2", 1);
    Lead(*process);
    EXPECT_TRUE(cluster_->Until([&] { return Workers(*process) == 2; }));
    StatusOr<SubmitResponse> submitted = cluster_->Submit(*process, kJob, graph);
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    EXPECT_TRUE(Reaches(*process, JobState::kRunning));
    return process;
  }
  size_t Workers(CoordinatorProcess& process) {
    size_t count = 0;
    process.coordinator->ListWorkers([&](StatusOr<std::vector<WorkerStatus>> workers) {
      count = workers.ok() ? workers->size() : 0;
    });
    return count;
  }
  bool Reaches(CoordinatorProcess& process, JobState state, int64_t us_max = 60 * kSecondUs,
               const JobId& job = kJob) {
    return cluster_->Until([&] { return cluster_->InState(process, job.value(), state); }, us_max);
  }
  JobStatus Get(CoordinatorProcess& process, const JobId& job = kJob) {
    StatusOr<JobStatus> status = cluster_->Get(process, job.value());
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : JobStatus();
  }
  int64_t Completed(CoordinatorProcess& process) { return Get(process).checkpoints_completed; }
  bool Completes(CoordinatorProcess& process, int64_t count) {
    return cluster_->Until([&] { return Completed(process) >= count; });
  }
  struct CancelAnswer {
    std::optional<StatusOr<std::vector<std::string>>> answer;
  };
  std::shared_ptr<CancelAnswer> Cancel(CoordinatorProcess& process, bool force = false) {
    auto result = std::make_shared<CancelAnswer>();
    process.coordinator->Cancel(
        kJob.value(), force,
        [result](StatusOr<std::vector<std::string>> one) { result->answer = std::move(one); });
    return result;
  }
  Status Remove(CoordinatorProcess& process, bool force = false) {
    std::optional<Status> removed;
    process.coordinator->Remove(kJob.value(), force, [&](Status status) { removed = status; });
    EXPECT_TRUE(cluster_->Until([&] { return removed.has_value(); }));
    return removed.value_or(InternalError("never answered"));
  }
  std::vector<std::string> FilesOf(const std::string& below) {
    return cluster_->disk_view().Files(Concat("/checkpoints/", kJob, below));
  }
  // Names of checkpoint directories with a manifest.
  std::vector<std::string> Manifests() {
    std::vector<std::string> result;
    for (const std::string& path : FilesOf("")) {
      if (path.ends_with("/_metadata")) result.push_back(ParentPath(path));
    }
    return result;
  }
  // All log entries, decoded, in order of term and number.
  std::vector<LogEntry> Log() {
    std::vector<LogEntry> entries;
    for (const std::string& path : FilesOf("/log")) {
      if (path.find(".tmp-") != std::string::npos) continue;
      StatusOr<LogEntry> entry = DecodeLogEntry(cluster_->disk_view().Bytes(path));
      EXPECT_TRUE(entry.ok());
      if (entry.ok()) entries.push_back(*entry);
    }
    return entries;
  }
  // No checkpoint of an older generation completed after a newer one started from an older state.
  void ExpectLogSound() {
    for (const LogEntry& completed : Log()) {
      if (completed.kind != LogEntry::Kind::kCompleted) continue;
      for (const LogEntry& started : Log()) {
        if (started.kind != LogEntry::Kind::kStarted) continue;
        if (started.generation <= completed.generation) continue;
        EXPECT_GE(started.checkpoint, completed.checkpoint)
            << "generation " << started.generation.value() << " missed checkpoint "
            << completed.checkpoint.value();
      }
    }
  }
  // What the coordinator says about tasks of that generation.
  StatusCode Confirm(CoordinatorProcess& process, const JobId& job, uint64_t generation) {
    ConfirmCurrentRequest request;
    request.job = job;
    request.generation = Generation(generation);
    return Confirm(process, request);
  }
  // What it says about an order that it gave.
  StatusCode Confirm(CoordinatorProcess& process, const SettleRequest& settle) {
    ConfirmCurrentRequest request;
    request.job = settle.job;
    request.generation = settle.generation;
    request.coordinator = settle.coordinator;
    request.settle_order = settle.order;
    return Confirm(process, request);
  }
  StatusCode Confirm(CoordinatorProcess& process, const ConfirmCurrentRequest& request) {
    std::optional<Status> answer;
    process.loop.Post([&] {
      process.coordinator->ConfirmCurrent(request, [&](Status status) { answer = status; });
    });
    EXPECT_TRUE(cluster_->Until([&] { return answer.has_value(); }));
    return answer ? answer->code() : StatusCode::kInternal;
  }
  void ExpectOutsideSound() { EXPECT_EQ(cluster_->violations, std::vector<std::string>()); }
  int CallsOf(const std::string& what, const std::string& coordinator = "") {
    return static_cast<int>(std::count_if(
        cluster_->calls.begin(), cluster_->calls.end(), [&](const FakeCluster::Call& call) {
          return call.what == what && (coordinator.empty() || call.coordinator == coordinator);
        }));
  }

  std::unique_ptr<FakeCluster> cluster_ = std::make_unique<FakeCluster>();
};

}  // namespace weir
