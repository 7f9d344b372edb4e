// Each checker against a job written down by hand: silent when all is right, and saying what is
// wrong, with its values, when one thing is. Simulations show that it holds; this, that it is
// looked at.
#include <gtest/gtest.h>

#include "common/base/concat.h"
#include "tests/sim/checkers/hand_made_job.h"

namespace weir::sim {
namespace {

using Job = HandMadeJob;

// A job until checkpoint 2 of its second generation, of which everything is visible.
struct Life {
  Job job;
  Job::Parts first = job.Checkpoint(1, 1, 1, 0, {Job::kRow0});
  Job::Parts second = job.Checkpoint(2, 2, 2, 1, {Job::kRow1, Job::kRow2});

  void UntilFirst() {
    job.Started(1, 1, 1, 0);
    job.OrderStart(1, {});
    job.Write(first);
    job.Completed(1, 2, first);
    job.Do("sync_directory", Job::kJob + "/log/000001");
  }
  void UntilRestored() {
    UntilFirst();
    job.Publish(first);
    job.Started(1, 3, 2, 1);
    job.OrderStart(2, first.manifest);
  }
  void UntilSecond() {
    UntilRestored();
    job.Write(second);
    job.Completed(1, 4, second);
    job.Do("sync_directory", Job::kJob + "/log/000001");
  }
  void Drop(const Job::Parts& parts) {
    for (const auto& [path, bytes] : parts.state_files) job.Do("remove", Job::kJob + "/" + path);
    job.Do("remove", job.ManifestPath(parts));
    job.Do("remove_directory", ParentPath(job.ManifestPath(parts)));
  }
  void UntilEnd() {
    UntilSecond();
    job.Publish(second);
    Drop(first);
    job.Entry(1, 5, LogEntry::Kind::kFinished);
    Drop(second);
    job.AtEnd();
  }
};

TEST(CheckersTest, AreSilentWhenAllIsRight) {
  Life life;
  life.UntilEnd();
  EXPECT_EQ(life.job.violations(), "");
}

TEST(CheckersTest, AreSilentWhenAPowerLossTakesWhatWasNotSynced) {
  // The second checkpoint completes, or also becomes visible, until the power is lost.
  for (bool completes_for_good : {false, true}) {
    Life life;
    life.UntilRestored();
    life.job.Write(life.second);
    life.job.Completed(1, 4, life.second);
    if (completes_for_good) {
      life.job.Do("sync_directory", Job::kJob + "/log/000001");
      life.job.Do("rename", life.job.PendingPath(life.second), life.job.FinalPath(life.second));
    }
    life.job.PowerLoss();
    EXPECT_EQ(life.job.disk().Exists(Job::kJob + "/log/000001/0000000004"), completes_for_good);
    EXPECT_TRUE(life.job.disk().Exists(life.job.PendingPath(life.second)));
    if (completes_for_good) {
      life.job.Publish(life.second);
      life.job.Started(1, 5, 3, 2);
      life.job.OrderStart(3, life.second.manifest);
    } else {
      // The next leader has never heard of it, and takes the first one again.
      life.job.Entry(1, 4, LogEntry::Kind::kSealed);
      life.job.Started(2, 1, 3, 1);
      life.job.OrderStart(3, life.first.manifest);
      Job::Parts third = life.job.Checkpoint(3, 3, 2, 1, {Job::kRow1, Job::kRow2});
      life.job.Write(third);
      life.job.Completed(2, 2, third);
      life.job.Do("sync_directory", Job::kJob + "/log/000002");
      life.job.Publish(third);
    }
    EXPECT_EQ(life.job.violations(), "");
  }
}

// ---- exactly once ------------------------------------------------------------------------------

TEST(ExactlyOnceCheckerTest, SaysWhichRowIsVisibleTwice) {
  Life life;
  life.second = life.job.Checkpoint(2, 2, 2, 1, {Job::kRow0, Job::kRow1, Job::kRow2});
  life.UntilSecond();
  life.job.Publish(life.second);
  EXPECT_TRUE(life.job.Says("exactly once", "row 1000000 is visible 2 times, not 1"));
}

TEST(ExactlyOnceCheckerTest, SaysWhichRowIsMissingAtTheEnd) {
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  life.job.AtEnd();
  EXPECT_TRUE(
      life.job.Says("exactly once", "sink out misses 2 rows at the end, the first is row 1000001"));
}

TEST(ExactlyOnceCheckerTest, SaysWhatIsWrongInARow) {
  const std::string before = "{\"key\":\"a\",\"id\":1000000,";
  const std::map<std::string, std::string> wrong = {
      {before + "\"value\":6,\"n\":1,\"total\":6}\n", "wrong value"},
      {"{\"key\":\"b\",\"id\":1000000,\"value\":5,\"n\":1,\"total\":5}\n", "wrong key"},
      {"{\"key\":\"a\",\"id\":1000007,\"value\":5,\"n\":1,\"total\":5}\n",
       "wrong id 1000007 of no row of the input"},
      {before + "\"value\":5,\"n\":1,\"total\":5}", "not a row"},  // cut off
      {before + "\"n\":1,\"value\":5,\"total\":5}\n", "not a row"},
  };
  for (const auto& [row, words] : wrong) {
    Life life;
    life.first = life.job.Checkpoint(1, 1, 1, 0, {row});
    life.UntilFirst();
    life.job.Publish(life.first);
    EXPECT_TRUE(life.job.Says("exactly once", words)) << row;
  }
}

TEST(ExactlyOnceCheckerTest, FollowsTheCountsAndSumsOfAKey) {
  const std::map<std::string, std::string> wrong = {
      // One count twice, one left out, one that the sum does not fit.
      {"{\"key\":\"a\",\"id\":2000000,\"value\":null,\"n\":1,\"total\":5}\n",
       "key 'a' has count 1 at row 2000000 and at row 1000000"},
      {"{\"key\":\"a\",\"id\":2000000,\"value\":null,\"n\":3,\"total\":5}\n",
       "key 'a' has 2 rows, and none with count 2"},
      {"{\"key\":\"a\",\"id\":2000000,\"value\":null,\"n\":2,\"total\":9}\n",
       "key 'a' has total 9 at count 2, row 2000000 of value 0, after 5"},
  };
  for (const auto& [row, words] : wrong) {
    Life life;
    life.second = life.job.Checkpoint(2, 2, 2, 1, {Job::kRow1, row});
    life.UntilEnd();
    EXPECT_TRUE(life.job.Says("exactly once", words)) << row;
  }
}

// ---- consistent cut ----------------------------------------------------------------------------

TEST(ConsistentCutCheckerTest, ComparesStateWithTheRowsBeforeThePositions) {
  Life life;
  // The state of two rows, the positions behind one.
  Job::Parts later = life.job.Checkpoint(1, 1, 2, 0, {Job::kRow0});
  const StateHandle state = later.manifest.snapshots[1].handles[0];
  life.first.manifest.snapshots[1].handles[0] = state;
  life.first.state_files[state.path] = later.state_files[state.path];
  life.UntilFirst();
  EXPECT_TRUE(life.job.Says("consistent cut",
                            "agg holds count 1 total 7 for key 'b'; the rows before the positions "
                            "of the sources make count 0 total null"));
}

TEST(ConsistentCutCheckerTest, MissesTheStateOfAKey) {
  Life life;
  life.first.manifest.snapshots[1].handles.clear();
  life.UntilFirst();
  EXPECT_TRUE(life.job.Says("consistent cut", "agg holds nothing for key 'a'"));
}

TEST(ConsistentCutCheckerTest, ComparesCounters) {
  Life life;
  life.first.manifest.snapshots[1].records_in = 2;
  life.UntilFirst();
  EXPECT_TRUE(life.job.Says("consistent cut",
                            "agg has taken 2 rows; before the positions of the "
                            "sources 1 come to it"));
}

TEST(ConsistentCutCheckerTest, ComparesWhatSinksHaveSealed) {
  {
    Life life;
    life.first = life.job.Checkpoint(1, 1, 1, 0, {});
    life.UntilFirst();
    EXPECT_TRUE(life.job.Says("consistent cut", "sink out has sealed row 1000000 0 times, not 1"));
  }
  {
    Life life;
    life.first = life.job.Checkpoint(1, 1, 1, 0, {Job::kRow0, Job::kRow1});
    life.UntilFirst();
    EXPECT_TRUE(life.job.Says("consistent cut",
                              "sink out has sealed row 1000001 1 times, not 0: it is behind the "
                              "positions of the sources"));
  }
}

TEST(ConsistentCutCheckerTest, WantsWhatWasListedListedAgainOrVisible) {
  Life life;
  life.UntilFirst();  // not published
  Job::Parts next = life.job.Checkpoint(2, 1, 2, 1, {Job::kRow1, Job::kRow2});
  life.job.Write(next);
  life.job.Completed(1, 3, next);
  EXPECT_TRUE(life.job.Says("consistent cut", "is neither listed again nor visible"));
}

TEST(ConsistentCutCheckerTest, WantsPositionsBetweenRowsAndForward) {
  {
    Life life;
    Job::Parts parts = life.job.Checkpoint(1, 1, 1, 0, {Job::kRow0});
    life.first = parts;
    life.job.world.files[0].ends[0] = 39;  // what says 40 is in the middle of a row now
    life.UntilFirst();
    EXPECT_TRUE(life.job.Says("consistent cut",
                              "the position in /in/in/part-0.jsonl is 40, which is within a row"));
  }
  {
    Life life;
    life.first = life.job.Checkpoint(1, 1, 2, 0, {Job::kRow0, Job::kRow1});
    life.second = life.job.Checkpoint(2, 2, 1, 0, {});
    life.UntilSecond();
    EXPECT_TRUE(life.job.Says("consistent cut",
                              "/in/in/part-0.jsonl is read up to row 1, and "
                              "checkpoint 1 had it up to row 2"));
  }
}

TEST(ConsistentCutCheckerTest, NamesADamagedStateFile) {
  Life life;
  life.first.state_files.begin()->second += "x";
  life.UntilFirst();
  EXPECT_TRUE(life.job.Says("consistent cut", "its state file"));
}

// ---- completion --------------------------------------------------------------------------------

TEST(CompletionCheckerTest, AManifestIsMadeOnce) {
  Life life;
  life.UntilFirst();
  life.job.Do("remove", life.job.ManifestPath(life.first));
  life.job.Do("create", life.job.ManifestPath(life.first), "", "again");
  EXPECT_TRUE(life.job.Says("completion", "made a second manifest"));
}

TEST(CompletionCheckerTest, ACheckpointCompletesOnceAndIdsGrow) {
  {
    Life life;
    life.UntilFirst();
    life.job.Completed(1, 3, life.first);
    EXPECT_TRUE(life.job.Says("completion", "checkpoint 1 of generation 1 has completed before"));
  }
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    Job::Parts higher = life.job.Checkpoint(2, 1, 1, 0, {Job::kRow0});
    life.job.Write(higher);
    life.job.Completed(1, 2, higher);
    Job::Parts lower = life.job.Checkpoint(1, 1, 2, 0, {Job::kRow1});
    life.job.Write(lower);
    life.job.Completed(1, 3, lower);
    EXPECT_TRUE(life.job.Says("completion",
                              "completes checkpoint 1 of generation 1: checkpoint 2 "
                              "of generation 1 has completed before"));
  }
}

TEST(CompletionCheckerTest, OnlyTheNewestGenerationOfTheNewestTermCompletes) {
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Started(1, 2, 2, 0);
    life.job.Write(life.first);
    life.job.Completed(1, 3, life.first);
    EXPECT_TRUE(life.job.Says("completion", "generation 2 has started in term 1"));
  }
  {
    // The same generation's number does not help: its term is sealed.
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Entry(1, 2, LogEntry::Kind::kSealed);
    life.job.Write(life.first);
    life.job.Completed(1, 3, life.first);
    EXPECT_TRUE(life.job.Says("completion", "term 1 is sealed"));
  }
}

