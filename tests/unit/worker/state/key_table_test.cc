// The hash table of one key group against a std::map, with tags that make long runs of slots which
// wrap around the end: what real hashes hardly ever do.

#include "worker/state/key_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "worker/state/batch_keys.h"

namespace weir {
namespace {

// A key of one word whose hash has these highest bits.
TableKey Word(uint64_t home, uint64_t word) {
  return {home << 56 | (word % 7) << 8 | TableKey::kWord, word};
}

uint64_t& At(uint8_t* value) { return *reinterpret_cast<uint64_t*>(value); }

TEST(KeyTableTest, AnEmptyTableHoldsNothingAndNoMemory) {
  SlotMemory memory;
  KeyTable table(8, &memory);
  EXPECT_EQ(table.Find(Word(1, 1)), nullptr);
  table.Prefetch(Word(1, 1));
  EXPECT_EQ(table.size(), 0);
  EXPECT_TRUE(table.Values().empty());
  EXPECT_EQ(table.bytes(), static_cast<int64_t>(sizeof(KeyTable)));
}

TEST(KeyTableTest, RunsThatWrapAroundBehaveAsAMap) {
  // Keys live at few homes, most of them at the very end of the slots.
  std::mt19937_64 random(11);
  SlotMemory memory;
  KeyTable table(16, &memory);
  std::map<uint64_t, uint64_t> expected;
  for (int i = 0; i < 200000; ++i) {
    const uint64_t word = random() % 300;
    const uint64_t home = word % 5 == 0 ? word % 256 : 250 + word % 6;
    const TableKey key = Word(home, word);
    uint8_t* value = table.Find(key);
    const auto found = expected.find(word);
    ASSERT_EQ(value != nullptr, found != expected.end());
    if (value == nullptr) {
      // Fill, then drain, then fill again.
      if (random() % 100 < (i / 20000 % 2 == 0 ? 80 : 20)) {
        value = table.Insert(key);
        ASSERT_EQ(At(value), 0u);
        ASSERT_EQ(At(value + 8), 0u);
        At(value) = word;
        At(value + 8) = static_cast<uint64_t>(i);
        expected[word] = static_cast<uint64_t>(i);
      }
    } else {
      ASSERT_EQ(At(value), word);
      ASSERT_EQ(At(value + 8), found->second);
      if (random() % 100 < (i / 20000 % 2 == 0 ? 20 : 80)) {
        table.Erase(value);
        expected.erase(found);
      }
    }
    ASSERT_EQ(table.size(), static_cast<int64_t>(expected.size()));
  }
  std::set<uint64_t> words;
  for (uint8_t* value : table.Values()) words.insert(At(value));
  EXPECT_EQ(words.size(), expected.size());
  EXPECT_EQ(table.Values().size(), expected.size());
}

TEST(KeyTableTest, KeysOfOneHashAreToldApartByTheirBytes) {
  // Given encoded keys of all three forms with one and the same hash.
  const std::vector<std::string> keys = {
      std::string("\0", 1),
      std::string("\x01"),
      std::string("\x01\0", 2),
      std::string("\x01\x02\x03\x04\x05\x06\x07"),
      std::string("\x01\x02\x03\x04\x05\x06\x07\x08"),
      std::string("\x01\x02\x03\x04\x05\x06\x07\x08\x09"),
      std::string("\x02\x02\x03\x04\x05\x06\x07\x08\x09"),
      std::string("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a"),
      std::string(""),
      std::string(100000, 'k'),
      std::string(100000, 'k') + "l",
  };
  SlotMemory memory;
  KeyTable table(8, &memory);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint32_t size = static_cast<uint32_t>(keys[i].size());
      // The bytes of the batch do not outlive it: the table has its own.
      std::string sized(reinterpret_cast<const char*>(&size), sizeof(size));
      sized += keys[i];
      const TableKey key = MakeTableKey(0xabcdef, sized.data());
      if (round == 0) {
        ASSERT_EQ(table.Find(key), nullptr) << i;
        At(table.Insert(key)) = i;
      } else {
        ASSERT_NE(table.Find(key), nullptr) << i;
        EXPECT_EQ(At(table.Find(key)), i);
      }
      std::string bytes;
      key.AppendBytes(&bytes);
      EXPECT_EQ(bytes, keys[i]);
    }
  }
}

