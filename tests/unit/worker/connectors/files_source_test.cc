// FilesSource beyond the contract of all sources: messages, limits, files that grow.
#include "worker/connectors/files/files_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/concat.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Schema IdSchema() { return Schema({{"id", Type::kInt64}}); }

Config Bounded(std::vector<std::string> files) {
  ConfigList list(files.begin(), files.end());
  return Config{{"path", "/data/*.csv"}, {"format", "csv"}, {"files", list}};
}
Config Following() { return Config{{"path", "/data/*.csv"}, {"format", "csv"}, {"follow", true}}; }

class FilesSourceTest : public testing::Test {
 protected:
  FilesSourceTest() : files_(executor_) { files_.PutDirectory("/data"); }

  Status Open(Config config, const std::vector<SplitState>& restored = {}, int subtask = 0,
              int parallelism = 1) {
    source_.reset();
    context_ = std::make_unique<FakeSourceContext>(executor_, files_, std::move(config), IdSchema(),
                                                   subtask, parallelism);
    context_->options_ = options_;
    output_ = CollectingOutput();
    source_ = std::make_unique<FilesSource>();
    return source_->Open(*context_, restored);
  }
  // Polls for as long as there is something to do now; no time passes.
  StatusOr<PollResult> PollNow() {
    while (true) {
      executor_.RunAll();
      context_->woken_ = false;
      StatusOr<PollResult> result = source_->Poll(output_);
      if (!result.ok() || *result == PollResult::kEnded) return result;
      executor_.RunAll();
      if (*result == PollResult::kIdle && !context_->woken_) return result;
    }
  }
  // All ids until the source idles or ends; an error fails the test.
  std::vector<int64_t> Ids() {
    StatusOr<PollResult> result = PollNow();
    EXPECT_TRUE(result.ok()) << result.status();
    return output_.Int64s(0);
  }
  std::string Error() {
    StatusOr<PollResult> result = PollNow();
    return result.ok() ? "no error" : result.status().message();
  }

  ManualExecutor executor_;
  MemoryFileSystem files_;
  JobOptions options_;
  std::unique_ptr<FakeSourceContext> context_;
  CollectingOutput output_;
  std::unique_ptr<FilesSource> source_;
};

TEST_F(FilesSourceTest, PositionsAreText) {
  EXPECT_EQ(EncodeFilePosition({1234, 17, false}), "1234 17");
  EXPECT_EQ(EncodeFilePosition({5, 2, true}), "5 2 end");
  EXPECT_EQ(*DecodeFilePosition("1234 17"), (FilePosition{1234, 17, false}));
  EXPECT_EQ(*DecodeFilePosition("5 2 end"), (FilePosition{5, 2, true}));
  for (const char* bad : {"", "5", "5 ", "x 1", "-5 1", "5 1 en", "5 1 end ", "5  1"}) {
    EXPECT_FALSE(DecodeFilePosition(bad).has_value()) << bad;
  }
}

TEST_F(FilesSourceTest, PositionIsTheOffsetAndLineOfTheNextRow) {
  options_.batch_rows_max = 1;
  files_.PutFile("/data/a.csv", "id,t\n1,x\n2,\"a\nb\"\n33,x\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  executor_.RunAll();
  ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
  EXPECT_THAT(source_->SnapshotPositions(), ElementsAre(SplitState{"/data/a.csv", "9 3"}));
  ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
  EXPECT_THAT(source_->SnapshotPositions(), ElementsAre(SplitState{"/data/a.csv", "17 5"}));
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 33));
  EXPECT_THAT(source_->SnapshotPositions(), ElementsAre(SplitState{"/data/a.csv", "22 6 end"}));
}

