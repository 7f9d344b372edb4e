// Goal: of the jobs that start from one output of kafka.sink one goes on, and all others are told.
// Method: the committer and the sink of each job in a process of its own, one cluster in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "tests/unit/worker/connectors/kafka_sink_process.h"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

#define EXPECT_OK(answer) EXPECT_THAT((answer).ToString(), IsOk())
#define ASSERT_OK(answer) ASSERT_THAT((answer).ToString(), IsOk())
auto IsOk() { return testing::Eq(Status().ToString()); }

const std::string kA(32, 'a');
const std::string kB(32, 'b');
const std::string kC(32, 'c');

// A checkpoint as a later job finds it.
struct Checkpoint {
  std::string job;
  Config config;
  std::vector<Committable> listed;
  std::shared_ptr<MemoryFileSystem::Disk> disk;
  uint64_t number() const { return listed.back().checkpoint.value(); }
};

Config With(std::vector<std::pair<std::string, std::string>> fields) {
  Config config = SinkConfig();
  for (auto& [name, value] : fields) config.Set(name, value);
  return config;
}

// One job with one sink subtask, in its only generation.
class Job {
 public:
  Job(FakeKafka& kafka, std::string id, Config config = SinkConfig())
      : process_(std::make_unique<Process>(kafka, 1, nullptr, config)),
        id_(std::move(id)),
        config_(std::move(config)) {
    process_->context.job_ = JobId(id_);
  }

  // As the coordinator does before the tasks of a job that starts from `from`.
  Status SettleFor(const Checkpoint& from, bool ends = false) {
    Process settling(*kafka(), 0, from.disk, from.config);
    settling.committer_context.job_ = JobId(from.job);
    settling.committer_context.successor_ = JobSuccessor{JobId(id_), {config_}};
    settling.committer_context.ends_ = ends;
    return Answer(settling.Commit(from.listed));
  }
  Status Start(const Checkpoint* from = nullptr) {
    if (from != nullptr) process_->context.started_from_ = CheckpointId(from->number());
    Status opened = Answer(process_->Open());
    process_->executor.RunAll();
    return opened.ok() ? process_->context.failed_ : opened;
  }
  // Rows [begin, end) up to a completed checkpoint.
  Checkpoint Seal(uint64_t number, int64_t begin, int64_t end) {
    EXPECT_TRUE(process_->sink->Write(Rows(begin, end)).ok());
    auto prepared = process_->Prepare(number);
    EXPECT_TRUE(prepared.has_value() && prepared->ok());
    return {id_, config_, **prepared, process_->files.disk()};
  }
  // No value: it failed, or has no answer.
  std::optional<Status> Publish(const Checkpoint& checkpoint) {
    return process_->Publish(checkpoint.number());
  }
  // As the coordinator does at its end, or when it starts again.
  Status Settle(const Checkpoint& newest, bool ends) {
    Process settling(*kafka(), 0, newest.disk, newest.config);
    settling.committer_context.job_ = JobId(id_);
    settling.committer_context.ends_ = ends;
    return Answer(settling.Commit(newest.listed));
  }
  Process& process() { return *process_; }

 private:
  static Status Answer(std::optional<Status> answer) {
    return answer.has_value() ? *answer : InternalError("no answer");
  }
  FakeKafka* kafka() const { return &process_->clients.kafka(); }

  std::unique_ptr<Process> process_;
  const std::string id_;
  const Config config_;
};

class KafkaLineage : public ::testing::Test {
 protected:
  // Rows 0 to 2 are published by checkpoint 1, rows 3 and 4 listed by checkpoint 2 alone.
  KafkaLineage() : a_(kafka_, kA) {
    EXPECT_TRUE(a_.Start().ok());
    first_ = a_.Seal(1, 0, 3);
    EXPECT_TRUE(a_.Publish(first_)->ok());
    second_ = a_.Seal(2, 3, 5);
  }
  static std::string IdentityOf(const std::string& job) { return job + "-out-0"; }

  FakeKafka kafka_;
  Job a_;
  Checkpoint first_;
  Checkpoint second_;
};

