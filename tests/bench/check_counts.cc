// Checks the output topic of the Kafka job: for every row of make_rows one committed row with k,
// the running count n of its k, v, d and ts. Knows nothing of Weir: input rows are made again from
// their number, and the topic is read by librdkafka alone.
//
//   check_counts --brokers LIST --topic NAME --rows N --keys K
//
// Rows of one key may have been counted in any order, as partitions are read side by side. So the
// counts of each key must be 1 to n, each once. All rows of a key must be in one partition, in the
// order of their counts.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/flat_row.h"
#include "tests/bench/limits/kafka_client.h"

namespace {

using namespace limits;

enum Field { kKey, kCount, kValue, kD, kTs, kFieldCount };
constexpr std::array<std::string_view, kFieldCount> kNames = {"k", "n", "v", "d", "ts"};

class Checker {
 public:
  Checker(uint64_t rows, uint64_t keys) : rows_(rows), seen_(rows), keys_(keys) {}

  void Add(const rd_kafka_message_t& message) {
    const std::string_view line(static_cast<const char*>(message.payload), message.len);
    const std::string place = "offset " + std::to_string(message.offset) + " of partition " +
                              std::to_string(message.partition);
    const auto texts = ParseFlatJson(kNames, line, place.c_str());
    const uint64_t number =
        ParseNumber<uint64_t>(texts[kTs], line, place.c_str()) - MadeRow::kFirstTs;
    if (number >= rows_) Bad("no input row has this ts", line, place);
    if (seen_[number]) Bad("a second row of this ts", line, place);
    seen_[number] = true;
    ++rows_seen_;
    const MadeRow made(number, keys_.size());
    if (ParseNumber<uint64_t>(texts[kKey], line, place.c_str()) != made.key ||
        ParseNumber<uint64_t>(texts[kValue], line, place.c_str()) != made.value ||
        ParseNumber<double>(texts[kD], line, place.c_str()) != made.d) {
      Bad("k, v or d is not that of the input row", line, place);
    }
    Key& key = keys_[made.key];
    if (key.count == 0) key.partition = message.partition;
    if (key.partition != message.partition) Bad("rows of one key in two partitions", line, place);
    if (ParseNumber<uint64_t>(texts[kCount], line, place.c_str()) != ++key.count) {
      Bad("the count is not one more than that of the key's row before", line, place);
    }
  }
  void Finish() const { CheckEqual("output rows", rows_seen_, rows_); }

 private:
  struct Key {
    uint64_t count = 0;
    int32_t partition = 0;
  };
  [[noreturn]] static void Bad(const char* what, std::string_view line, const std::string& place) {
    Fail("%s: %s: %.*s", place.c_str(), what, static_cast<int>(line.size()), line.data());
  }

  const uint64_t rows_;
  std::vector<bool> seen_;
  std::vector<Key> keys_;
  uint64_t rows_seen_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Stopwatch watch;
  Flags flags(argc, argv);
  const std::string brokers = flags.Required("brokers");
  const std::string topic = flags.Required("topic");
  const uint64_t rows = static_cast<uint64_t>(flags.Number("rows", 0));
  const uint64_t keys = static_cast<uint64_t>(flags.Number("keys", 1));
  flags.RejectUnknown();
  Checker checker(rows, keys);
  TopicReader reader(brokers, topic, "check-counts");
  rd_kafka_message_t* messages[TopicReader::kBatchRows];
  while (true) {
    const size_t got = reader.Next(messages, TopicReader::kBatchRows);
    for (size_t i = 0; i < got; ++i) checker.Add(*messages[i]);
    TopicReader::Release(messages, got);
    if (got == 0 && reader.AtEnd()) break;
  }
  checker.Finish();
  watch.Stop();
  PrintResult(watch,
              {.name = "check_counts", .rows = rows, .checksum = 0, .bytes = 0, .extra = ""});
}
