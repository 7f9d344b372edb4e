// The broker model behind a line protocol, for kafka_model_test.py. One line asks, one answers:
//   advance MS | topic NAME PARTITIONS | init ID TIMEOUT_MS | add ID PID EPOCH TOPIC PARTITION |
//   add_group ID PID EPOCH GROUP | produce ID PID EPOCH TOPIC PARTITION SEQUENCE VALUE... |
//   send ID PID EPOCH GROUP TOPIC PARTITION OFFSET METADATA | end ID PID EPOCH commit|abort |
//   offset GROUP TOPIC PARTITION | read TOPIC PARTITION | ends TOPIC PARTITION | state ID
// The answer is an error's name and what was asked for, in words.

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "common/base/concat.h"
#include "tests/sim/kafka/kafka_broker.h"

namespace weir::sim {
namespace {

class Model {
 public:
  std::string Answer(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    broker_.Advance(now_us_);
    if (what == "advance") {
      now_us_ += Number(words) * 1000;
      broker_.Advance(now_us_);
      return "NONE";
    }
    if (what == "topic") {
      const std::string topic = Word(words);
      broker_.CreateTopic(topic, static_cast<int>(Number(words)));
      return "NONE";
    }
    if (what == "offset") {
      const std::string group = Word(words);
      const std::string topic = Word(words);
      KafkaGroupOffset offset;
      const KafkaError error = broker_.OffsetFetch(group, topic, Partition(words), &offset);
      if (error != KafkaError::kNone) return std::string(ToString(error));
      return Concat("NONE ", offset.offset, " ", offset.metadata);
    }
    if (what == "read") {
      const std::string topic = Word(words);
      std::string text = "NONE";
      for (const KafkaModelRecord* record : broker_.ReadCommitted(topic, Partition(words))) {
        text += Concat(" ", record->value.value_or("null"));
      }
      return text;
    }
    if (what == "ends") {
      const std::string topic = Word(words);
      const int32_t partition = Partition(words);
      return Concat("NONE ", broker_.last_stable_offset(topic, partition), " ",
                    broker_.high_watermark(topic, partition));
    }
    if (what == "state") return Concat("NONE ", broker_.StateOf(Word(words)));
    return OfTransaction(what, words);
  }

 private:
  static std::string Word(std::istringstream& words) {
    std::string word;
    words >> word;
    return word;
  }
  static int64_t Number(std::istringstream& words) {
    int64_t number = 0;
    words >> number;
    return number;
  }
  static int32_t Partition(std::istringstream& words) {
    return static_cast<int32_t>(Number(words));
  }

  std::string OfTransaction(const std::string& what, std::istringstream& words) {
    const std::string id = Word(words);
    KafkaProducerId producer;
    if (what == "init") {
      const KafkaError error = broker_.InitProducerId(id, Number(words) * 1000, &producer);
      if (error != KafkaError::kNone) return std::string(ToString(error));
      return Concat("NONE ", producer.id, " ", producer.epoch);
    }
    producer.id = Number(words);
    producer.epoch = static_cast<int16_t>(Number(words));
    if (what == "add") {
      const std::string topic = Word(words);
      return std::string(ToString(broker_.AddPartition(id, producer, topic, Partition(words))));
    }
    if (what == "add_group") {
      return std::string(ToString(broker_.AddOffsets(id, producer, Word(words))));
    }
    if (what == "produce") {
      const std::string topic = Word(words);
      const int32_t partition = Partition(words);
      const auto sequence = static_cast<int32_t>(Number(words));
      std::vector<KafkaModelRecord> records;
      for (std::string value; words >> value;) records.push_back({std::nullopt, value, -1});
      return std::string(
          ToString(broker_.Produce(id, producer, topic, partition, sequence, std::move(records))));
    }
    if (what == "send") {
      const std::string group = Word(words);
      const std::string topic = Word(words);
      const int32_t partition = Partition(words);
      KafkaGroupOffset offset;
      offset.offset = Number(words);
      offset.metadata = Word(words);
      return std::string(ToString(
          broker_.TxnOffsetCommit(id, producer, group, topic, partition, std::move(offset))));
    }
    if (what == "end") {
      return std::string(ToString(broker_.EndTxn(id, producer, Word(words) == "commit")));
    }
    return Concat("what is '", what, "'?");
  }

  KafkaBroker broker_{KafkaBroker::Options()};
  int64_t now_us_ = 0;
};

}  // namespace
}  // namespace weir::sim

int main() {
  weir::sim::Model model;
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%s\n", model.Answer(line).c_str());
    std::fflush(stdout);
  }
  return 0;
}
