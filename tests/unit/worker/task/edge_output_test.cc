// Goal: every row goes to the subtask that surface.md gives its key, order and barriers are kept,
// and small pieces become batches. Method: local channels at the far end; targets are computed from
// key vectors of tests/unit/record (SubtaskOf and HashKeys have their own vectors there).

#include "worker/task/edge_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/record/key_group.h"
#include "worker/network/local_channel.h"

namespace weir {
namespace {

SchemaPtr MakeSchema() {
  return std::make_shared<const Schema>(Schema({{"key", Type::kInt64}, {"text", Type::kString}}));
}

RecordBatchPtr MakeBatch(const SchemaPtr& schema, int64_t first, int64_t count,
                         const std::string& text = "x") {
  BatchBuilder builder(schema);
  for (int64_t i = 0; i < count; ++i) {
    builder.column(0).AppendInt64(first + i);
    builder.column(1).AppendText(text);
  }
  return std::make_shared<const RecordBatch>(builder.Finish());
}

class EdgeOutputTest : public testing::Test {
 protected:
  std::unique_ptr<EdgeOutput> Make(Partitioning partitioning, int receivers,
                                   JobOptions options = {}) {
    ExecutionPlan::Edge edge;
    edge.partitioning = partitioning;
    edge.columns = columns_;
    edge.schema = schema_;
    if (partitioning == Partitioning::kHash) edge.key_columns = {0};
    std::vector<ChannelSender*> senders;
    for (int i = 0; i < receivers; ++i) {
      channels_.push_back(std::make_unique<LocalChannel>(1 << 20));
      senders.push_back(channels_.back().get());
    }
    return std::make_unique<EdgeOutput>(edge, 128, options, senders);
  }
  // Keys, and "|" for anything else, in the order they came.
  std::vector<int64_t> Drain(int channel) {
    std::vector<int64_t> keys;
    StreamElement element;
    while (*channels_[channel]->TryPop(&element)) {
      if (auto* batch = std::get_if<RecordBatchPtr>(&element)) {
        ++batches_;
        for (int64_t i = 0; i < (*batch)->rows(); ++i) keys.push_back((*batch)->column(0).Int64(i));
      } else {
        keys.push_back(-1);
      }
    }
    return keys;
  }

