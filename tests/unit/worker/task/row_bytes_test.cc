// Goal: rows of no bytes up to 64 MiB pass every kind of channel unharmed, and one byte more is an
// error that names the limit, wherever it would have gone.
// Method: rows of sizes on both sides of every bound that a channel has, through each partitioning
// with local channels, over TCP, and within a chain; a row's bytes are what its columns hold: 8 of
// the number, 4 of the offset, and the text.
#include <gtest/gtest.h>

#include "common/record/key_group.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "tests/unit/worker/network/plane_fixtures.h"
#include "worker/network/local_channel.h"
#include "worker/task/edge_output.h"
#include "worker/task/task.h"

namespace weir {
namespace {

using network_test::NumberAndText;
using network_test::NumberOf;
using network_test::PlaneTest;
using network_test::ReceiveFrom;
using network_test::Row;
using network_test::TextOf;
using network_test::WaitPop;
using network_test::WorkerRun;

constexpr size_t kFixedBytes = 12;  // of a row beside its text
constexpr size_t kLimit = 67108864;
constexpr size_t kTextBytes[] = {0, 1, 65535, 65536, 65537, 1 << 20, 8 << 20, kLimit - kFixedBytes};

std::string TextOfSize(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 997) % 26);
  return text;
}

std::string ErrorOfOneByteMore() {
  return "a row of 67108865 bytes is larger than 67108864, the most a row may have";
}

std::unique_ptr<EdgeOutput> MakeOutput(Partitioning partitioning,
                                       std::vector<ChannelSender*> senders) {
  ExecutionPlan::Edge edge;
  edge.partitioning = partitioning;
  edge.schema = NumberAndText();
  if (partitioning == Partitioning::kHash) edge.key_columns = {0};
  return std::make_unique<EdgeOutput>(edge, 128, JobOptions(), std::move(senders));
}

TEST(RowBytesTest, PassesLocalChannelsOfEveryPartitioning) {
  for (const Partitioning partitioning : {Partitioning::kForward, Partitioning::kHash,
                                          Partitioning::kRebalance, Partitioning::kBroadcast}) {
    LocalChannel first(1 << 20), second(1 << 20);
    std::vector<ChannelSender*> senders = {&first};
    if (partitioning != Partitioning::kForward) senders.push_back(&second);
    auto output = MakeOutput(partitioning, senders);
    for (const size_t bytes : kTextBytes) {
      const std::string text = TextOfSize(bytes);
      ASSERT_TRUE(output->Emit(Row(5, text)).ok()) << bytes;
      output->Flush();
      int arrived = 0;
      for (LocalChannel* channel : {&first, &second}) {
        StreamElement element;
        while (*channel->TryPop(&element)) {
          EXPECT_TRUE(NumberOf(element) == 5 && TextOf(element) == text) << bytes;
          ++arrived;
        }
      }
      EXPECT_EQ(arrived, partitioning == Partitioning::kBroadcast ? 2 : 1);
    }
    Status status = output->Emit(Row(5, TextOfSize(kLimit - kFixedBytes + 1)));
    EXPECT_EQ(status.message(), ErrorOfOneByteMore());
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  }
}

using RowBytesTcpTest = PlaneTest;

TEST_F(RowBytesTcpTest, PassesTcp) {
  constexpr ChannelId kChannel{1, 0, 0};
  TcpDataPlane* plane_1 = StartPlane();
  TcpDataPlane* plane_2 = StartPlane();
  Gate arrival;
  WorkerRun sending(plane_1, "w1", 1, {}, {SendTo(*plane_2, "w2", kChannel, 1 << 20)});
  WorkerRun receiving(plane_2, "w2", 1, {ReceiveFrom("w1", kChannel, 1 << 20)}, {});
  receiving.receiver().SetArrivalWaker([&] { arrival.Notify(); });
  auto output = MakeOutput(Partitioning::kForward, {&sending.sender()});
  for (const size_t bytes : kTextBytes) {
    const std::string text = TextOfSize(bytes);
    ASSERT_TRUE(output->Emit(Row(7, text)).ok()) << bytes;
    const StreamElement element = WaitPop(receiving.receiver(), arrival);
    EXPECT_TRUE(NumberOf(element) == 7 && TextOf(element) == text) << bytes;
  }
  Status status = output->Emit(Row(7, TextOfSize(kLimit - kFixedBytes + 1)));
  EXPECT_EQ(status.message(), ErrorOfOneByteMore());
}

