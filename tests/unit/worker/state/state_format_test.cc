// The bytes of a chunk are an on-disk contract: written out by hand here. Readers refuse whatever
// is not exactly one chunk, also when the checksum over it holds.

#include "worker/state/state_format.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace weir {
namespace {

using namespace std::string_literals;

std::string Checksummed(std::string body) {
  const uint64_t checksum = XXH3_64bits(body.data(), body.size());
  for (int i = 0; i < 8; ++i) body.push_back(static_cast<char>(checksum >> (8 * i)));
  return body;
}

const std::string kHead = "WKG2" + "\0\0\0\0"s + "\x01\0\0\0"s;  // key group 0 of 1
const std::string kSeven = "\x01\x07\0\0\0\0\0\0\0"s;            // the INT64 7 as a key

// Values of a fixed width, keys of any form: two of three entries.
std::string FixedOfAny() {
  return kHead +                            //
         "\x02\0"s +                        // fixed, any keys
         "\x03\0\0\0"s +                    // width 3
         "\x01\0\0\0a"s +                   // name
         "\x05\0\0\0count"s +               // layout
         "\x03\0\0\0\0\0\0\0"s +            // entries in all chunks
         "\x02\0\0\0\0\0\0\0"s +            // and in this one
         "\x09\0\0\0"s + kSeven + "xyz"s +  //
         "\x01\0\0\0\0"s + "abc"s;          // the null key
}

// Values of any size, keys that are numbers.
std::string BytesOfNumbers() {
  return kHead + "\x01\x01"s + "\0\0\0\0"s + "\x01\0\0\0b"s + "\0\0\0\0"s + "\x01\0\0\0\0\0\0\0"s +
         "\x01\0\0\0\0\0\0\0"s +  //
         "\x07\0\0\0\0\0\0\0"s + "\x02\0\0\0hi"s;
}

StatusCode OpenCode(const std::string& bytes) {
  return StateChunkReader::Open(0, 1, bytes).status().code();
}

TEST(StateFormatTest, WritesTheBytesOfTheContract) {
  StateChunkWriter any(0, 1, {"a", StateTableKind::kFixed, 3, "count"}, StateKeyForm::kAny, 3);
  any.Add(kSeven, "xyz");
  any.Add("\0"s, "abc");
  EXPECT_EQ(any.Finish(), Checksummed(FixedOfAny()));
  StateChunkWriter numbers(0, 1, {"b", StateTableKind::kBytes, 0, ""}, StateKeyForm::kNumber, 1);
  const std::string entry = "\x07\0\0\0\0\0\0\0"s + "\x02\0\0\0hi"s;
  char* out = numbers.Extend(100);
  numbers.Filled(std::copy(entry.begin(), entry.end(), out), 1);
  EXPECT_EQ(numbers.Finish(), Checksummed(BytesOfNumbers()));
}

TEST(StateFormatTest, ReadsThemBack) {
  const std::string any = Checksummed(FixedOfAny());
  StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, any);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  std::string_view key;
  std::string_view value;
  EXPECT_EQ(chunk->table(), (StateTableInfo{"a", StateTableKind::kFixed, 3, "count"}));
  EXPECT_EQ(chunk->table_entries(), 3u);
  EXPECT_EQ(chunk->entries(), 2u);
  ASSERT_TRUE(chunk->NextEntry(&key, &value));
  EXPECT_EQ(key, kSeven);
  EXPECT_EQ(value, "xyz");
  ASSERT_TRUE(chunk->NextEntry(&key, &value));
  EXPECT_EQ(key, "\0"s);
  EXPECT_EQ(value, "abc");
  EXPECT_FALSE(chunk->NextEntry(&key, &value));
  EXPECT_FALSE(chunk->NextEntry(&key, &value));

  const std::string numbers = Checksummed(BytesOfNumbers());
  chunk = StateChunkReader::Open(0, 1, numbers);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->table(), (StateTableInfo{"b", StateTableKind::kBytes, 0, ""}));
  ASSERT_TRUE(chunk->NextEntry(&key, &value));
  EXPECT_EQ(key, kSeven);
  EXPECT_EQ(value, "hi");
  EXPECT_FALSE(chunk->NextEntry(&key, &value));
}

TEST(StateFormatTest, AChunkOfTheFormatBeforeIsRefusedByName) {
  std::string old = FixedOfAny();
  old[3] = '1';
  const Status status = StateChunkReader::Open(0, 1, Checksummed(old)).status();
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_NE(status.message().find("WKG1"), std::string::npos) << status;
}

TEST(StateFormatTest, AChunkWithoutEntriesOrOfMoreThanThereAreIsRefused) {
  const size_t all_at = FixedOfAny().find("\x03\0\0\0\0\0\0\0\x02"s);
  std::string body = FixedOfAny().substr(0, all_at + 16);
  body[all_at + 8] = 0;
  EXPECT_EQ(OpenCode(Checksummed(body)), StatusCode::kDataLoss);
  body = FixedOfAny();
  EXPECT_EQ(OpenCode(Checksummed(body)), StatusCode::kOk);
  body[all_at] = 1;
  EXPECT_EQ(OpenCode(Checksummed(body)), StatusCode::kDataLoss);
}

TEST(StateFormatTest, CutChunksAreRefusedThoughTheirChecksumHolds) {
  for (const std::string& body : {FixedOfAny(), BytesOfNumbers()}) {
    for (size_t size = 0; size < body.size(); ++size) {
      EXPECT_EQ(OpenCode(Checksummed(body.substr(0, size))), StatusCode::kDataLoss) << size;
      EXPECT_EQ(OpenCode(body.substr(0, size)), StatusCode::kDataLoss) << size;
    }
    EXPECT_EQ(OpenCode(Checksummed(body + "\0"s)), StatusCode::kDataLoss);
  }
}

TEST(StateFormatTest, AnyBytesWithARightChecksumAreReadOrRefused) {
  // Bytes are changed at random; what is accepted can be walked to its end.
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = i % 2 == 0 ? FixedOfAny() : BytesOfNumbers();
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    const std::string bytes = Checksummed(changed);
    StatusOr<StateChunkReader> chunk = StateChunkReader::Open(0, 1, bytes);
    if (!chunk.ok()) continue;
    std::string_view key;
    std::string_view value;
    uint64_t entries = 0;
    while (chunk->NextEntry(&key, &value)) ++entries;
    EXPECT_EQ(entries, chunk->entries());
  }
}

TEST(StateFormatTest, KeysOfAnotherKeyGroupAreRefused) {
  const uint64_t hash = XXH3_64bits(kSeven.data(), kSeven.size());
  std::string body = BytesOfNumbers();
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