TEST_F(FilesSourceTest, ABadRowIsNamedByFileLineOffsetColumnAndValue) {
  files_.PutFile("/data/a.csv", "t,id\nx,1\n\"a\nb\",2\nx,three\nx,4\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  std::string error = Error();
  EXPECT_THAT(error, testing::StartsWith("files.source 'in': /data/a.csv line 5 (offset 17): "));
  EXPECT_THAT(error, HasSubstr("column 'id'"));
  EXPECT_THAT(error, HasSubstr("three"));

  // The same after a restore in the middle.
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"}), {{"/data/a.csv", "9 3"}}).ok());
  EXPECT_EQ(Error(), error);
}

TEST_F(FilesSourceTest, BadRowsAreDroppedAndCountedIfTheUserSaysSo) {
  files_.PutFile("/data/a.csv", "id\nx\n1\ny\n2\nz\n");
  Config config = Bounded({"/data/a.csv"});
  config.Set("bad_data", "drop");
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  EXPECT_EQ(context_->dropped_, 3);
  options_.bad_data = BadData::kDrop;  // the job's
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
}

TEST_F(FilesSourceTest, ABoundedFileThatIsShorterThanWhatWasReadIsAnError) {
  files_.PutFile("/data/a.csv", "id\n1\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"}), {{"/data/a.csv", "9 4"}}).ok());
  EXPECT_EQ(Error(),
            "files.source 'in': /data/a.csv is read up to offset 9, but it has only 5 bytes now");
  ASSERT_TRUE(Open(Bounded({"/data/gone.csv"}), {{"/data/gone.csv", "9 4"}}).ok());
  EXPECT_EQ(Error(), "files.source 'in': /data/gone.csv is read up to offset 9, but it is gone");
}

TEST_F(FilesSourceTest, ABoundedFileReadToItsEndIsNotLookedAtAgain) {
  files_.PutFile("/data/a.csv", "id\n1\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"}), {{"/data/a.csv", "5 3 end"}}).ok());
  files_.PutFile("/data/a.csv", "id\n1\n2\n");
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_EQ(output_.rows(), 0);
}

TEST_F(FilesSourceTest, RowsLongerThanAChunkAreRead) {
  std::string text = "t,id\n";
  for (int i = 0; i < 3; ++i) text += std::string(5'000'000, 'x') + Concat(",", i, "\n");
  files_.PutFile("/data/a.csv", text);
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2));
}

TEST_F(FilesSourceTest, ManyFilesAreReadAFewAtATimeInTurn) {
  options_.batch_rows_max = 1;
  std::vector<std::string> paths;
  for (int f = 0; f < 40; ++f) {
    paths.push_back(Concat("/data/", 100 + f, ".csv"));
    files_.PutFile(paths.back(), Concat("id\n", 2 * f, "\n", 2 * f + 1, "\n"));
  }
  ASSERT_TRUE(Open(Bounded(paths)).ok());
  std::vector<int64_t> ids = Ids();
  ASSERT_EQ(ids.size(), 80u);
  // The first sixteen rows are of sixteen files.
  for (int i = 0; i < 16; ++i) EXPECT_EQ(ids[i], 2 * i);
  std::sort(ids.begin(), ids.end());
  for (int i = 0; i < 80; ++i) EXPECT_EQ(ids[i], i);
}

