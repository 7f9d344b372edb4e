#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/record/key_group.h"

// The loops over the keys of a batch that every row of a keyed edge goes through: eight rows at a
// time where the processor has AVX-512, else one at a time, with equal results.
namespace weir {

// XXH3 (64 bits, seed 0) of the nine bytes 0x01, word (little endian): the hash of a key of one
// number. `hashes` has room for words.size() values.
void HashWords(std::span<const uint64_t> words, uint64_t* hashes);

// The key group of each hash, counted from range.begin; false if one is outside the range (what is
// written for it means nothing). `groups` has room for hashes.size() values.
bool FindKeyGroups(std::span<const uint64_t> hashes, int max_parallelism, KeyGroupRange range,
                   uint16_t* groups);

// Rows of a batch by the subtask that their key group belongs to. Thread: confined to its owner.
class RowsBySubtask {
 public:
  // REQUIRES: 1 <= parallelism <= max_parallelism <= 32768.
  RowsBySubtask(int parallelism, int max_parallelism);

  void Assign(std::span<const uint64_t> hashes);
  // The subtask of each row, of which `subtasks` has room for hashes.size().
  void FindSubtasks(std::span<const uint64_t> hashes, uint16_t* subtasks) const;
  // The rows of a subtask as of Assign, ascending; valid until the next.
  std::span<const int32_t> rows(int subtask) const {
    return {rows_.data() + begin_[subtask], static_cast<size_t>(count_[subtask])};
  }

 private:
  void AssignFew(std::span<const uint64_t> hashes);
  void AssignMany(std::span<const uint64_t> hashes);

  const int parallelism_;
  const int max_parallelism_;
  std::vector<uint16_t> subtask_of_group_;
  std::vector<int32_t> rows_;
  std::vector<int64_t> begin_;  // into rows_, by subtask
  std::vector<int64_t> count_;
  std::vector<uint16_t> subtask_of_row_;
};

}  // namespace weir
