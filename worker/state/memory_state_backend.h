#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/state/batch_keys.h"
#include "worker/state/key_table.h"
#include "worker/state/state_backend.h"
#include "worker/state/state_format.h"
#include "worker/state/table_snapshot.h"

namespace weir {

// The batch in process as the tables of one backend see it. Thread: confined to the task's.
class BatchInProcess {
 public:
  BatchInProcess(KeyGroupRange range, int max_parallelism) : keys_(range, max_parallelism) {}

  void Begin(const RecordBatch& batch, std::span<const int> key_columns);
  Status End();
  bool in_process() const { return batch_ != nullptr; }
  // Counts batches; 0 before the first.
  uint64_t number() const { return number_; }

  // The keys of the batch, made at the first call; nullptr after an error, which is remembered.
  const BatchKeys* keys(std::string_view table);
  void Fail(Status error);
  // The first error; stays.
  const Status& error() const { return error_; }

 private:
  const RecordBatch* batch_ = nullptr;
  std::span<const int> key_columns_;
  uint64_t number_ = 0;
  bool loaded_ = false;
  BatchKeys keys_;
  Status error_;
};

// One named table of either kind: a KeyTable per key group.
class MemoryTable {
 public:
  MemoryTable(StateTableInfo info, size_t slot_width, int groups, SlotMemory* memory,
              BatchInProcess* batch);
  virtual ~MemoryTable() = default;
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  const StateTableInfo& info() const { return info_; }
  virtual int64_t bytes() const;
  // The entries of a chunk that was opened for this key group. kDataLoss for a key that is there.
  virtual Status Restore(int group, StateChunkReader* chunk);

  // Begins a snapshot of what the table holds now; its chunks go to `chunks`.
  void BeginSnapshot(KeyGroupRange range, int max_parallelism, std::vector<KeyGroupState>* chunks);
  // As TableSnapshot::Continue; false also when there is none.
  bool ContinueSnapshot(int64_t* bytes);
  void AbortSnapshot() { snapshot_.reset(); }
  // The batch in process ends.
  virtual void EndBatch() {}

 protected:
  // How to read a value of kBytes.
  virtual TableSnapshot::ViewValue view() const = 0;
  virtual void SetValue(uint8_t* slot_value, std::string_view value) = 0;
  // Calls visit(table, row) for all rows, memory of the rows ahead being on its way.
  template <typename Tables, typename Visit>
  static void ForEachRow(Tables& tables, const BatchKeys& keys, int64_t begin, int64_t end,
                         Visit visit);

  const StateTableInfo info_;
  std::vector<KeyTable> groups_;
  BatchInProcess* const batch_;
  std::unique_ptr<TableSnapshot> snapshot_;  // the one in progress
};

class MemoryFixedTable final : public MemoryTable, public FixedTable {
 public:
  MemoryFixedTable(StateTableInfo info, int groups, SlotMemory* memory, BatchInProcess* batch);

  int value_width() const override { return static_cast<int>(info_.value_width); }
  Status Load(std::vector<uint8_t*>* values) override;
  Status LoadRows(int64_t begin, int64_t end, std::vector<uint8_t*>* values) override;
  Status Restore(int group, StateChunkReader* chunk) override;

 private:
  TableSnapshot::ViewValue view() const override { return nullptr; }
  void SetValue(uint8_t* slot_value, std::string_view value) override;
  void LoadRowsOf(const BatchKeys& keys, int64_t begin, int64_t end, uint8_t** out);
  void LoadWords(const BatchKeys& keys, int64_t begin, int64_t end, uint8_t** out);
  // The rows row_at(0), row_at(1), … of a batch of words.
  template <typename RowAt>
  void LoadEach(const BatchKeys& keys, int64_t count, RowAt row_at, uint8_t** out);
  // The pairs of the rows row_at(begin) to row_at(end - 1).
  template <typename RowAt>
  void FindPairs(const BatchKeys& keys, int64_t begin, int64_t end, RowAt row_at, uint8_t** out);
  // The value of the key of a row, made if there is none.
  uint8_t* FindOrInsert(const BatchKeys& keys, int64_t row);

  // Looks up the rows of the groups that have grown once more.
  void FindMoved(const BatchKeys& keys, int64_t begin, int64_t end, uint8_t** out);

  std::vector<KeyTable::Pairs> pairs_;  // per group
  std::vector<char> moved_;             // per group, whether it has grown in this Load
  std::vector<int> moved_groups_;       // those that have
  std::vector<int64_t> missed_;         // rows whose key is not in its pair of slots
  std::vector<int32_t> others_;         // rows that do not have the key that most have
};

// Values of up to 8 bytes are in the slot, longer ones on the heap. A cleared key is taken out when
// the batch ends.
class MemoryBytesTable final : public MemoryTable, public KeyedBytes {
 public:
  MemoryBytesTable(StateTableInfo info, int groups, SlotMemory* memory, BatchInProcess* batch);
  ~MemoryBytesTable() override;

  bool Get(int64_t row, std::string_view* value) const override;
  void Set(int64_t row, std::string_view value) override;
  void Clear(int64_t row) override;
  int64_t bytes() const override { return MemoryTable::bytes() + heap_bytes_; }
  void EndBatch() override;

 private:
  struct Row {
    uint8_t* slot_value;
    uint64_t version;
  };

  // The keys of the batch, all looked up, if `row` is one of it; else nullptr, the error noted.
  const BatchKeys* KeysWith(int64_t row) const;
  uint8_t* Find(const BatchKeys& keys, int64_t row) const;
  void FreeValue(uint8_t* slot_value);

  TableSnapshot::ViewValue view() const override;
  void SetValue(uint8_t* slot_value, std::string_view value) override;

  int64_t heap_bytes_ = 0;
  // Of the batch in process.
  mutable uint64_t looked_up_ = 0;         // number of the batch that rows_ is of
  mutable std::vector<Row> rows_;          // where the keys were when last looked for
  std::vector<int64_t> cleared_;           // rows whose key had a value that was cleared
  std::vector<KeyTable::Slots> replaced_;  // so that values stay readable
};

// State in hash tables of this process. Owns its tables.
class MemoryStateBackend final : public StateBackend {
 public:
  MemoryStateBackend(KeyGroupRange range, int max_parallelism);

  KeyGroupRange range() const override { return range_; }
  StatusOr<KeyedBytes*> BytesTable(const std::string& name) override;
  StatusOr<FixedTable*> AccumulatorTable(const std::string& name, int value_width,
                                         const std::string& layout) override;
  void BeginBatch(const RecordBatch& batch, std::span<const int> key_columns) override;
  Status EndBatch() override;
  Status BeginSnapshot() override;
  void ContinueSnapshot(int64_t bytes) override;
  bool in_snapshot() const override { return in_snapshot_; }
  std::vector<KeyGroupState> TakeChunks() override;
  void AbortSnapshot() override;
  Status Restore(int key_group, std::string_view bytes) override;
  int64_t bytes() const override;

 private:
  Status CheckTable(const StateTableInfo& info) const;
  MemoryTable& Table(const StateTableInfo& info);

  const KeyGroupRange range_;
  const int max_parallelism_;
  BatchInProcess batch_;
  SlotMemory memory_;
  std::map<std::string, std::unique_ptr<MemoryTable>> tables_;
  bool in_snapshot_ = false;
  std::vector<KeyGroupState> chunks_;  // of the snapshot, full
};

}  // namespace weir
