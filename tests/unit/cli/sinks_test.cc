// Goal: people see of a sink with several subtasks what holds for all of them.
#include "cli/sinks.h"

#include <gtest/gtest.h>

#include "cli/json_output.h"

namespace weir::cli {
namespace {

constexpr int64_t kNowUs = 1'700'000'000'000'000;

SubtaskStatus Subtask(std::optional<SinkProgress> progress) {
  SubtaskStatus subtask;
  subtask.metrics.sink = progress;
  return subtask;
}

TEST(CliSinksTest, WhatIsCommittedIsWhatAllSubtasksHave) {
  VertexStatus vertex;
  vertex.uid = "out";
  vertex.subtasks = {Subtask(std::nullopt)};
  EXPECT_FALSE(ProgressOf(vertex).has_value());
  vertex.subtasks.push_back(
      Subtask(SinkProgress{1000, 1536, 0, 0, CheckpointId(18), kNowUs - 200'000}));
  vertex.subtasks.push_back(
      Subtask(SinkProgress{200, 512, 1, 100, CheckpointId(17), kNowUs - 1'200'000}));
  std::optional<SinkProgress> all = ProgressOf(vertex);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(
      ProgressText("out", *all, kNowUs),
      "out: staged 1,200 rows (2.0 KiB), publishing 1 row (100 B), committed up to checkpoint "
      "17, 1.2 s ago");
  EXPECT_EQ(
      ProgressText("out", *all, kNowUs - 5'000'000),
      "out: staged 1,200 rows (2.0 KiB), publishing 1 row (100 B), committed up to checkpoint "
      "17, 0 ms ago");
  // Since a restart nothing was committed.
  vertex.subtasks.push_back(Subtask(SinkProgress{0, 0, 0, 0, CheckpointId(17), 0}));
  EXPECT_EQ(ProgressText("out", *ProgressOf(vertex), kNowUs),
            "out: staged 1,200 rows (2.0 KiB), publishing 1 row (100 B), committed up to "
            "checkpoint 17");
  vertex.subtasks.push_back(Subtask(SinkProgress()));
  EXPECT_EQ(ProgressText("out", *ProgressOf(vertex), kNowUs),
            "out: staged 1,200 rows (2.0 KiB), publishing 1 row (100 B), nothing committed yet");
}

TEST(CliSinksTest, JsonHasItForTheVertexAndForEachSubtask) {
  JobStatus job;
  job.vertices.resize(1);
  job.vertices[0].subtasks = {
      Subtask(SinkProgress{3, 30, 2, 20, CheckpointId(7), kNowUs}),
      Subtask(SinkProgress{4, 40, 0, 0, CheckpointId(8), kNowUs + 1'000'000}),
      Subtask(std::nullopt)};
  const std::string json = JobToJson(job).ToPrettyJson();
  size_t at = 0;
  for (const char* text : {"\"staged_rows\": 7", "\"staged_bytes\": 70", "\"publishing_rows\": 2",
                           "\"publishing_bytes\": 20", "\"committed_checkpoint\": 7",
                           "\"committed_time\": \"2023-11-14T22:13:20Z\"", "\"staged_rows\": 3",
                           "\"staged_rows\": 4", "\"sink_progress\": null"}) {
    at = json.find(text, at);
    ASSERT_NE(at, std::string::npos) << text << " is not where it should be in\n" << json;
  }
}

}  // namespace
}  // namespace weir::cli
