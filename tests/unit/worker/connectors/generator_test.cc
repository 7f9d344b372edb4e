// The rows of the generator are a contract: vectors from an independent script written from the
// comment of GeneratedRows, frequencies from the formulas of the distributions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/record/batch_builder.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/blackhole/blackhole.h"
#include "worker/connectors/generator/generated_rows.h"
#include "worker/connectors/generator/generator_source.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

using testing::ElementsAre;

TEST(GeneratedRows, Vectors) {
  struct Vector {
    int64_t seed;
    int split;
    int64_t offset;
    int64_t seq, key;
    double value;
    const char* payload;
  };
  for (const Vector& v : {
           Vector{0, 0, 0, 0, 0, 0.3381666012719897, "kelkhiclibcdjdnnaied"},
           Vector{0, 0, 1, 128, 8833, 0.9160981669305095, "dimiifjficneagfkiadp"},
           Vector{42, 3, 5, 643, 6990, 0.15119636881896747, "cggengfaekgfaeajchmm"},
           Vector{42, 127, 1000000, 128000127, 6922, 0.37425240335468224, "pmbhpbaeenmbfjdanaio"},
       }) {
    GeneratorConfig config;
    config.seed = v.seed;
    config.payload_bytes = 20;
    // Alone, and in the middle of a batch.
    for (int64_t before : {int64_t{0}, std::min<int64_t>(v.offset, 3)}) {
      RecordBatch batch = GeneratedRows(config).Make(v.split, v.offset - before, before + 2);
      EXPECT_EQ(batch.column(0).Int64(before), v.seq);
      EXPECT_EQ(batch.column(1).Int64(before), v.key);
      EXPECT_EQ(batch.column(2).Float64(before), v.value);
      EXPECT_EQ(batch.column(3).Text(before), v.payload);
    }
  }
  GeneratorConfig hot;
  hot.seed = 7;
  hot.splits = 4;
  hot.keys = 100;
  hot.distribution = KeyDistribution::kHot;
  hot.hot_fraction = 0.5;
  RecordBatch batch = GeneratedRows(hot).Make(1, 0, 12);
  std::vector<int64_t> keys;
  for (int i = 0; i < 12; ++i) keys.push_back(batch.column(1).Int64(i));
  EXPECT_THAT(keys, ElementsAre(32, 0, 0, 0, 0, 89, 0, 0, 0, 0, 49, 4));
}

// The contract of generated_rows.h once more, letter by letter.
TEST(GeneratedRows, PayloadsOfEverySizeAreThoseOfTheContract) {
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  for (const int size : {1, 15, 16, 17, 100, 127, 128, 129, 300}) {
    GeneratorConfig config;
    config.seed = 5;
    config.payload_bytes = size;
    const RecordBatch batch = GeneratedRows(config).Make(0, 3, 10);
    for (int64_t row = 0; row < 10; ++row) {
      const uint64_t r = mix(mix(mix(5)) + static_cast<uint64_t>(3 + row) * 0x9e3779b97f4a7c15);
      std::string expected;
      for (uint64_t word = 0; static_cast<int>(expected.size()) < size; ++word) {
        const uint64_t bits = mix(r + 2 + word);
        for (const int half : {0, 4}) {
          for (int byte = 0; byte < 8; ++byte) {
            expected += static_cast<char>('a' + ((bits >> (8 * byte + half)) & 15));
          }
        }
      }
      EXPECT_EQ(batch.column(3).Text(row), expected.substr(0, static_cast<size_t>(size)));
    }
  }
}

TEST(GeneratedRows, ZipfHasItsFrequencies) {
  struct Case {
    int64_t n;
    double exponent;
    std::vector<double> first;  // 1/k^exponent over the sum, by an independent script
  };
  for (const Case& c : {Case{10, 1.0, {0.3414, 0.1707, 0.1138, 0.0854, 0.0683}},
                        Case{1000, 1.2, {0.2306, 0.1004, 0.0617, 0.0437, 0.0334}},
                        Case{5, 0.5, {0.3094, 0.2188, 0.1787, 0.1547, 0.1384}}}) {
    GeneratorConfig config;
    config.keys = c.n;
    config.distribution = KeyDistribution::kZipf;
    config.zipf_exponent = c.exponent;
    constexpr int64_t kRows = 1'000'000;
    RecordBatch batch = GeneratedRows(config).Make(0, 0, kRows);
    std::vector<int64_t> counts(static_cast<size_t>(c.n));
    for (int64_t i = 0; i < kRows; ++i) {
      int64_t key = batch.column(1).Int64(i);
      ASSERT_GE(key, 0);
      ASSERT_LT(key, c.n);
      ++counts[static_cast<size_t>(key)];
    }
    for (size_t k = 0; k < c.first.size(); ++k) {
      // Five standard deviations and the rounding of the expected value.
      EXPECT_NEAR(static_cast<double>(counts[k]) / kRows, c.first[k], 0.0025) << k;
    }
  }
}

TEST(GeneratedRows, ZipfTakesTheLargestRange) {
  ZipfDistribution zipf(std::numeric_limits<int64_t>::max(), 0.1);
  for (uint64_t i = 0; i < 10'000; ++i) {
    EXPECT_GE(zipf.Draw(i * 0x9e3779b97f4a7c15), 1);
  }
  EXPECT_EQ(ZipfDistribution(1, 2.0).Draw(12345), 1);
}