TEST_F(KafkaLineage, OneJobGoesOnFromACheckpointAndASecondOneIsRefused) {
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
  ASSERT_OK(b.Start(&second_));
  const Checkpoint third = b.Seal(3, 5, 7);
  ASSERT_TRUE(b.Publish(third)->ok());

  Job c(kafka_, kC);
  for (const Checkpoint* from : {&first_, &second_}) {
    const Status refused = c.SettleFor(*from);
    EXPECT_EQ(refused.domain(), ErrorDomain::kUser);
    EXPECT_FALSE(refused.retryable());
    EXPECT_THAT(
        refused.message(),
        AllOf(HasSubstr("kafka.sink 'out'"), HasSubstr("topic 'out'"), HasSubstr("job " + kB),
              HasSubstr(Concat("checkpoint ", from->number())), HasSubstr("on_doubled_rows")));
  }
  // Neither is disturbed.
  ASSERT_TRUE(b.Publish(b.Seal(4, 7, 8))->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(KafkaLineage, AnOlderCheckpointThanWhatIsPublishedIsRefused) {
  ASSERT_TRUE(a_.Publish(second_)->ok());
  const Status refused = Job(kafka_, kB).SettleFor(first_);
  EXPECT_EQ(refused.domain(), ErrorDomain::kUser);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("kafka.sink 'out'"), HasSubstr("ahead"),
                                       HasSubstr("checkpoint 1"), HasSubstr("checkpoint 2"),
                                       HasSubstr("job " + kA), HasSubstr("on_doubled_rows")));
  EXPECT_OK(Job(kafka_, kC).SettleFor(second_));
}

TEST_F(KafkaLineage, AJobThatWasFoundRunningStillIsFencedAndDoesNotComeBack) {
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  a_.Publish(second_);
  EXPECT_THAT(a_.process().context.failed_.message(), HasSubstr("fenced"));
  const Status refused = a_.Settle(second_, /*ends=*/false);
  EXPECT_EQ(refused.domain(), ErrorDomain::kUser);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("job " + kA), HasSubstr("job " + kB)));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(KafkaLineage, WhereverTheSuccessorDiesItPassesAndNoOtherDoes) {
  int64_t reached = 1;
  for (int64_t at = 1; reached > 0; ++at) {
    for (bool answer : {false, true}) {
      SCOPED_TRACE(Concat("ended ", answer ? "after" : "before", " request ", at));
      FakeKafka kafka;
      Job a(kafka, kA, With({{"transaction_size_max", "1MiB"}}));
      ASSERT_TRUE(a.Start().ok());
      BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
      for (const char* text : {"1", "2", "3", "4", "5", "6"}) {
        builder.column(0).AppendText(std::string(400'000, '0') + text);
        ASSERT_TRUE(a.process().sink->Write(builder.Finish()).ok());
      }
      const Checkpoint from = a.Seal(1, 0, 1);
      ASSERT_EQ(from.listed.size(), 3u);
      reached = 0;
      {
        // Dies for good: nothing is answered any more.
        Job b(kafka, kB);
        const int64_t before = kafka.requests();
        kafka.set_faults([&](std::string_view, const std::string&) {
          FakeKafka::Fault fault;
          if (kafka.requests() < before + at) return fault;
          ++reached;
          const bool first = kafka.requests() == before + at;
          (answer && first ? fault.lose_answer : fault.lose_request) = true;
          return fault;
        });
        (void)b.SettleFor(from);  // it may die of the fault
        kafka.set_faults(nullptr);
      }
      Job again(kafka, kB);
      ASSERT_OK(again.SettleFor(from));
      EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2, 3, 4, 5, 6));
      EXPECT_FALSE(kafka.AnyTransactionOpen());
      EXPECT_EQ(Job(kafka, kC).SettleFor(from).domain(), ErrorDomain::kUser);
    }
  }
}

// The second stage is refused for good, also when the job that began gives the output back.
TEST_F(KafkaLineage, ASuccessionThatFailsHalfWayLeavesTheOutputToTheNextOne) {
  const Checkpoint third = a_.Seal(3, 5, 7);
  kafka_.set_faults([commits = 0](std::string_view call, const std::string&) mutable {
    FakeKafka::Fault fault;
    fault.refuse = call == "commit" && ++commits > 1;
    return fault;
  });
  Job b(kafka_, kB);
  EXPECT_EQ(b.SettleFor(third).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(b.SettleFor(third, /*ends=*/true).code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->job, JobId(kA));
  EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->checkpoint, CheckpointId(2));
  kafka_.set_faults(nullptr);
  Job c(kafka_, kC);
  ASSERT_OK(c.SettleFor(third));
  ASSERT_OK(c.Start(&third));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(b.SettleFor(third).domain(), ErrorDomain::kUser);
}

