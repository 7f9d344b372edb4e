#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/record/record_batch.h"

// Routing of keys: an on-disk contract (surface.md, "The hash of a key"); vectors are fixed in
// tests/unit/record/key_group_test.cc.
namespace weir {

// Canonical encoding of row `row` of the key columns, appended to `out`: per column 0x00 for null,
// else 0x01 and the value (BOOL one byte; INT32, INT64, TIMESTAMP as int64 LE; FLOAT64 8 bytes LE,
// -0.0 as 0.0, every NaN 0x7ff8000000000000; STRING, BYTES uint32 LE length and bytes).
void EncodeKey(const RecordBatch& batch, std::span<const int> key_columns, int64_t row,
               std::string* out);

// A FLOAT64 in the encoding: 0.0 and -0.0 are one key, and so are all NaNs.
inline uint64_t CanonicalBits(double value) {
  constexpr uint64_t kCanonicalNan = 0x7ff8000000000000;
  if (std::isnan(value)) return kCanonicalNan;
  return value == 0 ? 0 : std::bit_cast<uint64_t>(value);
}

// XXH3 (64 bits, seed 0) of the canonical encoding of every row. `hashes` gets batch.rows() values.
void HashKeys(const RecordBatch& batch, std::span<const int> key_columns,
              std::vector<uint64_t>* hashes);

inline int KeyGroupOf(uint64_t hash, int max_parallelism) {
  return static_cast<int>(hash % static_cast<uint64_t>(max_parallelism));
}
inline int SubtaskOf(int key_group, int max_parallelism, int parallelism) {
  return static_cast<int>(int64_t{key_group} * parallelism / max_parallelism);
}

// Key groups [begin, end) that SubtaskOf gives to `subtask`.
struct KeyGroupRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  bool Contains(int key_group) const { return key_group >= begin && key_group < end; }
  bool operator==(const KeyGroupRange&) const = default;
};
KeyGroupRange KeyGroupsOf(int subtask, int max_parallelism, int parallelism);

}  // namespace weir
