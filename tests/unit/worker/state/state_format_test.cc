// The bytes of a chunk are an on-disk contract: written out by hand here. Readers refuse whatever
// is not exactly one chunk, also when the checksum over it holds.

#include "worker/state/state_format.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weir {
namespace {

using namespace std::string_literals;

std::string Checksummed(std::string body) {
  const uint64_t checksum = XXH3_64bits(body.data(), body.size());
  for (int i = 0; i < 8; ++i) body.push_back(static_cast<char>(checksum >> (8 * i)));
  return body;
}

const std::string kHead = "WKG1" + "\0\0\0\0"s + "\x01\0\0\0"s;  // key group 0 of 1
const std::string kSeven = "\x01\x07\0\0\0\0\0\0\0"s;            // the INT64 7 as a key

// One table of each kind, one entry each.
std::string TwoTables() {
  return kHead +                            //
         "\x02\x03\0\0\0"s +                // fixed, width 3
         "\x01\0\0\0a"s +                   // name
         "\x05\0\0\0count"s +               // layout
         "\x01\0\0\0\0\0\0\0"s +            // entries
         "\x09\0\0\0"s + kSeven + "xyz"s +  //
         "\x01\0\0\0\0"s +                  // bytes
         "\x01\0\0\0b"s + "\0\0\0\0"s +     //
         "\x01\0\0\0\0\0\0\0"s +            //
         "\x01\0\0\0\0"s +                  // the null key
         "\x02\0\0\0hi"s +                  //
         "\0"s;
}

// A table "b" of one-byte values with these keys.
std::string TableOf(const std::vector<std::string>& keys) {
  std::string body = kHead + "\x02\x01\0\0\0"s + "\x01\0\0\0b"s + "\0\0\0\0"s;
  body += static_cast<char>(keys.size());
  body += "\0\0\0\0\0\0\0"s;
  for (const std::string& key : keys) {
    body += static_cast<char>(key.size());
    body += "\0\0\0"s + key + "v";
  }
  return body + "\0"s;
}

StatusCode OpenCode(const std::string& bytes) {
  return StateChunkReader::Open(0, 1, bytes).status().code();
}

TEST(StateFormatTest, WritesTheBytesOfTheContract) {
  StateChunkWriter writer(0, 1);
  writer.BeginTable({"a", StateTableKind::kFixed, 3, "count"}, 1);
  writer.Add(kSeven, "xyz");
  writer.BeginTable({"b", StateTableKind::kBytes, 0, ""}, 1);
  writer.Add("\0"s, "hi");
  EXPECT_EQ(writer.Finish(), Checksummed(TwoTables()));
}

TEST(StateFormatTest, ReadsThemBack) {
  const std::string bytes = Checksummed(TwoTables());
  StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  std::string_view key;
  std::string_view value;
  ASSERT_TRUE(chunk->NextTable());
  EXPECT_EQ(chunk->table(), (StateTableInfo{"a", StateTableKind::kFixed, 3, "count"}));
  EXPECT_EQ(chunk->entries(), 1u);
  ASSERT_TRUE(chunk->NextEntry(&key, &value));
  EXPECT_EQ(key, kSeven);
  EXPECT_EQ(value, "xyz");
  EXPECT_FALSE(chunk->NextEntry(&key, &value));
  ASSERT_TRUE(chunk->NextTable());
  EXPECT_EQ(chunk->table(), (StateTableInfo{"b", StateTableKind::kBytes, 0, ""}));
  ASSERT_TRUE(chunk->NextEntry(&key, &value));
  EXPECT_EQ(key, "\0"s);
  EXPECT_EQ(value, "hi");
  EXPECT_FALSE(chunk->NextEntry(&key, &value));
  EXPECT_FALSE(chunk->NextTable());
  EXPECT_FALSE(chunk->NextTable());
}

TEST(StateFormatTest, SkipsTheEntriesOfTablesThatAreNotWalked) {
  const std::string bytes = Checksummed(TwoTables());
  StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, bytes);
  ASSERT_TRUE(chunk.ok());
  EXPECT_TRUE(chunk->NextTable());
  EXPECT_TRUE(chunk->NextTable());
  EXPECT_EQ(chunk->table().name, "b");
  EXPECT_FALSE(chunk->NextTable());
}

TEST(StateFormatTest, AChunkWithoutTablesIsOne) {
  const std::string bytes = Checksummed(kHead + "\0"s);
  StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_FALSE(chunk->NextTable());
}

TEST(StateFormatTest, CutChunksAreRefusedThoughTheirChecksumHolds) {
  const std::string body = TwoTables();
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_EQ(OpenCode(Checksummed(body.substr(0, size))), StatusCode::kDataLoss) << size;
    EXPECT_EQ(OpenCode(body.substr(0, size)), StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(OpenCode(Checksummed(body + "\0"s)), StatusCode::kDataLoss);
}

TEST(StateFormatTest, AnyBytesWithARightChecksumAreReadOrRefused) {
  // Bytes are changed at random; what is accepted can be walked to its end.
  const std::string body = TwoTables();
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = body;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    const std::string bytes = Checksummed(changed);
    StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, bytes);
    if (!chunk.ok()) continue;
    std::string_view key;
    std::string_view value;
    while (chunk->NextTable()) {
      uint64_t entries = 0;
      while (chunk->NextEntry(&key, &value)) ++entries;
      EXPECT_EQ(entries, chunk->entries());
    }
  }
}

TEST(StateFormatTest, OrderOfKeysIsPartOfTheFormat) {
  std::string low = "\x01\x01\0\0\0a"s;
  std::string high = "\x01\x01\0\0\0b"s;
  if (XXH3_64bits(low.data(), low.size()) >> 2 > XXH3_64bits(high.data(), high.size()) >> 2) {
    std::swap(low, high);
  }
  EXPECT_EQ(OpenCode(Checksummed(TableOf({low, high}))), StatusCode::kOk);
  EXPECT_EQ(OpenCode(Checksummed(TableOf({high, low}))), StatusCode::kDataLoss);
  EXPECT_EQ(OpenCode(Checksummed(TableOf({low, low}))), StatusCode::kDataLoss);
}

TEST(StateFormatTest, KeysOfAnotherKeyGroupAreRefused) {
  const uint64_t hash = XXH3_64bits(kSeven.data(), kSeven.size());
  std::string body = TableOf({kSeven});
  body[8] = 2;  // max_parallelism
  for (const int group : {0, 1}) {
    body[4] = static_cast<char>(group);
    EXPECT_EQ(StateChunkReader::Open(group, 2, Checksummed(body)).ok(),
              hash % 2 == static_cast<uint64_t>(group));
  }
}

TEST(StateFormatTest, DescribesTablesForMessages) {
  EXPECT_EQ((StateTableInfo{"a", StateTableKind::kFixed, 16, "count(*)"}).Describe(),
            "a table of values of 16 bytes (count(*))");
  EXPECT_EQ((StateTableInfo{"b", StateTableKind::kBytes, 0, ""}).Describe(),
            "a table of values of any size");
}

}  // namespace
}  // namespace weir
