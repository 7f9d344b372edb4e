#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/record/key_group.h"
#include "worker/state/key_table.h"
#include "worker/state/state_backend.h"
#include "worker/state/state_format.h"

namespace weir {

// One table in one snapshot: fills chunks with slots, in any order of key groups, and hands each on
// when it is full. Owns the chunks being filled; the table must stay. Thread: the task's.
// Invariant: of a key group whose slots have all been saved, as many entries are in chunks as it
// had at the begin.
class TableSnapshot : public KeyTable::Saver {
 public:
  // The bytes of a value in its slot, in a table of kBytes.
  using ViewValue = std::string_view (*)(const uint8_t* slot_value);

  // Begins a snapshot of all `groups`; full chunks go to `chunks`. `view` is for kBytes only.
  TableSnapshot(const StateTableInfo& info, KeyGroupRange range, int max_parallelism,
                std::vector<KeyTable>* groups, ViewValue view, std::vector<KeyGroupState>* chunks);
  // Drops what is not saved yet.
  ~TableSnapshot() override;

  // Saves slots in order of key groups until `*bytes` of them are, which it counts down. False: all
  // slots are saved and all chunks handed on.
  bool Continue(int64_t* bytes);

  void Save(const KeyTable& table, const uint8_t* slot, const uint8_t* end) override;

 private:
  static constexpr size_t kForms = 2;  // of StateKeyForm
  struct Group {
    uint64_t entries = 0;  // at the begin
    uint64_t saved = 0;
    std::array<std::unique_ptr<StateChunkWriter>, kForms> writers;
  };

  StateChunkWriter& Writer(int group, StateKeyForm keys);
  void Added(int group, StateKeyForm keys);
  void Finish(int group, StateKeyForm keys);
  void SaveAny(int group, const uint8_t* slot);
  template <size_t kValueBytes>
  uint64_t SaveNumbers(int group, const uint8_t* slot, const uint8_t* end);

  const StateTableInfo& info_;
  const KeyGroupRange range_;
  const int max_parallelism_;
  std::vector<KeyTable>& tables_;
  const size_t stride_;
  const ViewValue view_;
  std::vector<KeyGroupState>& chunks_;
  std::vector<Group> groups_;
  size_t next_group_ = 0;
};

}  // namespace weir
