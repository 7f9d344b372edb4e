// What every Sink with its Committer owes (common/operator/sink.h): rows are seen once their
// checkpoint completed and not before, each once, whatever single operation or pair of operations
// a process dies or a machine loses power at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "tests/support/fake_kafka.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/sink_process.h"
#include "worker/connectors/files/files_committer.h"
#include "worker/connectors/files/files_sink.h"
#include "worker/connectors/kafka/sink/kafka_committer.h"
#include "worker/connectors/kafka/sink/kafka_sink.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct Kind {
  std::string name;
  Config config;
  std::function<std::unique_ptr<Sink>()> make_sink;
  std::function<std::unique_ptr<Committer>()> make_committer;
  // Empties what of the outside world is not on the disk.
  std::function<void()> reset = [] {};
  std::string directory;  // of what is sealed
  // What a Prepare lists that has nothing else to list.
  size_t without_rows = 0;
  // A committer takes over from the sink, which publishes nothing any more.
  bool committer_takes_over = false;
  // Ids of the rows that a reader of the output sees, in order of file and line.
  std::function<std::vector<int64_t>(const MemoryFileSystem&)> visible;
  // Names of what the sink has left that nobody should see.
  std::function<std::vector<std::string>(const MemoryFileSystem&)> hidden;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Kind FilesKind(std::string name, Config config, std::string first_line, std::string before_id) {
  Kind kind;
  kind.name = std::move(name);
  kind.config = std::move(config);
  kind.directory = "/out";
  kind.make_sink = [] { return std::make_unique<FilesSink>(); };
  kind.make_committer = [] { return std::make_unique<FilesCommitter>(); };
  kind.visible = [first_line, before_id](const MemoryFileSystem& files) {
    std::vector<int64_t> ids;
    for (const std::string& path : files.Files("/out")) {
      if (path.starts_with("/out/.")) continue;
      std::vector<std::string> lines = Lines(files.Bytes(path));
      if (!first_line.empty()) {
        EXPECT_EQ(lines.at(0), first_line);
        lines.erase(lines.begin());
      }
      EXPECT_FALSE(lines.empty()) << path;  // no rows, no file
      for (const std::string& line : lines) {
        EXPECT_EQ(line.substr(0, before_id.size()), before_id);
        ids.push_back(std::stoll(line.substr(before_id.size())));
      }
    }
    return ids;
  };
  kind.hidden = [](const MemoryFileSystem& files) {
    std::vector<std::string> names;
    for (const std::string& path : files.Files("/out")) {
      if (path.starts_with("/out/.") && path != "/out/.weir-sink") names.push_back(path);
    }
    return names;
  };
  return kind;
}

Kind KafkaKind() {
  struct Cluster {
    FakeKafka kafka{1};
    FakeKafkaClients clients{kafka};
  };
  auto cluster = std::make_shared<std::unique_ptr<Cluster>>(std::make_unique<Cluster>());
  Kind kind;
  kind.name = "kafka";
  kind.config = Config{{"brokers", "b:1"}, {"topic", "out"}, {"format", "json"}};
  kind.directory = "/job/staged";
  kind.without_rows = 1;
  kind.committer_takes_over = true;
  kind.reset = [cluster] { *cluster = std::make_unique<Cluster>(); };
  kind.make_sink = [cluster] { return std::make_unique<KafkaSink>((*cluster)->clients); };
  kind.make_committer = [cluster] { return std::make_unique<KafkaCommitter>((*cluster)->clients); };
  kind.visible = [cluster](const MemoryFileSystem&) {
    constexpr std::string_view kBeforeId = "{\"id\":";
    std::vector<int64_t> ids;
    const std::vector<FakeKafka::Row> rows = (*cluster)->kafka.Visible().at(0);
    for (const FakeKafka::Row& row : rows) {
      EXPECT_EQ(row.value->substr(0, kBeforeId.size()), kBeforeId);
      ids.push_back(std::stoll(row.value->substr(kBeforeId.size())));
    }
    return ids;
  };
  kind.hidden = [](const MemoryFileSystem& files) { return files.Files("/job/staged"); };
  return kind;
}

std::vector<Kind> Kinds() {
  return {FilesKind("files_csv", Config{{"path", "/out"}, {"format", "csv"}}, "id", ""),
          FilesKind("files_json", Config{{"path", "/out"}, {"format", "json"}}, "", "{\"id\":"),
          // Every batch makes a part of its own.
          FilesKind("files_many_parts",
                    Config{{"path", "/out"}, {"format", "csv"}, {"part_size_max", "1"}}, "id", ""),
          KafkaKind()};
}

