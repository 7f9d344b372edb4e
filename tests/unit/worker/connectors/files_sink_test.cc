// FilesSink beyond the contract of all sinks: names, bytes, limits, and what it refuses to touch.
#include "worker/connectors/files/files_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/files/files_committer.h"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPending = "/out/.weir-0123456789abcdef0123456789abcdef-g5-0-0-out.pending";

Schema TestSchema() { return Schema({{"id", Type::kInt64}, {"name", Type::kString}}); }

RecordBatch Row(int64_t id, const std::string& name) {
  BatchBuilder builder(std::make_shared<Schema>(TestSchema()));
  builder.column(0).AppendInt64(id);
  builder.column(1).AppendText(name);
  return builder.Finish();
}

class FilesSinkTest : public testing::Test {
 protected:
  explicit FilesSinkTest(Config config = Config{{"path", "/out"}, {"format", "csv"}})
      : files_(executor_),
        context_(executor_, files_, config, TestSchema(), Generation(5)),
        committer_context_(executor_, files_, config) {
    committer_.Open(committer_context_);
  }

  Status Open() {
    std::optional<Status> result;
    sink_.Open(context_, [&](Status status) { result = status; });
    executor_.RunAll();
    return result.value_or(CancelledError("no answer"));
  }
  std::vector<Committable> Prepare(uint64_t checkpoint) {
    std::vector<Committable> result;
    sink_.Prepare(CheckpointId(checkpoint), [&](StatusOr<std::vector<Committable>> answer) {
      ASSERT_TRUE(answer.ok()) << answer.status();
      result = *std::move(answer);
    });
    executor_.RunAll();
    return result;
  }
  Status Publish(uint64_t checkpoint) {
    std::optional<Status> result;
    sink_.Publish(CheckpointId(checkpoint), [&](Status status) { result = status; });
    executor_.RunAll();
    return result.value_or(CancelledError("no answer"));
  }
  Status Commit(std::vector<Committable> committables) {
    std::optional<Status> result;
    committer_.Commit(std::move(committables), [&](Status status) { result = status; });
    executor_.Advance(60'000'000);
    return result.value_or(CancelledError("no answer"));
  }
  void Remove(const std::string& path) {
    files_.Remove(path, [](Status status) { ASSERT_TRUE(status.ok()); });
    executor_.RunAll();
  }

  ManualExecutor executor_;
  MemoryFileSystem files_;
  FakeSinkContext context_;
  FakeCommitterContext committer_context_;
  FilesSink sink_;
  FilesCommitter committer_;
};

TEST_F(FilesSinkTest, NamesAndBytes) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "a,b")).ok());
  ASSERT_TRUE(sink_.Write(Row(2, "")).ok());
  Prepare(17);
  EXPECT_THAT(files_.Files("/out"), ElementsAre(kPending, "/out/.weir-sink"));
  ASSERT_TRUE(Publish(17).ok());
  EXPECT_THAT(files_.Files("/out"), ElementsAre("/out/.weir-sink", "/out/job-out-0-17-0.csv"));
  EXPECT_EQ(files_.Bytes("/out/job-out-0-17-0.csv"), "id,name\n1,\"a,b\"\n2,\"\"\n");
}

TEST_F(FilesSinkTest, ADirectoryOfAnotherSinkIsRefused) {
  files_.PutFile("/out/.weir-sink", MarkContents({JobId("ffff"), "other job", "sink", "x"}));
  Status status = Open();
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("/out"), HasSubstr("other job"), HasSubstr("ffff")));
  EXPECT_FALSE(status.retryable());
}

TEST_F(FilesSinkTest, AFinalNameThatIsTakenIsNeverReplaced) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::vector<Committable> listed = Prepare(17);
  files_.PutFile("/out/job-out-0-17-0.csv", "somebody's");
  Status status = Commit(listed);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("/out/job-out-0-17-0.csv has 10 bytes"), HasSubstr("12")));
  EXPECT_FALSE(status.retryable());
  EXPECT_FALSE(Publish(17).ok());
  EXPECT_FALSE(context_.failed_.ok());
  EXPECT_EQ(files_.Bytes("/out/job-out-0-17-0.csv"), "somebody's");
  files_.PutFile("/out/job-out-0-17-0.csv", "same length!");
  EXPECT_THAT(Commit(listed).message(), HasSubstr("is not of this sink"));
  EXPECT_EQ(files_.Bytes("/out/job-out-0-17-0.csv"), "same length!");
}

