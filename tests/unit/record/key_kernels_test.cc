// The quick loops over the hashes of a batch against the plain definitions: the hash function of
// the library, the modulo of key groups. Batches of every length around a block of eight rows, for
// the loops take whole blocks.

#include "common/record/key_kernels.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <random>
#include <vector>

namespace weir {
namespace {

std::vector<uint64_t> RandomWords(size_t count) {
  std::mt19937_64 random(count);
  std::vector<uint64_t> words(count);
  // Small numbers, negative ones and any.
  for (uint64_t& word : words) {
    word = random();
    if (random() % 2 == 0) word %= 1000;
    if (random() % 3 == 0) word = ~word;
  }
  return words;
}

TEST(KeyKernelsTest, HashesAreThoseOfTheLibrary) {
  for (size_t count = 0; count <= 40; ++count) {
    const std::vector<uint64_t> words = RandomWords(count);
    std::vector<uint64_t> hashes(count + 1, 7);
    HashWords(words, hashes.data());
    for (size_t i = 0; i < count; ++i) {
      char encoding[9] = {1};
      std::memcpy(encoding + 1, &words[i], sizeof(uint64_t));
      EXPECT_EQ(hashes[i], XXH3_64bits(encoding, sizeof(encoding))) << count << " " << i;
    }
    EXPECT_EQ(hashes[count], 7u) << "wrote behind the end";
  }
}

TEST(KeyKernelsTest, KeyGroupsAreTheModulo) {
  for (const int max : {1, 2, 100, 128, 32768}) {
    for (size_t count = 0; count <= 40; ++count) {
      const std::vector<uint64_t> hashes = RandomWords(count);
      const KeyGroupRange all{0, max};
      std::vector<uint16_t> groups(count + 1, 7);
      ASSERT_TRUE(FindKeyGroups(hashes, max, all, groups.data()));
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(groups[i], hashes[i] % max);
      EXPECT_EQ(groups[count], 7u) << "wrote behind the end";
    }
  }
}

TEST(KeyKernelsTest, AHashOfAnotherRangeIsNoticedAtEveryRow) {
  for (const int max : {100, 128}) {
    const uint64_t max_hash = static_cast<uint64_t>(max);
    for (size_t at = 0; at < 19; ++at) {
      std::vector<uint64_t> hashes(19, 40 + 3 * max_hash);
      std::vector<uint16_t> groups(19);
      ASSERT_TRUE(FindKeyGroups(hashes, max, {40, 50}, groups.data()));
      EXPECT_EQ(groups[at], 0);
      for (const uint64_t outside : {39u, 50u}) {
        hashes[at] = outside + 7 * max_hash;
        EXPECT_FALSE(FindKeyGroups(hashes, max, {40, 50}, groups.data())) << at << " " << outside;
      }
    }
  }
}

TEST(KeyKernelsTest, RowsGoToTheSubtaskOfTheirKeyGroup) {
  for (const int max : {100, 128, 32768}) {
    for (const int parallelism : {1, 2, 3, 8, 9, 64, 100}) {
      RowsBySubtask rows(parallelism, max);
      for (const size_t count : {0u, 1u, 7u, 8u, 9u, 4096u, 31u}) {
        const std::vector<uint64_t> hashes = RandomWords(count);
        rows.Assign(hashes);
        std::vector<std::vector<int32_t>> expected(static_cast<size_t>(parallelism));
        for (size_t i = 0; i < count; ++i) {
          const int64_t group = static_cast<int64_t>(hashes[i] % static_cast<uint64_t>(max));
          expected[group * parallelism / max].push_back(static_cast<int32_t>(i));
        }
        for (int subtask = 0; subtask < parallelism; ++subtask) {
          const std::span<const int32_t> got = rows.rows(subtask);
          EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), expected[subtask])
              << max << " " << parallelism << " " << count << " " << subtask;
        }
        std::vector<uint16_t> subtasks(count + 1, 7);
        rows.FindSubtasks(hashes, subtasks.data());
        ASSERT_EQ(subtasks[count], 7) << "wrote behind the end";
        for (size_t i = 0; i < count; ++i) {
          const int64_t group = static_cast<int64_t>(hashes[i] % static_cast<uint64_t>(max));
          ASSERT_EQ(subtasks[i], group * parallelism / max);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir
