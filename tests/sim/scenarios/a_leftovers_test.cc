// What earlier generations, or somebody else, left on disk under names that look right: nothing of
// it is trusted; what is of older generations is removed, as docs/checkpoint_protocol.md says.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "common/base/concat.h"
#include "tests/sim/scenarios/scenario.h"

namespace weir::sim {
namespace {

using StartedList = std::vector<std::pair<uint64_t, uint64_t>>;

// Given: two checkpoints have completed and are published, rows flow, and everything has died. Then
// something is planted, and all start again.
class Leftovers : public ::testing::Test {
 protected:
  static ScenarioOptions Options() {
    ScenarioOptions options;
    options.workers = 2;
    options.slots = 1;
    return options;
  }

  void SetUp() override {
    ASSERT_TRUE(scenario_.StartUntilCompleted(2));
    DieBetweenCheckpoints();
    EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-2.1"});
    visible_ = scenario_.VisibleFiles();
  }

  // When all that has completed is published.
  void DieBetweenCheckpoints() {
    Simulation& sim = scenario_.sim();
    ASSERT_TRUE(sim.Until([&] { return scenario_.HighestVisible() == sim.newest_completed(); }));
    sim.RunFor(50'000);
    scenario_.KillAll();
  }

  MemoryDisk& disk() { return *scenario_.sim().storage().view().disk(); }
  std::string InJob(std::string_view path) {
    return Concat(scenario_.sim().job_directory(), "/", path);
  }
  std::string Pending(std::string_view job, int generation, int number, std::string_view uid) {
    return Concat("/out/out/.weir-", job, "-g", generation, "-0-", number, "-", uid, ".pending");
  }

  // A copy of the newest checkpoint under another identity, with all files that it names, in which
  // the sink lists one more file: `pending`, with a row that never was.
  void PlantCheckpoint(CheckpointId checkpoint, Generation generation, const std::string& pending) {
    const std::string from = InJob(newest_);
    const std::string name = CheckpointDirectoryName(checkpoint, generation);
    StatusOr<CheckpointManifest> manifest = DecodeManifest(*disk().Bytes(from + "/_metadata"));
    ASSERT_TRUE(manifest.ok());
    manifest->checkpoint = checkpoint;
    manifest->generation = generation;
    for (OperatorSnapshot& snapshot : manifest->snapshots) {
      for (StateHandle& handle : snapshot.handles) {
        const std::string file = handle.path.substr(handle.path.rfind('/') + 1);
        handle.path = Concat(name, "/", file);
        disk().PutFile(InJob(handle.path), *disk().Bytes(Concat(from, "/", file)));
      }
      for (Committable& committable : snapshot.committables) committable.checkpoint = checkpoint;
    }
    disk().PutFile(InJob(name + "/_metadata"), EncodeManifest(*manifest));
    disk().PutFile(pending, kRow);
  }

  // All start; until tasks are told to.
  void StartAgain() {
    scenario_.StartAll();
    ASSERT_TRUE(scenario_.sim().Until([&] {
      const Scenario::Call& last = scenario_.calls().back();
      return last.method == "StartTasks" && last.generation == Generation(2);
    }));
    EXPECT_EQ(scenario_.calls().back().checkpoint, CheckpointId(2));
    EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}}));
    EXPECT_EQ(scenario_.VisibleFiles(), visible_) << "nothing that was planted is published";
  }

  void ExpectEnd() {
    scenario_.sim().Finish();
    EXPECT_EQ(scenario_.sim().violation(), "");
    EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
    EXPECT_TRUE(IsSubset(visible_, scenario_.VisibleFiles()));
    EXPECT_EQ(scenario_.Started().size(), 2u);
  }

  static constexpr const char* kRow =
      "{\"key\":\"key 0\",\"id\":1,\"value\":1,\"n\":1,\"total\":1}\n";

  Scenario scenario_{Options()};
  std::string newest_ = "chk-2.1";
  std::map<std::string, std::string> visible_;
};

