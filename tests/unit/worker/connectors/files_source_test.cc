// FilesSource beyond the contract of all sources: messages, limits, files that grow, and files that
// are no longer what was read. Hashes in positions are those of libxxhash, called from Python.
#include "worker/connectors/files/files_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <random>

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
  const FilePosition tail{1030, 17, true, 1024, 0xa1b2c3};
  EXPECT_EQ(EncodeFilePosition(tail), "1030 17 end tail 1024 0000000000a1b2c3");
  EXPECT_EQ(*DecodeFilePosition("1030 17 end tail 1024 0000000000a1b2c3"), tail);
  for (const char* bad :
       {"", "5", "5 ", "x 1", "-5 1", "5 1 en", "5 1 end ", "5  1", "5 1 tail", "5 1 tail 5",
        "5 1 tail 6 0000000000a1b2c3", "5 1 tail 0 0000000000a1b2c3", "5 1 tail 5 a1b2c3",
        "5 1 tail 5 0000000000a1b2c3 ", "5 1 tail 5 0000000000a1b2cx",
        "5000 1 tail 1025 0000000000a1b2c3"}) {
    EXPECT_FALSE(DecodeFilePosition(bad).has_value()) << bad;
  }
}

TEST_F(FilesSourceTest, PositionIsTheOffsetAndLineOfTheNextRow) {
  options_.batch_rows_max = 1;
  files_.PutFile("/data/a.csv", "id,t\n1,x\n2,\"a\nb\"\n33,x\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  executor_.RunAll();
  ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
  EXPECT_THAT(source_->SnapshotPositions(),
              ElementsAre(SplitState{"/data/a.csv", "9 3 tail 9 eec20d5191d4344a"}));
  ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
  EXPECT_THAT(source_->SnapshotPositions(),
              ElementsAre(SplitState{"/data/a.csv", "17 5 tail 17 8628d0831d766d77"}));
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 33));
  EXPECT_THAT(source_->SnapshotPositions(),
              ElementsAre(SplitState{"/data/a.csv", "22 6 end tail 22 3d53aaf50ff2fdf7"}));
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

TEST_F(FilesSourceTest, AFileOfOtherBytesThanThoseThatWereReadIsAnError) {
  const SplitState read{"/data/a.csv", "7 4 tail 7 441e5f3d4e6b3969"};  // "id\n1\n2\n"
  const std::string message =
      "files.source 'in': /data/a.csv is read up to offset 7, but other bytes stand in front of it "
      "now: the file was replaced or written over";
  for (const bool follow : {false, true}) {
    const Config config = follow ? Following() : Bounded({"/data/a.csv"});
    files_.PutFile("/data/a.csv", "id\n1\n2\n3\n");
    ASSERT_TRUE(Open(config, {read}).ok());
    EXPECT_THAT(Ids(), ElementsAre(3));
    for (const char* other : {"id\n1\n4\n", "id\n1\n4\n3\n"}) {
      files_.PutFile("/data/a.csv", other);
      ASSERT_TRUE(Open(config, {read}).ok());
      StatusOr<PollResult> result = PollNow();
      EXPECT_EQ(result.status().message(), message);
      EXPECT_FALSE(result.status().retryable());
      EXPECT_EQ(output_.rows(), 0);
    }
  }
}

TEST_F(FilesSourceTest, PositionsOfEarlierVersionsAreGoneOnFrom) {
  files_.PutFile("/data/a.csv", "id\n1\n2\n3\n");
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"}), {{"/data/a.csv", "5 3"}}).ok());
  EXPECT_EQ(source_->SnapshotPositions()[0].position, "5 3");  // nothing was read as yet
  executor_.RunAll();
  options_.batch_rows_max = 1;
  context_->options_ = options_;
  ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
  EXPECT_EQ(source_->SnapshotPositions()[0].position, "7 4 tail 7 441e5f3d4e6b3969");
  EXPECT_THAT(Ids(), ElementsAre(2, 3));
}

TEST_F(FilesSourceTest, ARestoredPositionStaysWhatItIsUntilItsFileWasRead) {
  const SplitState read{"/data/a.csv", "7 4 tail 7 441e5f3d4e6b3969"};
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"}), {read}).ok());
  EXPECT_THAT(source_->SnapshotPositions(), ElementsAre(read));
}

