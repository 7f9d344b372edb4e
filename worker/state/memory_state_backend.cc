#include "worker/state/memory_state_backend.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "worker/state/dominant.h"

namespace weir {
namespace {

// Far enough for memory to answer, near enough to be still in the cache.
constexpr int64_t kPrefetchRows = 128;
// Where a key that is not in its pair of slots mostly is.
constexpr size_t kPrefetchPairs = 3;

// A value in its slot: up to 8 bytes in place, longer ones on the heap in pieces of 16 bytes.
struct BytesValue {
  static constexpr uint32_t kInlineMax = 8;

  uint64_t word;
  uint32_t size;
  uint32_t present;

  static BytesValue& At(uint8_t* slot_value) { return *reinterpret_cast<BytesValue*>(slot_value); }
  static const BytesValue& At(const uint8_t* slot_value) {
    return *reinterpret_cast<const BytesValue*>(slot_value);
  }
  static size_t HeapBytes(size_t size) { return size <= kInlineMax ? 0 : (size + 15) / 16 * 16; }
  char* heap() const { return reinterpret_cast<char*>(word); }
  std::string_view view() const {
    return {size <= kInlineMax ? reinterpret_cast<const char*>(&word) : heap(), size};
  }
};

constexpr size_t RoundUpToWord(size_t size) {
  return (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

}  // namespace

void BatchInProcess::Begin(const RecordBatch& batch, std::span<const int> key_columns) {
  WEIR_CHECK(batch_ == nullptr);
  batch_ = &batch;
  key_columns_ = key_columns;
  ++number_;
  loaded_ = false;
}

Status BatchInProcess::End() {
  WEIR_CHECK(batch_ != nullptr);
  batch_ = nullptr;
  keys_.Release();
  return error_;
}

const BatchKeys* BatchInProcess::keys(std::string_view table) {
  if (batch_ == nullptr) {
    Fail(FailedPreconditionError(Concat("keyed state '", table, "' was used outside a batch")));
    return nullptr;
  }
  if (!loaded_) {
    if (Status status = keys_.Load(*batch_, key_columns_); !status.ok()) {
      Fail(std::move(status));
      return nullptr;
    }
    loaded_ = true;
  }
  return &keys_;
}

void BatchInProcess::Fail(Status error) {
  if (error_.ok()) error_ = std::move(error);
}

MemoryTable::MemoryTable(StateTableInfo info, size_t slot_width, int groups, SlotMemory* memory,
                         BatchInProcess* batch)
    : info_(std::move(info)), batch_(batch) {
  groups_.reserve(groups);
  for (int i = 0; i < groups; ++i) groups_.emplace_back(slot_width, memory);
}

int64_t MemoryTable::bytes() const {
  int64_t bytes = 0;
  for (const KeyTable& table : groups_) bytes += table.bytes();
  return bytes;
}

Status MemoryTable::Restore(int group, StateChunkReader* chunk) {
  KeyTable& table = groups_[group];
  // Entries may come in order of their slots: in a table that grew with them they would all press
  // into its first slots. What a chunk says of others is believed within bounds.
  constexpr uint64_t kTimesMax = 4096;
  table.Reserve(std::max(static_cast<uint64_t>(table.size()) + chunk->entries(),
                         std::min(chunk->table_entries(), chunk->entries() * kTimesMax)));
  std::string sized;
  std::string_view key_bytes;
  std::string_view value;
  while (chunk->NextEntry(&key_bytes, &value)) {
    const uint32_t size = static_cast<uint32_t>(key_bytes.size());
    sized.assign(reinterpret_cast<const char*>(&size), sizeof(size));
    sized.append(key_bytes);
    const TableKey key = MakeTableKey(HashOfEncodedKey(key_bytes), sized.data());
    if (table.Find(key) != nullptr) {
      return DataLossError(
          Concat("keyed state '", info_.name, "' is damaged: it holds a key twice"));
    }
    SetValue(table.Insert(key), value);
  }
  return {};
}

void MemoryTable::BeginSnapshot(KeyGroupRange range, int max_parallelism,
                                std::vector<KeyGroupState>* chunks) {
  snapshot_ =
      std::make_unique<TableSnapshot>(info_, range, max_parallelism, &groups_, view(), chunks);
}

bool MemoryTable::ContinueSnapshot(int64_t* bytes) {
  if (snapshot_ == nullptr) return false;
  if (snapshot_->Continue(bytes)) return true;
  snapshot_.reset();
  return false;
}

template <typename Tables, typename Visit>
void MemoryTable::ForEachRow(Tables& tables, const BatchKeys& keys, int64_t begin, int64_t end,
                             Visit visit) {
  for (int64_t row = begin; row < std::min(end, begin + kPrefetchRows); ++row) {
    tables[keys.group(row)].Prefetch(keys.key(row));
  }
  for (int64_t row = begin; row < end; ++row) {
    if (const int64_t ahead = row + kPrefetchRows; ahead < end) {
      tables[keys.group(ahead)].Prefetch(keys.key(ahead));
    }
    visit(tables[keys.group(row)], row);
  }
}

MemoryFixedTable::MemoryFixedTable(StateTableInfo info, int groups, SlotMemory* memory,
                                   BatchInProcess* batch)
    : MemoryTable(info, RoundUpToWord(info.value_width), groups, memory, batch),
      pairs_(groups),
      moved_(groups) {}

Status MemoryFixedTable::Load(std::vector<uint8_t*>* values) {
  const BatchKeys* keys = batch_->keys(info_.name);
  if (keys == nullptr) return batch_->error();
  values->resize(keys->rows());
  LoadRowsOf(*keys, 0, keys->rows(), values->data());
  return {};
}

Status MemoryFixedTable::LoadRows(int64_t begin, int64_t end, std::vector<uint8_t*>* values) {
  const BatchKeys* keys = batch_->keys(info_.name);
  if (keys == nullptr) return batch_->error();
  WEIR_CHECK(begin >= 0 && begin <= end && end <= keys->rows());
  const size_t rows = static_cast<size_t>(keys->rows());
  if (values->size() < rows) values->resize(rows);
  LoadRowsOf(*keys, begin, end, values->data());
  return {};
}

void MemoryFixedTable::LoadRowsOf(const BatchKeys& keys, int64_t begin, int64_t end,
                                  uint8_t** out) {
  if (keys.words() != nullptr && groups_.front().has_pairs()) {
    LoadWords(keys, begin, end, out);
  } else {
    ForEachRow(groups_, keys, begin, end,
               [&](KeyTable&, int64_t row) { out[row] = FindOrInsert(keys, row); });
  }
  if (!moved_groups_.empty()) FindMoved(keys, begin, end, out);
  if (snapshot_ == nullptr) return;
  for (int64_t row = begin; row < end; ++row) {
    if (row + 1 < end) groups_[keys.group(row + 1)].PrefetchPage(out[row + 1]);
    groups_[keys.group(row)].BeforeChange(out[row]);
  }
}

void MemoryFixedTable::FindMoved(const BatchKeys& keys, int64_t begin, int64_t end, uint8_t** out) {
  // Rows in front of the one that made its table grow still point to the old slots.
  for (int64_t row = begin; row < end; ++row) {
    const int group = keys.group(row);
    if (moved_[group]) out[row] = groups_[group].Find(keys.key(row));
  }
  for (const int group : moved_groups_) moved_[group] = false;
  moved_groups_.clear();
}

Status MemoryFixedTable::Restore(int group, StateChunkReader* chunk) {
  Status status = MemoryTable::Restore(group, chunk);
  pairs_[group] = groups_[group].pairs();
  return status;
}

uint8_t* MemoryFixedTable::FindOrInsert(const BatchKeys& keys, int64_t row) {
  const int group = keys.group(row);
  KeyTable& table = groups_[group];
  const TableKey key = keys.key(row);
  uint8_t* value = table.Find(key);
  if (value != nullptr) [[likely]]
    return value;
  const uint64_t version = table.version();
  value = table.Insert(key);
  if (table.version() != version) {
    pairs_[group] = table.pairs();
    if (!moved_[group]) {
      moved_[group] = true;
      moved_groups_.push_back(group);
    }
  }
  return value;
}

// Finds where the searches for the keys of the rows begin, and has their memory come.
void MemoryFixedTable::LoadWords(const BatchKeys& keys, int64_t begin, int64_t end, uint8_t** out) {
  const std::span<const uint64_t> words(keys.words() + begin, static_cast<size_t>(end - begin));
  const std::optional<uint64_t> dominant = Dominant(words);
  if (!dominant) {
    LoadEach(keys, end - begin, [begin](int64_t i) { return begin + i; }, out);
    return;
  }
  // Most rows have one key: it is looked up once.
  others_.resize(std::max(others_.size(), words.size() + 1));
  const int64_t others = FindOthers(words, *dominant, others_.data());
  const auto first = std::ranges::find(words, *dominant);
  std::fill(out + begin, out + end, FindOrInsert(keys, begin + (first - words.begin())));
  LoadEach(
      keys, others, [begin, rows = others_.data()](int64_t i) { return begin + rows[i]; }, out);
}

template <typename RowAt>
void MemoryFixedTable::FindPairs(const BatchKeys& keys, int64_t begin, int64_t end, RowAt row_at,
                                 uint8_t** out) {
  const uint64_t* hashes = keys.hashes();
  const uint16_t* groups = keys.groups();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = row_at(i);
    if (pairs_[groups[row]].slots == nullptr) [[unlikely]]
      FindOrInsert(keys, row);
    out[row] = pairs_[groups[row]].Of(hashes[row]);
    // Into the second nearest cache: there is room for more that is on its way.
    __builtin_prefetch(out[row], 0, 2);
  }
}

// A block of rows is looked up while the memory of the next is on its way. Few rows are not in
// their pair of slots; they come at the end, for each costs a branch that cannot be foretold.
template <typename RowAt>
void MemoryFixedTable::LoadEach(const BatchKeys& keys, int64_t count, RowAt row_at, uint8_t** out) {
  const uint64_t* words = keys.words();
  missed_.resize(std::max(missed_.size(), static_cast<size_t>(count) + 1));
  int64_t* const missed = missed_.data();
  int64_t misses = 0;
  int64_t found_end = std::min(count, kPrefetchRows);
  FindPairs(keys, 0, found_end, row_at, out);
  for (int64_t i = 0; i < count;) {
    const int64_t block_end = found_end;
    found_end = std::min(count, found_end + kPrefetchRows);
    FindPairs(keys, block_end, found_end, row_at, out);
    for (; i < block_end; ++i) {
      const int64_t row = row_at(i);
      uint8_t* const slot = KeyTable::SlotInPair(out[row], words[row]);
      missed[misses] = row;
      misses += static_cast<int64_t>(!KeyTable::HoldsWord(slot, words[row]));
      out[row] = KeyTable::ValueIn(slot);
    }
  }
  for (int64_t i = 0; i < misses; ++i) {
    const uint8_t* pair = pairs_[keys.group(missed[i])].Of(keys.hashes()[missed[i]]);
    for (size_t next = 1; next <= kPrefetchPairs; ++next) {
      __builtin_prefetch(pair + next * 2 * KeyTable::kPairStride, 1);
    }
  }
  for (int64_t i = 0; i < misses; ++i) out[missed[i]] = FindOrInsert(keys, missed[i]);
}

void MemoryFixedTable::SetValue(uint8_t* slot_value, std::string_view value) {
  std::memcpy(slot_value, value.data(), value.size());
}

MemoryBytesTable::MemoryBytesTable(StateTableInfo info, int groups, SlotMemory* memory,
                                   BatchInProcess* batch)
    : MemoryTable(std::move(info), sizeof(BytesValue), groups, memory, batch) {}

MemoryBytesTable::~MemoryBytesTable() {
  for (const KeyTable& table : groups_) {
    for (uint8_t* value : table.Values()) FreeValue(value);
  }
}

const BatchKeys* MemoryBytesTable::KeysWith(int64_t row) const {
  const BatchKeys* keys = batch_->keys(info_.name);
  if (keys == nullptr) return nullptr;
  if (row < 0 || row >= keys->rows()) {
    batch_->Fail(OutOfRangeError(Concat("keyed state '", info_.name, "' was used with row ", row,
                                        " in a batch of ", keys->rows(), " rows")));
    return nullptr;
  }
  if (looked_up_ != batch_->number()) {
    looked_up_ = batch_->number();
    rows_.resize(keys->rows());
    ForEachRow(groups_, *keys, 0, keys->rows(), [&](const KeyTable& table, int64_t at) {
      rows_[at] = {table.Find(keys->key(at)), table.version()};
    });
  }
  return keys;
}

uint8_t* MemoryBytesTable::Find(const BatchKeys& keys, int64_t row) const {
  const KeyTable& table = groups_[keys.group(row)];
  Row& found = rows_[row];
  // A row of an equal key may have set a value since, or its table have grown.
  if (found.slot_value == nullptr || found.version != table.version()) {
    found = {table.Find(keys.key(row)), table.version()};
  }
  return found.slot_value;
}

bool MemoryBytesTable::Get(int64_t row, std::string_view* value) const {
  const BatchKeys* keys = KeysWith(row);
  if (keys == nullptr) return false;
  const uint8_t* slot_value = Find(*keys, row);
  if (slot_value == nullptr || BytesValue::At(slot_value).present == 0) return false;
  *value = BytesValue::At(slot_value).view();
  return true;
}

void MemoryBytesTable::Set(int64_t row, std::string_view value) {
  const BatchKeys* keys = KeysWith(row);
  if (keys == nullptr) return;
  if (value.size() > UINT32_MAX) {
    batch_->Fail(OutOfRangeError(Concat("a value of ", value.size(), " bytes in keyed state '",
                                        info_.name, "': at most ", UINT32_MAX, " are possible")));
    return;
  }
  uint8_t* slot_value = Find(*keys, row);
  if (slot_value == nullptr) {
    KeyTable& table = groups_[keys->group(row)];
    slot_value = table.Insert(keys->key(row), &replaced_);
    rows_[row] = {slot_value, table.version()};
  } else {
    groups_[keys->group(row)].BeforeChange(slot_value);
  }
  SetValue(slot_value, value);
}

void MemoryBytesTable::Clear(int64_t row) {
  const BatchKeys* keys = KeysWith(row);
  if (keys == nullptr) return;
  uint8_t* slot_value = Find(*keys, row);
  if (slot_value == nullptr || BytesValue::At(slot_value).present == 0) return;
  groups_[keys->group(row)].BeforeChange(slot_value);
  FreeValue(slot_value);
  BytesValue::At(slot_value) = {};
  cleared_.push_back(row);
}

void MemoryBytesTable::EndBatch() {
  if (!cleared_.empty()) {
    const BatchKeys& keys = *batch_->keys(info_.name);
    for (const int64_t row : cleared_) {
      uint8_t* slot_value = Find(keys, row);
      if (slot_value != nullptr && BytesValue::At(slot_value).present == 0) {
        groups_[keys.group(row)].Erase(slot_value);
      }
    }
    cleared_.clear();
  }
  replaced_.clear();
}

TableSnapshot::ViewValue MemoryBytesTable::view() const {
  return [](const uint8_t* slot_value) { return BytesValue::At(slot_value).view(); };
}

// `value` may be part of the value it replaces.
void MemoryBytesTable::SetValue(uint8_t* slot_value, std::string_view value) {
  BytesValue& slot = BytesValue::At(slot_value);
  const size_t heap_bytes = BytesValue::HeapBytes(value.size());
  BytesValue next = {0, static_cast<uint32_t>(value.size()), 1};
  if (heap_bytes == 0) {
    if (!value.empty()) std::memcpy(&next.word, value.data(), value.size());
  } else if (heap_bytes == BytesValue::HeapBytes(slot.size)) {
    std::memmove(slot.heap(), value.data(), value.size());
    slot.size = next.size;
    return;
  } else {
    char* heap = new char[heap_bytes];
    std::memcpy(heap, value.data(), value.size());
    next.word = reinterpret_cast<uint64_t>(heap);
    heap_bytes_ += static_cast<int64_t>(heap_bytes);
  }
  FreeValue(slot_value);
  slot = next;
}

void MemoryBytesTable::FreeValue(uint8_t* slot_value) {
  const BytesValue& slot = BytesValue::At(slot_value);
  const size_t heap_bytes = BytesValue::HeapBytes(slot.size);
  if (heap_bytes == 0) return;
  delete[] slot.heap();
  heap_bytes_ -= static_cast<int64_t>(heap_bytes);
}

MemoryStateBackend::MemoryStateBackend(KeyGroupRange range, int max_parallelism)
    : range_(range), max_parallelism_(max_parallelism), batch_(range, max_parallelism) {}

StatusOr<KeyedBytes*> MemoryStateBackend::BytesTable(const std::string& name) {
  const StateTableInfo info{name, StateTableKind::kBytes, 0, ""};
  WEIR_RETURN_IF_ERROR(CheckTable(info));
  return static_cast<KeyedBytes*>(static_cast<MemoryBytesTable*>(&Table(info)));
}

StatusOr<FixedTable*> MemoryStateBackend::AccumulatorTable(const std::string& name, int value_width,
                                                           const std::string& layout) {
  WEIR_CHECK(value_width > 0 && value_width <= static_cast<int>(kStateValueWidthMax));
  const StateTableInfo info{name, StateTableKind::kFixed, static_cast<uint32_t>(value_width),
                            layout};
  WEIR_RETURN_IF_ERROR(CheckTable(info));
  return static_cast<FixedTable*>(static_cast<MemoryFixedTable*>(&Table(info)));
}

// OK unless there is a table of the name that is another one.
Status MemoryStateBackend::CheckTable(const StateTableInfo& info) const {
  const auto found = tables_.find(info.name);
  if (found == tables_.end() || found->second->info() == info) return {};
  return FailedPreconditionError(Concat("keyed state '", info.name, "' does not fit: there is ",
                                        found->second->info().Describe(), ", not ",
                                        info.Describe()));
}

// REQUIRES: CheckTable.
MemoryTable& MemoryStateBackend::Table(const StateTableInfo& info) {
  std::unique_ptr<MemoryTable>& table = tables_[info.name];
  if (table == nullptr) {
    if (info.kind == StateTableKind::kBytes) {
      table = std::make_unique<MemoryBytesTable>(info, range_.size(), &memory_, &batch_);
    } else {
      table = std::make_unique<MemoryFixedTable>(info, range_.size(), &memory_, &batch_);
    }
  }
  return *table;
}

void MemoryStateBackend::BeginBatch(const RecordBatch& batch, std::span<const int> key_columns) {
  batch_.Begin(batch, key_columns);
}

Status MemoryStateBackend::EndBatch() {
  for (const auto& [name, table] : tables_) table->EndBatch();
  return batch_.End();
}

Status MemoryStateBackend::BeginSnapshot() {
  WEIR_CHECK(!batch_.in_process() && !in_snapshot_);
  if (!batch_.error().ok()) return batch_.error();
  chunks_.clear();
  if (range_.size() == 0) return {};
  for (const auto& [name, table] : tables_) {
    table->BeginSnapshot(range_, max_parallelism_, &chunks_);
    in_snapshot_ = true;
  }
  return {};
}

void MemoryStateBackend::ContinueSnapshot(int64_t bytes) {
  WEIR_CHECK(!batch_.in_process());
  for (const auto& [name, table] : tables_) {
    if (table->ContinueSnapshot(&bytes)) return;
  }
  in_snapshot_ = false;
}

std::vector<KeyGroupState> MemoryStateBackend::TakeChunks() {
  return std::exchange(chunks_, std::vector<KeyGroupState>());
}

void MemoryStateBackend::AbortSnapshot() {
  for (const auto& [name, table] : tables_) table->AbortSnapshot();
  in_snapshot_ = false;
  chunks_.clear();
}

Status MemoryStateBackend::Restore(int key_group, std::string_view bytes) {
  WEIR_CHECK(!batch_.in_process() && !in_snapshot_ && range_.Contains(key_group));
  WEIR_ASSIGN_OR_RETURN(StateChunkReader chunk,
                        StateChunkReader::Open(key_group, max_parallelism_, bytes));
  const std::string context = Concat("cannot restore key group ", key_group);
  WEIR_RETURN_IF_ERROR(CheckTable(chunk.table()).WithContext(context));
  return Table(chunk.table()).Restore(key_group - range_.begin, &chunk).WithContext(context);
}

int64_t MemoryStateBackend::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, table] : tables_) bytes += table->bytes();
  return bytes;
}

}  // namespace weir