// When: the next checkpoint lies there complete, but for its entry. Then: it is not restored, it is
// removed with its rows, and its number is not used.
TEST_F(Leftovers, CompleteCheckpointWithoutEntry) {
  const std::string pending = Pending(scenario_.sim().job().value(), 1, 99, "out");
  PlantCheckpoint(CheckpointId(3), Generation(1), pending);
  StartAgain();
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-2.1"});
  EXPECT_FALSE(disk().Exists(pending));
  ASSERT_TRUE(scenario_.WaitForCompleted(3));
  EXPECT_EQ(scenario_.Completed(), (std::vector<uint64_t>{1, 2, 4}));
  ExpectEnd();
}

// Given: the job has gone on from 2 and died again, with checkpoint 3 of generation 2. When: the
// same number lies there of generation 1, as of a leader that was deposed. Then: the log tells
// which of them counts, and the other is removed.
TEST_F(Leftovers, SameNumberOfAnotherGeneration) {
  StartAgain();
  ASSERT_TRUE(scenario_.WaitForCompleted(3));
  DieBetweenCheckpoints();
  visible_ = scenario_.VisibleFiles();
  const std::string pending = Pending(scenario_.sim().job().value(), 1, 99, "out");
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-3.2"});
  newest_ = "chk-3.2";
  PlantCheckpoint(CheckpointId(3), Generation(1), pending);
  scenario_.StartAll();
  ASSERT_TRUE(scenario_.sim().Until([&] {
    return scenario_.calls().back().method == "StartTasks" &&
           scenario_.calls().back().generation == Generation(3);
  }));
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}, {3, 3}}));
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-3.2"});
  EXPECT_FALSE(disk().Exists(pending));
  EXPECT_EQ(scenario_.VisibleFiles(), visible_);
  scenario_.sim().Finish();
  EXPECT_EQ(scenario_.sim().violation(), "");
  EXPECT_EQ(scenario_.VisibleIds(), scenario_.AllIds());
}

// When: it is of a generation that the log does not know. Then: the log has lost entries, so that
// nobody knows what counts: the job has failed for this leader and nothing is touched; for the next
// one, when somebody has cleared that away, it goes on.
TEST_F(Leftovers, CheckpointOfAGenerationToCome) {
  Simulation& sim = scenario_.sim();
  const std::string pending = Pending(sim.job().value(), 1, 99, "out");
  PlantCheckpoint(CheckpointId(50), Generation(3), pending);
  scenario_.StartAll();
  sim.RunFor(10'000'000);
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}}));
  EXPECT_EQ(scenario_.Calls("StartTasks"), 2) << "of generation 1";
  EXPECT_EQ(scenario_.CheckpointDirectories(), (std::vector<std::string>{"chk-2.1", "chk-50.3"}));
  EXPECT_TRUE(disk().Exists(pending));
  EXPECT_EQ(scenario_.VisibleFiles(), visible_);
  std::optional<JobStatus> status = sim.Status();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->state, JobState::kFailed);
  ASSERT_TRUE(status->failure.has_value());
  EXPECT_EQ(status->failure->message,
            Concat("completion log ", InJob("log"),
                   " has lost entries: its last generation is 1, but there is ", InJob("chk-50.3"),
                   " of generation 3"));

  const std::string leader = sim.leader_name();
  sim.Kill(leader);
  for (const std::string& name : scenario_.CheckpointFiles(CheckpointId(50), Generation(3))) {
    EXPECT_TRUE(disk().Remove(InJob("chk-50.3/" + name)).ok());
  }
  EXPECT_TRUE(disk().RemoveDirectory(InJob("chk-50.3")).ok());
  sim.StartMachine(leader);
  ASSERT_TRUE(scenario_.WaitForRunningAbove(Generation(1)));
  EXPECT_EQ(scenario_.Started(), (StartedList{{1, 0}, {2, 2}}));
  EXPECT_FALSE(disk().Exists(pending));
  ExpectEnd();
}

