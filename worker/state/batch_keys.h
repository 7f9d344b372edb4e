#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_scratch.h"
#include "common/record/key_group.h"
#include "common/record/record_batch.h"

namespace weir {

// A canonically encoded key as two words that compare fast. Which form a key has depends on its
// bytes alone:
//   kWord   0x01 and 8 bytes (one number or timestamp): the 8 bytes
//   kShort  up to 7 bytes: the bytes, size in the top byte
//   kLong   any other: address of a uint32 size and the bytes, which somebody else owns
// `tag` is the hash with its two lowest bits replaced by the form; never 0.
struct TableKey {
  enum Form : uint64_t { kWord = 1, kShort = 2, kLong = 3 };
  static constexpr uint64_t kFormMask = 3;

  uint64_t tag;
  uint64_t word;

  Form form() const { return static_cast<Form>(tag & kFormMask); }
  bool IsLong() const { return form() == kLong; }
  // The encoded bytes of a kLong key.
  std::string_view LongBytes() const;
  // Appends the encoded bytes.
  void AppendBytes(std::string* out) const;
};

// The key with these encoded bytes; `sized` holds a uint32 in front of them and must outlive it.
TableKey MakeTableKey(uint64_t hash, const char* sized);

// Hashes, key groups and keys of the rows of one batch. Thread: confined to its owner.
class BatchKeys {
 public:
  BatchKeys(KeyGroupRange range, int max_parallelism);

  // The batch must stay until Release or the next Load. Internal error if a row belongs to no key
  // group of the range.
  Status Load(const RecordBatch& batch, std::span<const int> key_columns);
  // Gives memory back that the batches of other tasks can use.
  void Release() { scratch_.reset(); }

  int64_t rows() const { return rows_; }
  TableKey key(int64_t row) const {
    if (words_ == nullptr) return keys_[row];
    return {(hashes_[row] & ~TableKey::kFormMask) | TableKey::kWord, words_[row]};
  }
  // The words of the rows when all keys are of the form kWord, else nullptr. For quick loops.
  const uint64_t* words() const { return words_; }
  const uint64_t* hashes() const { return hashes_; }
  const uint16_t* groups() const { return groups_; }
  // Key group of the row, counted from the begin of the range.
  int group(int64_t row) const { return groups_[row]; }

 private:
  void LoadWords(const Column& column);
  void LoadEncoded(const RecordBatch& batch, std::span<const int> key_columns);

  const KeyGroupRange range_;
  const int max_parallelism_;
  struct Scratch {
    ThreadScratch<uint64_t> hashes;
    ThreadScratch<uint16_t> groups;
  };
  std::optional<Scratch> scratch_;
  int64_t rows_ = 0;
  const uint64_t* hashes_ = nullptr;  // in scratch_
  const uint16_t* groups_ = nullptr;  // likewise
  const uint64_t* words_ = nullptr;   // of the column in the batch, or made_words_
  std::vector<uint64_t> made_words_;
  std::vector<TableKey> keys_;  // unless there are words_
  std::string encoded_;         // per row a uint32 size and the key
  std::vector<size_t> starts_;  // of the rows in encoded_
};

}  // namespace weir