TEST(CompletionCheckerTest, NothingOfAnotherGenerationIsPartOfIt) {
  {
    Life life;
    life.UntilRestored();
    Job::Parts zombie = life.job.Checkpoint(2, 1, 2, 1, {Job::kRow1, Job::kRow2});
    life.second.manifest.snapshots[2].committables = zombie.manifest.snapshots[2].committables;
    life.second.pending = zombie.pending;
    life.job.Write(life.second);
    life.job.Completed(1, 4, life.second);
    EXPECT_TRUE(
        life.job.Says("completion", "is of generation 1 and no checkpoint has listed it before"));
  }
  {
    Life life;
    life.UntilRestored();
    life.second.manifest.snapshots[1].handles[0].path = "chk-2.1/agg-0-x-keyed";
    life.job.Write(life.second);
    life.job.Completed(1, 4, life.second);
    EXPECT_TRUE(life.job.Says("completion",
                              "state of agg is that of another checkpoint: chk-2.1/agg-0-x-keyed"));
  }
}

TEST(CompletionCheckerTest, ItsManifestIsThereAndTheOneThatIsNamed) {
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Completed(1, 2, life.first);
    EXPECT_TRUE(life.job.Says("completion", "chk-1.1/_metadata does not exist"));
  }
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Write(life.first);
    life.job.Do("write", life.job.ManifestPath(life.first), "", "?");
    life.job.Completed(1, 2, life.first);
    EXPECT_TRUE(life.job.Says("completion", "is not what the entry names"));
  }
}

