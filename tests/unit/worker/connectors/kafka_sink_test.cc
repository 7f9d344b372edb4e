// kafka.sink and its committer against a cluster in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <optional>
#include <set>

#include "common/base/concat.h"
#include "tests/unit/worker/connectors/kafka_sink_process.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/sink/topic_watch.h"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Values of the rows in the dead letters that are to be seen.
std::vector<int64_t> LetterIds(const MemoryFileSystem& files) {
  constexpr std::string_view kRow = R"("row":"{\"value\":\"1)";  // before 001 or the like
  std::vector<int64_t> ids;
  for (const std::string& path : files.Files("/dead")) {
    if (path.starts_with("/dead/.")) continue;
    const std::string text = files.Bytes(path);
    for (size_t at = text.find(kRow); at != std::string::npos; at = text.find(kRow, at + 1)) {
      ids.push_back(std::stoll(text.substr(at + kRow.size())));
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(KafkaSink, RowsAreSeenWhenTheirCheckpointIsPublishedAndNotBefore) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(prepared->ok());
  ASSERT_EQ((*prepared)->size(), 1u);
  EXPECT_EQ((**prepared)[0].payload, "kafka-stage 1\ng1-0-0-out.records\n60\n3\n1\n");
  ASSERT_TRUE(process.sink->Write(Rows(3, 5)).ok());
  process.executor.RunAll();
  EXPECT_THAT(Ids(kafka), IsEmpty());
  EXPECT_EQ(process.sink->progress()->staged_rows, 5);
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
  EXPECT_EQ(kafka.MarkerOf(kIdentity),
            (KafkaMarker{JobId(kJob), Generation(1), CheckpointId(1), 0, 1}));
  EXPECT_FALSE(kafka.AnyTransactionOpen());
  EXPECT_THAT(process.files.Files("/job/staged"), testing::SizeIs(testing::Le(1)));
  EXPECT_EQ(process.sink->progress()->staged_rows, 2);
  EXPECT_EQ(process.sink->progress()->committed, CheckpointId(1));

  // A generation that goes on from there has not lost it.
  Process next(kafka, 2, process.files.disk());
  next.context.resumed_from_ = CheckpointId(1);
  ASSERT_SAYS_OK(next.Open());
  EXPECT_EQ(next.sink->progress()->committed, CheckpointId(1));
  EXPECT_EQ(next.sink->progress()->committed_wall_us, 0);
}

// More than is kept in memory, at once: there has to be a place for them.
TEST(KafkaSink, TheFirstRowsAreStagedWhileTheIdentityIsStillTakenOver) {
  FakeKafka kafka;
  Process process(kafka, 1);
  process.files.set_hold(
      [](std::string_view operation, const std::string&) { return operation == "make_directory"; });
  bool opened = false;
  process.sink->Open(process.context, [&](const Status&) { opened = true; });
  process.executor.RunAll();
  EXPECT_FALSE(opened);
  process.files.Release();
  process.executor.RunUntil([&] { return opened; }, 20'000'000);
  ASSERT_TRUE(process.sink->Write(Rows(0, 50'000)).ok());
  ASSERT_TRUE(process.sink->Write(Rows(50'000, 100'000)).ok());
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(process.context.failed_.ok()) << process.context.failed_;
  ASSERT_TRUE(prepared->ok());
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Ids(kafka), testing::SizeIs(100'000));
}

TEST(KafkaSink, EachCheckpointCommitsTheMarkerWithRowsOrWithout) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  process.executor.RunAll();
  EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(0));
  ASSERT_EQ((*process.Prepare(1))->size(), 1u);
  process.sink->OnAborted(CheckpointId(1));
  // What the first one left, which is enough.
  auto prepared = process.Prepare(2);
  ASSERT_EQ((*prepared)->size(), 1u);
  ASSERT_SAYS_OK(process.Publish(2));
  EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(1));
  ASSERT_EQ((*process.Prepare(3))->size(), 1u);
  ASSERT_SAYS_OK(process.Publish(3));
  EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(3));
  EXPECT_THAT(process.files.Files("/job/staged"), IsEmpty());
  EXPECT_THAT(Ids(kafka), IsEmpty());
}

// What they list is bounded, and the marker may be behind them.
TEST(KafkaSink, CheckpointsWithoutRowsDoNotPileUpWhileNoBrokerAnswers) {
  for (const bool rows : {true, false}) {
    SCOPED_TRACE(rows);
    FakeKafka kafka;
    Process process(kafka, 1);
    ASSERT_SAYS_OK(process.Open());
    process.executor.RunAll();
    kafka.set_faults([](std::string_view, const std::string&) {
      FakeKafka::Fault fault;
      fault.lose_request = true;
      return fault;
    });
    if (rows) {
      ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
    }
    std::vector<Committable> listed;
    int published = 0;
    for (uint64_t checkpoint = 1; checkpoint <= 20; ++checkpoint) {
      auto prepared = process.Prepare(checkpoint);
      ASSERT_TRUE(prepared.has_value() && prepared->ok());
      listed = **prepared;
      ASSERT_EQ(listed.size(), 1u);
      process.sink->Publish(CheckpointId(checkpoint),
                            [&](const Status& status) { published += status.ok() ? 1 : 0; });
      process.executor.Advance(1'000'000);
    }
    EXPECT_EQ(published, 0);
    kafka.set_faults(nullptr);
    process.executor.Advance(20'000'000);
    EXPECT_EQ(published, 20);
    EXPECT_EQ(process.sink->progress()->committed, CheckpointId(20));
    EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(1));

    Process next(kafka, 2, process.files.disk());
    ASSERT_SAYS_OK(next.Commit(listed));
    ASSERT_SAYS_OK(next.AbortOthers(2, listed));
    next.context.resumed_from_ = CheckpointId(20);
    ASSERT_SAYS_OK(next.Open());
    ASSERT_EQ((*next.Prepare(21))->size(), 1u);
    ASSERT_SAYS_OK(next.Publish(21));
    EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(21));
    EXPECT_THAT(Ids(kafka), rows ? std::vector<int64_t>({0, 1, 2}) : std::vector<int64_t>());
  }
}

TEST(KafkaSink, LargeStagesArePublishedInParts) {
  FakeKafka kafka;
  Config config = SinkConfig();
  config.Set("transaction_size_max", "1MiB");
  Process process(kafka, 1, nullptr, config);
  ASSERT_SAYS_OK(process.Open());
  BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
  for (int64_t id = 0; id < 6; ++id) {
    std::string text = Concat(id);
    builder.column(0).AppendText(std::string(400'000, '0') + text);
    ASSERT_TRUE(process.sink->Write(builder.Finish()).ok());
  }
  auto prepared = process.Prepare(4);
  ASSERT_EQ((*prepared)->size(), 2u);
  ASSERT_SAYS_OK(process.Publish(4));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(kafka.MarkerOf(kIdentity),
            (KafkaMarker{JobId(kJob), Generation(1), CheckpointId(4), 1, 2}));
}

// Of what is read at a time: rows that are larger, and some that begin in it and do not end there.
TEST(KafkaSink, StagesAreReadInPiecesOfAnySize) {
  FakeKafka kafka;
  kafka.set_message_bytes_max(4'000'000);
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
  std::vector<int64_t> ids;
  for (const size_t bytes : {300'000, 500'000, 400'000, 3'000'000, 10, 1'048'000, 2'000'000}) {
    const int64_t id = static_cast<int64_t>(ids.size());
    ids.push_back(id);
    builder.column(0).AppendText(std::string(bytes, '0') + Concat(id));
    ASSERT_TRUE(process.sink->Write(builder.Finish()).ok());
  }
  ASSERT_TRUE((*process.Prepare(1)).ok());
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_EQ(Ids(kafka), ids);
}

TEST(KafkaSink, WrongMarkersAreRefusedWithBothSides) {
  FakeKafka kafka;
  kafka.SetMarker(kIdentity, {JobId("ffff"), Generation(3), CheckpointId(9), 0, 1});
  Process foreign(kafka, 1);
  foreign.Open();
  foreign.executor.RunAll();
  EXPECT_THAT(foreign.context.failed_.message(),
              AllOf(HasSubstr(kIdentity), HasSubstr("topic 'out'"), HasSubstr(kJob),
                    HasSubstr("ffff"), HasSubstr("transactional_id_prefix")));
  EXPECT_FALSE(foreign.context.failed_.retryable());

  kafka.SetMarker(kIdentity, {JobId(kJob), Generation(3), CheckpointId(9), 0, 1});
  Process ahead(kafka, 4);
  ahead.context.resumed_from_ = CheckpointId(8);
  ahead.Open();
  ahead.executor.RunAll();
  EXPECT_THAT(ahead.context.failed_.message(),
              AllOf(HasSubstr("ahead of the state"), HasSubstr("up to checkpoint 9"),
                    HasSubstr("from checkpoint 8")));
  EXPECT_FALSE(ahead.context.failed_.retryable());

  Process process(kafka, 5);
  process.context.resumed_from_ = CheckpointId(9);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 2)).ok());
  std::vector<Committable> listed = **process.Prepare(10);
  kafka.DeleteGroup(kIdentity);
  Process next(kafka, 6, process.files.disk());
  auto missing = next.Commit(listed);
  ASSERT_TRUE(missing.has_value());
  EXPECT_THAT(missing->message(), AllOf(HasSubstr("marker"), HasSubstr("missing"),
                                        HasSubstr(kIdentity), HasSubstr("checkpoint 10")));
  EXPECT_FALSE(missing->retryable());
  EXPECT_THAT(Ids(kafka), IsEmpty());
}

TEST(KafkaSink, NothingIsTakenOverByAGenerationThatIsNotCurrent) {
  FakeKafka kafka;
  Process process(kafka, 1);
  process.context.confirm_answer_ = StaleError("generation 1 is over");
  process.Open();
  process.executor.RunAll();
  EXPECT_THAT(process.context.failed_.message(), HasSubstr("generation 1 is over"));
  EXPECT_EQ(kafka.requests(), 1);  // describe
}

// Its job may have ended meanwhile, and nobody would take away what it writes.
TEST(KafkaSink, AGenerationThatEndsWhileItTakesTheIdentityOverWritesNoMarker) {
  FakeKafka kafka;
  Process process(kafka, 1);
  kafka.set_faults([&](std::string_view call, const std::string&) {
    if (call == "initialise") process.context.confirm_answer_ = StaleError("generation 1 is over");
    return FakeKafka::Fault();
  });
  process.Open();
  process.executor.RunAll();
  EXPECT_THAT(process.context.failed_.message(), HasSubstr("generation 1 is over"));
  EXPECT_EQ(kafka.MarkerOf(kIdentity), std::nullopt);
}

TEST(KafkaSink, AFencedInstanceEndsItsGenerationAndTakesNothingBack) {
  FakeKafka kafka;
  Process zombie(kafka, 1);
  ASSERT_SAYS_OK(zombie.Open());
  ASSERT_TRUE(zombie.sink->Write(Rows(0, 3)).ok());
  std::vector<Committable> listed = **zombie.Prepare(1);
  Process next(kafka, 2, zombie.files.disk());
  ASSERT_SAYS_OK(next.Commit(listed));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
  const int confirms = zombie.context.confirms_;
  zombie.Publish(1);
  EXPECT_THAT(zombie.context.failed_.message(), HasSubstr("fenced"));
  EXPECT_EQ(zombie.context.failed_.domain(), ErrorDomain::kExternal);
  EXPECT_EQ(zombie.context.confirms_, confirms);
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
}

// Answers are lost at each request in turn, of one kind or the other.
TEST(KafkaSink, LostRequestsAndAnswersNeitherLoseNorDouble) {
  for (bool answer : {false, true}) {
    for (KafkaVerdict verdict :
         {KafkaVerdict::kUnknown, KafkaVerdict::kAbort, KafkaVerdict::kFatal}) {
      for (int64_t at = 1; at <= 20; ++at) {
        SCOPED_TRACE(Concat("request ", at, answer ? " answer" : " request", " lost, verdict ",
                            static_cast<int>(verdict)));
        FakeKafka kafka;
        kafka.set_faults([&](std::string_view, const std::string&) {
          FakeKafka::Fault fault;
          if (kafka.requests() != at) return fault;
          (answer ? fault.lose_answer : fault.lose_request) = true;
          fault.verdict = verdict;
          return fault;
        });
        Process process(kafka, 1);
        ASSERT_SAYS_OK(process.Open());
        for (uint64_t n : {1, 2, 3}) {
          const int64_t row = static_cast<int64_t>(n) * 10;
          ASSERT_TRUE(process.sink->Write(Rows(row, row + 2)).ok());
          ASSERT_TRUE(process.Prepare(n)->ok());
          ASSERT_SAYS_OK(process.Publish(n));
        }
        EXPECT_THAT(Ids(kafka), ElementsAre(10, 11, 20, 21, 30, 31));
        EXPECT_FALSE(kafka.AnyTransactionOpen());
        EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(3));
      }
    }
  }
}

