#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

// The bytes of a chunk: entries of one table in one key group, the same for every backend: an
// on-disk contract. All numbers are little endian.
//
//   "WKG2"
//   u32 key group   u32 max_parallelism
//   u8 kind (StateTableKind)   u8 form of the keys (StateKeyForm)
//   u32 value width (0 for kBytes)
//   u32 size, name   u32 size, layout
//   u64 entries of the table in this key group, in all chunks of the snapshot
//   u64 entries in this chunk, at least one, each:
//     kNumber: u64                    the key is 0x01 and these 8 bytes
//     kAny: u32 size, key             canonical encoding (surface.md, "The hash of a key")
//     kBytes: u32 size, value         kFixed: value of value width bytes
//   u64 XXH3 (seed 0) of everything before
//
// A key group has as many chunks as it takes; neither chunks nor entries have an order, and no key
// comes twice: two snapshots are equal when they hold the same set of entries. Tables and key
// groups without an entry have no chunk.
namespace weir {

inline constexpr uint32_t kStateValueWidthMax = 1 << 20;

enum class StateTableKind : uint8_t {
  kBytes = 1,  // a value of any size a key
  kFixed = 2,  // a value of value_width bytes a key
};

enum class StateKeyForm : uint8_t {
  kAny = 0,
  kNumber = 1,  // one number or timestamp, not null
};

struct StateTableInfo {
  std::string name;
  StateTableKind kind = StateTableKind::kBytes;
  uint32_t value_width = 0;
  std::string layout;
  bool operator==(const StateTableInfo&) const = default;
  // "a table of values of 16 bytes (count(*), sum(delay INT32))", for messages.
  std::string Describe() const;
};

// Hash of a canonically encoded key: the one that HashKeys gives its row.
uint64_t HashOfEncodedKey(std::string_view key);

// Builds one chunk. Thread: confined to its owner.
class StateChunkWriter {
 public:
  // `bytes_expected` is a guess at the size of the chunk.
  StateChunkWriter(int key_group, int max_parallelism, const StateTableInfo& table,
                   StateKeyForm keys, uint64_t table_entries, size_t bytes_expected = 0);

  // The value has the width of the table if that is kFixed. REQUIRES: keys are of kAny.
  void Add(std::string_view key, std::string_view value);
  // Room for so many bytes of entries, to be filled with them in their format; what is left over
  // is given back by Filled, which says where they end and how many they are.
  char* Extend(size_t bytes);
  void Filled(const char* end, uint64_t entries);

  size_t bytes() const { return out_.size(); }
  uint64_t entries() const { return entries_; }
  // REQUIRES: there are entries.
  std::string Finish();

 private:
  std::string out_;
  size_t count_at_;  // where in out_ the number of entries is
  uint64_t entries_ = 0;
  bool fixed_;
};

// Walks one chunk, which must outlive it. Open has checked every length and number in it, so that
// the walk itself cannot fail; it has not looked for keys that come twice. Thread: confined to its
// owner.
class StateChunkReader {
 public:
  // kDataLoss unless the bytes are exactly one undamaged chunk of this key group; user error if it
  // was written with another max_parallelism or by a version of Weir with another format.
  static StatusOr<StateChunkReader> Open(int key_group, int max_parallelism,
                                         std::string_view bytes);

  const StateTableInfo& table() const { return table_; }
  // In all chunks of the key group.
  uint64_t table_entries() const { return table_entries_; }
  uint64_t entries() const { return entries_; }
  // Steps to the next entry; false behind the last. The key holds until the next call.
  bool NextEntry(std::string_view* key, std::string_view* value);

 private:
  StateChunkReader() = default;
  bool TakeHead(std::string_view body);
  std::string_view Problem(int key_group, int max_parallelism);
  bool TakeEntry(std::string_view* key, std::string_view* value);

  std::string_view rest_;
  StateTableInfo table_;
  StateKeyForm keys_ = StateKeyForm::kAny;
  uint64_t table_entries_ = 0;
  uint64_t entries_ = 0;
  uint64_t entries_left_ = 0;
  std::array<char, 1 + sizeof(uint64_t)> number_ = {1};  // the key of a kNumber entry
};

}  // namespace weir