TEST(CompletionCheckerTest, AllThatItNamesIsDurableBefore) {
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Write(life.first);
    // As if nobody had synced it.
    const std::string path = life.job.ManifestPath(life.first);
    std::string bytes = *life.job.disk().Bytes(path);
    life.job.disk().PutFile(path, "");
    ASSERT_TRUE(life.job.disk().WriteAt(path, 0, bytes).ok());
    life.job.Completed(1, 2, life.first);
    EXPECT_TRUE(life.job.Says("completion", "chk-1.1/_metadata is not durable"));
  }
  {
    Life life;
    life.job.Started(1, 1, 1, 0);
    life.job.Write(life.first);
    // As if its name had not been synced.
    const std::string path = Concat(Job::kJob, "/", life.first.state_files.begin()->first);
    std::string bytes = *life.job.disk().Bytes(path);
    ASSERT_TRUE(life.job.disk().Remove(path).ok());
    ASSERT_TRUE(life.job.disk().SyncDirectory(ParentPath(path)).ok());
    ASSERT_TRUE(life.job.disk().Create(path, bytes).ok());
    ASSERT_TRUE(life.job.disk().Sync(path).ok());
    life.job.Completed(1, 2, life.first);
    EXPECT_TRUE(life.job.Says("completion", "chk-1.1/agg-0-x-keyed is not durable"));
  }
}