Schema IdSchema() { return Schema({{"id", Type::kInt64}}); }

RecordBatch Rows(int64_t begin, int64_t end) {
  BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
  for (int64_t id = begin; id < end; ++id) builder.column(0).AppendInt64(id);
  return builder.Finish();
}

class Process : public SinkProcess {
 public:
  Process(const Kind& kind, uint64_t generation,
          std::shared_ptr<MemoryFileSystem::Disk> disk = nullptr)
      : SinkProcess(kind.make_sink(), kind.make_committer(), kind.config, IdSchema(), generation,
                    std::move(disk)) {}
};

class SinkContract : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { GetParam().reset(); }
  std::vector<int64_t> Visible(Process& process) { return GetParam().visible(process.files); }
};

TEST_P(SinkContract, RowsAreSeenWhenTheirCheckpointIsPublishedAndNotBefore) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  process.executor.RunAll();
  EXPECT_THAT(Visible(process), IsEmpty());
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(prepared->ok());
  EXPECT_FALSE((*prepared)->empty());
  EXPECT_THAT(Visible(process), IsEmpty());
  ASSERT_TRUE(process.sink->Write(Rows(3, 5)).ok());
  process.executor.RunAll();
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Visible(process), ElementsAre(0, 1, 2));
  process.executor.Advance(60'000'000);
  EXPECT_THAT(Visible(process), ElementsAre(0, 1, 2));
}

TEST_P(SinkContract, NoRowsNothingIsSeenOrLeft) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(prepared->ok());
  EXPECT_THAT(**prepared, SizeIs(GetParam().without_rows));
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Visible(process), IsEmpty());
  EXPECT_THAT(GetParam().hidden(process.files), IsEmpty());
}

TEST_P(SinkContract, WhatNoCheckpointCanListGoesWithTheSink) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  ASSERT_TRUE(process.Prepare(1)->ok());
  const std::vector<std::string> listed = GetParam().hidden(process.files);
  EXPECT_FALSE(listed.empty());
  // Rows of a checkpoint whose Prepare is not answered, and rows behind it.
  ASSERT_TRUE(process.sink->Write(Rows(3, 6)).ok());
  process.sink->Prepare(CheckpointId(2), [](const auto&) { FAIL() << "answered after Close"; });
  ASSERT_TRUE(process.sink->Write(Rows(6, 9)).ok());
  process.sink->Close();
  process.executor.Advance(1'000'000);
  EXPECT_EQ(GetParam().hidden(process.files), listed);
}

TEST_P(SinkContract, CommittablesNameTheirIdentityInFull) {
  Process process(GetParam(), 7);
  process.context.subtask_ = 3;
  process.context.parallelism_ = 4;
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  auto prepared = process.Prepare(21);
  ASSERT_TRUE(prepared->ok());
  ASSERT_EQ((*prepared)->size(), 1u);
  const Committable& committable = (**prepared)[0];
  EXPECT_EQ(committable.uid, "out");
  EXPECT_EQ(committable.subtask, 3);
  EXPECT_EQ(committable.generation, Generation(7));
  EXPECT_EQ(committable.checkpoint, CheckpointId(21));
  EXPECT_EQ(committable.part, 0);
}

TEST_P(SinkContract, PublishingTwiceOrLateChangesNothing) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  for (uint64_t checkpoint : {1, 2, 3}) {
    ASSERT_TRUE(process.sink->Write(Rows(checkpoint * 10, checkpoint * 10 + 2)).ok());
    ASSERT_TRUE(process.Prepare(checkpoint)->ok());
  }
  ASSERT_SAYS_OK(process.Publish(2));  // covers 1
  EXPECT_THAT(Visible(process), ElementsAre(10, 11, 20, 21));
  ASSERT_SAYS_OK(process.Publish(2));
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Visible(process), ElementsAre(10, 11, 20, 21));
  ASSERT_SAYS_OK(process.Publish(3));
  EXPECT_THAT(Visible(process), ElementsAre(10, 11, 20, 21, 30, 31));
}