// A commit is held back while its repetition succeeds, and arrives when half of the next stage is
// there.
TEST(KafkaSink, ADelayedEndDoesNotTearTheNextTransaction) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  process.executor.RunAll();
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  ASSERT_TRUE(process.Prepare(1)->ok());
  bool held = false;
  kafka.set_faults([&](std::string_view call, const std::string&) {
    FakeKafka::Fault fault;
    if (call == "commit" && !std::exchange(held, true)) fault.hold = true;
    if (call == "marker" && kafka.held() > 0) {
      kafka.ReleaseHeld();
      fault.lose_request = true;
      fault.verdict = KafkaVerdict::kAbort;
    }
    return fault;
  });
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_EQ(kafka.held(), 1u);
  ASSERT_TRUE(process.sink->Write(Rows(3, 6)).ok());
  ASSERT_TRUE(process.Prepare(2)->ok());
  ASSERT_SAYS_OK(process.Publish(2));
  EXPECT_EQ(kafka.held(), 0u);
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2, 3, 4, 5));
}

// All are taken over before, for an open transaction holds readers back.
TEST(KafkaSink, OfManyIdentitiesAFewAreSettledAtATime) {
  constexpr int kIdentities = 20;
  FakeKafka kafka;
  std::vector<Committable> listed;
  std::shared_ptr<MemoryFileSystem::Disk> disk;
  for (int subtask = 0; subtask < kIdentities; ++subtask) {
    Process process(kafka, 1, disk);
    disk = process.files.disk();
    process.context.subtask_ = subtask;
    ASSERT_SAYS_OK(process.Open());
    ASSERT_TRUE(process.sink->Write(Rows(subtask, subtask + 1)).ok());
    auto prepared = process.Prepare(1);
    ASSERT_TRUE(prepared.has_value() && prepared->ok());
    listed.insert(listed.end(), (*prepared)->begin(), (*prepared)->end());
  }
  ASSERT_EQ(listed.size(), static_cast<size_t>(kIdentities));
  std::set<std::string> open;
  size_t open_max = 0;
  int taken_over = 0;
  int taken_over_at_first_commit = 0;
  kafka.set_faults([&](std::string_view call, const std::string& id) {
    if (call == "initialise") ++taken_over;
    if (call == "begin") open.insert(id);
    if (call == "commit") {
      open.erase(id);
      if (taken_over_at_first_commit == 0) taken_over_at_first_commit = taken_over;
    }
    open_max = std::max(open_max, open.size());
    return FakeKafka::Fault();
  });
  Process next(kafka, 2, disk);
  ASSERT_SAYS_OK(next.Commit(listed));
  EXPECT_THAT(Ids(kafka), testing::SizeIs(kIdentities));
  EXPECT_EQ(taken_over_at_first_commit, kIdentities);
  EXPECT_EQ(open_max, 8u);
  EXPECT_TRUE(open.empty());
}