TEST(CompletionCheckerTest, GenerationsGrowAndStartFromTheNewestCompleted) {
  {
    Life life;
    life.UntilFirst();
    life.job.Started(1, 3, 1, 1);
    EXPECT_TRUE(life.job.Says("completion", "generation 1 has started before"));
  }
  {
    Life life;
    life.UntilFirst();
    life.job.Started(1, 3, 2, 0);
    EXPECT_TRUE(
        life.job.Says("completion", "from checkpoint 0, but the newest completed one is 1"));
  }
}

// ---- commits -----------------------------------------------------------------------------------

TEST(CommitsCheckerTest, OnlyWhatACompletedCheckpointListsBecomesVisible) {
  Life life;
  life.job.Started(1, 1, 1, 0);
  life.job.Write(life.first);
  life.job.Publish(life.first);
  EXPECT_TRUE(life.job.Says("commits", "but no completed checkpoint lists it"));
}

TEST(CommitsCheckerTest, NotBeforeTheEntryIsDurable) {
  Life life;
  life.job.Started(1, 1, 1, 0);
  life.job.Write(life.first);
  life.job.Completed(1, 2, life.first);
  life.job.Publish(life.first);
  EXPECT_TRUE(life.job.Says("commits", "which completes checkpoint 1, is not durable yet"));
}