TEST_P(SinkContract, CallsMayOverlap) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  std::vector<std::string> order;
  auto prepare = [&](uint64_t checkpoint) {
    process.sink->Prepare(CheckpointId(checkpoint), [&, checkpoint](auto answer) {
      ASSERT_TRUE(answer.ok());
      order.push_back(Concat("prepared ", checkpoint, " with ", answer->size()));
      process.sink->Publish(CheckpointId(checkpoint), [&, checkpoint](Status status) {
        ASSERT_TRUE(status.ok());
        order.push_back(Concat("published ", checkpoint));
      });
    });
  };
  ASSERT_TRUE(process.sink->Write(Rows(0, 1)).ok());
  prepare(1);
  ASSERT_TRUE(process.sink->Write(Rows(1, 2)).ok());  // at once
  prepare(2);
  ASSERT_TRUE(process.sink->Write(Rows(2, 3)).ok());
  process.executor.RunAll();
  EXPECT_EQ(order.size(), 4u);
  EXPECT_EQ(order[0], "prepared 1 with 1");
  EXPECT_THAT(Visible(process), ElementsAre(0, 1));
}

TEST_P(SinkContract, RowsOfAnAbortedCheckpointAreListedAgainUntilPublished) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  ASSERT_EQ((*process.Prepare(1))->size(), 1u);
  process.sink->OnAborted(CheckpointId(1));
  EXPECT_THAT(Visible(process), IsEmpty());
  auto second = process.Prepare(2);
  ASSERT_EQ((*second)->size(), 1u);  // no new rows, yet those of 1
  EXPECT_EQ((**second)[0].checkpoint, CheckpointId(1));
  ASSERT_TRUE(process.sink->Write(Rows(2, 4)).ok());
  ASSERT_EQ((*process.Prepare(3))->size(), 2u);
  ASSERT_SAYS_OK(process.Publish(3));
  EXPECT_THAT(Visible(process), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ((*process.Prepare(4))->size(), GetParam().without_rows);
  EXPECT_THAT(GetParam().hidden(process.files), IsEmpty());
}

TEST_P(SinkContract, CommittingAgainGivesTheSameNamesAndBytes) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  std::vector<Committable> listed = **process.Prepare(1);
  ASSERT_SAYS_OK(process.Commit(listed));
  const auto look = [&] {
    std::vector<std::pair<std::string, std::string>> seen;
    for (const std::string& name : process.files.Files(GetParam().directory)) {
      seen.emplace_back(name, process.files.Bytes(name));
    }
    return seen;
  };
  const auto seen = look();
  ASSERT_SAYS_OK(process.Commit(listed));
  if (!GetParam().committer_takes_over) ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_EQ(look(), seen);
  EXPECT_THAT(Visible(process), ElementsAre(0, 1));
}

TEST_P(SinkContract, TwoCommittersAtOnceAgree) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(process.sink->Write(Rows(i, i + 1)).ok());
    ASSERT_TRUE(process.Prepare(1 + i)->ok());
  }
  std::vector<Committable> listed = **process.Prepare(5);
  FakeCommitterContext other_context(process.executor, process.files, GetParam().config);
  std::unique_ptr<Committer> other = GetParam().make_committer();
  other->Open(other_context);
  int answers = 0;
  int errors = 0;
  auto count = [&](Status status) {
    ++answers;
    // One takes over from the other, which cannot tell then and is asked again.
    errors += status.ok() ? 0 : 1;
    EXPECT_TRUE(status.ok() || GetParam().committer_takes_over) << status;
  };
  process.committer->Commit(listed, count);
  other->Commit(listed, count);
  process.executor.RunUntil([&] { return answers == 2; });
  EXPECT_EQ(answers, 2);
  EXPECT_LE(errors, 1);
  EXPECT_THAT(Visible(process), ElementsAre(0, 1, 2, 3));
  ASSERT_SAYS_OK(process.Commit(listed));
  EXPECT_THAT(Visible(process), ElementsAre(0, 1, 2, 3));
}

TEST_P(SinkContract, AbortOthersRemovesWhatOlderGenerationsLeftAndNothingElse) {
  Process first(GetParam(), 1);
  ASSERT_SAYS_OK(first.Open());
  ASSERT_TRUE(first.sink->Write(Rows(0, 2)).ok());
  std::vector<Committable> listed = **first.Prepare(1);
  ASSERT_TRUE(first.sink->Write(Rows(2, 4)).ok());
  ASSERT_TRUE(first.Prepare(2)->ok());
  ASSERT_TRUE(first.sink->Write(Rows(4, 6)).ok());
  first.executor.RunAll();

  Process second(GetParam(), 2, first.files.disk());
  const std::string foreign = GetParam().directory + "/.hidden-of-somebody";
  second.files.PutFile(foreign, "x");
  // Another job and another uid in the same place.
  FakeCommitterContext other(second.executor, second.files, GetParam().config);
  other.uid_ = "other";
  auto other_committer = GetParam().make_committer();
  other_committer->Open(other);
  bool answered = false;
  other_committer->AbortOthers(Generation(9), {}, [&](Status status) { answered = status.ok(); });
  second.executor.RunAll();
  EXPECT_TRUE(answered);

  ASSERT_SAYS_OK(second.AbortOthers(2, listed));
  ASSERT_SAYS_OK(second.AbortOthers(2, listed));
  ASSERT_SAYS_OK(second.Commit(listed));
  second.context.resumed_from_ = CheckpointId(1);
  ASSERT_SAYS_OK(second.Open());
  ASSERT_TRUE(second.sink->Write(Rows(100, 101)).ok());
  ASSERT_TRUE(second.Prepare(3)->ok());
  ASSERT_SAYS_OK(second.AbortOthers(2, {}));
  ASSERT_SAYS_OK(second.Publish(3));
  EXPECT_THAT(Visible(second), testing::UnorderedElementsAre(0, 1, 100));
  EXPECT_THAT(GetParam().hidden(second.files), ElementsAre(foreign));
}