TEST(KafkaSink, DamagedAndLostStagesAreNeverPublishedInPart) {
  enum class Damage { kLost, kBitFlipped, kCutOff, kLastBlockCutOff, kLonger };
  const std::pair<Damage, std::string_view> cases[] = {
      {Damage::kLost, "is lost"},
      {Damage::kBitFlipped, "at offset 16"},
      {Damage::kCutOff, "has 59 bytes with 0 rows; sealed were 60 bytes with 3"},
      {Damage::kLastBlockCutOff, "has 16 bytes with 0 rows; sealed were 60 bytes with 3"},
      {Damage::kLonger, "has 61 bytes with 3 rows; sealed were 60 bytes with 3"}};
  for (const auto& [damage, told] : cases) {
    FakeKafka kafka;
    Process process(kafka, 1);
    ASSERT_SAYS_OK(process.Open());
    ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
    std::vector<Committable> listed = **process.Prepare(1);
    const std::string path = "/job/staged/g1-0-0-out.records";
    std::string bytes = process.files.Bytes(path);
    if (damage == Damage::kBitFlipped) bytes.back() ^= 1;
    if (damage == Damage::kCutOff) bytes.pop_back();
    if (damage == Damage::kLastBlockCutOff) bytes.resize(kKafkaFileHeaderBytes);
    if (damage == Damage::kLonger) bytes += '.';
    if (damage == Damage::kLost) {
      process.files.Delete(path);
    } else {
      process.files.PutFile(path, bytes);
    }
    Process next(kafka, 2, process.files.disk());
    auto status = next.Commit(listed);
    ASSERT_TRUE(status.has_value());
    EXPECT_THAT(status->message(), AllOf(HasSubstr(path), HasSubstr(told)));
    EXPECT_FALSE(status->retryable());
    EXPECT_THAT(Ids(kafka), IsEmpty());
    EXPECT_FALSE(kafka.AnyTransactionOpen());
  }
}

