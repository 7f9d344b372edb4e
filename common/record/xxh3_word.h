#pragma once

#include <cstdint>

// XXH3 (64 bits, seed 0) of 9 to 16 bytes that are in registers already, as the library computes
// it. Through memory it costs a failed store forwarding a row.
namespace weir::xxh3 {

// Of the library's default secret: the words at offsets 24 and 32, and at 40 and 48.
inline constexpr uint64_t kFlipLow = 0x1f67b3b7a4a44072 ^ 0x78e5c0cc4ee679cb;
inline constexpr uint64_t kFlipHigh = 0x2172ffcc7dd05a82 ^ 0x8e2443f7744608b8;
inline constexpr uint64_t kAvalanche = 0x165667919e3779f9;

// `low`: the first 8 bytes; `high`: the last 8 (they overlap).
inline uint64_t Hash9To16(uint64_t low, uint64_t high, uint64_t length) {
  low ^= kFlipLow;
  high ^= kFlipHigh;
  const unsigned __int128 product = static_cast<unsigned __int128>(low) * high;
  const uint64_t folded = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  uint64_t hash = length + __builtin_bswap64(low) + high + folded;
  hash ^= hash >> 37;
  hash *= kAvalanche;
  return hash ^ (hash >> 32);
}

// Of the nine bytes 0x01, word.
inline uint64_t HashWord(uint64_t word) { return Hash9To16(1 | (word << 8), word, 9); }

}  // namespace weir::xxh3