TEST_F(FilesSourceTest, ARateIsKeptAndSharedByTheSubtasks) {
  std::string text = "id\n";
  for (int i = 0; i < 10'000; ++i) text += Concat(i, "\n");
  files_.PutFile("/data/a.csv", text);
  files_.PutFile("/data/b.csv", text);
  Config config = Bounded({"/data/a.csv", "/data/b.csv"});
  config.Set("rate", 2000);
  ASSERT_TRUE(Open(config, {}, 0, 2).ok());
  int64_t largest = 0;
  for (int ms = 0; ms < 3000; ++ms) {
    executor_.Advance(1000);
    int64_t before = output_.rows();
    ASSERT_TRUE(PollNow().ok());
    largest = std::max(largest, output_.rows() - before);
  }
  // 1000 a second of this subtask, in steps of ten.
  EXPECT_NEAR(static_cast<double>(output_.rows()), 3000, 11);
  EXPECT_LE(largest, 11);
  // Nothing was taken for 5 s: one second of it is made up for.
  executor_.Advance(5'000'000);
  int64_t before = output_.rows();
  ASSERT_TRUE(PollNow().ok());
  EXPECT_EQ(output_.rows() - before, 1000);
}

TEST_F(FilesSourceTest, FollowingSeesNewFilesAndNewLines) {
  files_.PutFile("/data/a.csv", "id\n1\n");
  ASSERT_TRUE(Open(Following()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1));
  files_.PutFile("/data/a.csv", "id\n1\n2\n3");  // 3 is not complete yet
  EXPECT_THAT(Ids(), ElementsAre(1));            // not before the interval is over
  executor_.Advance(1'000'000);
  EXPECT_TRUE(context_->woken_);
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  files_.PutFile("/data/a.csv", "id\n1\n2\n34\n");
  files_.PutFile("/data/b.csv", "i");  // a header that is not complete yet
  executor_.Advance(1'000'000);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 34));
  files_.PutFile("/data/b.csv", "id\n5\n");
  executor_.Advance(1'000'000);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 34, 5));
  EXPECT_EQ(*PollNow(), PollResult::kIdle);
}

TEST_F(FilesSourceTest, FollowingGoesOnFromItsPositionsAtAnotherParallelism) {
  std::vector<SplitState> positions;
  for (int f = 0; f < 20; ++f) {
    files_.PutFile(Concat("/data/", f, ".csv"), Concat("id\n", f, "\n"));
  }
  std::vector<int64_t> ids;
  for (int subtask = 0; subtask < 2; ++subtask) {
    ASSERT_TRUE(Open(Following(), {}, subtask, 2).ok());
    for (int64_t id : Ids()) ids.push_back(id);
    for (SplitState& state : source_->SnapshotPositions()) positions.push_back(state);
  }
  EXPECT_EQ(ids.size(), 20u);
  EXPECT_EQ(positions.size(), 20u);
  for (int f = 0; f < 20; ++f) {
    files_.PutFile(Concat("/data/", f, ".csv"), Concat("id\n", f, "\n", 20 + f, "\n"));
  }
  for (int subtask = 0; subtask < 3; ++subtask) {
    ASSERT_TRUE(Open(Following(), positions, subtask, 3).ok());
    for (int64_t id : Ids()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(ids[i], i);
}

TEST_F(FilesSourceTest, FollowingRefusesFilesThatShrinkOrGo) {
  files_.PutFile("/data/a.csv", "id\n1\n2\n");
  ASSERT_TRUE(Open(Following()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  files_.PutFile("/data/a.csv", "id\n9\n");
  executor_.Advance(1'000'000);
  EXPECT_EQ(Error(),
            "files.source 'in': /data/a.csv is read up to offset 7, but it has only 5 bytes now");

  files_.PutFile("/data/a.csv", "id\n1\n2\n");
  ASSERT_TRUE(Open(Following()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  files_.Remove("/data/a.csv", [](Status) {});
  executor_.Advance(1'000'000);
  EXPECT_EQ(Error(), "files.source 'in': /data/a.csv is read up to offset 7, but it is gone");
}

TEST_F(FilesSourceTest, AReadThatFailsIsAnError) {
  files_.PutFile("/data/a.csv", "id\n1\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  files_.set_before([](std::string_view operation, const std::string& path) {
    return operation == "read" ? UnavailableError(Concat("cannot read ", path, ": Input/output"))
                               : Status();
  });
  StatusOr<PollResult> result = PollNow();
  EXPECT_EQ(result.status().message(), "files.source 'in': cannot read /data/a.csv: Input/output");
  EXPECT_TRUE(result.status().retryable());
}

TEST_F(FilesSourceTest, FilesOfNoBytesHaveNoRows) {
  files_.PutFile("/data/a.csv", "");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
}

TEST_F(FilesSourceTest, APositionThatIsNoneIsRefused) {
  files_.PutFile("/data/a.csv", "id\n1\n");
  EXPECT_EQ(Open(Bounded({"/data/a.csv"}), {{"/data/a.csv", "nine"}}).code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace weir