TEST(KafkaSink, RowsAboveTheLimitFailOrAreDropped) {
  FakeKafka kafka;
  kafka.set_message_bytes_max(100);
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  Status status = process.sink->Write(Rows(99'998, 100'001));
  EXPECT_THAT(status.message(), AllOf(HasSubstr("row 4 of subtask 0"), HasSubstr("102 bytes"),
                                      HasSubstr("100 that"), HasSubstr("{\"value\":\"99998\"}")));
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);

  Config config = SinkConfig();
  config.Set("bad_data", "drop");
  FakeKafka other;
  other.set_message_bytes_max(100);
  Process dropping(other, 1, nullptr, config);
  ASSERT_SAYS_OK(dropping.Open());
  ASSERT_TRUE(dropping.sink->Write(Rows(998, 1'002)).ok());
  EXPECT_EQ(dropping.context.dropped_, 2);
  ASSERT_TRUE(dropping.Prepare(1)->ok());
  ASSERT_SAYS_OK(dropping.Publish(1));
  EXPECT_THAT(Ids(other), ElementsAre(998, 999));
}

FakeKafka::Faults RefuseCommits(std::function<bool()> refuses = [] { return true; }) {
  return [refuses](std::string_view call, const std::string&) {
    FakeKafka::Fault fault;
    fault.refuse = call == "commit" && refuses();
    return fault;
  };
}

TEST(KafkaSink, AStageThatTheTopicRefusesForGoodFailsAndIsKept) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  std::vector<Committable> listed = **process.Prepare(1);
  kafka.set_faults(RefuseCommits());
  process.Publish(1);
  const Status& failed = process.context.failed_;
  EXPECT_EQ(failed.code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(failed.retryable());
  EXPECT_THAT(failed.message(),
              AllOf(HasSubstr("a row of 9 bytes is too old"), HasSubstr("up to 1000000 bytes"),
                    HasSubstr("None of the 3 rows of checkpoint 1, part 1 of 1, is published"),
                    HasSubstr("kept in /job/staged/"), HasSubstr("weir run --from")));
  EXPECT_FALSE(kafka.AnyTransactionOpen());
  Process next(kafka, 2, process.files.disk());
  EXPECT_EQ(next.Commit(listed)->code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Ids(kafka), IsEmpty());
  kafka.set_faults(nullptr);
  ASSERT_SAYS_OK(next.Commit(listed));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
}

// Both checkpoints completed before; the first one's rows would be taken a moment later.
TEST(KafkaSink, NothingIsPublishedBehindAStageThatIsRefused) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  ASSERT_TRUE(process.Prepare(1)->ok());
  ASSERT_TRUE(process.sink->Write(Rows(3, 6)).ok());
  ASSERT_TRUE(process.Prepare(2)->ok());
  kafka.set_faults(
      RefuseCommits([refused = false]() mutable { return !std::exchange(refused, true); }));
  std::vector<StatusCode> answers;
  for (const uint64_t checkpoint : {1, 2}) {
    process.sink->Publish(CheckpointId(checkpoint),
                          [&](const Status& status) { answers.push_back(status.code()); });
  }
  process.executor.Advance(20'000'000);
  EXPECT_THAT(answers, ElementsAre(StatusCode::kOutOfRange, StatusCode::kOutOfRange));
  EXPECT_EQ(process.context.failed_.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Ids(kafka), IsEmpty());
}

// The rows may be small enough, and only their request too large.
TEST(KafkaSink, RowsThatAreRefusedAreSentOnceMoreWhereTheTopicsLimitIsAnotherByNow) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  ASSERT_TRUE(process.Prepare(1)->ok());
  kafka.set_message_bytes_max(2'000);
  kafka.set_faults(
      RefuseCommits([refused = false]() mutable { return !std::exchange(refused, true); }));
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
}

TEST(KafkaSink, AtLeastOnceRowsThatAreRefusedAreJudgedAnewWhereTheTopicTakesOthersByNow) {
  for (const bool is_changed : {false, true}) {
    Config config = SinkConfig();
    config.Set("delivery", "at_least_once");
    FakeKafka kafka;
    Process process(kafka, 1, nullptr, config);
    ASSERT_SAYS_OK(process.Open());
    ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
    if (is_changed) kafka.set_message_bytes_max(2'000);
    kafka.set_faults(RefuseCommits());
    process.Prepare(1);
    EXPECT_EQ(process.context.failed_.code(), StatusCode::kOutOfRange);
    EXPECT_EQ(process.context.failed_.retryable(), is_changed);
    EXPECT_THAT(process.context.failed_.message(),
                AllOf(HasSubstr("too old"), HasSubstr("max.message.bytes")));
  }
}

Config LetterConfig() {
  Config config = SinkConfig();
  config.Set("bad_data", "dead_letter");
  config.Set("dead_letter_path", "/dead");
  return config;
}

TEST(KafkaSink, RowsAboveTheLimitBecomeDeadLettersWithTheirCheckpoint) {
  for (const char* delivery : {"exactly_once", "at_least_once"}) {
    SCOPED_TRACE(delivery);
    Config config = LetterConfig();
    config.Set("delivery", delivery);
    FakeKafka kafka;
    kafka.set_message_bytes_max(100);
    Process process(kafka, 1, nullptr, config);
    ASSERT_SAYS_OK(process.Open());
    ASSERT_TRUE(process.sink->Write(Rows(998, 1'002)).ok());
    EXPECT_EQ(process.context.dropped_, 2);
    auto prepared = process.Prepare(1);
    ASSERT_TRUE(prepared.has_value() && prepared->ok());
    const std::vector<Committable>& listed = **prepared;
    ASSERT_FALSE(listed.empty());
    EXPECT_EQ(listed.back().part, 1 << 20);
    EXPECT_THAT(LetterIds(process.files), IsEmpty());
    ASSERT_SAYS_OK(process.Publish(1));
    EXPECT_THAT(Ids(kafka), ElementsAre(998, 999));
    std::string letters;
    for (const char* id : {"1000", "1001"}) {
      letters += Concat(
          R"({"sink":"out","topic":"out","reason":"its message of 101 bytes is larger than the )",
          R"(100 that the topic takes","row":"{\"value\":\")", id, R"(\"}"})", "\n");
    }
    EXPECT_EQ(process.files.Bytes("/dead/job-out-0-1-0.jsonl"), letters);
  }
}

// Left by a job that ends: nobody but the committer, and no topic is asked for them.
TEST(KafkaSink, DeadLettersAreSettledByTheCommitterAndThoseOfNoCheckpointRemoved) {
  FakeKafka kafka;
  kafka.set_message_bytes_max(100);
  Process process(kafka, 1, nullptr, LetterConfig());
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(1'000, 1'002)).ok());
  std::vector<Committable> listed = **process.Prepare(1);
  ASSERT_EQ(listed.size(), 2u);
  ASSERT_TRUE(process.sink->Write(Rows(1'002, 1'004)).ok());
  ASSERT_TRUE(process.Prepare(2)->ok());
  Process next(kafka, 2, process.files.disk(), LetterConfig());
  ASSERT_SAYS_OK(next.AbortOthers(2, listed));
  ASSERT_SAYS_OK(next.Commit(listed));
  EXPECT_THAT(LetterIds(next.files), ElementsAre(0, 1));
  EXPECT_THAT(next.files.Files("/dead"),
              ElementsAre("/dead/.weir-sink", "/dead/job-out-0-1-0.jsonl"));
  EXPECT_EQ(kafka.MarkerOf(kIdentity)->checkpoint, CheckpointId(1));
}

TEST(KafkaSink, ADirectoryOfSomebodyElseTakesNoDeadLetters) {
  FakeKafka kafka;
  Process other(kafka, 1, nullptr, LetterConfig());
  other.context.uid_ = "other";
  ASSERT_SAYS_OK(other.Open());
  Process process(kafka, 1, other.files.disk(), LetterConfig());
  auto opened = process.Open();
  ASSERT_TRUE(opened.has_value());
  EXPECT_THAT(opened->message(), AllOf(HasSubstr("/dead"), HasSubstr("other")));
}

// Nobody tells the client; what was published says how far the topic must go.
TEST(KafkaSink, ATopicMadeAnewTakesNothingMore) {
  for (const bool exactly_once : {true, false}) {
    Config config = SinkConfig();
    config.Set("delivery", exactly_once ? "exactly_once" : "at_least_once");
    FakeKafka kafka(1);
    Process process(kafka, 1, nullptr, config);
    ASSERT_SAYS_OK(process.Open());
    for (uint64_t checkpoint = 1; checkpoint <= 2; ++checkpoint) {
      const int64_t first = 3 * static_cast<int64_t>(checkpoint);
      ASSERT_TRUE(process.sink->Write(Rows(first, first + 3)).ok());
      ASSERT_TRUE(process.Prepare(checkpoint)->ok());
      ASSERT_SAYS_OK(process.Publish(checkpoint));
    }
    kafka.MakeTopicAnew();
    // As many rows as there were before.
    ASSERT_TRUE(process.sink->Write(Rows(10, 16)).ok());
    auto prepared = process.Prepare(3);
    if (prepared.has_value() && prepared->ok()) process.Publish(3);
    EXPECT_THAT(process.context.failed_.message(),
                AllOf(HasSubstr("topic 'out' was deleted and made anew"), HasSubstr("partition 0"),
                      // The rows of the third checkpoint are sent before, or not at all.
                      HasSubstr(exactly_once ? "offset 6 at least" : "offset 12 at least")));
    EXPECT_FALSE(process.context.failed_.retryable());
    if (exactly_once) {
      EXPECT_THAT(Ids(kafka), IsEmpty());
    }
  }
}

TEST(KafkaSink, ATopicThatIsGoneForAMomentIsWaitedFor) {
  for (const bool comes_back : {true, false}) {
    FakeKafka kafka;
    Process process(kafka, 1);
    ASSERT_SAYS_OK(process.Open());
    ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
    ASSERT_TRUE(process.Prepare(1)->ok());
    kafka.set_gone(true);
    std::optional<Status> published;
    process.sink->Publish(CheckpointId(1), [&](Status status) { published = status; });
    process.executor.Advance(10'000'000);
    EXPECT_FALSE(published.has_value());
    EXPECT_THAT(process.context.waiting_["publish"], HasSubstr("topic 'out'"));
    kafka.set_gone(!comes_back);
    process.executor.Advance(30'000'000);
    ASSERT_TRUE(published.has_value());
    EXPECT_EQ(published->ok(), comes_back) << *published;
    EXPECT_THAT(process.context.failed_.message(),
                HasSubstr(comes_back ? "" : "topic 'out', or a partition of it, was deleted"));
    if (comes_back) {
      EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
    }
  }
}

// What it leaves behind stays for ever: nobody else takes listed stages for his own.
TEST(KafkaSink, TheCommitterIsNotDoneBeforeStagesAreRemoved) {
  FakeKafka kafka;
  Process process(kafka, 1);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(prepared->ok());
  process.sink.reset();
  bool read_only = true;
  process.files.set_before([&](std::string_view operation, const std::string& path) {
    return read_only && operation == "remove" ? ErrnoError(EROFS, Concat("cannot remove ", path))
                                              : Status();
  });
  auto committed = process.Commit(**prepared);
  ASSERT_TRUE(committed.has_value());
  EXPECT_THAT(committed->message(), HasSubstr("Read-only file system"));
  EXPECT_TRUE(committed->retryable());
  read_only = false;
  ASSERT_SAYS_OK(process.Commit(**prepared));
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
  EXPECT_THAT(process.files.Files("/job/staged"), IsEmpty());
}

TEST(KafkaSink, AtLeastOnceFlushesAtTheBarrier) {
  Config config = SinkConfig();
  config.Set("delivery", "at_least_once");
  FakeKafka kafka;
  int64_t commits_lost = 0;
  kafka.set_faults([&](std::string_view call, const std::string&) {
    FakeKafka::Fault fault;
    if (call == "commit" && ++commits_lost <= 2) fault.lose_request = true;
    return fault;
  });
  Process process(kafka, 1, nullptr, config);
  ASSERT_SAYS_OK(process.Open());
  ASSERT_TRUE(process.sink->Write(Rows(0, 3)).ok());
  process.executor.RunAll();
  EXPECT_EQ(process.sink->progress()->publishing_rows, 3);
  EXPECT_GT(process.sink->progress()->publishing_bytes, 3);
  auto prepared = process.Prepare(1);
  ASSERT_TRUE(prepared.has_value() && prepared->ok());
  EXPECT_THAT(**prepared, IsEmpty());
  EXPECT_EQ(commits_lost, 3);
  EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2));
  EXPECT_EQ(process.sink->progress()->publishing_rows, 0);
  EXPECT_EQ(process.sink->progress()->publishing_bytes, 0);
  EXPECT_EQ(process.sink->progress()->committed, CheckpointId(0));
  ASSERT_SAYS_OK(process.Publish(1));
  EXPECT_EQ(process.sink->progress()->committed, CheckpointId(1));
  kafka.set_faults([&](std::string_view call, const std::string&) {
    FakeKafka::Fault fault;
    fault.lose_request = call == "produce";
    fault.verdict = KafkaVerdict::kFatal;
    return fault;
  });
  ASSERT_TRUE(process.sink->Write(Rows(3, 6)).ok());
  process.executor.RunAll();
  EXPECT_THAT(process.context.failed_.message(), HasSubstr("cannot send rows"));
  EXPECT_FALSE(process.Prepare(2)->ok());
}