TEST_F(FilesSourceTest, FollowingReportsAFileThatIsReplaced) {
  // Of the same size, larger, and written over in place.
  for (const char* other : {"id\n7\n8\n", "id\n7\n8\n9\n", "id\n1\n3\n"}) {
    files_.PutFile("/data/a.csv", "id\n1\n2\n");
    ASSERT_TRUE(Open(Following()).ok());
    EXPECT_THAT(Ids(), ElementsAre(1, 2));
    if (std::string_view(other) == "id\n1\n3\n") {
      files_.WriteAt("/data/a.csv", 5, "3", [](Status status) { EXPECT_TRUE(status.ok()); });
    } else {
      files_.PutFile("/data/a.csv", other);
    }
    executor_.Advance(1'000'000);
    EXPECT_EQ(Error(),
              "files.source 'in': /data/a.csv is read up to offset 7, but other bytes stand in "
              "front of it now: the file was replaced or written over")
        << other;
    EXPECT_THAT(output_.Int64s(0), ElementsAre(1, 2));
  }
  // Another file of the same bytes is as good as the one that was read.
  files_.PutFile("/data/a.csv", "id\n1\n2\n");
  ASSERT_TRUE(Open(Following()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  files_.PutFile("/data/a.csv", "id\n1\n2\n3\n");
  executor_.Advance(1'000'000);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 3));
}

TEST_F(FilesSourceTest, AFileThatChangesWhileItIsReadIsReported) {
  std::string text = "id\n";
  for (int i = 0; text.size() < 5'000'000; ++i) text += Concat(i, "\n");
  std::string other = text;
  std::replace(other.begin() + 3, other.end(), '1', '2');
  for (const bool shrinks : {false, true}) {
    files_.PutFile("/data/a.csv", text);
    ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
    executor_.RunAll();
    ASSERT_EQ(*source_->Poll(output_), PollResult::kRows);
    files_.PutFile("/data/a.csv", shrinks ? text.substr(0, 500'000) : other);
    EXPECT_THAT(Error(), HasSubstr(shrinks ? "but it has only 500000 bytes now"
                                           : "other bytes stand in front of it now"));
  }
}

TEST_F(FilesSourceTest, ARowThatIsTooLongIsABadRowWhereverItEnds) {
  const std::string front = "id\n1\n";
  for (const char* behind : {"\n2\n3", "\n", ""}) {
    files_.PutFile("/data/a.csv", front + std::string(kTextRowBytesMax + 5'000'000, 'x') + behind);
    ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
    EXPECT_EQ(Error(),
              "files.source 'in': /data/a.csv line 3 (offset 5): a row is longer than 67108864 "
              "bytes");
    Config config = Bounded({"/data/a.csv"});
    config.Set("bad_data", "drop");
    ASSERT_TRUE(Open(config).ok());
    const bool rows_follow = std::string_view(behind).size() > 1;
    EXPECT_EQ(Ids(), rows_follow ? std::vector<int64_t>({1, 2, 3}) : std::vector<int64_t>({1}));
    EXPECT_EQ(context_->dropped_, 1);
    EXPECT_EQ(*PollNow(), PollResult::kEnded);
  }
}

TEST_F(FilesSourceTest, InARowThatIsTooLongThePositionStaysInFrontOfIt) {
  files_.PutFile("/data/a.csv", "id\n1\n2\n" + std::string(kTextRowBytesMax + 10, 'x'));
  Config config = Following();
  config.Set("bad_data", "drop");
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  const std::vector<SplitState> positions = source_->SnapshotPositions();
  EXPECT_THAT(positions, ElementsAre(SplitState{"/data/a.csv", "7 4 tail 7 441e5f3d4e6b3969"}));
  EXPECT_EQ(context_->dropped_, 0);
  files_.WriteAt("/data/a.csv", 7 + static_cast<int64_t>(kTextRowBytesMax) + 10, "\n4\n",
                 [](Status) {});
  executor_.Advance(1'000'000);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 4));
  EXPECT_EQ(context_->dropped_, 1);
  ASSERT_TRUE(Open(config, positions).ok());
  EXPECT_THAT(Ids(), ElementsAre(4));
  EXPECT_EQ(context_->dropped_, 1);
}

// Rows with everything that a cut may go through: characters of several bytes, quotes, CRLF.
struct CutText {
  Config config;
  std::string text;
};
std::vector<CutText> CutTexts() {
  return {{Config{{"path", "/data/a"}, {"format", "csv"}},
           "\xef\xbb\xbfid,name\r\n1,\"Gr\u00fc\u00dfe, "
           "\"\"\U0001f30a\"\"\r\n\"\r\n\n2,\u00e9\r\n3,\"\"\n"},
          {Config{{"path", "/data/a"},
                  {"format", "json"},
                  {"schema", ConfigMembers{{"id", "INT64"}, {"name", "STRING"}}}},
           "\xef\xbb\xbf{\"id\":1,\"name\":\"\U0001f30a\\u00fc\\\"\"}\r\n\n{\"name\":\"\u00e9\","
           "\"id\":2}\n"
           "{\"id\":3}\n"}};
}

