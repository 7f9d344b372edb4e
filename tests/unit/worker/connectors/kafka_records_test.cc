#include "worker/connectors/kafka/kafka_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/concat.h"

namespace weir {
namespace {

using testing::HasSubstr;

// A record whose bytes are its own.
struct Row {
  std::optional<std::string> key;
  std::optional<std::string> value;
  int64_t timestamp_ms = -1;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  bool operator==(const Row&) const = default;
};

void Add(const Row& row, KafkaBlockWriter* writer) {
  std::vector<KafkaHeaderView> headers;
  for (const auto& [name, value] : row.headers) headers.push_back({name, value});
  writer->Add(
      {.key = row.key, .value = row.value, .timestamp_ms = row.timestamp_ms, .headers = headers});
}

// The rows of all blocks as "partition: row" pairs, or the error.
StatusOr<std::vector<std::pair<int, Row>>> ReadAll(std::string_view bytes) {
  std::vector<std::pair<int, Row>> rows;
  KafkaBlockReader blocks(bytes, "f");
  KafkaBlock block;
  while (true) {
    StatusOr<bool> more = blocks.Next(&block);
    if (!more.ok()) return more.status();
    if (!*more) break;
    KafkaRecordReader records(block);
    KafkaRecordView view;
    uint32_t count = 0;
    for (; records.Next(&view); ++count) {
      Row row;
      row.timestamp_ms = view.timestamp_ms;
      if (view.key) row.key = std::string(*view.key);
      if (view.value) row.value = std::string(*view.value);
      for (const KafkaHeaderView& header : view.headers) {
        row.headers.emplace_back(header.name, std::nullopt);
        if (header.value) row.headers.back().second = std::string(*header.value);
      }
      rows.emplace_back(block.partition, row);
    }
    if (!records.status().ok()) return records.status();
    EXPECT_EQ(count, block.rows);
  }
  if (blocks.used() != bytes.size()) return DataLossError("cut off");
  return rows;
}

std::string Blocks(int32_t partition, const std::vector<Row>& rows) {
  std::string bytes;
  KafkaBlockWriter writer;
  writer.Begin(partition, &bytes, 7);
  for (const Row& row : rows) Add(row, &writer);
  writer.End();
  return bytes;
}

const std::vector<Row>& SomeRows() {
  static const std::vector<Row> rows = {
      {"k", "value", 1'000, {}},
      {std::nullopt, "", -1, {}},
      {"", std::nullopt, 990, {{"h", "x"}, {"", std::nullopt}, {"empty", ""}}},
      {std::string(200, 'K'), std::string(1'000'000, 'v'), int64_t{1} << 60, {}},
      {std::nullopt, std::nullopt, 0, {}},
  };
  return rows;
}

TEST(KafkaRecords, ComeBackAsTheyWere) {
  std::string bytes = Blocks(7, SomeRows()) + Blocks(0, {}) + Blocks(2, {{"a", "b", 5, {}}});
  auto rows = ReadAll(bytes);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 6u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*rows)[i].first, 7);
    EXPECT_EQ((*rows)[i].second, SomeRows()[i]) << i;
  }
  EXPECT_EQ((*rows)[5].first, 2);
}