// A cluster that does not know the topic.
class WithoutTopic : public KafkaTransactions {
 public:
  explicit WithoutTopic(Executor& owner) : owner_(owner) {}
  StatusOr<std::unique_ptr<TransactionalProducer>> MakeProducer(KafkaProducerOptions) override {
    return UnavailableError("not asked for");
  }
  void ReadMarker(KafkaCluster, KafkaMarkerPlace,
                  std::function<void(StatusOr<std::optional<KafkaMarker>>)>) override {}
  void DescribeTopic(KafkaCluster, std::string,
                     std::function<void(StatusOr<KafkaTopic>)> done) override {
    owner_.Post([done = std::move(done)] { done(NotFoundError("unknown topic")); });
  }

 private:
  Executor& owner_;
};

// The call has its answer, that none came in time, when the watch was about to tell it.
TEST(KafkaSink, TheNextCallHearsOfADeletedTopicIfTheOneBeforeItCouldNot) {
  ManualExecutor executor;
  WithoutTopic transactions(executor);
  AnswerWatch answers(executor, "b:1", nullptr);
  TopicWatch watch(transactions, {"b:1", {}}, "out", executor, answers);
  std::string heard;
  watch.Begin([&](const Status&) { heard += "first"; });
  ASSERT_TRUE(executor.RunUntil([&] { return watch.is_deleted(); }));
  watch.End(false);
  executor.RunAll();
  watch.Begin([&](const Status& status) { heard += Concat("second: ", status.message()); });
  executor.RunAll();
  EXPECT_THAT(heard, AllOf(testing::StartsWith("second: "), HasSubstr("'out'")));
  watch.End(false);
  watch.Begin([&](const Status&) { heard += "third"; });
  executor.Advance(60'000'000);
  EXPECT_THAT(heard, testing::Not(HasSubstr("third")));
}