  std::vector<int> columns_;
  SchemaPtr schema_ = MakeSchema();
  std::vector<std::unique_ptr<LocalChannel>> channels_;
  int batches_ = 0;
};

TEST_F(EdgeOutputTest, HashSendsEachKeyToTheSubtaskOfItsKeyGroupInOrder) {
  auto output = Make(Partitioning::kHash, 3);
  RecordBatchPtr batch = MakeBatch(schema_, 0, 1000);
  ASSERT_TRUE(output->Emit(batch).ok());
  EXPECT_TRUE(output->holds_rows());
  output->Broadcast(Barrier{CheckpointId(1), 0});
  EXPECT_FALSE(output->holds_rows());
  std::vector<uint64_t> hashes;
  int key[] = {0};
  HashKeys(*batch, key, &hashes);
  std::vector<std::vector<int64_t>> expected(3);
  for (int64_t i = 0; i < 1000; ++i) {
    expected[SubtaskOf(KeyGroupOf(hashes[i], 128), 128, 3)].push_back(i);
  }
  for (int i = 0; i < 3; ++i) {
    expected[i].push_back(-1);
    EXPECT_GT(expected[i].size(), 100u);
    EXPECT_EQ(Drain(i), expected[i]);
  }
}

TEST_F(EdgeOutputTest, SmallBatchesAreGatheredUpToTheRowLimit) {
  JobOptions options;
  options.batch_rows_max = 50;
  auto output = Make(Partitioning::kHash, 2, options);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(output->Emit(MakeBatch(schema_, i * 10, 10)).ok());
  std::vector<int64_t> before = Drain(0);
  EXPECT_EQ(before.size() % 50, 0u);
  EXPECT_EQ(batches_, static_cast<int>(before.size() / 50));
  output->Flush();
  std::vector<int64_t> rest0 = Drain(0), rest1 = Drain(1);
  EXPECT_EQ(before.size() + rest0.size() + rest1.size(), 1000u);
}

TEST_F(EdgeOutputTest, ALargeBatchForOneReceiverGoesAsItIsBehindWhatWasHeld) {
  JobOptions options;
  options.batch_rows_max = 100;
  auto output = Make(Partitioning::kHash, 2, options);
  std::vector<uint64_t> hashes;
  int key[] = {0};
  HashKeys(*MakeBatch(schema_, 7, 1), key, &hashes);
  const int target = SubtaskOf(KeyGroupOf(hashes[0], 128), 128, 2);
  const auto all_of_key_7 = [&](int count) {
    return std::make_shared<const RecordBatch>(
        MakeBatch(schema_, 7, 1)->Select(std::vector<int32_t>(static_cast<size_t>(count), 0)));
  };
  const RecordBatchPtr small = all_of_key_7(20);
  const RecordBatchPtr large = all_of_key_7(50);
  ASSERT_TRUE(output->Emit(small).ok());
  ASSERT_TRUE(output->Emit(large).ok());
  EXPECT_FALSE(output->holds_rows());
  StreamElement element;
  ASSERT_TRUE(*channels_[target]->TryPop(&element));
  EXPECT_EQ(std::get<RecordBatchPtr>(element)->rows(), 20);
  ASSERT_TRUE(*channels_[target]->TryPop(&element));
  EXPECT_EQ(std::get<RecordBatchPtr>(element), large);
  EXPECT_FALSE(*channels_[target]->TryPop(&element));
}

// Rows of fixed width are written to many receivers one after another, others are gathered: batches
// of all sizes with and without nulls and with a key that most rows have, one after the other.
TEST_F(EdgeOutputTest, ManyReceiversGetTheirRowsInOrderWhateverTheBatchesAreLike) {
  constexpr int kReceivers = 12;
  schema_ = std::make_shared<const Schema>(
      Schema({{"key", Type::kInt64}, {"number", Type::kInt32}, {"odd", Type::kBool}}));
  auto output = Make(Partitioning::kHash, kReceivers);
  std::vector<std::vector<int32_t>> expected(kReceivers);
  std::vector<std::vector<int32_t>> got(kReceivers);
  std::vector<std::vector<int64_t>> batch_rows(kReceivers);
  int32_t number = 0;
  const auto is_null = [](int32_t at) { return at % 50'000 > 40'000 && at % 7 == 0; };
  const auto key_of = [](int32_t at) { return at % 30'000 < 10'000 && at % 10 != 0 ? -1 : at; };
  const auto drain = [&] {
    StreamElement element;
    for (int channel = 0; channel < kReceivers; ++channel) {
      while (*channels_[channel]->TryPop(&element)) {
        const RecordBatchPtr& batch = std::get<RecordBatchPtr>(element);
        batch_rows[channel].push_back(batch->rows());
        for (int64_t row = 0; row < batch->rows(); ++row) {
          got[channel].push_back(batch->column(1).Int32(row));
          ASSERT_EQ(batch->column(0).Int64(row), key_of(got[channel].back()));
          ASSERT_EQ(batch->column(2).IsNull(row), is_null(got[channel].back()));
          if (batch->column(2).IsNull(row)) continue;
          ASSERT_EQ(batch->column(2).Bool(row), got[channel].back() % 2 == 1);
        }
      }
    }
  };
  for (int round = 0; round < 40; ++round) {
    for (const int rows : {1, 4096, 95, 96, 700, 9000}) {
      BatchBuilder builder(schema_);
      for (int i = 0; i < rows; ++i, ++number) {
        builder.column(0).AppendInt64(key_of(number));
        builder.column(1).AppendInt32(number);
        if (is_null(number)) {
          builder.column(2).AppendNull();
        } else {
          builder.column(2).AppendBool(number % 2 == 1);
        }
      }
      const auto batch = std::make_shared<const RecordBatch>(builder.Finish());
      std::vector<uint64_t> hashes;
      int key[] = {0};
      HashKeys(*batch, key, &hashes);
      for (int i = 0; i < rows; ++i) {
        const int group = KeyGroupOf(hashes[static_cast<size_t>(i)], 128);
        expected[SubtaskOf(group, 128, kReceivers)].push_back(number - rows + i);
      }
      ASSERT_TRUE(output->Emit(batch).ok());
      drain();
    }
    if (round % 8 == 0) output->Flush();
  }
  output->Flush();
  EXPECT_FALSE(output->holds_rows());
  drain();
  EXPECT_EQ(got, expected);
  for (const std::vector<int64_t>& rows : batch_rows) {
    EXPECT_LE(std::ranges::max(rows), 4096);
    EXPECT_GT(std::ranges::count_if(rows, [](int64_t of_batch) { return of_batch >= 3840; }), 2);
  }
}

TEST_F(EdgeOutputTest, RebalanceGoesRoundAndBroadcastGoesEverywhere) {
  auto rebalance = Make(Partitioning::kRebalance, 2);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rebalance->Emit(MakeBatch(schema_, i, 1)).ok());
  EXPECT_EQ(Drain(0), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(Drain(1), (std::vector<int64_t>{1, 3}));
  channels_.clear();
  auto broadcast = Make(Partitioning::kBroadcast, 2);
  ASSERT_TRUE(broadcast->Emit(MakeBatch(schema_, 5, 2)).ok());
  EXPECT_EQ(Drain(0), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(Drain(1), (std::vector<int64_t>{5, 6}));
}

TEST_F(EdgeOutputTest, OnlyTheColumnsOfTheEdgeAreSent) {
  const auto wide = std::make_shared<const Schema>(Schema(
      {{"a", Type::kString}, {"key", Type::kInt64}, {"b", Type::kInt64}, {"text", Type::kString}}));
  BatchBuilder builder(wide);
  for (int64_t i = 0; i < 200; ++i) {
    builder.column(0).AppendText("a column that nobody reads");
    builder.column(1).AppendInt64(i);
    builder.column(2).AppendNull();
    builder.column(3).AppendText("four");
  }
  const auto batch = std::make_shared<const RecordBatch>(builder.Finish());
  for (const Partitioning partitioning : {Partitioning::kForward, Partitioning::kHash,
                                          Partitioning::kRebalance, Partitioning::kBroadcast}) {
    channels_.clear();
    columns_ = {1, 3};
    const int receivers = partitioning == Partitioning::kForward ? 1 : 2;
    auto output = Make(partitioning, receivers);
    ASSERT_TRUE(output->Emit(batch).ok());
    output->Flush();
    int64_t rows = 0;
    for (const auto& channel : channels_) {
      StreamElement element;
      while (*channel->TryPop(&element)) {
        const RecordBatch& sent = *std::get<RecordBatchPtr>(element);
        ASSERT_EQ(sent.columns(), 2);
        EXPECT_EQ(*sent.schema(), *schema_);
        for (int64_t i = 0; i < sent.rows(); ++i) EXPECT_EQ(sent.column(1).Text(i), "four");
        rows += sent.rows();
      }
    }
    EXPECT_EQ(rows, partitioning == Partitioning::kBroadcast ? 400 : 200);
    // 8 bytes of the key, 4 of the offset and 4 of the text.
    EXPECT_EQ(output->TakeEmittedBytes(), 200 * 16);
    EXPECT_EQ(output->TakeEmittedBytes(), 0);
  }
}

// Every batch of an even number of rows becomes one partial row of its first key.
class EvenBatches : public RowCombiner {
 public:
  explicit EvenBatches(SchemaPtr schema) : schema_(std::move(schema)) {}
  RecordBatchPtr Combine(const RecordBatch& batch) override {
    if (batch.rows() % 2 != 0) return nullptr;
    BatchBuilder builder(schema_);
    builder.column(0).AppendInt64(batch.column(0).Int64(0));
    builder.column(1).AppendInt64(batch.rows());
    return std::make_shared<const RecordBatch>(builder.Finish());
  }

 private:
  const SchemaPtr schema_;
};

TEST_F(EdgeOutputTest, RowsPartialRowsAndBarriersDoNotOvertakeEachOther) {
  const auto partial =
      std::make_shared<const Schema>(Schema({{"key", Type::kInt64}, {"rows", Type::kInt64}}, 1));
  for (const int receivers : {1, 3}) {
    channels_.clear();
    auto output = Make(Partitioning::kHash, receivers);
    output->Combine(std::make_unique<EvenBatches>(partial), partial, JobOptions());
    // Keys 0, 1, 2 ... in batches of changing size; of an even one only the first is sent.
    std::vector<int64_t> sent;
    int64_t next = 0;
    for (const int rows : {1, 4, 3, 1, 2, 2, 5, 6, 1, 1}) {
      ASSERT_TRUE(output->Emit(MakeBatch(schema_, next, rows)).ok());
      for (int i = 0; i < (rows % 2 == 0 ? 1 : rows); ++i) sent.push_back(next + i);
      next += rows;
      if (rows == 5) {
        output->Broadcast(Barrier{CheckpointId(1), 0});
        EXPECT_FALSE(output->holds_rows());
        sent.push_back(-1);
      }
    }
    EXPECT_EQ(output->holds_rows(), receivers > 1);
    output->Flush();
    EXPECT_FALSE(output->holds_rows());
    // 12 rows of 8 bytes of key, an offset and a byte of text; 4 partial ones of 16 bytes.
    EXPECT_EQ(output->TakeEmittedBytes(), 12 * 13 + 4 * 16);
    size_t received = 0;
    for (int i = 0; i < receivers; ++i) {
      // What came here, in the order in which it was sent.
      const std::vector<int64_t> keys = Drain(i);
      auto at = sent.begin();
      for (const int64_t key : keys) {
        at = std::find(at, sent.end(), key);
        ASSERT_NE(at, sent.end()) << key;
        ++at;
      }
      received += keys.size();
    }
    EXPECT_EQ(received, sent.size() + receivers - 1);
  }
}

TEST_F(EdgeOutputTest, ARowAboveTheLimitIsAnErrorAndABigBatchIsCut) {
  auto output = Make(Partitioning::kForward, 1);
  Status status = output->Emit(MakeBatch(schema_, 0, 1, std::string((64 << 20) + 1, 'a')));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("67108864"), std::string::npos);
  ASSERT_TRUE(output->Emit(MakeBatch(schema_, 10, 3, std::string(30 << 20, 'a'))).ok());
  EXPECT_EQ(Drain(0), (std::vector<int64_t>{10, 11, 12}));
  EXPECT_EQ(batches_, 2);
}

}  // namespace
}  // namespace weir