class FilesSourceCutTest : public FilesSourceTest {
 protected:
  // What is there of it as "id:name"; `bad` as well.
  std::vector<std::string> Rows(Config config, const std::vector<SplitState>& restored,
                                std::vector<SplitState>* positions) {
    config.Set("bad_data", "drop");
    context_ = std::make_unique<FakeSourceContext>(
        executor_, files_, std::move(config),
        Schema({{"id", Type::kInt64}, {"name", Type::kString}}), 0, 1);
    output_ = CollectingOutput();
    source_ = std::make_unique<FilesSource>();
    EXPECT_TRUE(source_->Open(*context_, restored).ok());
    StatusOr<PollResult> result = PollNow();
    EXPECT_TRUE(result.ok()) << result.status();
    *positions = source_->SnapshotPositions();
    std::vector<std::string> rows;
    for (const RecordBatch& batch : output_.batches()) {
      for (int64_t row = 0; row < batch.rows(); ++row) {
        const Column& name = batch.column(1);
        rows.push_back(
            Concat(batch.column(0).Int64(row), ':', name.IsNull(row) ? "null" : name.Text(row)));
      }
    }
    for (int64_t i = 0; i < context_->dropped_; ++i) rows.push_back("bad");
    return rows;
  }
};

TEST_F(FilesSourceCutTest, WrittenInTwoPartsWithARestartInBetweenGivesTheSameRows) {
  const std::vector<std::vector<std::string>> expected = {
      {"1:Gr\u00fc\u00dfe, \"\U0001f30a\"\r\n", "2:\u00e9", "3:", "bad"},  // bad: the empty line
      {"1:\U0001f30a\u00fc\"", "2:\u00e9", "3:null"}};
  for (size_t kind = 0; kind < 2; ++kind) {
    CutText cut = CutTexts()[kind];
    cut.config.Set("follow", true);
    for (size_t at = 0; at <= cut.text.size(); ++at) {
      SCOPED_TRACE(Concat(kind, " cut at ", at));
      std::vector<SplitState> positions;
      files_.PutFile("/data/a", cut.text.substr(0, at));
      std::vector<std::string> rows = Rows(cut.config, {}, &positions);
      files_.PutFile("/data/a", cut.text);
      for (std::string& row : Rows(cut.config, positions, &positions)) rows.push_back(row);
      std::sort(rows.begin(), rows.end());
      ASSERT_EQ(rows, expected[kind]);
    }
  }
}

TEST_F(FilesSourceCutTest, AnUnterminatedLastLineCountsOnceAtTheEndUnlessItMayGoOn) {
  for (size_t kind = 0; kind < 2; ++kind) {
    CutText cut = CutTexts()[kind];
    std::string text = cut.text.substr(0, cut.text.size() - 1);
    files_.PutFile("/data/a", text);
    std::vector<SplitState> positions;
    Config following = cut.config;
    following.Set("follow", true);
    EXPECT_THAT(Rows(following, {}, &positions),
                testing::Not(testing::Contains(testing::StartsWith("3:"))));
    Config bounded = cut.config;
    bounded.Set("files", ConfigList{"/data/a"});
    EXPECT_THAT(Rows(bounded, {}, &positions), testing::Contains(testing::StartsWith("3:")));
    EXPECT_THAT(Rows(bounded, positions, &positions), IsEmpty());
  }
}

// The bytes of a position's tail come from buffers that are handed on from chunk to chunk.
TEST_F(FilesSourceTest, PositionsAreOfTheFilesBytesWhereverAChunkEnds) {
  std::string text = "id\n";
  std::mt19937_64 random(4);
  std::vector<int64_t> wanted;
  while (text.size() < (size_t{3} << 20)) {
    // Rows of 2 bytes to beyond the length of a tail.
    wanted.push_back(static_cast<int64_t>(wanted.size() % 1000));
    text += std::string(random() % 3 == 0 ? random() % 3000 : 0, '0');
    text += std::to_string(wanted.back()) + "\n";
  }
  files_.PutFile("/data/a.csv", text);
  options_.batch_rows_max = 7;
  ASSERT_TRUE(Open(Bounded({"/data/a.csv"})).ok());
  int positions = 0;
  while (true) {
    executor_.RunAll();
    const StatusOr<PollResult> result = source_->Poll(output_);
    ASSERT_TRUE(result.ok()) << result.status();
    if (*result == PollResult::kEnded) break;
    if (*result != PollResult::kRows) continue;
    const FilePosition at = *DecodeFilePosition(source_->SnapshotPositions()[0].position);
    ASSERT_EQ(at.tail_bytes, std::min(at.offset, kFileTailBytes));
    const size_t tail_bytes = static_cast<size_t>(at.tail_bytes);
    ASSERT_EQ(at.tail_hash,
              XXH3_64bits(text.data() + static_cast<size_t>(at.offset) - tail_bytes, tail_bytes));
    ASSERT_EQ(text[static_cast<size_t>(at.offset) - 1], '\n');
    ++positions;
  }
  EXPECT_GT(positions, 100);
  EXPECT_EQ(output_.Int64s(0), wanted);
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