// A job in miniature, see the contract of sinks: what completed is kept outside. The process ends
// before or after request number `at` to the cluster, or operation number `at` on the disk; the
// next generation settles and goes on.
class Job {
 public:
  // `letters`: with each row goes one that the topic does not take.
  explicit Job(bool letters) : letters_(letters) { kafka.set_message_bytes_max(100); }
  bool RunGeneration(std::function<void(Process&)> arrange) {
    Process process(kafka, ++generation_, disk_, letters_ ? LetterConfig() : SinkConfig());
    disk_ = process.files.disk();
    if (arrange) arrange(process);
    const bool done = Drive(process);
    kafka.set_faults(nullptr);
    return done;
  }
  void ExpectExactlyOnce() {
    std::vector<int64_t> all(12);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(Ids(kafka), all);
    EXPECT_FALSE(kafka.AnyTransactionOpen());
    Process process(kafka, ++generation_, disk_);
    EXPECT_THAT(process.files.Files("/job/staged"), IsEmpty());
    EXPECT_EQ(LetterIds(process.files), letters_ ? all : std::vector<int64_t>());
  }
  FakeKafka kafka;

 private:
  bool Drive(Process& process) {
    if (!AnsweredOk(process.Commit(listed_))) return false;
    if (!AnsweredOk(process.AbortOthers(generation_, listed_))) return false;
    process.context.resumed_from_ = completed_;
    if (!AnsweredOk(process.Open())) return false;
    while (completed_rows_ < 12) {
      const int64_t rows = completed_rows_ + 3;
      if (!process.sink->Write(Rows(completed_rows_, rows)).ok()) return false;
      if (letters_ && !process.sink->Write(Rows(1'000 + completed_rows_, 1'000 + rows)).ok()) {
        return false;
      }
      const uint64_t checkpoint = ++last_checkpoint_;
      auto prepared = process.Prepare(checkpoint);
      if (!AnsweredOk(prepared)) return false;
      // The commit point.
      listed_ = **prepared;
      completed_rows_ = rows;
      completed_ = CheckpointId(checkpoint);
      if (!AnsweredOk(process.Publish(checkpoint))) return false;
    }
    return true;
  }

