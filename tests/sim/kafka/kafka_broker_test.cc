// What the model of a broker shows to its readers. That this is what a real one does is shown by
// kafka_model_test.py; here are the orders in time that cannot be arranged there.

#include "tests/sim/kafka/kafka_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000;

// A broker whose end markers take 10 ms for the first place of a transaction, 20 for the next, ….
class KafkaBrokerTest : public ::testing::Test {
 protected:
  KafkaBrokerTest() { broker_.CreateTopic("rows", 2); }

  KafkaProducerId Initialise(const std::string& id, int64_t timeout_us = 60 * kSecond) {
    KafkaProducerId producer;
    KafkaError error = broker_.InitProducerId(id, timeout_us, &producer);
    for (int i = 0; i < 100 && error == KafkaError::kConcurrentTransactions; ++i) {
      broker_.Advance(now_us_ += 10'000);
      error = broker_.InitProducerId(id, timeout_us, &producer);
    }
    EXPECT_EQ(error, KafkaError::kNone);
    return producer;
  }
  void Produce(KafkaProducerId producer, int32_t partition, const std::string& value) {
    EXPECT_EQ(broker_.AddPartition("one", producer, "rows", partition), KafkaError::kNone);
    EXPECT_EQ(broker_.Produce("one", producer, "rows", partition, sequence_[partition]++,
                              {{std::nullopt, value, -1}}),
              KafkaError::kNone);
  }
  std::vector<std::string> Rows(int32_t partition) {
    std::vector<std::string> values;
    for (const KafkaModelRecord* record : broker_.ReadCommitted("rows", partition)) {
      values.push_back(*record->value);
    }
    return values;
  }

  int64_t now_us_ = 0;
  int32_t sequence_[2] = {0, 0};
  int64_t marker_us_ = 0;
  KafkaBroker broker_{{.end_marker_us = [this] { return marker_us_ += 10'000; }}};
};

TEST_F(KafkaBrokerTest, PartitionsAreEndedOneByOneAndNobodyMayInitialiseBefore) {
  KafkaProducerId one = Initialise("one");
  Produce(one, 0, "a");
  Produce(one, 1, "b");
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kNone);
  EXPECT_THAT(Rows(0), IsEmpty());
  broker_.Advance(now_us_ = 10'000);
  EXPECT_THAT(Rows(0), ElementsAre("a"));
  EXPECT_THAT(Rows(1), IsEmpty());
  EXPECT_EQ(broker_.last_stable_offset("rows", 1), 0);
  EXPECT_EQ(broker_.StateOf("one"), "PrepareCommit");
  KafkaProducerId next;
  EXPECT_EQ(broker_.InitProducerId("one", kSecond, &next), KafkaError::kConcurrentTransactions);
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kConcurrentTransactions);
  EXPECT_EQ(broker_.EndTxn("one", one, false), KafkaError::kInvalidTxnState);
  EXPECT_EQ(broker_.AddPartition("one", one, "rows", 0), KafkaError::kConcurrentTransactions);
  EXPECT_THAT(broker_.OpenTransactions(), ElementsAre("one"));
  broker_.Advance(now_us_ = 20'000);
  EXPECT_THAT(Rows(1), ElementsAre("b"));
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kNone);
  EXPECT_EQ(broker_.InitProducerId("one", kSecond, &next), KafkaError::kNone);
  EXPECT_EQ(next.epoch, one.epoch + 1);
}

TEST_F(KafkaBrokerTest, ACommitThatWasBegunGoesThroughThoughItsInstanceIsFenced) {
  KafkaProducerId one = Initialise("one");
  Produce(one, 0, "a");
  EXPECT_EQ(broker_.AddOffsets("one", one, "group"), KafkaError::kNone);
  EXPECT_EQ(broker_.TxnOffsetCommit("one", one, "group", "rows", 0, {4, "m"}), KafkaError::kNone);
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kNone);
  Initialise("one");
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kInvalidProducerEpoch)
      << "although it was committed";
  EXPECT_THAT(Rows(0), ElementsAre("a"));
  KafkaGroupOffset offset;
  EXPECT_EQ(broker_.OffsetFetch("group", "rows", 0, &offset), KafkaError::kNone);
  EXPECT_EQ(offset, (KafkaGroupOffset{4, "m"}));
}

TEST_F(KafkaBrokerTest, ATransactionIsGivenUpAtTheFirstLookAfterItsTime) {
  KafkaProducerId one = Initialise("one", 12 * kSecond);
  broker_.Advance(now_us_ = 5 * kSecond);
  Produce(one, 0, "a");
  broker_.Advance(now_us_ = 20 * kSecond - 1);
  EXPECT_EQ(broker_.StateOf("one"), "Ongoing");
  EXPECT_EQ(broker_.last_stable_offset("rows", 0), 0);
  broker_.Advance(now_us_ = 21 * kSecond);
  EXPECT_EQ(broker_.StateOf("one"), "CompleteAbort");
  EXPECT_EQ(broker_.timed_out(), 1);
  EXPECT_EQ(broker_.last_stable_offset("rows", 0), broker_.high_watermark("rows", 0));
  EXPECT_EQ(broker_.EndTxn("one", one, true), KafkaError::kInvalidProducerEpoch);
  EXPECT_THAT(Rows(0), IsEmpty());
}

TEST_F(KafkaBrokerTest, RowsWithoutATransactionAreSeenUnlessAnOpenOneIsInFront) {
  KafkaProducerId plain = Initialise("");
  EXPECT_EQ(broker_.Produce("", plain, "rows", 0, 0, {{std::nullopt, "a", -1}}), KafkaError::kNone);
  EXPECT_THAT(Rows(0), ElementsAre("a"));
  KafkaProducerId one = Initialise("one");
  Produce(one, 0, "open");
  EXPECT_EQ(broker_.Produce("", plain, "rows", 0, 1, {{std::nullopt, "b", -1}}), KafkaError::kNone);
  EXPECT_THAT(Rows(0), ElementsAre("a"));
  EXPECT_EQ(broker_.EndTxn("one", one, false), KafkaError::kNone);
  broker_.Advance(kSecond);
  EXPECT_THAT(Rows(0), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace weir::sim
