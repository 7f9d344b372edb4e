// Memory for slots of all sizes around those at which it comes from elsewhere: always zeros, never
// shared, and pages that nobody uses are given back (the destructor checks).

#include "worker/state/slot_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace weir {
namespace {

constexpr size_t kKiB = 1024;

bool IsAll(const uint8_t* piece, size_t bytes, uint8_t value) {
  return std::all_of(piece, piece + bytes, [value](uint8_t byte) { return byte == value; });
}

TEST(SlotMemoryTest, PiecesAreZerosOfTheirOwnWhateverWasThereBefore) {
  const size_t sizes[] = {256,         64 * kKiB - 32, 64 * kKiB,       96 * kKiB,  256 * kKiB,
                          1024 * kKiB, 1025 * kKiB,    2 * 1024 * kKiB, 5000 * kKiB};
  SlotMemory memory;
  std::mt19937 random(3);
  struct Held {
    SlotMemory::Piece piece;
    size_t bytes;
    uint8_t value;
  };
  std::vector<Held> held;
  for (int i = 0; i < 600; ++i) {
    if (held.size() < 40 && random() % 5 < 3) {
      const size_t bytes = sizes[random() % std::size(sizes)];
      SlotMemory::Piece piece = memory.Take(bytes);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(piece.get()) % 64, 0u);
      ASSERT_TRUE(IsAll(piece.get(), bytes, 0)) << bytes;
      const uint8_t value = static_cast<uint8_t>(1 + i % 255);
      std::memset(piece.get(), value, bytes);
      held.push_back({std::move(piece), bytes, value});
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      ASSERT_TRUE(IsAll(held[at].piece.get(), held[at].bytes, held[at].value));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

TEST(SlotMemoryTest, LargePiecesBeginWhereHugePagesDoAndSmallerOnesShareOne) {
  constexpr uintptr_t kHugePage = 2 * 1024 * kKiB;
  SlotMemory memory;
  const SlotMemory::Piece large = memory.Take(4 * 1024 * kKiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.get()) % kHugePage, 0u);
  const SlotMemory::Piece one = memory.Take(512 * kKiB);
  const SlotMemory::Piece other = memory.Take(512 * kKiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one.get()) / kHugePage,
            reinterpret_cast<uintptr_t>(other.get()) / kHugePage);
}

}  // namespace
}  // namespace weir