TEST(CommitsCheckerTest, AJobIsFinishedWhenAllIsVisibleForGood) {
  Life life;
  life.UntilSecond();
  life.job.Do("rename", life.job.PendingPath(life.second), life.job.FinalPath(life.second));
  life.job.Entry(1, 5, LogEntry::Kind::kFinished);
  EXPECT_TRUE(life.job.Says("commits", "the job is FINISHED, but /out/out/job-out-0-2-0.jsonl"));
}

TEST(CommitsCheckerTest, UnderTheNameAndLengthThatItGives) {
  {
    Life life;
    life.UntilFirst();
    life.job.Do("rename", life.job.PendingPath(life.first), Job::kOut + "job-out-0-9-0.jsonl");
    EXPECT_TRUE(life.job.Says("commits", "but checkpoint 1 names it /out/out/job-out-0-1-0.jsonl"));
  }
  {
    Life life;
    life.UntilFirst();
    ASSERT_TRUE(life.job.disk().Truncate(life.job.PendingPath(life.first), 3).ok());
    life.job.Publish(life.first);
    EXPECT_TRUE(life.job.Says("commits", "has 3 bytes, but checkpoint 1 lists"));
  }
}

TEST(CommitsCheckerTest, WhatIsVisibleNeitherChangesNorVanishes) {
  for (const char* operation : {"remove", "write"}) {
    Life life;
    life.UntilFirst();
    life.job.Publish(life.first);
    life.job.Do(operation, life.job.FinalPath(life.first), "", "?");
    EXPECT_TRUE(life.job.Says("commits", Concat("did ", operation, " on the visible")));
  }
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  ASSERT_TRUE(life.job.disk().WriteAt(life.job.FinalPath(life.first), 0, "?").ok());
  life.job.AtEnd();
  EXPECT_TRUE(life.job.Says("commits", "has changed"));
}

TEST(CommitsCheckerTest, WhatIsListedIsNotTouched) {
  Life life;
  life.UntilFirst();
  life.job.Do("remove", life.job.PendingPath(life.first));
  EXPECT_TRUE(life.job.Says("commits", "which completed checkpoint 1 lists"));
}

TEST(CommitsCheckerTest, APowerLossTakesNothingThatIsListed) {
  Life life;
  life.job.Started(1, 1, 1, 0);
  life.job.Write(life.first);
  // As if its directory had not been synced.
  const std::string path = life.job.PendingPath(life.first);
  std::string bytes = *life.job.disk().Bytes(path);
  life.job.Do("remove", path);
  life.job.Do("sync_directory", "/out/out");
  life.job.Do("create", path, "", bytes);
  life.job.Completed(1, 2, life.first);
  life.job.Do("sync_directory", Job::kJob + "/log/000001");
  life.job.PowerLoss();
  EXPECT_TRUE(life.job.Says("commits", "a power loss took"));
}

// ---- files -------------------------------------------------------------------------------------

TEST(FilesCheckerTest, WhatARetainedManifestNamesStays) {
  {
    Life life;
    life.UntilFirst();
    life.job.Do("remove", Concat(Job::kJob, "/", life.first.state_files.begin()->first));
    EXPECT_TRUE(life.job.Says("files", "which the retained checkpoint 1 needs"));
  }
  {
    Life life;
    life.job.world.retained = 2;
    life.UntilSecond();
    life.Drop(life.first);
    EXPECT_TRUE(life.job.Says("files", "which the retained checkpoint 1 needs"));
  }
}