// There is none that has it, so it has it from the first stage on.
TEST_F(KafkaLineage, WhoMayDoubleAndFoundNoMarkerNamesItselfAtOnce) {
  const Checkpoint third = a_.Seal(3, 5, 7);
  kafka_.DeleteGroup(IdentityOf(kA));
  kafka_.set_faults([commits = 0](std::string_view call, const std::string&) mutable {
    FakeKafka::Fault fault;
    fault.refuse = call == "commit" && ++commits > 1;
    return fault;
  });
  Job b(kafka_, kB, With({{"on_doubled_rows", "continue"}}));
  EXPECT_EQ(b.SettleFor(third).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->job, JobId(kB));
  kafka_.set_faults(nullptr);
  EXPECT_EQ(a_.Settle(third, /*ends=*/false).domain(), ErrorDomain::kUser);
  ASSERT_OK(b.SettleFor(third));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// At any request of a successor another one, or the job itself, settles the same stages.
TEST_F(KafkaLineage, WhoeverComesInBetweenOneJobHasTheOutputAfterwards) {
  bool reached = true;
  for (int64_t at = 1; reached; ++at) {
    for (const std::string& other : {kA, kC}) {
      SCOPED_TRACE(Concat("job ", other, " comes at request ", at));
      FakeKafka kafka;
      Job a(kafka, kA);
      ASSERT_TRUE(a.Start().ok());
      a.Seal(1, 0, 2);
      a.Seal(2, 2, 4);
      const Checkpoint from = a.Seal(3, 4, 6);
      ASSERT_EQ(from.listed.size(), 3u);
      const auto settle_other = [&] {
        return other == kA ? a.Settle(from, /*ends=*/false) : Job(kafka, kC).SettleFor(from);
      };
      reached = false;
      Status of_other;
      const int64_t due = kafka.requests() + at;
      kafka.set_faults([&](std::string_view, const std::string&) {
        if (kafka.requests() >= due && !std::exchange(reached, true)) of_other = settle_other();
        return FakeKafka::Fault();
      });
      const Status of_b = Job(kafka, kB).SettleFor(from);
      kafka.set_faults(nullptr);
      if (!reached) continue;
      const bool b_has_it = Job(kafka, kB).SettleFor(from).ok();
      EXPECT_TRUE(b_has_it || !of_b.ok());
      if (other == kA) {
        EXPECT_TRUE(b_has_it);
      } else {
        EXPECT_FALSE(of_b.ok() && of_other.ok());
        EXPECT_TRUE(of_other.ok() || b_has_it);
      }
      EXPECT_EQ(settle_other().ok(), !b_has_it);
      EXPECT_THAT(Ids(kafka), ElementsAre(0, 1, 2, 3, 4, 5));
      EXPECT_FALSE(kafka.AnyTransactionOpen());
    }
  }
}

TEST_F(KafkaLineage, ChainsOfJobsGoOn) {
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  ASSERT_OK(b.Start(&second_));
  const Checkpoint third = b.Seal(3, 5, 7);
  ASSERT_TRUE(b.Publish(third)->ok());
  const Checkpoint fourth = b.Seal(4, 7, 8);
  ASSERT_TRUE(b.Publish(fourth)->ok());
  ASSERT_OK(b.Settle(fourth, /*ends=*/true));

  Job c(kafka_, kC);
  EXPECT_THAT(c.SettleFor(third).message(), HasSubstr("ahead"));
  EXPECT_EQ(c.SettleFor(second_).domain(), ErrorDomain::kUser);
  ASSERT_OK(c.SettleFor(fourth));
  ASSERT_OK(c.Start(&fourth));
  ASSERT_TRUE(c.Publish(c.Seal(5, 8, 10))->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(Job(kafka_, std::string(32, 'd')).SettleFor(fourth).domain(), ErrorDomain::kUser);
}

TEST_F(KafkaLineage, ASuccessorThatEndedWithoutACheckpointGivesTheOutputBack) {
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  ASSERT_OK(b.Start(&second_));
  ASSERT_OK(b.SettleFor(second_, /*ends=*/true));
  Job c(kafka_, kC);
  ASSERT_OK(c.SettleFor(second_));
  ASSERT_OK(c.Start(&second_));
  // Too late: it is another's now.
  EXPECT_EQ(b.SettleFor(second_, /*ends=*/true).domain(), ErrorDomain::kUser);
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(KafkaLineage, ASuccessorThatWritesElsewhereTakesNothing) {
  for (const Config& config :
       {With({{"topic", "another"}}), With({{"delivery", "at_least_once"}})}) {
    Job elsewhere(kafka_, kB, config);
    ASSERT_OK(elsewhere.SettleFor(second_));
    ASSERT_OK(elsewhere.SettleFor(second_));
    EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->job, JobId(kA));
  }
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  // What the checkpoint lists is out, whoever goes on from it.
  EXPECT_OK(Job(kafka_, kC, With({{"topic", "another"}})).SettleFor(second_));
  EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->job, JobId(kB));
}

TEST_F(KafkaLineage, WhoWantsRowsTwiceIsNotHeldBack) {
  Job b(kafka_, kB);
  ASSERT_OK(b.SettleFor(second_));
  ASSERT_OK(b.Start(&second_));
  ASSERT_TRUE(b.Publish(b.Seal(3, 5, 7))->ok());
  Job c(kafka_, kC, With({{"on_doubled_rows", "continue"}}));
  ASSERT_OK(c.SettleFor(first_));
  ASSERT_OK(c.Start(&first_));
  ASSERT_TRUE(c.Publish(c.Seal(2, 3, 4))->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 3, 4, 5, 6));
  // It goes on alone, and restarts.
  EXPECT_OK(c.SettleFor(first_));
  EXPECT_EQ(b.SettleFor(second_).domain(), ErrorDomain::kUser);
  // What was published once is not published again for being taken over.
  Job d(kafka_, std::string(32, 'd'), With({{"on_doubled_rows", "continue"}}));
  ASSERT_OK(d.SettleFor(second_));
  ASSERT_OK(d.SettleFor(second_, /*ends=*/true));
  EXPECT_EQ(kafka_.MarkerOf(IdentityOf(kA))->job, JobId(std::string(32, 'd')));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 3, 4, 5, 6));
}