  const bool letters_;
  std::shared_ptr<MemoryFileSystem::Disk> disk_;
  uint64_t generation_ = 0;
  CheckpointId completed_;
  uint64_t last_checkpoint_ = 0;
  int64_t completed_rows_ = 0;
  std::vector<Committable> listed_;
};

void ExpectExactlyOnceWhereverAProcessEnds(bool letters) {
  for (bool disk : {false, true}) {
    for (bool effect : {false, true}) {
      int64_t reached = 1;
      for (int64_t at = 1; reached > 0; ++at) {
        SCOPED_TRACE(
            Concat("ended ", effect ? "after " : "before ", disk ? "operation " : "request ", at));
        Job job(letters);
        reached = 0;
        const auto end_at = [&](int64_t number) {
          return [&, number](Process& process) {
            Process* victim = &process;
            if (disk) {
              auto hook = [&reached, victim, number](std::string_view, const std::string&) {
                if (victim->files.operations() == number) {
                  ++reached;
                  victim->files.Crash();
                  victim->files.Kill();
                }
                return Status();
              };
              effect ? victim->files.set_after(hook) : victim->files.set_before(hook);
              return;
            }
            const int64_t first = job.kafka.requests();
            job.kafka.set_faults([&, victim, first, number](std::string_view, const std::string&) {
              FakeKafka::Fault fault;
              if (victim->dead || job.kafka.requests() - first == number) {
                reached += victim->dead ? 0 : 1;
                // A request on its way may still arrive; none is made after it.
                (effect && !victim->dead ? fault.lose_answer : fault.lose_request) = true;
                victim->dead = true;
                victim->files.Kill();
              }
              return fault;
            });
          };
        };
        // Twice in a row.
        bool done = job.RunGeneration(end_at(at));
        if (!done) done = job.RunGeneration(end_at(at));
        if (!done) {
          ASSERT_TRUE(job.RunGeneration({}));
        }
        job.ExpectExactlyOnce();
        if (testing::Test::HasFailure()) return;
        ASSERT_LT(at, 200);
      }
    }
  }
}

TEST(KafkaSink, NothingIsLostOrDoubledWhereverAProcessEnds) {
  ExpectExactlyOnceWhereverAProcessEnds(false);
}

TEST(KafkaSink, NoDeadLetterIsLostOrDoubledWhereverAProcessEnds) {
  ExpectExactlyOnceWhereverAProcessEnds(true);
}

}  // namespace
}  // namespace weir