TEST_F(FilesSinkTest, AConsumerMayTakePublishedFilesAsLongAsTheMarkIsThere) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::vector<Committable> listed = Prepare(17);
  ASSERT_TRUE(Commit(listed).ok());
  Remove("/out/job-out-0-17-0.csv");
  EXPECT_TRUE(Commit(listed).ok());
  Remove("/out/.weir-sink");
  Status status = Commit(listed);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("nor job-out-0-17-0.csv is there"),
                                      HasSubstr("/out does not bear this sink's mark .weir-sink")));
  EXPECT_TRUE(status.retryable());
}

TEST_F(FilesSinkTest, ADirectoryThatIsNotMountedIsWaitedForAndNothingIsMadeInItsPlace) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  Prepare(17);
  // When the empty mount point is there in its place.
  std::string mark = files_.Bytes("/out/.weir-sink");
  std::string sealed = files_.Bytes(kPending);
  files_.Delete("/out");
  files_.PutDirectory("/out");
  std::optional<Status> published;
  sink_.Publish(CheckpointId(17), [&](Status status) { published = status; });
  executor_.Advance(10'000'000);
  EXPECT_FALSE(published.has_value());
  EXPECT_TRUE(context_.failed_.ok()) << context_.failed_;
  // Nor does the next generation begin anew in it.
  context_.resumed_from_ = CheckpointId(17);
  FilesSink next;
  std::optional<Status> opened;
  next.Open(context_, [&](Status status) { opened = status; });
  executor_.Advance(1'000'000);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->message(),
            "files.sink 'out': /out does not bear this sink's mark .weir-sink any more (is it "
            "mounted?)");
  EXPECT_TRUE(opened->retryable());
  EXPECT_TRUE(files_.Files("/out").empty());
  // Then it is mounted again: all goes on.
  files_.PutFile("/out/.weir-sink", mark);
  files_.PutFile(kPending, sealed);
  executor_.Advance(10'000'000);
  ASSERT_TRUE(published.has_value() && published->ok());
  EXPECT_TRUE(files_.Exists("/out/job-out-0-17-0.csv"));
  FilesSink again;
  opened.reset();
  again.Open(context_, [&](Status status) { opened = status; });
  executor_.Advance(1'000'000);
  EXPECT_TRUE(opened.has_value() && opened->ok());
}

// Given: a completion log that lost the entry of checkpoint 18, whose rows are out. When: the job
// goes on from 17. Then: it is refused by name, for 18's rows would come out again.
TEST_F(FilesSinkTest, WhatALaterCheckpointPublishedIsNotPublishedAgain) {
  ASSERT_TRUE(Open().ok());
  files_.PutFile("/out/job-out-3-17-0.csv", "n,text\n1,x\n");
  context_.resumed_from_ = CheckpointId(17);
  for (bool later : {false, true}) {
    if (later) files_.PutFile("/out/job-out-1-18-0.csv", "n,text\n2,y\n");
    FilesSink next;
    std::optional<Status> opened;
    next.Open(context_, [&](Status status) { opened = status; });
    executor_.Advance(1'000'000);
    ASSERT_TRUE(opened.has_value());
    EXPECT_EQ(opened->ok(), !later) << *opened;
    if (!later) continue;
    EXPECT_FALSE(opened->retryable());
    EXPECT_EQ(opened->message(),
              "files.sink 'out': /out/job-out-1-18-0.csv was published by checkpoint 18, and the "
              "job starts from checkpoint 17: its completion log has lost entries; going on would "
              "publish rows twice");
  }
}

// Nobody else can have published what this very task sealed and never tried to publish.
TEST_F(FilesSinkTest, APendingFileThatVanishedBeforeItWasEverPublishedIsAnErrorDespiteTheMark) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  Prepare(17);
  Remove(kPending);
  Status status = Publish(17);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(kPending), HasSubstr("is lost")));
  EXPECT_FALSE(status.retryable());
  EXPECT_FALSE(context_.failed_.ok());
}

TEST_F(FilesSinkTest, APendingFileOfAnotherLengthIsNotPublished) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::vector<Committable> listed = Prepare(17);
  files_.PutFile(kPending, "short");
  EXPECT_THAT(Commit(listed).message(), HasSubstr("has 5 bytes"));
  EXPECT_FALSE(files_.Exists("/out/job-out-0-17-0.csv"));
}

TEST_F(FilesSinkTest, BytesInFlightAreBounded) {
  ASSERT_TRUE(Open().ok());
  RecordBatch row = Row(1, std::string(1'000'000, 'x'));
  int writes = 0;
  while (sink_.Ready()) {
    ASSERT_TRUE(sink_.Write(row).ok());
    ASSERT_LT(++writes, 100);
  }
  EXPECT_EQ(writes, 9);  // past 8 MiB
  EXPECT_EQ(sink_.blocking_reason(), "bytes in flight");
  context_.woken_ = false;
  executor_.RunAll();
  EXPECT_TRUE(context_.woken_);
  EXPECT_TRUE(sink_.Ready());
}

