#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

// The bytes of the state of one key group, the same for every backend: an on-disk contract. All
// numbers are little endian.
//
//   "WKG1"
//   u32 key group   u32 max_parallelism
//   tables, by name:
//     u8 kind (StateTableKind)   u32 value width (0 for kBytes)
//     u32 size, name   u32 size, layout
//     u64 entries, each:
//       u32 size, key                   canonical encoding (surface.md, "The hash of a key")
//       kBytes: u32 size, value         kFixed: value of value width bytes
//   u8 0
//   u64 XXH3 (seed 0) of everything before
//
// Entries come in strict order of (hash of the key >> 2, key), so that equal state has equal bytes.
// Tables and key groups without an entry are left out.
namespace weir {

inline constexpr uint32_t kStateValueWidthMax = 1 << 20;

enum class StateTableKind : uint8_t {
  kBytes = 1,  // a value of any size a key
  kFixed = 2,  // a value of value_width bytes a key
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
  StateChunkWriter(int key_group, int max_parallelism);

  // REQUIRES: tables come in order of their names, each once.
  // `bytes_expected` is a guess at the size of the table in the chunk.
  void BeginTable(const StateTableInfo& info, uint64_t entries, size_t bytes_expected = 0);
  // REQUIRES: in order; as many per table as BeginTable said; a kFixed value has the width of its
  // table.
  void Add(std::string_view key, std::string_view value);
  std::string Finish();

 private:
  std::string out_;
  bool fixed_ = false;
};

// Walks one chunk, which must outlive it. Open has checked every length and number in it, so that
// the walk itself cannot fail. Thread: confined to its owner.
class StateChunkReader {
 public:
  // kDataLoss unless the bytes are exactly one undamaged chunk of this key group; user error if it
  // was written with another max_parallelism.
  static StatusOr<StateChunkReader> Open(int key_group, int max_parallelism,
                                         std::string_view bytes);

  // Steps to the next table; false behind the last.
  bool NextTable();
  const StateTableInfo& table() const { return table_; }
  uint64_t entries() const { return entries_; }
  // Steps to the next entry of the table; false behind the last.
  bool NextEntry(std::string_view* key, std::string_view* value);

 private:
  explicit StateChunkReader(std::string_view body) : rest_(body) {}
  std::string_view Problem(int key_group, int max_parallelism);
  bool TakeTable();
  bool TakeEntry(std::string_view* key, std::string_view* value);

  std::string_view rest_;
  StateTableInfo table_;
  uint64_t entries_ = 0;
  uint64_t entries_left_ = 0;
};

}  // namespace weir