// A job in miniature: rows 0 … 11 in four segments, a checkpoint behind each and another one
// without rows; that of the second segment is aborted. What completed is kept outside, as in a
// manifest. A process that dies is followed by another generation, which settles, then writes again
// what is behind the completed checkpoint.
class Job {
 public:
  explicit Job(const Kind& kind) : kind_(kind) { kind_.reset(); }

  // Runs one generation, with `arrange` on its files. False when it died.
  bool RunGeneration(std::function<void(Process&)> arrange) {
    Process process(kind_, ++generation_, disk_);
    disk_ = process.files.disk();
    if (arrange) arrange(process);
    return Drive(process);
  }

  void ExpectExactlyOnce() {
    Process process(kind_, ++generation_, disk_);
    std::vector<int64_t> ids = kind_.visible(process.files);
    std::sort(ids.begin(), ids.end());
    std::vector<int64_t> all(12);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ids, all);
    EXPECT_THAT(kind_.hidden(process.files), IsEmpty());
  }

 private:
  bool Drive(Process& process) {
    if (!AnsweredOk(process.Commit(listed_))) return false;
    if (!AnsweredOk(process.AbortOthers(generation_, listed_))) return false;
    process.context.resumed_from_ = completed_;
    if (!AnsweredOk(process.Open())) return false;
    while (completed_rows_ < 12) {
      int64_t rows = completed_rows_;
      if (!process.sink->Write(Rows(rows, rows + 3)).ok()) return false;
      rows += 3;
      uint64_t checkpoint = ++last_checkpoint_;
      auto prepared = process.Prepare(checkpoint);
      if (!AnsweredOk(prepared)) return false;
      if (checkpoint == 3) {
        process.sink->OnAborted(CheckpointId(checkpoint));
        if (!process.sink->Write(Rows(rows, rows + 3)).ok()) return false;
        rows += 3;
        checkpoint = ++last_checkpoint_;
        prepared = process.Prepare(checkpoint);
        if (!AnsweredOk(prepared)) return false;
      }
      // The commit point.
      listed_ = **prepared;
      completed_rows_ = rows;
      completed_ = CheckpointId(checkpoint);
      if (!AnsweredOk(process.Publish(checkpoint))) return false;
      // One without rows: it lists nothing that was published before.
      prepared = process.Prepare(++last_checkpoint_);
      if (!AnsweredOk(prepared)) return false;
      EXPECT_THAT(**prepared, SizeIs(kind_.without_rows));
      listed_ = **prepared;
      completed_ = CheckpointId(last_checkpoint_);
    }
    return true;
  }

  const Kind& kind_;
  std::shared_ptr<MemoryFileSystem::Disk> disk_;
  uint64_t generation_ = 0;
  CheckpointId completed_;
  uint64_t last_checkpoint_ = 0;
  int64_t completed_rows_ = 0;
  std::vector<Committable> listed_;
};

enum class End { kKill, kPowerLoss };

// The process ends before or after its operation number `at`. Sets *reached.
std::function<void(Process&)> EndAt(End end, bool before, int64_t at, bool* reached) {
  return [=](Process& process) {
    MemoryFileSystem* files = &process.files;
    auto hook = [=](std::string_view, const std::string&) {
      if (files->operations() == at) {
        *reached = true;
        if (end == End::kPowerLoss) files->Crash();
        files->Kill();
      }
      return Status();
    };
    before ? files->set_before(hook) : files->set_after(hook);
  };
}