// When: directories of older generations hold anything at all. Then: they are removed, and names
// that only look like theirs are let be.
TEST_F(Leftovers, HalfCheckpoints) {
  disk().PutFile(InJob("chk-1.1/_metadata"), "no manifest");
  disk().PutDirectory(InJob("chk-3.1"));
  disk().PutFile(InJob("chk-7.1/per-key-0-0123abcd-keyed"), "cut");
  disk().PutFile(InJob("chk-8.x/_metadata"), "not ours");
  StartAgain();
  EXPECT_EQ(scenario_.CheckpointDirectories(), (std::vector<std::string>{"chk-2.1", "chk-8.x"}));
  ASSERT_TRUE(scenario_.WaitForCompleted(3));
  EXPECT_EQ(scenario_.Completed(), (std::vector<uint64_t>{1, 2, 8}));
  EXPECT_TRUE(disk().Remove(InJob("chk-8.x/_metadata")).ok());
  EXPECT_TRUE(disk().RemoveDirectory(InJob("chk-8.x")).ok());
  ExpectEnd();
}

// When: a file lies in the directory of the checkpoint that counts, which does not name it. Then:
// it goes with that checkpoint.
TEST_F(Leftovers, UnnamedFileInACompletedCheckpoint) {
  disk().PutFile(InJob("chk-2.1/in-0-0-0123abcd-positions"), "of nobody");
  StartAgain();
  ASSERT_TRUE(scenario_.WaitForCompleted(3));
  ASSERT_TRUE(scenario_.sim().Until([&] { return !disk().Exists(InJob("chk-2.1")); }, 5'000'000));
  ExpectEnd();
}

// When: rows of older generations, of another job and of another sink lie in the output directory.
// Then: the first are removed; none is published.
TEST_F(Leftovers, PendingRows) {
  const std::string job = scenario_.sim().job().value();
  const std::string other_job = Pending(std::string(32, 'a'), 1, 0, "out");
  const std::string other_sink = Pending(job, 1, 0, "other");
  for (int number : {50, 77, 99}) disk().PutFile(Pending(job, 1, number, "out"), kRow);
  disk().PutFile(other_job, kRow);
  disk().PutFile(other_sink, kRow);
  StartAgain();
  for (int number : {50, 77, 99}) EXPECT_FALSE(disk().Exists(Pending(job, 1, number, "out")));
  EXPECT_EQ(*disk().Bytes(other_job), kRow);
  EXPECT_EQ(*disk().Bytes(other_sink), kRow);
  EXPECT_TRUE(disk().Remove(other_job).ok());
  EXPECT_TRUE(disk().Remove(other_sink).ok());
  ExpectEnd();
}

// When: an entry was written and never linked, and a file of no number lies beside it. Then:
// neither counts.
TEST_F(Leftovers, EntryThatWasNeverLinked) {
  PlantCheckpoint(CheckpointId(3), Generation(1),
                  Pending(scenario_.sim().job().value(), 1, 99, "out"));
  LogEntry entry;
  entry.kind = LogEntry::Kind::kCompleted;
  entry.token = "somebody-1";
  entry.generation = Generation(1);
  entry.checkpoint = CheckpointId(3);
  const std::string temporary = InJob("log/000001/0000000004.tmp-0123abcd");
  disk().PutFile(temporary, EncodeLogEntry(entry));
  disk().PutFile(InJob("log/000001/4"), EncodeLogEntry(entry));
  StartAgain();
  EXPECT_FALSE(disk().Exists(temporary)) << "removed with the seal";
  EXPECT_EQ(scenario_.CheckpointDirectories(), std::vector<std::string>{"chk-2.1"});
  EXPECT_FALSE(scenario_.IsCompleted(CheckpointId(3)));
  ExpectEnd();
  EXPECT_FALSE(scenario_.IsCompleted(CheckpointId(3)));
}

}  // namespace
}  // namespace weir::sim