TEST(FilesCheckerTest, UntilALaterOneHasCompletedForGood) {
  Life life;
  life.UntilRestored();
  life.job.Write(life.second);
  life.job.Completed(1, 4, life.second);  // not synced
  life.Drop(life.first);
  EXPECT_TRUE(life.job.Says("files", "which the retained checkpoint 1 needs"));
}

TEST(FilesCheckerTest, APowerLossTakesNothingOfARetainedCheckpoint) {
  Life life;
  life.job.Started(1, 1, 1, 0);
  life.job.Write(life.first);
  const std::string path = life.job.ManifestPath(life.first);
  std::string bytes = *life.job.disk().Bytes(path);
  life.job.disk().PutFile(path, "");
  ASSERT_TRUE(life.job.disk().WriteAt(path, 0, bytes).ok());  // not synced
  life.job.Completed(1, 2, life.first);
  life.job.Do("sync_directory", Job::kJob + "/log/000001");
  life.job.PowerLoss();
  EXPECT_TRUE(life.job.Says("files", "a power loss took"));
}

TEST(FilesCheckerTest, NothingIsLeftAtTheEnd) {
  {
    Life life;
    life.job.disk().PutFile(Job::kJob + "/chk-7.1/in-0-x-positions", "");
    life.UntilEnd();
    EXPECT_TRUE(life.job.Says("files", "chk-7.1 is left although the job has ended"));
  }
  {
    Life life;
    life.job.disk().PutFile(Job::kOut + ".weir-x-g1-0-0-out.pending", "");
    life.UntilEnd();
    EXPECT_TRUE(life.job.Says("files", "-g1-0-0-out.pending is left although the job has ended"));
  }
  // Made after the end: only by one that is dead.
  for (const std::string actor : {"worker-1.1", "worker-2.1"}) {
    Life life;
    life.UntilEnd();
    life.job.actor = actor;
    life.job.Do("create", Job::kOut + ".weir-x-g1-0-0-out.pending");
    life.job.AtEnd();
    EXPECT_EQ(life.job.violations().empty(), actor == "worker-2.1") << life.job.violations();
  }
}

// ---- restore -----------------------------------------------------------------------------------

TEST(RestoreCheckerTest, AGenerationStartsFromTheNewestCompleted) {
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  life.job.Started(1, 3, 2, 1);
  life.job.OrderStart(2, {});
  EXPECT_TRUE(life.job.Says("restore", "started from checkpoint 0: the newest completed one is 1"));
}

TEST(RestoreCheckerTest, WithItsManifestAsItWasWritten) {
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  life.job.Started(1, 3, 2, 1);
  life.first.manifest.snapshots[0].records_out = 9;
  life.job.OrderStart(2, life.first.manifest);
  EXPECT_TRUE(life.job.Says("restore", "its manifest is not the one in"));
}

TEST(RestoreCheckerTest, AndNotBeforeItsEntryStands) {
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  life.job.OrderStart(2, life.first.manifest);
  EXPECT_TRUE(life.job.Says("restore", "there is no STARTED entry of it"));
}

TEST(RestoreCheckerTest, WhenAllOfItIsVisible) {
  Life life;
  life.UntilFirst();
  life.job.Started(1, 3, 2, 1);
  life.job.OrderStart(2, life.first.manifest);
  EXPECT_TRUE(life.job.Says("restore", "is not visible for good yet"));
}

TEST(RestoreCheckerTest, AndNothingLater) {
  Life life;
  life.UntilFirst();
  life.job.Publish(life.first);
  life.job.disk().PutFile(Job::kOut + "job-out-0-2-0.jsonl", Job::kRow1);
  life.job.Started(1, 3, 2, 1);
  life.job.OrderStart(2, life.first.manifest);
  EXPECT_TRUE(life.job.Says("restore", "is visible, and no completed checkpoint lists it"));
}

TEST(RestoreCheckerTest, WhatADeposedCoordinatorOrdersDoesNotCount) {
  Life life;
  life.UntilRestored();
  life.job.OrderStart(1, {});
  EXPECT_EQ(life.job.violations(), "");
}

}  // namespace
}  // namespace weir::sim