// What a disk without room refuses is written when there is some, as if nothing had been: also
// where half a file could not be taken away again.
TEST_F(FilesSinkTest, ADiskWithoutRoomIsWaitedFor) {
  ASSERT_TRUE(Open().ok());
  bool full = true;
  files_.set_before([&](std::string_view operation, const std::string& path) {
    const bool needs_room = operation == "create" || operation == "write";
    return full && needs_room ? ErrnoError(ENOSPC, Concat("cannot ", operation, " ", path))
                              : Status();
  });
  ASSERT_TRUE(sink_.Write(Row(1, "a")).ok());
  std::optional<StatusOr<std::vector<Committable>>> prepared;
  sink_.Prepare(CheckpointId(1), [&](StatusOr<std::vector<Committable>> answer) {
    prepared.emplace(std::move(answer));
  });
  executor_.Advance(10'000'000);
  EXPECT_TRUE(context_.failed_.ok()) << context_.failed_;
  EXPECT_FALSE(prepared.has_value());
  EXPECT_EQ(context_.waiting_["files write"],
            Concat("cannot create ", kPending, ": No space left on device"));
  full = false;
  files_.Create(kPending, "hal", [](Status status) { ASSERT_TRUE(status.ok()); });
  executor_.Advance(2'000'000);
  EXPECT_TRUE(context_.failed_.ok()) << context_.failed_;
  ASSERT_TRUE(prepared.has_value() && prepared->ok());
  EXPECT_EQ(context_.waiting_["files write"], "");
  EXPECT_EQ(files_.Bytes(kPending), "id,name\n1,a\n");
  ASSERT_TRUE(Publish(1).ok());
}

TEST_F(FilesSinkTest, WhatIsCompletedAndNotPublishedIsBounded) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t checkpoint = 1; checkpoint <= 1001; ++checkpoint) {
    ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
    Prepare(checkpoint);
    EXPECT_TRUE(sink_.Ready());  // what waits for a completion never blocks it
  }
  bool broken = true;
  files_.set_before([&](std::string_view, const std::string&) {
    return broken ? UnavailableError("away") : Status();
  });
  bool published = false;
  sink_.Publish(CheckpointId(1001), [&](Status status) { published = status.ok(); });
  executor_.RunOne();
  EXPECT_FALSE(sink_.Ready());
  EXPECT_EQ(sink_.blocking_reason(), "publishing lags behind");
  context_.woken_ = false;
  broken = false;
  executor_.Advance(10'000'000);
  EXPECT_TRUE(published);
  EXPECT_TRUE(context_.woken_);
  EXPECT_TRUE(sink_.Ready());
}

TEST_F(FilesSinkTest, NothingIsListedThatWasSealedBesideTheMarkedDirectory) {
  ASSERT_TRUE(Open().ok());
  // When the directory is unmounted, and rows go on into the empty mount point.
  files_.Delete("/out");
  files_.PutDirectory("/out");
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::optional<StatusOr<std::vector<Committable>>> listed;
  sink_.Prepare(CheckpointId(17),
                [&](StatusOr<std::vector<Committable>> answer) { listed = std::move(answer); });
  executor_.RunAll();
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(listed->status().message(),
            "files.sink 'out': /out does not bear this sink's mark .weir-sink any more (is it "
            "mounted?)");
  EXPECT_TRUE(context_.failed_.retryable());
}

TEST_F(FilesSinkTest, RowsOfAnotherDirectoryAreNotTakenForPublishedAndTakenAway) {
  // Given a directory that an earlier generation marked and that was then unmounted, so that this
  // one, which starts before any checkpoint has completed, marks the empty mount point.
  const std::string mark = MarkContents({JobId("0123456789abcdef0123456789abcdef"), "job", "out",
                                         "0123456789abcdef0123456789abcdef-g4-0-0-out"});
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::vector<Committable> listed = Prepare(17);
  ASSERT_TRUE(Publish(17).ok());
  const std::string own_mark = files_.Bytes("/out/.weir-sink");
  const std::string rows = files_.Bytes("/out/job-out-0-17-0.csv");
  // When the first one is mounted again, and the job restarts from checkpoint 17.
  files_.Delete("/out");
  files_.PutFile("/out/.weir-sink", mark);
  Status status = Commit(listed);
  EXPECT_EQ(status.message(),
            "neither .weir-0123456789abcdef0123456789abcdef-g5-0-0-out.pending nor "
            "job-out-0-17-0.csv is there: files.sink 'out': /out bears the mark of "
            "0123456789abcdef0123456789abcdef-g4-0-0-out; "
            ".weir-0123456789abcdef0123456789abcdef-g5-0-0-out.pending was sealed in another "
            "directory there, with that of 0123456789abcdef0123456789abcdef-g5-0-0-out (is the "
            "right one mounted?)");
  EXPECT_TRUE(status.retryable());
  // Then it goes on when the rows are where they were sealed.
  files_.PutFile("/out/.weir-sink", own_mark);
  files_.PutFile("/out/job-out-0-17-0.csv", rows);
  EXPECT_TRUE(Commit(listed).ok());
}

