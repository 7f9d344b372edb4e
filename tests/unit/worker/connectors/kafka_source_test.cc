// KafkaSource beyond the contract of all sources: where it begins and ends, what it says of rows
// that are not there, and positions in checkpoints. Over logs in memory; hashes in positions are
// those of libxxhash, called from Python.
#include "worker/connectors/kafka/source/kafka_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/base/concat.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/fake_kafka_consumer.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Config Reading(std::initializer_list<std::pair<std::string, ConfigValue>> more = {}) {
  Config config{{"brokers", "b:9092"},
                {"topics", "t"},
                {"format", "json"},
                {"schema", ConfigMembers{{"id", "INT64"}}}};
  for (const auto& [name, value] : more) config.Set(name, value);
  return config;
}
std::string Row(int64_t id) { return Concat("{\"id\":", id, "}"); }

class KafkaSourceTest : public testing::Test {
 protected:
  KafkaSourceTest() : files_(executor_) {}

  void AddRows(int32_t partition, int64_t first, int64_t last) {
    for (int64_t id = first; id <= last; ++id) cluster_.Add("t", partition, Row(id));
  }
  Status Open(Config config, const std::vector<SplitState>& restored = {}, int subtask = 0,
              int parallelism = 1) {
    if (source_ != nullptr) source_->Close();
    Schema schema = KafkaSourceSchema(*ParseKafkaSourceConfig(config));
    context_ = std::make_unique<FakeSourceContext>(executor_, files_, std::move(config), schema,
                                                   subtask, parallelism);
    context_->options_ = options_;
    output_ = CollectingOutput();
    source_ = std::make_unique<KafkaSource>(cluster_);
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
  bool Ends() {
    StatusOr<PollResult> result = PollNow();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() && *result == PollResult::kEnded;
  }
  // All ids until the source idles or ends; an error fails the test.
  std::vector<int64_t> Ids() {
    StatusOr<PollResult> result = PollNow();
    EXPECT_TRUE(result.ok()) << result.status();
    return output_.Int64s(0);
  }
  std::vector<int64_t> NewIds() {
    output_ = CollectingOutput();
    return Ids();
  }
  // After time for all doubts.
  std::string Error() {
    for (int i = 0; i < 20; ++i) {
      StatusOr<PollResult> result = PollNow();
      if (!result.ok()) return result.status().message();
      executor_.Advance(1'000'000);
    }
    return "no error";
  }
  std::vector<SplitState> Positions() { return source_->SnapshotPositions(); }

  ManualExecutor executor_;
  MemoryFileSystem files_;
  FakeKafkaCluster cluster_;
  JobOptions options_;
  std::unique_ptr<FakeSourceContext> context_;
  CollectingOutput output_;
  std::unique_ptr<KafkaSource> source_;
};

TEST_F(KafkaSourceTest, PositionsAreText) {
  const KafkaPosition full{1200, KafkaRowMark{1199, 1700000000000, 0xa1b2c3}, 5000, true};
  const std::string text = "1200 row 1199 1700000000000 0000000000a1b2c3 to 5000 end";
  EXPECT_EQ(EncodeKafkaPosition(full), text);
  EXPECT_EQ(*DecodeKafkaPosition(text), full);
  EXPECT_EQ(EncodeKafkaPosition({7, std::nullopt, std::nullopt, false}), "7");
  EXPECT_EQ(DecodeKafkaPosition("7 to 9")->to, 9);
  EXPECT_EQ(DecodeKafkaPosition("7 row 6 -1 0000000000a1b2c3")->row->timestamp_ms, -1);
  for (int64_t timestamp_ms : {std::numeric_limits<int64_t>::min(), int64_t{-2}}) {
    const KafkaPosition old{7, KafkaRowMark{6, timestamp_ms, 0xa1b2c3}, std::nullopt, false};
    EXPECT_EQ(DecodeKafkaPosition(EncodeKafkaPosition(old)), old) << timestamp_ms;
  }
  for (const char* bad : {"", "x", "-1", "7 ", "7 row", "7 row 7 0 0000000000a1b2c3",
                          "7 row 6 9223372036854775808 0000000000a1b2c3", "7 row 6 0 a1b2c3",
                          "7 to", "7 to -1", "7 en", "7 end to 9"}) {
    EXPECT_FALSE(DecodeKafkaPosition(bad).has_value()) << bad;
  }
  EXPECT_EQ(*ParseTopicPartition("a.b/12"), (TopicPartition{"a.b", 12}));
  for (const char* bad : {"", "a", "a/", "/1", "a/-1", "a/1x", "a b/1"}) {
    EXPECT_FALSE(ParseTopicPartition(bad).has_value()) << bad;
  }
  const KafkaPendingStart pending{{{2, 4}, {0, 3}}};
  EXPECT_EQ(ToString(pending), "start 2 of 4, 0 of 3");
  EXPECT_EQ(*ParsePendingStart("start 2 of 4, 0 of 3"), pending);
  for (const char* bad :
       {"start", "start ", "start 4 of 4", "start 1 of 0", "start 1 of 2,", "t/0"}) {
    EXPECT_FALSE(ParsePendingStart(bad).has_value()) << bad;
  }
}

TEST_F(KafkaSourceTest, EachPartitionHasOneOwnerAndNeighboursHaveOthers) {
  for (int parallelism : {1, 2, 3, 8}) {
    std::vector<int> of_subtask(static_cast<size_t>(parallelism));
    for (int32_t number = 0; number < 24; ++number) {
      ++of_subtask[static_cast<size_t>(OwnerOf({"flights", number}, parallelism))];
    }
    for (int count : of_subtask) EXPECT_EQ(count, 24 / parallelism);
  }
}

TEST_F(KafkaSourceTest, APositionIsTheNextOffsetAndTheRowInFrontOfIt) {
  AddRows(0, 1, 2);
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  // XXH3_64 of the value with the seed XXH3_64 of no key (of seed 0) plus 1.
  EXPECT_THAT(Positions(), ElementsAre(SplitState{"t/0", "2 row 1 1001 adaed4c510648240"}));
}

// Of the 20th of July 1969, as who digitises old papers may give it.
TEST_F(KafkaSourceTest, AJobGoesOnBehindARowFromBefore1970) {
  AddRows(0, 1, 1);
  cluster_.MakeLog("t", 0).rows[0].timestamp_ms = -14'182'940'000;
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Ids(), ElementsAre(1));
  const std::vector<SplitState> positions = Positions();
  AddRows(0, 2, 2);
  const Status opened = Open(Reading(), positions);
  ASSERT_TRUE(opened.ok()) << opened;
  EXPECT_THAT(Ids(), ElementsAre(2));
}