// Nobody knows whether rows 3 and 4 are out.
TEST_F(KafkaLineage, WithoutAMarkerOnlyWhoMayDoubleGoesOn) {
  kafka_.DeleteGroup(IdentityOf(kA));
  EXPECT_THAT(Job(kafka_, kB).SettleFor(second_).message(),
              AllOf(HasSubstr("missing"), HasSubstr("on_doubled_rows")));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2));
  Job b(kafka_, kB, With({{"on_doubled_rows", "continue"}}));
  ASSERT_OK(b.SettleFor(second_));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
  ASSERT_OK(b.SettleFor(second_));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4));
}

// Somebody else may have removed it.
TEST_F(KafkaLineage, RowsThatAreTakenForPublishedAsTheirFileIsGoneAreTold) {
  kafka_.DeleteGroup(IdentityOf(kA));
  const Checkpoint third = a_.Seal(3, 5, 8);
  a_.process().files.Delete("/job/staged/g1-0-1-out.records");
  const std::string path = Concat(testing::TempDir(), "/kafka_lineage_test.log");
  ASSERT_TRUE(log::Start(log::Level::kWarning, path).ok());
  Job b(kafka_, kB, With({{"on_doubled_rows", "continue"}}));
  const Status settled = b.SettleFor(third);
  ASSERT_TRUE(log::Start(log::Level::kWarning, "").ok());
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::remove(path.c_str());
  ASSERT_OK(settled);
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 5, 6, 7));
  EXPECT_THAT(text, HasSubstr("2 rows of checkpoint 2 are taken for published"));
}

// --- A prefix that the user gave: one identity for all jobs --------------------------------------

class KafkaPrefix : public ::testing::Test {
 protected:
  const Config config_ = With({{"transactional_id_prefix", "mine"}});
  FakeKafka kafka_;
};