TEST_F(FilesSinkTest, NothingIsListedThatWasSealedInAnotherDirectoryOfThisSink) {
  ASSERT_TRUE(Open().ok());
  files_.Delete("/out");
  files_.PutFile("/out/.weir-sink",
                 MarkContents({JobId("0123456789abcdef0123456789abcdef"), "job", "out", "other"}));
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  std::optional<StatusOr<std::vector<Committable>>> listed;
  sink_.Prepare(CheckpointId(17),
                [&](StatusOr<std::vector<Committable>> answer) { listed = std::move(answer); });
  executor_.RunAll();
  ASSERT_TRUE(listed.has_value());
  EXPECT_THAT(listed->status().message(), HasSubstr("/out bears the mark of other"));
  EXPECT_TRUE(context_.failed_.retryable());
}

TEST_F(FilesSinkTest, NothingIsListedWhoseFileIsNotThere) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  // When the right directory is mounted again between the file's sync and the directory's.
  files_.set_before([&](std::string_view operation, const std::string& path) {
    if (operation == "sync_directory" && path == "/out") files_.Delete(kPending);
    return Status();
  });
  std::optional<StatusOr<std::vector<Committable>>> listed;
  sink_.Prepare(CheckpointId(17),
                [&](StatusOr<std::vector<Committable>> answer) { listed = std::move(answer); });
  executor_.RunAll();
  ASSERT_TRUE(listed.has_value());
  EXPECT_FALSE(listed->ok());
  EXPECT_TRUE(context_.failed_.retryable());
}

class LargePartsTest : public FilesSinkTest {
 protected:
  LargePartsTest()
      : FilesSinkTest(Config{{"path", "/out"}, {"format", "json"}, {"part_size_max", "1MiB"}}) {}
};

TEST_F(FilesSinkTest, ALaterPrepareMayBePublishedBeforeAnEarlierOneHasAnswered) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(sink_.Write(Row(1, "x")).ok());
  // The directory's sync takes 17 so long that 18 completes meanwhile.
  bool is_first = true;
  files_.set_before([&](std::string_view operation, const std::string&) {
    if (operation != "sync_directory" || !std::exchange(is_first, false)) return Status();
    EXPECT_EQ(Prepare(18).size(), 1u);
    EXPECT_TRUE(Publish(18).ok());
    EXPECT_FALSE(files_.Exists(kPending));
    return Status();
  });
  EXPECT_EQ(Prepare(17).size(), 1u);
  EXPECT_FALSE(is_first);
  EXPECT_TRUE(context_.failed_.ok()) << context_.failed_;
}

TEST_F(LargePartsTest, ALaterPrepareListsNothingThatAnEarlierOneHasNotFound) {
  ASSERT_TRUE(Open().ok());
  for (int part = 0; part < 20; ++part) {
    ASSERT_TRUE(sink_.Write(Row(part, std::string(1 << 20, 'x'))).ok());
  }
  executor_.RunAll();
  // The last of 17's parts is not there, and 17 comes to it after 18 could have answered.
  files_.Delete("/out/.weir-0123456789abcdef0123456789abcdef-g5-0-19-out.pending");
  bool listed = false;
  for (uint64_t checkpoint : {17, 18}) {
    sink_.Prepare(CheckpointId(checkpoint), [&](const StatusOr<std::vector<Committable>>& answer) {
      listed = listed || answer.ok();
    });
  }
  executor_.RunAll();
  EXPECT_FALSE(listed);
  EXPECT_FALSE(context_.failed_.ok());
}

TEST_F(LargePartsTest, APartThatIsLargeEnoughIsFollowedByAnother) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(sink_.Write(Row(i, std::string(600'000, 'x'))).ok());
  }
  EXPECT_EQ(Prepare(3).size(), 3u);
  ASSERT_TRUE(Publish(3).ok());
  // Two rows of 600,000 and 19 bytes each: {"id":0,"name":"…"} and the line end.
  EXPECT_EQ(files_.Bytes("/out/job-out-0-3-0.jsonl").size(), 2u * 600'019);
  EXPECT_EQ(files_.Bytes("/out/job-out-0-3-1.jsonl").size(), 2u * 600'019);
  EXPECT_EQ(files_.Bytes("/out/job-out-0-3-2.jsonl").size(), 600'019u);
}

}  // namespace
}  // namespace weir