// Large rows among many small ones: what is gathered for one receiver stays within what a channel
// to another worker takes.
TEST(RowBytesTest, WhatIsGatheredForOneReceiverStaysWithinTheLimitOfARow) {
  LocalChannel first(1 << 20), second(1 << 20);
  auto output = MakeOutput(Partitioning::kHash, {&first, &second});
  BatchBuilder builder(NumberAndText());
  const std::string large = TextOfSize(40 << 20);
  for (int i = 0; i < 3000; ++i) {
    builder.column(0).AppendInt64(1);  // one key: all rows to one receiver
    builder.column(1).AppendText(i == 1500 || i == 1501 ? large : "x");
  }
  ASSERT_TRUE(output->Emit(std::make_shared<const RecordBatch>(builder.Finish())).ok());
  output->Flush();
  int64_t rows = 0;
  for (LocalChannel* channel : {&first, &second}) {
    StreamElement element;
    while (*channel->TryPop(&element)) {
      const RecordBatch& batch = *std::get<RecordBatchPtr>(element);
      EXPECT_LE(batch.ByteSize(), static_cast<int64_t>(kLimit));
      rows += batch.rows();
    }
  }
  EXPECT_EQ(rows, 3000);
}

// ---- within a chain ----------------------------------------------------------------------------

RecordBatchPtr* next_row = nullptr;  // what the source emits once
std::vector<std::string>* received = nullptr;

class OneRow : public Source {
 public:
  Status Open(SourceContext&, const std::vector<SplitState>&) override { return {}; }
  StatusOr<PollResult> Poll(Output& output) override {
    RecordBatchPtr row = std::exchange(*next_row, nullptr);
    if (row == nullptr) return PollResult::kEnded;
    output.Emit(*row);
    return PollResult::kRows;
  }
  std::vector<SplitState> SnapshotPositions() override { return {}; }
};

class Keeping : public Sink {
 public:
  void Open(SinkContext&, std::function<void(Status)> done) override { done(Status()); }
  Status Write(const RecordBatch& batch) override {
    received->push_back(std::string(batch.column(1).Text(0)));
    return {};
  }
  void Prepare(CheckpointId,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    done(std::vector<Committable>());
  }
  void Publish(CheckpointId, std::function<void(Status)> done) override { done(Status()); }
};

class Reports : public TaskObserver {
 public:
  void OnReport(TaskReport report) override { all.push_back(std::move(report)); }
  void OnAcknowledge(TaskAck) override {}
  void OnPublished(PublishReport) override {}
  void OnConfirmWanted(int, int, uint64_t) override {}
  std::vector<TaskReport> all;
};

TEST(RowBytesTest, PassesFromOneOperatorOfAChainToTheNext) {
  Registry registry;
  registry.AddSource("one.row", [] { return std::make_unique<OneRow>(); });
  registry.AddSink("keeping", {[] { return std::make_unique<Keeping>(); },
                               [] { return std::unique_ptr<Committer>(); }});
  for (size_t i = 0; i <= std::size(kTextBytes); ++i) {
    const bool fits = i < std::size(kTextBytes);
    const std::string text = TextOfSize(fits ? kTextBytes[i] : kLimit - kFixedBytes + 1);
    RecordBatchPtr row = Row(1, text);
    std::vector<std::string> texts;
    next_row = &row;
    received = &texts;
    ManualExecutor executor;
    MemoryFileSystem files(executor);
    auto graph = std::make_shared<JobGraph>();
    auto plan = std::make_shared<ExecutionPlan>();
    graph->vertices.resize(2);
    graph->vertices[0].uid = "rows";
    graph->vertices[0].type = "one.row";
    graph->vertices[0].output_schema = *NumberAndText();
    graph->vertices[1].uid = "out";
    graph->vertices[1].type = "keeping";
    plan->tasks.resize(1);
    plan->tasks[0].chain = {0, 1};
    TaskDescription description;
    description.graph = graph;
    description.plan = plan;
    description.options = std::make_shared<const JobOptions>();
    description.restore = std::make_shared<const CheckpointManifest>();
    TaskEnvironment environment;
    environment.make_files = [&](Executor& owner) {
      return std::make_unique<MemoryFileSystem>(owner, files.disk());
    };
    environment.timers = std::make_unique<ManualExecutor>();
    environment.clock = &executor.clock();
    environment.wake = [] {};
    environment.registry = &registry;
    Reports reports;
    Task task(std::move(description), std::move(environment), reports, {}, {});
    task.Post([&task] { task.Start(); });
    for (int step = 0; step < 10; ++step) task.Step();
    task.Shutdown();
    ASSERT_FALSE(reports.all.empty());
    if (fits) {
      EXPECT_TRUE(texts == std::vector<std::string>{text}) << text.size();
      EXPECT_EQ(reports.all.back().state, TaskState::kEndedInput);
    } else {
      EXPECT_TRUE(texts.empty());
      EXPECT_EQ(reports.all.back().state, TaskState::kFailed);
      EXPECT_EQ(reports.all.back().uid, "rows");
      EXPECT_EQ(reports.all.back().error.message(), ErrorOfOneByteMore());
    }
  }
}

}  // namespace
}  // namespace weir