TEST_P(SinkContract, NothingIsLostOrDoubledWhereverAProcessEnds) {
  for (End end : {End::kKill, End::kPowerLoss}) {
    for (bool before : {true, false}) {
      for (int64_t at = 1;; ++at) {
        SCOPED_TRACE(Concat(end == End::kKill ? "killed " : "power lost ",
                            before ? "before " : "after ", "operation ", at));
        Job job(GetParam());
        bool reached = false;
        bool done = job.RunGeneration(EndAt(end, before, at, &reached));
        if (!done) {
          ASSERT_TRUE(reached);
          ASSERT_TRUE(job.RunGeneration({}));
        }
        job.ExpectExactlyOnce();
        if (HasFailure()) return;
        if (!reached) break;
        ASSERT_LT(at, 1000);
      }
    }
  }
}

TEST_P(SinkContract, NorWhenTheNextProcessEndsAsWell) {
  for (End end : {End::kKill, End::kPowerLoss}) {
    bool first_reached = true;
    for (int64_t first = 1; first_reached; ++first) {
      bool second_reached = true;
      for (int64_t second = 1; second_reached; ++second) {
        SCOPED_TRACE(Concat("ended at operation ", first, ", then at ", second));
        Job job(GetParam());
        first_reached = second_reached = false;
        bool before = (first + second) % 2 == 0;
        if (!job.RunGeneration(EndAt(end, before, first, &first_reached)) &&
            !job.RunGeneration(EndAt(end, !before, second, &second_reached))) {
          ASSERT_TRUE(job.RunGeneration({}));
        }
        job.ExpectExactlyOnce();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(SinkContract, APublicationThatFailsIsTriedAgainUntilItHeals) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  ASSERT_TRUE(process.Prepare(1)->ok());
  bool broken = true;
  int64_t tries = 0;
  process.files.set_before([&](std::string_view, const std::string&) {
    if (broken) ++tries;
    return broken ? UnavailableError("the disk is away") : Status();
  });
  bool published = false;
  process.sink->Publish(CheckpointId(1), [&](Status status) { published = status.ok(); });
  process.executor.Advance(60'000'000);
  EXPECT_FALSE(published);
  // 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 s, then every 5 s.
  EXPECT_GE(tries, 15);
  EXPECT_LE(tries, 20);
  EXPECT_TRUE(process.context.failed_.ok());
  broken = false;
  process.executor.Advance(5'000'000);
  EXPECT_TRUE(published);
  EXPECT_THAT(Visible(process), ElementsAre(0, 1));
}

TEST_P(SinkContract, AFailedWriteOrSyncFailsTheGeneration) {
  for (std::string_view broken : {"create", "sync", "sync_directory"}) {
    SCOPED_TRACE(broken);
    Process process(GetParam(), 1);
    ASSERT_SAYS_OK(process.Open());
    process.files.set_before([broken](std::string_view operation, const std::string& path) {
      return operation == broken ? UnavailableError(Concat("cannot ", operation, " ", path))
                                 : Status();
    });
    ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
    auto prepared = process.Prepare(1);
    ASSERT_TRUE(prepared.has_value());
    EXPECT_FALSE(prepared->ok());
    EXPECT_THAT(process.context.failed_.message(), testing::HasSubstr(GetParam().directory));
    EXPECT_FALSE(process.sink->Write(Rows(2, 3)).ok());
  }
}

TEST_P(SinkContract, AnAnswerMayEndTheOneThatGivesIt) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  std::vector<Committable> listed = **process.Prepare(1);
  int answers = 0;
  process.committer->Commit(listed, [&](Status status) {
    answers += status.ok();
    process.committer = GetParam().make_committer();
    process.committer->Open(process.committer_context);
    process.committer->AbortOthers(Generation(2), {}, [&](Status status) {
      answers += status.ok();
      process.committer.reset();
    });
  });
  process.executor.RunAll();
  EXPECT_EQ(answers, 2);
  process.sink->Prepare(CheckpointId(2), [&](auto prepared) {
    answers += prepared.ok();
    process.sink->Publish(CheckpointId(2), [&](Status status) {
      answers += status.ok();
      process.sink.reset();
    });
  });
  process.executor.RunAll();
  EXPECT_EQ(answers, GetParam().committer_takes_over ? 3 : 4);
  EXPECT_THAT(Visible(process), ElementsAre(0, 1));
}

TEST_P(SinkContract, ClosedWithRequestsUnderWay) {
  Process process(GetParam(), 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  bool answered = false;
  process.sink->Prepare(CheckpointId(1), [&](auto) { answered = true; });
  process.sink->Close();
  process.executor.RunAll();
  EXPECT_FALSE(answered);
  EXPECT_THAT(Visible(process), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, SinkContract, testing::ValuesIn(Kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weir