TEST_F(KafkaPrefix, ASuccessorGoesOnUnderIt) {
  Job a(kafka_, kA, config_);
  ASSERT_OK(a.Start());
  ASSERT_TRUE(a.Publish(a.Seal(1, 0, 3))->ok());
  const Checkpoint second = a.Seal(2, 3, 5);
  Job b(kafka_, kB, config_);
  ASSERT_OK(b.SettleFor(second));
  ASSERT_OK(b.Start(&second));
  // It dies before a checkpoint of its own.
  Job again(kafka_, kB, config_);
  ASSERT_OK(again.SettleFor(second));
  ASSERT_OK(again.Start(&second));
  const Checkpoint third = again.Seal(3, 5, 6);
  ASSERT_TRUE(again.Publish(third)->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(Job(kafka_, kC, config_).SettleFor(second).domain(), ErrorDomain::kUser);
  Job c(kafka_, kC, config_);
  ASSERT_OK(c.SettleFor(third));
  ASSERT_OK(c.Start(&third));
}

TEST_F(KafkaPrefix, AJobThatEndedLeavesItToTheNextOne) {
  Job a(kafka_, kA, config_);
  ASSERT_OK(a.Start());
  const Checkpoint first = a.Seal(7, 0, 3);
  ASSERT_TRUE(a.Publish(first)->ok());

  const Status live = Job(kafka_, kB, config_).Start();
  EXPECT_THAT(live.message(), AllOf(HasSubstr("job " + kA), HasSubstr("checkpoint 7"),
                                    HasSubstr("transactional_id_prefix")));
  EXPECT_EQ(live.domain(), ErrorDomain::kUser);

  ASSERT_OK(a.Settle(first, /*ends=*/true));
  Job anew(kafka_, kB, config_);
  ASSERT_OK(anew.Start());
  ASSERT_TRUE(anew.Publish(anew.Seal(1, 0, 2))->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 0, 1, 1, 2));
  // The first one's checkpoint cannot be gone on from any more: its marker is gone.
  EXPECT_EQ(Job(kafka_, kC, config_).SettleFor(first).domain(), ErrorDomain::kUser);
}

TEST_F(KafkaPrefix, AJobThatPublishedNothingIsInNobodysWay) {
  Job a(kafka_, kA, config_);
  ASSERT_OK(a.Start());
  Job b(kafka_, kB, config_);
  ASSERT_OK(b.Start());
  ASSERT_TRUE(b.Publish(b.Seal(1, 0, 2))->ok());
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1));
}

TEST_F(KafkaPrefix, AnIdentityIsTakenFromALiveJobByThoseWhoSaySo) {
  Job a(kafka_, kA, config_);
  ASSERT_OK(a.Start());
  const Checkpoint first = a.Seal(1, 0, 3);
  ASSERT_TRUE(a.Publish(first)->ok());
  Job b(kafka_, kB, With({{"transactional_id_prefix", "mine"}, {"on_doubled_rows", "continue"}}));
  ASSERT_OK(b.Start());
  a.Publish(a.Seal(2, 3, 4));
  EXPECT_THAT(a.process().context.failed_.message(), HasSubstr("fenced"));
  EXPECT_EQ(a.Settle(first, /*ends=*/false).domain(), ErrorDomain::kUser);
}

// What another job has published since says nothing of the stages that a checkpoint lists.
TEST_F(KafkaPrefix, CheckpointsOfUnrelatedJobsAreNotCompared) {
  Job a(kafka_, kA, config_);
  ASSERT_OK(a.Start());
  const Checkpoint first = a.Seal(1, 0, 3);
  ASSERT_EQ(a.process().sink->progress()->staged_rows, 3);
  kafka_.SetMarker("mine-out-0", {JobId(kC), Generation(1), CheckpointId(50), 0, 1, true});
  EXPECT_EQ(Job(kafka_, kB, With({{"topic", "another"}})).SettleFor(first).domain(),
            ErrorDomain::kUser);
  Job b(kafka_, kB, With({{"transactional_id_prefix", "mine"}, {"on_doubled_rows", "continue"}}));
  ASSERT_OK(b.SettleFor(first));
  EXPECT_THAT(Ids(kafka_), ElementsAre(0, 1, 2));
  ASSERT_OK(b.Start(&first));
  ASSERT_TRUE(b.Publish(b.Seal(2, 3, 4))->ok());
}

}  // namespace
}  // namespace weir
