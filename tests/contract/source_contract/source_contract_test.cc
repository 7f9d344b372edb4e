// What every bounded Source owes the task (common/operator/source.h): each row once, whatever the
// parallelism; a snapshot after any Poll is exactly behind the rows emitted so far, and may be
// restored at another parallelism. Each kind knows its rows from outside: their ids in column 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>

#include "common/base/concat.h"
#include "common/graph/builtin_configs.h"
#include "common/graph/kafka_configs.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/fake_kafka_consumer.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/files/files_source.h"
#include "worker/connectors/generator/generator_source.h"
#include "worker/connectors/kafka/source/kafka_source.h"

namespace weir {
namespace {

struct Kind {
  std::string name;
  Config config;
  Schema schema;
  std::function<std::unique_ptr<Source>()> make;
  std::function<void(MemoryFileSystem&)> arrange;
  std::vector<int64_t> ids;               // of all rows, sorted
  std::function<int64_t(int64_t)> group;  // ids of one group come in growing order
};

// Five files with 0, 1, 7, 40 and 100 rows; row i of file f has the id 1000 f + i.
constexpr int kFileRows[] = {0, 1, 7, 40, 100};

Kind Files(std::string name, Config config, std::function<std::string(int file)> text) {
  Kind kind;
  kind.name = std::move(name);
  kind.schema = Schema({{"id", Type::kInt64}, {"name", Type::kString}});
  ConfigList paths;
  for (int f = 0; f < 5; ++f) {
    paths.emplace_back(Concat("/data/part-", f));
    for (int i = 0; i < kFileRows[f]; ++i) kind.ids.push_back(1000 * f + i);
  }
  config.Set("files", paths);
  kind.config = std::move(config);
  kind.make = [] { return std::make_unique<FilesSource>(); };
  kind.arrange = [text](MemoryFileSystem& files) {
    for (int f = 0; f < 5; ++f) files.PutFile(Concat("/data/part-", f), text(f));
  };
  kind.group = [](int64_t id) { return id / 1000; };
  return kind;
}

// Partitions with as many rows as the files, ids alike; transactions leave an offset behind each
// tenth row that is none.
Kind Kafka(std::string name, Config config, std::function<std::string(int64_t id)> value) {
  Kind kind;
  kind.name = std::move(name);
  config.Set("brokers", "b:9092");
  config.Set("topics", "t");
  config.Set("end", "latest");
  config.Set("schema", ConfigMembers{{"id", "INT64"}, {"name", "STRING"}});
  kind.schema = KafkaSourceSchema(*ParseKafkaSourceConfig(config));
  kind.config = std::move(config);
  const auto cluster = std::make_shared<FakeKafkaCluster>();
  cluster->poll_rows_max_ = 13;
  for (int f = 0; f < 5; ++f) {
    cluster->MakeLog("t", f);
    for (int i = 0; i < kFileRows[f]; ++i) {
      kind.ids.push_back(1000 * f + i);
      cluster->Add("t", f, value(kind.ids.back()));
      if (i % 10 == 9) cluster->AddGap("t", f);
    }
  }
  kind.make = [cluster] { return std::make_unique<KafkaSource>(*cluster); };
  kind.arrange = [](MemoryFileSystem&) {};
  kind.group = [](int64_t id) { return id / 1000; };
  return kind;
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  kinds.push_back(Files("csv", Config{{"path", "/data/part-*"}, {"format", "csv"}}, [](int f) {
    std::string text = "\xef\xbb\xbfname,other,id\r\n";
    for (int i = 0; i < kFileRows[f]; ++i) {
      text += Concat("\"name, \n", i, "\",x,", 1000 * f + i, "\r\n");
    }
    text.resize(text.size() - 2);  // no line end behind the last row
    return text;
  }));
  kinds.push_back(Files("json",
                        Config{{"path", "/data/part-*"},
                               {"format", "json"},
                               {"schema", ConfigMembers{{"id", "INT64"}, {"name", "STRING"}}}},
                        [](int f) {
                          std::string text;
                          for (int i = 0; i < kFileRows[f]; ++i) {
                            text += Concat("{\"name\":\"n\",\"id\":", 1000 * f + i, "}\n");
                          }
                          return text;
                        }));
  kinds.push_back(Files("csv_with_rate",
                        Config{{"path", "/data/part-*"}, {"format", "csv"}, {"rate", 500}},
                        [](int f) {
                          std::string text = "id,name\n";
                          for (int i = 0; i < kFileRows[f]; ++i) {
                            text += Concat(1000 * f + i, ",n\n");
                          }
                          return text;
                        }));
  kinds.push_back(Kafka("kafka_json", Config{{"format", "json"}},
                        [](int64_t id) { return Concat("{\"name\":\"n\",\"id\":", id, "}"); }));
  kinds.push_back(Kafka("kafka_csv", Config{{"format", "csv"}, {"rate", 5000}},
                        [](int64_t id) { return Concat(id, ",\"a\nb\""); }));
  for (const char* distribution : {"uniform", "zipf"}) {
    Kind kind;
    kind.name = Concat("generator_", distribution);
    kind.config = Config{{"rows", 207}, {"splits", 10}, {"distribution", distribution}};
    kind.schema = GeneratorSchema(*ParseGeneratorConfig(kind.config));
    kind.make = [] { return std::make_unique<GeneratorSource>(); };
    kind.arrange = [](MemoryFileSystem&) {};
    kind.ids.resize(207);
    std::iota(kind.ids.begin(), kind.ids.end(), 0);
    kind.group = [](int64_t id) { return id % 10; };
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

class SourceContract : public testing::TestWithParam<Kind> {
 protected:
  SourceContract() : files_(executor_) { GetParam().arrange(files_); }

  // One subtask and what it emitted.
  struct Subtask {
    std::unique_ptr<FakeSourceContext> context;
    std::unique_ptr<Source> source;
    CollectingOutput output;
  };

  std::unique_ptr<Subtask> Start(int subtask, int parallelism,
                                 const std::vector<SplitState>& restored = {}) {
    auto started = std::make_unique<Subtask>();
    started->context = std::make_unique<FakeSourceContext>(executor_, files_, GetParam().config,
                                                           GetParam().schema, subtask, parallelism);
    started->context->options_.batch_rows_max = 9;
    started->source = GetParam().make();
    Status status = started->source->Open(*started->context, restored);
    EXPECT_TRUE(status.ok()) << status;
    return started;
  }
  // Polls until rows came (true) or the source ended (false).
  bool PollRows(Subtask& subtask) {
    while (true) {
      int64_t before = subtask.output.rows();
      subtask.context->woken_ = false;
      StatusOr<PollResult> result = subtask.source->Poll(subtask.output);
      if (!result.ok()) {
        ADD_FAILURE() << result.status();
        return false;
      }
      int64_t rows = subtask.output.rows() - before;
      EXPECT_LE(rows, 9);
      if (*result == PollResult::kRows && rows > 0) return true;
      EXPECT_EQ(rows, 0);
      if (*result == PollResult::kEnded) return false;
      if (*result == PollResult::kIdle) {
        bool woken = executor_.RunUntil([&] { return subtask.context->woken_; });
        EXPECT_TRUE(woken) << "idle, and nothing will wake it";
        if (!woken) return false;
      }
    }
  }
  void Drain(Subtask& subtask) {
    while (PollRows(subtask)) {
    }
  }
  void ExpectInOrder(const std::vector<int64_t>& ids) {
    std::map<int64_t, int64_t> last;
    for (int64_t id : ids) {
      auto [it, first] = last.emplace(GetParam().group(id), id);
      if (first) continue;
      EXPECT_GT(id, it->second);
      it->second = id;
    }
  }
  static void Append(const Subtask& subtask, std::vector<int64_t>* ids) {
    std::vector<int64_t> more = subtask.output.Int64s(0);
    ids->insert(ids->end(), more.begin(), more.end());
  }

  ManualExecutor executor_;
  MemoryFileSystem files_;
};

TEST_P(SourceContract, EachRowOnceAtEveryParallelism) {
  for (int parallelism : {1, 2, 3, 7, 20}) {
    SCOPED_TRACE(parallelism);
    std::vector<int64_t> ids;
    for (int subtask = 0; subtask < parallelism; ++subtask) {
      auto started = Start(subtask, parallelism);
      Drain(*started);
      ExpectInOrder(started->output.Int64s(0));
      Append(*started, &ids);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, GetParam().ids);
  }
}

TEST_P(SourceContract, EndedStaysEnded) {
  auto subtask = Start(0, 1);
  Drain(*subtask);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*subtask->source->Poll(subtask->output), PollResult::kEnded);
  }
  // And restored there it has nothing more to say.
  auto restored = Start(0, 1, subtask->source->SnapshotPositions());
  Drain(*restored);
  EXPECT_EQ(restored->output.rows(), 0);
}

TEST_P(SourceContract, ASnapshotAfterAnyPollIsExactlyBehindTheRows) {
  for (int polls = 0;; ++polls) {
    SCOPED_TRACE(polls);
    auto first = Start(0, 1);
    bool ended = false;
    for (int i = 0; i < polls && !ended; ++i) ended = !PollRows(*first);
    auto second = Start(0, 1, first->source->SnapshotPositions());
    first->source->Close();
    std::vector<int64_t> ids;
    Append(*first, &ids);
    first.reset();
    Drain(*second);
    Append(*second, &ids);
    ExpectInOrder(ids);
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids, GetParam().ids);
    if (ended) break;
  }
}

TEST_P(SourceContract, RestoringAtAnotherParallelismGivesEachRowOnce) {
  for (auto [before, after] :
       {std::pair(2, 3), std::pair(3, 1), std::pair(1, 4), std::pair(4, 2)}) {
    for (int polls : {0, 1, 3, 6}) {
      SCOPED_TRACE(Concat(before, " to ", after, " after ", polls, " polls"));
      std::vector<int64_t> ids;
      std::vector<SplitState> positions;
      for (int subtask = 0; subtask < before; ++subtask) {
        auto started = Start(subtask, before);
        // Not all at the same place.
        for (int i = 0; i < polls + subtask && PollRows(*started); ++i) {
        }
        for (SplitState& state : started->source->SnapshotPositions()) {
          positions.push_back(std::move(state));
        }
        Append(*started, &ids);
      }
      for (int subtask = 0; subtask < after; ++subtask) {
        auto started = Start(subtask, after, positions);
        Drain(*started);
        Append(*started, &ids);
      }
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(ids, GetParam().ids);
    }
  }
}

TEST_P(SourceContract, AReplayGivesTheSameRows) {
  auto first = Start(0, 1);
  Drain(*first);
  auto second = Start(0, 1);
  Drain(*second);
  // In whatever batches: the same rows, compared by their encoding, in order of their ids.
  auto rows = [](const CollectingOutput& output) {
    std::map<int64_t, std::string> encoded;
    for (const RecordBatch& batch : output.batches()) {
      for (int32_t row = 0; row < batch.rows(); ++row) {
        int32_t one[] = {row};
        const EncodedBatch alone(std::make_shared<const RecordBatch>(batch.Select(one)));
        std::string& bytes = encoded[batch.column(0).Int64(row)];
        for (const std::string_view piece : alone.pieces()) bytes += piece;
      }
    }
    return encoded;
  };
  EXPECT_EQ(rows(first->output), rows(second->output));
}

TEST_P(SourceContract, DestroyedWithRequestsUnderWay) {
  auto subtask = Start(0, 1);
  executor_.RunOne();
  subtask->source->Close();
  subtask.reset();
  executor_.Advance(10'000'000);
}

INSTANTIATE_TEST_SUITE_P(All, SourceContract, testing::ValuesIn(Kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weir