TEST(KafkaRecords, BytesAreTheContract) {
  std::string records(
      "\x01\x00\x02\x03kvw"    // base itself, "k", "vw"
      "\x02\x00\x01\x01h\x00"  // no timestamp, null key, "", one header h: null
      "\x01\x03\x00\x00",      // base - 2, null, null
      7 + 6 + 4);
  std::string header("\x11\0\0\0\x03\0\0\0\x05\0\0\0\0\0\0\0\xe8\x03\0\0\0\0\0\0", 24);
  uint64_t checksum = XXH3_64bits_withSeed(records.data(), records.size(),
                                           XXH3_64bits(header.data(), header.size()));
  std::string expected = header;
  expected.append(reinterpret_cast<const char*>(&checksum), 8);
  EXPECT_EQ(Blocks(5, {{"k", "vw", 1'000, {}},
                       {std::nullopt, "", -1, {{"h", std::nullopt}}},
                       {std::nullopt, std::nullopt, 998, {}}}),
            expected + records);

  std::string file;
  AppendKafkaFileHeader(&file);
  EXPECT_EQ(file, std::string("WeirKafk\x01\0\0\0\0\0\0\0", 16));
  EXPECT_TRUE(CheckKafkaFileHeader(file).ok());
  file[8] = 2;
  EXPECT_THAT(CheckKafkaFileHeader(file).message(), HasSubstr("version 2"));
  file[0] = 'w';
  EXPECT_EQ(CheckKafkaFileHeader(file).code(), StatusCode::kDataLoss);
}

TEST(KafkaRecords, BlocksAreCutWhenTheyAreLarge) {
  std::vector<Row> rows(1'000, Row{"key", std::string(1'000, 'x'), 1, {}});
  std::string bytes = Blocks(1, rows);
  KafkaBlockReader blocks(bytes);
  KafkaBlock block;
  int count = 0;
  uint32_t records = 0;
  while (*blocks.Next(&block)) {
    ++count;
    records += block.rows;
    EXPECT_LT(block.records.size(), kKafkaBlockBytes + 1'100);
  }
  EXPECT_EQ(count, 4);  // 261 rows of 1,008 bytes reach 256 KiB
  EXPECT_EQ(records, 1'000u);
}

TEST(KafkaRecords, ABlockThatIsNotThereWholeIsAskedFor) {
  std::string bytes = Blocks(1, {{"k", "v", 1, {}}});
  for (size_t length = 0; length < bytes.size(); ++length) {
    KafkaBlockReader blocks(std::string_view(bytes).substr(0, length));
    KafkaBlock block;
    auto more = blocks.Next(&block);
    ASSERT_TRUE(more.ok());
    EXPECT_FALSE(*more);
    EXPECT_EQ(blocks.wanted(), length < 32 ? 32 : bytes.size());
  }
}

TEST(KafkaRecords, EveryDamagedBitIsSeen) {
  std::string first = Blocks(1, {{"k", "v", 1, {}}});
  std::string bytes = first + Blocks(3, {{"key", "value", 2, {{"h", "x"}}}, {"a", "b", 3, {}}});
  for (size_t bit = 8 * first.size(); bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    auto rows = ReadAll(damaged);
    ASSERT_FALSE(rows.ok()) << bit;
    EXPECT_EQ(rows.status().code(), StatusCode::kDataLoss);
  }
  std::string damaged = bytes;
  damaged.back() ^= 1;
  EXPECT_THAT(ReadAll(damaged).status().message(),
              testing::AllOf(HasSubstr("f: "), HasSubstr(Concat("at offset ", first.size()))));
}

// Records that were never written by us, under a checksum that is right.
TEST(KafkaRecords, WrongRecordsAreRefusedWithTheirOffset) {
  auto status_of = [](std::string_view records, uint32_t rows) {
    KafkaBlock block{.partition = 0, .rows = rows, .records = records, .records_offset = 100};
    KafkaRecordReader reader(block);
    KafkaRecordView view;
    while (reader.Next(&view)) {
    }
    return reader.status();
  };
  using namespace std::string_view_literals;
  EXPECT_TRUE(status_of("\x00\x02\x02kv"sv, 1).ok());
  for (std::string_view records : {
           "\x00\x02\x02k"sv,                                     // shorter than it says
           "\x00\x02\x02kvx"sv,                                   // bytes behind
           "\x00\x02"sv,                                          // ends in the head
           "\x80\x00\x02\x02kv"sv,                                // a superfluous byte
           "\x02\x00\x00\x7fh"sv,                                 // a name too long
           "\x02\x00\x00\x01h"sv,                                 // a header without value
           "\x7e\x00\x00\x00\x00"sv,                              // 63 headers
           "\x01\x01\x00\x00"sv,                                  // timestamp -1
           "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00"sv,  // no 64 bits
           "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"sv,  // a key of 2^64 - 2 bytes
       }) {
    Status status = status_of(records, 1);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("at offset 1"));
  }
}

}  // namespace
}  // namespace weir
