// Goal: what a snapshot wrote is what a restore reads, and a file that was damaged, cut or lost is
// named and never taken for state. Method: the in-memory disk, damaged by hand.

#include "worker/checkpoint/snapshot_files.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

class SnapshotFiles : public testing::Test {
 protected:
  SnapshotFiles() { files_.PutDirectory("/job/chk-3.2"); }

  StatusOr<std::vector<StateHandle>> Write(FrozenState state) {
    std::optional<StatusOr<std::vector<StateHandle>>> result;
    auto flow = [](FileSystem& files, FrozenState state,
                   std::optional<StatusOr<std::vector<StateHandle>>>* result) -> Co<void> {
      result->emplace(
          co_await WriteStateFiles(files, "/job", "chk-3.2", "count", 1, "u7", std::move(state)));
    };
    scope_.Spawn(flow(files_, std::move(state), &result));
    executor_.RunAll();
    return *result;
  }
  StatusOr<std::string> Read(StateHandle handle) {
    std::optional<StatusOr<std::string>> result;
    auto flow = [](FileSystem& files, StateHandle handle,
                   std::optional<StatusOr<std::string>>* result) -> Co<void> {
      result->emplace(co_await ReadStateFile(files, "/job", handle));
    };
    scope_.Spawn(flow(files_, handle, &result));
    executor_.RunAll();
    return *result;
  }

  ManualExecutor executor_;
  MemoryFileSystem files_{executor_};
  CoScope scope_;
};

TEST_F(SnapshotFiles, PositionsReadBackAsWritten) {
  std::vector<SplitState> positions = {
      {"/in/part-0.csv", "17"}, {"", ""}, {"b", std::string(3, 0)}};
  StatusOr<std::vector<SplitState>> read = DecodePositions(EncodePositions(positions));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, positions);
  std::string bytes = EncodePositions(positions);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodePositions(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodePositions(bytes + "x").ok());
}

TEST_F(SnapshotFiles, KeyGroupsLieWhereTheirSlicesSay) {
  FrozenState state;
  state.keyed = std::make_shared<ChunkStream>();
  state.keyed->Put({{4, "abc"}, {9, std::string(5 << 20, 'z')}, {10, "de"}});
  state.keyed->Close();
  StatusOr<std::vector<StateHandle>> handles = Write(std::move(state));
  ASSERT_TRUE(handles.ok()) << handles.status();
  ASSERT_EQ(handles->size(), 1u);
  const StateHandle& handle = (*handles)[0];
  EXPECT_EQ(handle.path, "chk-3.2/count-1-u7-keyed");
  EXPECT_EQ(handle.length, 3 + (5 << 20) + 2);
  EXPECT_EQ(handle.slices,
            (std::vector<KeyGroupSlice>{{4, 0, 3}, {9, 3, 5 << 20}, {10, 3 + (5 << 20), 2}}));
  StatusOr<std::string> bytes = Read(handle);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->substr(0, 4), "abcz");
  EXPECT_EQ(bytes->substr(bytes->size() - 3), "zde");
}

TEST_F(SnapshotFiles, ChunksAreWrittenAsTheyCome) {
  FrozenState state;
  auto keyed = state.keyed = std::make_shared<ChunkStream>();
  std::optional<StatusOr<std::vector<StateHandle>>> result;
  auto flow = [](FileSystem& files, FrozenState state,
                 std::optional<StatusOr<std::vector<StateHandle>>>* result) -> Co<void> {
    result->emplace(
        co_await WriteStateFiles(files, "/job", "chk-3.2", "count", 1, "u7", std::move(state)));
  };
  scope_.Spawn(flow(files_, std::move(state), &result));
  std::string whole;
  for (int i = 0; i < 40; ++i) {
    const std::string chunk(300 << 10, static_cast<char>('a' + i % 26));
    whole += chunk;
    keyed->Put({{i / 2, chunk}});
    executor_.RunAll();
    // No more than what does not make a write yet is kept.
    EXPECT_LT(keyed->bytes(), 1 << 20);
  }
  EXPECT_FALSE(result.has_value());
  keyed->Close();
  executor_.RunAll();
  ASSERT_TRUE(result.has_value());
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(keyed->bytes(), 0);
  const StateHandle& handle = (**result)[0];
  ASSERT_EQ(handle.slices.size(), 40u);
  EXPECT_EQ(handle.slices[7], (KeyGroupSlice{3, 7 * (300 << 10), 300 << 10}));
  EXPECT_EQ(*Read(handle), whole);
}

TEST_F(SnapshotFiles, ADroppedSnapshotEndsHalfWay) {
  FrozenState state;
  auto keyed = state.keyed = std::make_shared<ChunkStream>();
  std::optional<StatusOr<std::vector<StateHandle>>> result;
  auto flow = [](FileSystem& files, FrozenState state,
                 std::optional<StatusOr<std::vector<StateHandle>>>* result) -> Co<void> {
    result->emplace(
        co_await WriteStateFiles(files, "/job", "chk-3.2", "count", 1, "u7", std::move(state)));
  };
  scope_.Spawn(flow(files_, std::move(state), &result));
  keyed->Put({{0, std::string(2 << 20, 'a')}});
  executor_.RunAll();
  keyed->Put({{1, std::string(2 << 20, 'b')}, {1, "c"}});
  keyed->Drop();
  EXPECT_FALSE(result.has_value());  // a write is under way
  executor_.RunAll();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), StatusCode::kCancelled);
  EXPECT_EQ(keyed->bytes(), 0);
}

TEST_F(SnapshotFiles, ADamagedFileIsNamedAndNotRetried) {
  FrozenState state;
  state.has_positions = true;
  state.positions = {{"a", "1"}};
  StatusOr<std::vector<StateHandle>> handles = Write(std::move(state));
  ASSERT_TRUE(handles.ok());
  StateHandle handle = (*handles)[0];
  std::string path = "/job/" + handle.path;
  std::string whole = files_.Bytes(path);

  std::string flipped = whole;
  flipped[5] ^= 1;
  files_.PutFile(path, flipped);
  StatusOr<std::string> read = Read(handle);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(read.status().retryable());
  EXPECT_NE(read.status().message().find(path), std::string::npos);

  files_.PutFile(path, whole.substr(0, whole.size() - 1));
  EXPECT_EQ(Read(handle).status().code(), StatusCode::kDataLoss);
  handle.path = "chk-3.2/gone";
  EXPECT_EQ(Read(handle).status().code(), StatusCode::kNotFound);
}

TEST_F(SnapshotFiles, AFullDiskIsReportedAndSyncIsAwaited) {
  files_.set_before([](std::string_view operation, const std::string&) {
    return operation == "sync" ? ResourceExhaustedError("no space left") : Status();
  });
  FrozenState state;
  state.has_positions = true;
  EXPECT_EQ(Write(std::move(state)).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace weir