TEST(GeneratorSource, ARateIsKept) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  Config config{{"rate", 300}, {"splits", 4}};
  FakeSourceContext context(executor, files, config, GeneratorSchema(*ParseGeneratorConfig(config)),
                            0, 2);
  GeneratorSource source;
  ASSERT_TRUE(source.Open(context, {}).ok());
  CollectingOutput output;
  for (int ms = 0; ms < 10'000; ++ms) {
    while (*source.Poll(output) == PollResult::kRows) {
    }
    executor.Advance(1000);
  }
  EXPECT_NEAR(static_cast<double>(output.rows()), 1500, 3);
}

// By arithmetic: row i of one subtask at 2,000 rows a second is due i / 2,000 s after the start,
// whenever the source is asked for it.
TEST(GeneratorSource, DueTimesAreThoseOfTheRateHoweverLateTheSourceIs) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  Config config{{"rate", 2000}, {"splits", 1}, {"payload_size", 3}, {"due_time", true}};
  FakeSourceContext context(executor, files, config, GeneratorSchema(*ParseGeneratorConfig(config)),
                            0, 1);
  GeneratorSource source;
  const int64_t start_us = executor.clock().WallMicros();
  ASSERT_TRUE(source.Open(context, {}).ok());
  CollectingOutput output;
  for (int64_t advance_us : {0, 500, 1'500, 400'000, 300, 700, 100'000}) {
    executor.Advance(advance_us);
    while (*source.Poll(output) == PollResult::kRows) {
    }
  }
  ASSERT_GT(output.rows(), 1000);
  int64_t row = 0;
  for (const RecordBatch& batch : output.batches()) {
    ASSERT_EQ(batch.columns(), 5);
    EXPECT_EQ(batch.schema()->field(4).name, "due");
    EXPECT_EQ(batch.column(4).type(), Type::kTimestamp);
    for (int64_t i = 0; i < batch.rows(); ++i, ++row) {
      EXPECT_NEAR(static_cast<double>(batch.column(4).Int64(i) - start_us),
                  static_cast<double>(row) * 500, 1);
    }
  }
  // What was stalled for longer than it catches up is due when it goes on, less that second.
  executor.Advance(5'000'000);
  CollectingOutput late;
  ASSERT_EQ(*source.Poll(late), PollResult::kRows);
  EXPECT_NEAR(
      static_cast<double>(executor.clock().WallMicros() - late.batches().at(0).column(4).Int64(0)),
      1'000'000, 1000);
}

TEST(GeneratorSource, TheNumberOfSplitsMustNotChange) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  Config config{{"splits", 4}};
  FakeSourceContext context(executor, files, config, GeneratorSchema(*ParseGeneratorConfig(config)),
                            0, 1);
  GeneratorSource source;
  EXPECT_EQ(source.Open(context, {{"4", "10"}}).code(), StatusCode::kInvalidArgument);
  GeneratorSource other;
  EXPECT_EQ(other.Open(context, {{"1", "ten"}}).code(), StatusCode::kDataLoss);
}

TEST(RateLimiter, SlowRatesGiveOneRowAtATime) {
  RateLimiter limiter(2, 0);
  EXPECT_EQ(limiter.Due(0), 1);
  limiter.Take(1);
  EXPECT_EQ(limiter.Due(0), 0);
  EXPECT_EQ(limiter.WaitMicros(), 500'000);
  EXPECT_EQ(limiter.Due(499'000), 0);
  EXPECT_EQ(limiter.Due(500'001), 1);
}

TEST(Blackhole, CountsAndPreparesAtOnce) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  FakeSinkContext context(executor, files, Config(), Schema({{"id", Type::kInt64}}), Generation(1));
  BlackholeSink sink;
  int answers = 0;
  sink.Open(context, [&](Status status) { answers += status.ok(); });
  BatchBuilder builder(context.input_schema());
  for (int i = 0; i < 5; ++i) builder.column(0).AppendInt64(i);
  ASSERT_TRUE(sink.Write(builder.Finish()).ok());
  sink.Prepare(CheckpointId(1), [&](StatusOr<std::vector<Committable>> listed) {
    answers += listed.ok() && listed->empty();
  });
  sink.Publish(CheckpointId(1), [&](Status status) { answers += status.ok(); });
  EXPECT_EQ(answers, 3);
  EXPECT_EQ(sink.rows(), 5);
  EXPECT_EQ(sink.bytes(), 40);
}

TEST(Blackhole, WithARateTakesNoMoreThanIsDueAndWakesTheTask) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  FakeSinkContext context(executor, files, Config{{"rate", 1000}}, Schema({{"id", Type::kInt64}}),
                          Generation(1));
  context.parallelism_ = 2;  // 500 of them here
  BlackholeSink sink;
  sink.Open(context, [](Status status) { ASSERT_TRUE(status.ok()); });
  int64_t batches = 0;
  for (int64_t ms = 0; ms < 10'000; ++ms) {
    while (sink.Ready()) {
      BatchBuilder builder(context.input_schema());
      for (int i = 0; i < 50; ++i) builder.column(0).AppendInt64(i);
      ASSERT_TRUE(sink.Write(builder.Finish()).ok());
      ++batches;
    }
    EXPECT_EQ(sink.blocking_reason(), "its rate");
    executor.Advance(1000);
  }
  EXPECT_TRUE(context.woken_);
  // 5,000 rows in ten seconds, and what the last batch took ahead.
  EXPECT_GE(batches, 100);
  EXPECT_LE(batches, 102);
  sink.Close();
}

}  // namespace
}  // namespace weir