// What a snapshot sees of a table of 8-byte values: by word of the key the value.
class SeenSlots : public KeyTable::Saver {
 public:
  void Save(const KeyTable& table, const uint8_t* slot, const uint8_t* end) override {
    for (; slot != end; slot += table.stride()) {
      uint64_t words[3];
      std::memcpy(words, slot, sizeof(words));
      if (words[0] != 0) {
        EXPECT_TRUE(seen.emplace(words[1], words[2]).second);
      }
    }
  }
  std::map<uint64_t, uint64_t> seen;
};

TEST(KeyTableTest, ASnapshotSeesEverySlotAsItWasThoughRunsMove) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 300; ++round) {
    SlotMemory memory;
    KeyTable table(8, &memory);
    std::map<uint64_t, uint64_t> expected;
    uint64_t next_value = 1;
    // Keys live at few homes, most of them at the very end of the slots: erasing one moves many.
    auto change = [&] {
      const uint64_t word = random() % 300;
      const TableKey key = Word(word % 5 == 0 ? word % 256 : 250 + word % 6, word);
      uint8_t* value = table.Find(key);
      if (value != nullptr && random() % 2 == 0) {
        table.Erase(value);
        expected.erase(word);
        return;
      }
      if (value == nullptr) value = table.Insert(key);
      table.BeforeChange(value);
      expected[word] = At(value) = next_value++;
    };
    for (uint64_t i = random() % 600; i > 0; --i) change();
    const auto begun = expected;
    SeenSlots saver;
    table.BeginSnapshot(&saver, size_t{16} << random() % 6);
    while (table.in_snapshot()) {
      for (uint64_t i = random() % 4; i > 0; --i) change();
      table.ContinueSnapshot(static_cast<int64_t>(random() % 100));
    }
    ASSERT_EQ(saver.seen, begun) << round;
  }
}

TEST(KeyTableTest, ReplacedSlotsStayReadableForWhoKeepsThem) {
  SlotMemory memory;
  KeyTable table(8, &memory);
  std::vector<KeyTable::Slots> replaced;
  uint8_t* first = table.Insert(Word(3, 3), &replaced);
  At(first) = 42;
  const uint64_t version = table.version();
  for (uint64_t i = 4; i < 100; ++i) table.Insert(Word(i, i), &replaced);
  EXPECT_NE(table.version(), version);
  EXPECT_GE(replaced.size(), 3u);
  EXPECT_EQ(At(first), 42u);
  EXPECT_EQ(At(table.Find(Word(3, 3))), 42u);
}

TEST(KeyTableTest, MemoryOfErasedLongKeysIsReused) {
  SlotMemory memory;
  KeyTable table(8, &memory);
  int64_t peak = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string key = std::string(96, 'k') + std::to_string(10000 + i);
    const uint32_t size = static_cast<uint32_t>(key.size());
    const std::string sized = std::string(reinterpret_cast<const char*>(&size), 4) + key;
    table.Insert(MakeTableKey(static_cast<uint64_t>(i) << 50, sized.data()));
    if (i >= 10) {
      const std::string old = std::string(96, 'k') + std::to_string(10000 + i - 10);
      const std::string old_sized = std::string(reinterpret_cast<const char*>(&size), 4) + old;
      uint8_t* value =
          table.Find(MakeTableKey(static_cast<uint64_t>(i - 10) << 50, old_sized.data()));
      ASSERT_NE(value, nullptr) << i;
      table.Erase(value);
    }
    peak = std::max(peak, table.bytes());
  }
  EXPECT_EQ(table.size(), 10);
  EXPECT_LT(peak, 64 << 10);
}

}  // namespace
}  // namespace weir