TEST_F(KafkaSourceTest, StartsWhereItIsTold) {
  AddRows(0, 0, 9);
  AddRows(1, 100, 109);
  cluster_.committed_[{"t", 0}] = 7;
  ASSERT_TRUE(Open(Reading({{"start", "latest"}})).ok());
  EXPECT_THAT(Ids(), IsEmpty());
  AddRows(1, 110, 110);
  EXPECT_THAT(Ids(), ElementsAre(110));
  ASSERT_TRUE(Open(Reading({{"start", "committed"}, {"group", "g"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(7, 8, 9, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110));
  EXPECT_EQ(cluster_.options_.group, "g");
  // The rows of offset n were written 1000 + n ms after the epoch.
  ASSERT_TRUE(Open(Reading({{"start", "1970-01-01T00:00:01.0075Z"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(8, 9, 108, 109, 110));
  ASSERT_TRUE(
      Open(Reading({{"start", "latest"}, {"start_offsets", ConfigMembers{{"t:0", 8}}}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(8, 9));
  ASSERT_TRUE(Open(Reading({{"start_offsets", ConfigMembers{{"t:0", 11}}}})).ok());
  EXPECT_EQ(Error(),
            "kafka.source 'in': config field 'start_offsets' has t/0 begin at offset 11, but it "
            "ends at 10");
  EXPECT_EQ(cluster_.options_.group, "weir-job-in");
}

TEST_F(KafkaSourceTest, ATimeThatNoBrokerCanBeAskedForIsBeforeOrBehindAllRows) {
  AddRows(0, 0, 2);
  cluster_.MakeLog("t", 0).rows[0].timestamp_ms = -5'000;
  // 2 ms before 1970 and less; Kafka's words for the end and the beginning are -1 and -2.
  for (const char* time : {"1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.998001Z",
                           "1969-12-31T23:59:59.998Z", "-290000-01-01T00:00:00Z"}) {
    ASSERT_TRUE(Open(Reading({{"start", time}})).ok());
    EXPECT_THAT(Ids(), ElementsAre(0, 1, 2)) << time;
  }
  ASSERT_TRUE(Open(Reading({{"start", "1970-01-01T00:00:00Z"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
  ASSERT_TRUE(Open(Reading({{"start", "+294247-01-10T04:00:54.775807Z"}})).ok());
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(KafkaSourceTest, ABoundedReadEndsAtTheEndsOfItsStart) {
  AddRows(0, 0, 4);
  cluster_.MakeLog("t", 1);    // empty
  cluster_.AddGap("t", 2, 3);  // control records alone
  AddRows(3, 300, 301);
  cluster_.AddGap("t", 3, 2);  // and behind rows
  ASSERT_TRUE(Open(Reading({{"end", "latest"}})).ok());
  executor_.RunAll();
  AddRows(0, 5, 6);
  AddRows(3, 302, 302);
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_THAT(output_.Int64s(0), ElementsAre(0, 1, 2, 3, 4, 300, 301));
  for (const SplitState& state : Positions())
    EXPECT_TRUE(state.position.ends_with(" end")) << state.position;

  // Restored there it has nothing more to say, and partitions that were made later are none of it.
  const std::vector<SplitState> positions = Positions();
  AddRows(4, 400, 400);
  ASSERT_TRUE(Open(Reading({{"end", "latest"}}), positions).ok());
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_EQ(output_.rows(), 0);

  ASSERT_TRUE(Open(Reading({{"end_offsets", ConfigMembers{{"t:0", 2}, {"t:3", 1}}}})).ok());
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_THAT(output_.Int64s(0), ElementsAre(0, 1, 300, 400));
}

TEST_F(KafkaSourceTest, ABoundedReadNeedsNoTopicThatItHasReadToItsEnd) {
  cluster_.Add("u", 0, Row(1));
  cluster_.Add("u", 0, Row(2));
  cluster_.Add("u", 0, Row(3));
  Config config = Reading({{"topics", ConfigList{"t", "u"}}, {"end", "latest"}});
  const SplitState t0{"t/0", "2 to 2 end"};
  const SplitState t1{"t/1", "0 to 0 end"};
  ASSERT_TRUE(Open(config, {t0, {"u/0", "1 to 3"}, t1}).ok());
  EXPECT_TRUE(Ends());
  EXPECT_THAT(output_.Int64s(0), ElementsAre(2, 3));
  // It stays known as read.
  std::vector<SplitState> positions = Positions();
  EXPECT_THAT(positions, testing::SizeIs(3));
  EXPECT_THAT(positions, testing::IsSupersetOf({t0, t1}));
  // Nor one that other subtasks have read.
  const int owner = OwnerOf({"u", 0}, 3);
  for (int subtask = 0; subtask < 3; ++subtask) {
    ASSERT_TRUE(Open(config, {t0, t1, {"u/0", "1 to 3"}}, subtask, 3).ok());
    EXPECT_TRUE(Ends());
    EXPECT_EQ(output_.rows(), subtask == owner ? 2 : 0);
  }
  // Nor any, by names or a pattern.
  cluster_.DeleteTopic("u");
  ASSERT_TRUE(Open(config, positions).ok());
  EXPECT_TRUE(Ends());
  config.Set("topics", ConfigValue());
  config.Set("topic_pattern", ".");
  ASSERT_TRUE(Open(config, positions).ok());
  EXPECT_TRUE(Ends());
  EXPECT_THAT(Positions(), testing::UnorderedElementsAreArray(positions));
}

TEST_F(KafkaSourceTest, ABoundedReadNeedsATopicThatAnySubtaskHasNotReadToItsEnd) {
  cluster_.Add("u", 0, Row(1));
  const Config config = Reading({{"topics", ConfigList{"t", "u"}}, {"end", "latest"}});
  const SplitState ended{"t/0", "2 to 2 end"};
  const SplitState of_u{"u/0", "1 to 1 end"};
  for (const SplitState& other : {SplitState{"t/1", "2 to 3"}, SplitState{"start 0 of 1", ""}}) {
    ASSERT_TRUE(Open(config, {ended, of_u, other}).ok());
    EXPECT_THAT(Error(), HasSubstr("topic 't' was read, but is gone")) << other.split;
  }
  // Without an end there may always be more of it.
  ASSERT_TRUE(Open(Reading({{"topics", ConfigList{"t", "u"}}}), {ended, of_u}).ok());
  EXPECT_THAT(Error(), HasSubstr("topic 't' was read, but is gone"));
}

TEST_F(KafkaSourceTest, ATopicReadToItsEndMayGoWhileABoundedReadGoesOn) {
  AddRows(0, 0, 1);
  cluster_.Add("u", 0, Row(10));
  const Config config =
      Reading({{"topics", ConfigList{"t", "u"}}, {"end_offsets", ConfigMembers{{"u:0", 2}}}});
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), UnorderedElementsAre(0, 1, 10));
  cluster_.DeleteTopic("t");
  cluster_.Tell({.kind = KafkaEvent::Kind::kUnknownPartition,
                 .status = NotFoundError("unknown topic or partition")});
  EXPECT_EQ(Error(), "no error");
  cluster_.Add("u", 0, Row(11));
  EXPECT_TRUE(Ends());
  EXPECT_THAT(output_.Int64s(0), UnorderedElementsAre(0, 1, 10, 11));
}

TEST_F(KafkaSourceTest, AnEndBehindTheLastRowIsWaitedForAndSaidSo) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading({{"end_offsets", ConfigMembers{{"t:0", 6}}}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(context_->waiting_["end"], "rows of t/0 up to offset 6 (end_offsets): it ends at 4");
  AddRows(0, 4, 5);
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_EQ(context_->waiting_["end"], "");
}

TEST_F(KafkaSourceTest, OfSeveralEndsBehindTheLastRowTheFirstIsSaidUntilNoneIsLeft) {
  for (int32_t partition : {0, 1, 2}) AddRows(partition, 0, 3);
  ASSERT_TRUE(
      Open(Reading({{"end_offsets", ConfigMembers{{"t:0", 5}, {"t:1", 6}, {"t:2", 7}}}})).ok());
  Ids();
  EXPECT_EQ(context_->waiting_["end"], "rows of t/0 up to offset 5 (end_offsets): it ends at 4");
  AddRows(1, 4, 5);
  Ids();
  EXPECT_EQ(context_->waiting_["end"], "rows of t/0 up to offset 5 (end_offsets): it ends at 4");
  AddRows(0, 4, 4);
  Ids();
  EXPECT_EQ(context_->waiting_["end"], "rows of t/2 up to offset 7 (end_offsets): it ends at 4");
  AddRows(2, 4, 6);
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_EQ(context_->waiting_["end"], "");
}

TEST_F(KafkaSourceTest, ARestoredBoundedReadKeepsItsEnd) {
  options_.batch_rows_max = 2;
  AddRows(0, 0, 4);
  ASSERT_TRUE(Open(Reading({{"end", "latest"}})).ok());
  executor_.RunAll();
  while (output_.rows() == 0) ASSERT_TRUE(source_->Poll(output_).ok());
  EXPECT_THAT(output_.Int64s(0), ElementsAre(0, 1));
  const std::vector<SplitState> positions = Positions();
  AddRows(0, 5, 9);
  ASSERT_TRUE(Open(Reading({{"end", "latest"}}), positions).ok());
  EXPECT_EQ(*PollNow(), PollResult::kEnded);
  EXPECT_THAT(output_.Int64s(0), ElementsAre(2, 3, 4));
}

TEST_F(KafkaSourceTest, PartitionsFoundLaterAreReadFromTheirBeginning) {
  AddRows(1, 100, 100);
  ASSERT_TRUE(Open(Reading({{"start", "latest"}, {"discovery_interval", "5s"}})).ok());
  EXPECT_THAT(Ids(), IsEmpty());
  AddRows(2, 200, 202);
  EXPECT_THAT(Ids(), IsEmpty());
  executor_.Advance(5'000'000);
  EXPECT_THAT(Ids(), ElementsAre(200, 201, 202));
  // Also those that were made while the job stood still.
  const std::vector<SplitState> positions = Positions();
  AddRows(3, 300, 301);
  ASSERT_TRUE(Open(Reading({{"start", "latest"}}), positions).ok());
  EXPECT_THAT(Ids(), ElementsAre(300, 301));
}

TEST_F(KafkaSourceTest, ACheckpointBeforeTheFirstPartitionsWereFoundLosesNoStart) {
  AddRows(5, 500, 500);
  ASSERT_TRUE(Open(Reading({{"start", "latest"}}), {}, 0, 2).ok());
  std::vector<SplitState> positions = Positions();
  EXPECT_THAT(positions, ElementsAre(SplitState{"start 0 of 2", ""}));
  // The other subtask has found its own by then: what it does not know was made later.
  ASSERT_TRUE(Open(Reading({{"start", "latest"}}), {}, 1, 2).ok());
  EXPECT_THAT(Ids(), IsEmpty());
  for (const SplitState& state : Positions()) positions.push_back(state);
  AddRows(6, 600, 600);
  AddRows(7, 700, 700);
  const int64_t late = OwnerOf({"t", 6}, 2) == 1 ? 600 : 700;
  ASSERT_TRUE(Open(Reading({{"start", "latest"}}), positions).ok());
  EXPECT_THAT(Ids(), ElementsAre(late));
}

TEST_F(KafkaSourceTest, StartsThatWaitThroughRestartsStayAsFewAsTheyAre) {
  cluster_.MakeLog("t", 11);
  // What all subtasks write that are restored there and have not looked yet.
  const auto restarted = [&](const std::vector<SplitState>& positions, int parallelism) {
    std::vector<SplitState> written;
    for (int subtask = 0; subtask < parallelism; ++subtask) {
      EXPECT_TRUE(Open(Reading({{"start", "latest"}}), positions, subtask, parallelism).ok());
      for (const SplitState& state : Positions()) written.push_back(state);
    }
    return written;
  };
  const auto starts = [](std::initializer_list<const char*> splits) {
    std::vector<SplitState> states;
    for (const char* split : splits) states.push_back({split, ""});
    return testing::UnorderedElementsAreArray(states);
  };
  std::vector<SplitState> positions;
  for (int i = 0; i < 3; ++i) {
    positions = restarted(positions, 3);
    EXPECT_THAT(positions, starts({"start 0 of 3", "start 1 of 3", "start 2 of 3"}));
  }
  // Each partition is in one of them at any parallelism.
  for (int i = 0; i < 2; ++i) {
    positions = restarted(positions, 2);
    EXPECT_THAT(positions,
                starts({"start 0 of 3, 0 of 2", "start 1 of 3, 0 of 2", "start 2 of 3, 0 of 2",
                        "start 0 of 3, 1 of 2", "start 1 of 3, 1 of 2", "start 2 of 3, 1 of 2"}));
  }
  EXPECT_THAT(restarted({{"start 0 of 4", ""}, {"start 1 of 4", ""}}, 2),
              starts({"start 0 of 4, 0 of 2", "start 1 of 4, 1 of 2"}));
  // Of earlier versions.
  EXPECT_THAT(restarted({{"start 0 of 3, 1 of 3, 2 of 3", ""},
                         {"start 2 of 3", ""},
                         {"start 2 of 3", ""},
                         {"start 1 of 3, 2 of 3", ""}},
                        3),
              starts({"started", "started", "start 2 of 3"}));
  // At last one looks: nothing was made later.
  AddRows(0, 1, 1);
  AddRows(11, 2, 2);
  ASSERT_TRUE(Open(Reading({{"start", "latest"}}), positions).ok());
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(KafkaSourceTest, AStartIsLeftOffWhereNoPartitionCanBeOfAllItsSubtasks) {
  for (int first = 0; first < 4; ++first) {
    for (int second = 0; second < 6; ++second) {
      KafkaPendingStart pending{{{first, 4}}};
      const bool may_hold = pending.NarrowTo({second, 6});
      EXPECT_EQ(ToString(pending), Concat("start ", first, " of 4, ", second, " of 6"));
      bool holds = false;
      for (int32_t number = 0; number < 12; ++number) {
        holds = holds || pending.Holds({"flights", number});
      }
      EXPECT_EQ(may_hold, holds) << ToString(pending);
    }
  }
}

TEST_F(KafkaSourceTest, TopicsOfAPatternAreFoundLaterToo) {
  cluster_.Add("logs-a", 0, Row(1));
  cluster_.Add("other", 0, Row(2));
  Config config = Reading({{"topics", ConfigValue()}, {"topic_pattern", "logs-.*"}});
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), ElementsAre(1));
  cluster_.Add("logs-b", 0, Row(3));
  executor_.Advance(10'000'000);
  EXPECT_THAT(Ids(), ElementsAre(1, 3));
}

TEST_F(KafkaSourceTest, ASourceThatFoundNothingYetHasStartedAllTheSame) {
  const Config config =
      Reading({{"topics", ConfigValue()}, {"topic_pattern", "logs-.*"}, {"start", "latest"}});
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), IsEmpty());
  std::vector<SplitState> positions = Positions();
  EXPECT_THAT(positions, ElementsAre(SplitState{"started", ""}));
  // A topic that is made while the job stands still is as new as one that is made while it runs.
  cluster_.Add("logs-a", 0, Row(1));
  ASSERT_TRUE(Open(config, positions).ok());
  EXPECT_EQ(Positions(), positions);  // nor may a checkpoint before it looks again forget it
  EXPECT_THAT(Ids(), ElementsAre(1));
  const SplitState of_a = Positions().front();
  EXPECT_EQ(of_a.split, "logs-a/0");

  // Beside positions of other subtasks, at another parallelism.
  cluster_.Add("logs-a", 0, Row(2));
  cluster_.Add("logs-b", 0, Row(3));
  ASSERT_TRUE(Open(config, {of_a, {"started", ""}, {"started", ""}}).ok());
  EXPECT_THAT(Ids(), ElementsAre(2, 3));
  EXPECT_THAT(Positions(), testing::SizeIs(2));

  // Beside subtasks that have not looked yet: what belongs to those begins where the config says.
  cluster_.Add("logs-c", 1, Row(4));
  cluster_.Add("logs-c", 0, Row(5));
  ASSERT_TRUE(Open(config, {of_a, {"started", ""}, {"start 1 of 2", ""}}).ok());
  std::vector<int64_t> expected{2};
  if (OwnerOf({"logs-b", 0}, 2) == 0) expected.push_back(3);
  expected.push_back(OwnerOf({"logs-c", 0}, 2) == 0 ? 5 : 4);
  EXPECT_THAT(Ids(), testing::UnorderedElementsAreArray(expected));
}

TEST_F(KafkaSourceTest, RowsDeletedBeforeTheyWereReadAreAnErrorUnlessTheUserSaysSo) {
  AddRows(0, 0, 9);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  const std::vector<SplitState> positions = Positions();
  AddRows(0, 10, 19);
  cluster_.DeleteUpTo("t", 0, 13);
  ASSERT_TRUE(Open(Reading(), positions).ok());
  EXPECT_EQ(Error(),
            "kafka.source 'in': t/0 is to be read from offset 10, but has only those from 13 to "
            "20: 3 rows were deleted before they were read (on_lost_rows is fail)");
  ASSERT_TRUE(Open(Reading({{"on_lost_rows", "continue"}}), positions).ok());
  EXPECT_THAT(Ids(), ElementsAre(13, 14, 15, 16, 17, 18, 19));
  EXPECT_EQ(context_->lost_, 3);

  // While it reads.
  options_.batch_rows_max = 2;
  cluster_.poll_rows_max_ = 2;
  ASSERT_TRUE(Open(Reading({{"on_lost_rows", "continue"}}), positions).ok());
  executor_.RunAll();
  while (output_.rows() == 0) ASSERT_TRUE(source_->Poll(output_).ok());
  cluster_.DeleteUpTo("t", 0, 18);
  EXPECT_THAT(Ids(), ElementsAre(13, 14, 18, 19));
  EXPECT_EQ(context_->lost_, 6);
}

// One flow finds the rest of t/0 deleted while another one, which asked before, waits to ask again.
TEST_F(KafkaSourceTest, APartitionWhoseRestWasDeletedEndsOnce) {
  options_.batch_rows_max = 2;
  cluster_.poll_rows_max_ = 2;
  AddRows(0, 0, 9);
  AddRows(1, 100, 109);
  ASSERT_TRUE(Open(Reading({{"end", "latest"}, {"on_lost_rows", "continue"}})).ok());
  executor_.RunAll();
  while (output_.rows() == 0) ASSERT_TRUE(source_->Poll(output_).ok());
  AddRows(0, 10, 12);
  cluster_.DeleteUpTo("t", 0, 12);
  cluster_.answer_ = UnavailableError("no broker answers");
  cluster_.Tell({.kind = KafkaEvent::Kind::kOutOfRange, .tag = 0, .offset = 0, .status = {}});
  ASSERT_TRUE(PollNow().ok());
  cluster_.answer_ = Status();
  cluster_.Tell({.kind = KafkaEvent::Kind::kUnknownPartition,
                 .status = NotFoundError("unknown topic or partition")});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(source_->Poll(output_).ok());
  executor_.RunAll();
  executor_.Advance(1'000'000);
  const StatusOr<PollResult> result = PollNow();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, PollResult::kEnded);
  const std::vector<int64_t> ids = output_.Int64s(0);
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [](int64_t id) { return id >= 100; }), 10);
}

TEST_F(KafkaSourceTest, ALogThatEndsBelowWhatWasReadIsAnError) {
  AddRows(0, 0, 9);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  const std::vector<SplitState> positions = Positions();
  cluster_.DeleteTopic("t");
  AddRows(0, 0, 5);
  for (const char* policy : {"fail", "continue"}) {
    ASSERT_TRUE(Open(Reading({{"on_lost_rows", policy}}), positions).ok());
    EXPECT_EQ(
        Error(),
        "kafka.source 'in': t/0 was read up to offset 10, but ends at 6 now (from 0 on): rows "
        "were lost, or the topic was deleted and made anew");
  }
  // A cluster that has just come back may not know better yet.
  ASSERT_TRUE(Open(Reading(), positions).ok());
  executor_.Advance(2'000'000);
  cluster_.DeleteTopic("t");
  AddRows(0, 0, 11);
  EXPECT_EQ(Error(), "no error");
  EXPECT_THAT(output_.Int64s(0), ElementsAre(10, 11));
}

TEST_F(KafkaSourceTest, ATopicMadeAnewIsKnownByTheRowInFrontOfThePosition) {
  AddRows(0, 0, 9);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  const std::vector<SplitState> positions = Positions();
  // The same rows at the same time, but for the last one.
  cluster_.DeleteTopic("t");
  AddRows(0, 0, 8);
  AddRows(0, 99, 120);
  ASSERT_TRUE(Open(Reading(), positions).ok());
  EXPECT_EQ(Error(),
            "kafka.source 'in': t/0 was read up to offset 10, but another row stands at offset 9 "
            "now: the topic was deleted and made anew");
  EXPECT_EQ(output_.rows(), 0);
  // Compaction may take the row, and those in front of it.
  for (int64_t offset : {8, 9, 10}) cluster_.MakeLog("t", 0).rows.erase(offset);
  ASSERT_TRUE(Open(Reading(), positions).ok());
  EXPECT_THAT(Ids().front(), 101);
}

TEST_F(KafkaSourceTest, ATopicThatIsUnknownForAMomentIsLookedAtAgain) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
  const KafkaEvent unknown{.kind = KafkaEvent::Kind::kUnknownPartition,
                           .status = NotFoundError("unknown topic or partition")};
  cluster_.Tell(unknown);
  EXPECT_THAT(NewIds(), IsEmpty());
  AddRows(0, 4, 5);
  EXPECT_THAT(NewIds(), ElementsAre(4, 5));
  // Made anew with as many rows and more.
  cluster_.DeleteTopic("t");
  AddRows(0, 50, 60);
  cluster_.Tell(unknown);
  EXPECT_THAT(Error(), HasSubstr("another row stands at offset 5 now"));
}

// Nobody tells of it, and all that is read is there.
TEST_F(KafkaSourceTest, ATopicMadeAnewAndLongerIsNoticedWhileItIsRead) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading({{"discovery_interval", "10s"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
  executor_.Advance(10'000'000);
  for (int64_t id = 4; id < 10; ++id) {
    AddRows(0, id, id);
    EXPECT_THAT(NewIds(), ElementsAre(id));
    executor_.Advance(10'000'000);
  }
  cluster_.DeleteTopic("t");
  AddRows(0, 50, 60);
  cluster_.Add("t", 0, Row(61));
  EXPECT_THAT(NewIds(), ElementsAre(60, 61));
  EXPECT_THAT(Error(), HasSubstr("t/0 was read, but another row stands at offset 9 now: the topic "
                                 "was deleted and made anew"));
}

TEST_F(KafkaSourceTest, ARowThatIsNotThereAnyMoreTellsNothing) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading({{"discovery_interval", "10s"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
  executor_.Advance(10'000'000);
  AddRows(0, 4, 5);
  EXPECT_THAT(NewIds(), ElementsAre(4, 5));
  cluster_.DeleteUpTo("t", 0, 5);
  EXPECT_EQ(Error(), "no error");
}

TEST_F(KafkaSourceTest, ADeletedTopicIsAnError) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  const std::vector<SplitState> positions = Positions();
  cluster_.DeleteTopic("t");
  EXPECT_EQ(Error(),
            "kafka.source 'in': topic 't' was read, but is gone: it was deleted (cluster b:9092). "
            "Nobody can tell whether rows of it are lost. A job without it, by its topics or "
            "topic_pattern, goes on from the newest checkpoint (weir run --from)");
  ASSERT_TRUE(Open(Reading(), positions).ok());
  EXPECT_THAT(Error(), HasSubstr("topic 't' was read, but is gone"));
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_EQ(Error(), "kafka.source 'in': topic 't' does not exist (cluster b:9092)");
  // Made anew with fewer partitions.
  cluster_.MakeLog("t", 0);
  ASSERT_TRUE(Open(Reading(), {{"t/2", "5"}}).ok());
  EXPECT_EQ(Error(),
            "kafka.source 'in': t/2 was read up to offset 5, but the topic has only 1 partitions "
            "now: it was deleted and made anew");
}

TEST_F(KafkaSourceTest, WaitsForBrokersAndSaysSo) {
  AddRows(0, 0, 1);
  cluster_.answer_ = UnavailableError("no broker answers");
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_EQ(*PollNow(), PollResult::kIdle);
  EXPECT_FALSE(source_->Reachable());
  executor_.Advance(60'000'000);
  cluster_.answer_ = Status();
  executor_.Advance(1'000'000);
  EXPECT_THAT(Ids(), ElementsAre(0, 1));
  EXPECT_TRUE(source_->Reachable());

  cluster_.answer_ = UnavailableError("no broker answers");
  cluster_.Tell({.kind = KafkaEvent::Kind::kBrokersAway, .status = cluster_.answer_});
  EXPECT_EQ(*PollNow(), PollResult::kIdle);
  EXPECT_FALSE(source_->Reachable());
  executor_.Advance(30'000'000);
  AddRows(0, 2, 2);
  cluster_.answer_ = Status();
  executor_.Advance(1'000'000);
  EXPECT_TRUE(source_->Reachable());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2));
}

TEST_F(KafkaSourceTest, ABrokerThatIsLostIsAskedFor) {
  AddRows(0, 0, 1);
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1));
  const KafkaEvent lost{.kind = KafkaEvent::Kind::kBrokerLost, .status = {}};
  cluster_.Tell(lost);  // others answer
  EXPECT_THAT(NewIds(), IsEmpty());
  EXPECT_TRUE(source_->Reachable());
  cluster_.answer_ = UnavailableError("Kafka brokers b:9092 do not answer");
  cluster_.Tell(lost);
  EXPECT_THAT(NewIds(), IsEmpty());
  EXPECT_FALSE(source_->Reachable());
  EXPECT_EQ(context_->waiting_["brokers"], "Kafka brokers b:9092 do not answer");
  cluster_.answer_ = Status();
  executor_.Advance(1'000'000);
  EXPECT_TRUE(source_->Reachable());
  EXPECT_EQ(context_->waiting_["brokers"], "");
}

TEST_F(KafkaSourceTest, WhatEndsReadingEndsTheGeneration) {
  AddRows(0, 0, 1);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  cluster_.Tell({.kind = KafkaEvent::Kind::kFailed,
                 .status = FailedPreconditionError("not authorised to read t")});
  EXPECT_EQ(Error(), "kafka.source 'in': not authorised to read t");
}

TEST_F(KafkaSourceTest, GroupOffsetsFollowCompletedCheckpoints) {
  AddRows(0, 0, 3);
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  Positions();
  source_->OnSnapshot(7);
  AddRows(0, 4, 5);
  Ids();
  Positions();
  source_->OnSnapshot(8);
  executor_.RunAll();
  EXPECT_THAT(cluster_.committed_, IsEmpty());
  source_->OnCompleted(7);
  executor_.RunAll();
  EXPECT_EQ(cluster_.committed_.at({"t", 0}), 4);
  source_->OnCompleted(9);  // not known here: nothing may be said of it
  executor_.RunAll();
  EXPECT_EQ(cluster_.commits_, 1);
}

TEST_F(KafkaSourceTest, ABadRowIsNamedByPartitionAndOffset) {
  AddRows(0, 0, 3);
  cluster_.Add("t", 0, "{\"id\":\"x\"}");
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Error(), testing::StartsWith("kafka.source 'in': t/0 offset 4: column 'id'"));
}

TEST_F(KafkaSourceTest, BadRowsAreDroppedOrBecomeDeadLetters) {
  AddRows(0, 0, 1);
  cluster_.Add("t", 0, "[]");
  cluster_.Add("t", 0, "");
  cluster_.Add("t", 0, std::string("{\"id\":2}\xff"));
  AddRows(0, 3, 4);
  ASSERT_TRUE(Open(Reading({{"bad_data", "drop"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(context_->dropped_, 3);
  // No timestamp that the letter can tell.
  cluster_.MakeLog("t", 0).rows[3].timestamp_ms = 1'697'000'000'000'000'000;
  ASSERT_TRUE(Open(Reading({{"bad_data", "dead_letter"}, {"dead_letter_path", "/dead"}})).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 3, 4));
  std::optional<std::vector<Committable>> sealed;
  source_->committable_owner()->Prepare(CheckpointId(1),
                                        [&](auto prepared) { sealed = *prepared; });
  executor_.RunAll();
  ASSERT_TRUE(sealed.has_value());
  bool published = false;
  source_->committable_owner()->Publish(CheckpointId(1),
                                        [&](Status status) { published = status.ok(); });
  executor_.RunAll();
  ASSERT_TRUE(published);
  std::string letters;
  for (const std::string& path : files_.Files("/dead")) {
    if (path.ends_with(".jsonl")) letters += files_.Bytes(path);
  }
  EXPECT_THAT(letters, HasSubstr("{\"source\":\"in\",\"topic\":\"t\",\"partition\":0,\"offset\":2,"
                                 "\"timestamp\":\"1970-01-01T00:00:01.002Z\",\"length\":2,"));
  EXPECT_THAT(letters, HasSubstr("\"text\":\"[]\",\"bytes\":\"W10=\",\"key\":null}\n"));
  EXPECT_THAT(letters, HasSubstr("\"offset\":3,\"timestamp\":null,"));
  EXPECT_THAT(letters, HasSubstr("\"offset\":4,"));
  EXPECT_EQ(std::count(letters.begin(), letters.end(), '\n'), 3);
}

TEST_F(KafkaSourceTest, TheRateIsOfTheWholeSource) {
  AddRows(0, 0, 999);
  AddRows(1, 0, 999);
  ASSERT_TRUE(Open(Reading({{"rate", 100}}), {}, 0, 2).ok());
  Ids();
  for (int i = 0; i < 4000; ++i) {
    executor_.Advance(1000);
    PollNow().ok();
  }
  // One of two partitions for four seconds.
  EXPECT_NEAR(static_cast<double>(output_.rows()), 200, 3);
}

class KafkaRowsTest : public KafkaSourceTest {};

// A producer that gave nanoseconds, in October 2023.
TEST_F(KafkaRowsTest, ATimestampThatNoColumnCanHoldIsBadData) {
  Config config = Reading({{"metadata", ConfigMembers{{"at", "timestamp"}}}});
  AddRows(0, 0, 2);
  cluster_.MakeLog("t", 0).rows[0].timestamp_ms = 9'223'372'036'854'775;
  cluster_.MakeLog("t", 0).rows[1].timestamp_ms = 9'223'372'036'854'776;
  cluster_.MakeLog("t", 0).rows[2].timestamp_ms = 1'697'000'000'000'000'000;
  ASSERT_TRUE(Open(config).ok());
  EXPECT_EQ(Error(),
            "kafka.source 'in': t/0 offset 1: column 'at': the timestamp of the message, "
            "9223372036854776 ms, is more than a TIMESTAMP can hold");
  config.Set("bad_data", "drop");
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), ElementsAre(0));
  EXPECT_EQ(output_.batches()[0].column(1).Int64(0), 9'223'372'036'854'775'000);
  EXPECT_EQ(context_->dropped_, 2);
  // Who does not ask for it gets the row.
  ASSERT_TRUE(Open(Reading()).ok());
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2));
}

TEST_F(KafkaRowsTest, AValueIsOneRowWhateverLineEndsItHas) {
  cluster_.Add("t", 0, "{\"id\":\n1}");
  cluster_.Add("t", 0, "{\"id\":2}\n");
  cluster_.Add("t", 0, std::nullopt);
  cluster_.Add("t", 0, "{\"id\":3}\r\n");
  ASSERT_TRUE(Open(Reading()).ok());
  Ids();
  ASSERT_EQ(output_.rows(), 4);
  const Column& ids = output_.batches()[0].column(0);
  EXPECT_EQ(ids.Int64(0), 1);
  EXPECT_EQ(ids.Int64(1), 2);
  EXPECT_TRUE(ids.IsNull(2));
  EXPECT_EQ(ids.Int64(3), 3);
  // Two rows that would make up for a blank one.
  for (const char* value : {"{\"id\":4}\n{\"id\":5}", " ", "{\"id\":\"a\nb\"}"}) {
    cluster_.DeleteTopic("t");
    AddRows(0, 0, 0);
    cluster_.Add("t", 0, value);
    cluster_.Add("t", 0, "");
    ASSERT_TRUE(Open(Reading({{"bad_data", "drop"}})).ok());
    EXPECT_THAT(Ids(), ElementsAre(0)) << value;
    EXPECT_EQ(context_->dropped_, 2);
  }
}

TEST_F(KafkaRowsTest, CsvRowsStayWithinTheirValues) {
  const Config config = Reading({{"format", "csv"},
                                 {"schema", ConfigMembers{{"id", "INT64"}, {"text", "STRING"}}},
                                 {"bad_data", "drop"}});
  cluster_.Add("t", 0, "1,\"a\nb\"");
  cluster_.Add("t", 0, "2,\"open");  // would take the next row with it
  cluster_.Add("t", 0, "3\",closed");
  cluster_.Add("t", 0, "4,x\r\n");
  cluster_.Add("t", 0, "5,x\n6,y");
  cluster_.Add("t", 0, "7,\"say \"\"hi\"\"\"");
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Ids(), ElementsAre(1, 4, 7));
  EXPECT_EQ(context_->dropped_, 3);
  EXPECT_EQ(output_.batches()[0].column(1).Text(0), "a\nb");
  EXPECT_EQ(output_.batches()[0].column(1).Text(2), "say \"hi\"");
}

TEST_F(KafkaRowsTest, RawValuesAndAllMetadata) {
  const Config config{{"brokers", "b:9092"},
                      {"topics", "t"},
                      {"format", "raw"},
                      {"metadata", ConfigMembers{{"k", "key"},
                                                 {"kb", "key_bytes"},
                                                 {"topic", "topic"},
                                                 {"p", "partition"},
                                                 {"o", "offset"},
                                                 {"at", "timestamp"},
                                                 {"all", "headers"},
                                                 {"one", "header:a"},
                                                 {"raw", "header_bytes:b"}}}};
  FakeKafkaCluster::Row row;
  row.value = "v\n";
  row.key = "key";
  row.timestamp_ms = 1500;
  row.headers = {{"a", "1"}, {"b", "\xff"}, {"a", "\"2\""}, {"n", std::nullopt}};
  cluster_.MakeLog("t", 1).rows[17] = row;
  cluster_.MakeLog("t", 1).end = 18;
  cluster_.Add("t", 1, std::nullopt);
  ASSERT_TRUE(Open(config).ok());
  ASSERT_TRUE(PollNow().ok());
  ASSERT_EQ(output_.rows(), 2);
  const RecordBatch& batch = output_.batches()[0];
  EXPECT_EQ(batch.column(0).Text(0), "v\n");
  EXPECT_TRUE(batch.column(0).IsNull(1));
  EXPECT_EQ(batch.column(1).Text(0), "key");
  EXPECT_TRUE(batch.column(1).IsNull(1));
  EXPECT_EQ(batch.column(2).Text(0), "key");
  EXPECT_EQ(batch.column(3).Text(1), "t");
  EXPECT_EQ(batch.column(4).Int32(0), 1);
  EXPECT_EQ(batch.column(5).Int64(0), 17);
  EXPECT_EQ(batch.column(5).Int64(1), 18);
  EXPECT_EQ(batch.column(6).Int64(0), 1'500'000);
  EXPECT_EQ(batch.column(7).Text(0),
            "[{\"name\":\"a\",\"value\":\"1\"},{\"name\":\"b\",\"bytes\":\"/w==\"},"
            "{\"name\":\"a\",\"value\":\"\\\"2\\\"\"},{\"name\":\"n\",\"value\":null}]");
  EXPECT_EQ(batch.column(7).Text(1), "[]");
  EXPECT_EQ(batch.column(8).Text(0), "\"2\"");
  EXPECT_TRUE(batch.column(8).IsNull(1));
  EXPECT_EQ(batch.column(9).Text(0), "\xff");
  // A text column takes texts only. Of headers of its name it takes the last.
  row.headers = {{"a", "\xff"}, {"a", "3"}};
  cluster_.MakeLog("t", 1).rows[19] = row;
  cluster_.AddGap("t", 1);
  ASSERT_TRUE(PollNow().ok());
  ASSERT_EQ(output_.rows(), 3);
  EXPECT_EQ(output_.batches()[1].column(8).Text(0), "3");
  row.headers = {{"a", "3"}, {"a", "\xff"}};
  cluster_.MakeLog("t", 1).rows[20] = row;
  cluster_.AddGap("t", 1);
  EXPECT_THAT(Error(), HasSubstr("t/1 offset 20: column 'one': the header 'a' is no valid UTF-8"));
  cluster_.MakeLog("t", 1).rows.erase(20);
  row.key = "\xff";
  cluster_.MakeLog("t", 1).rows[19] = row;
  ASSERT_TRUE(Open(config).ok());
  EXPECT_THAT(Error(), HasSubstr("t/1 offset 19: column 'k': the key is no valid UTF-8"));
}

}  // namespace
}  // namespace weir
