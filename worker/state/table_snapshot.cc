#include "worker/state/table_snapshot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace weir {
namespace {

// Large enough for a write, small enough that one of each key group may be open.
constexpr size_t kChunkBytes = 256 << 10;
// A batch whose keys are all over the place has so much saved per row: little, so that it does not
// take long. Values of kBytes may be large and elsewhere.
constexpr size_t kFixedPageBytes = 2 << 10;
constexpr size_t kBytesPageBytes = 512;
// Values of up to so many bytes are copied by loops of their own.
constexpr size_t kSmallValueBytes = 256;
constexpr size_t kWordBytes = sizeof(uint64_t);

uint64_t Word(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

char* PutBytes(char* out, const void* bytes, size_t size) {
  if (size > 0) std::memcpy(out, bytes, size);
  return out + size;
}

char* PutSized(char* out, const void* bytes, size_t size) {
  const uint32_t size_bytes = static_cast<uint32_t>(size);
  return PutBytes(PutBytes(out, &size_bytes, sizeof(size_bytes)), bytes, size);
}

}  // namespace

TableSnapshot::TableSnapshot(const StateTableInfo& info, KeyGroupRange range, int max_parallelism,
                             std::vector<KeyTable>* groups, ViewValue view,
                             std::vector<KeyGroupState>* chunks)
    : info_(info),
      range_(range),
      max_parallelism_(max_parallelism),
      tables_(*groups),
      stride_(groups->front().stride()),
      view_(view),
      chunks_(*chunks),
      groups_(groups->size()) {
  const size_t page_bytes = info.kind == StateTableKind::kFixed ? kFixedPageBytes : kBytesPageBytes;
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].entries = static_cast<uint64_t>(tables_[i].size());
    tables_[i].BeginSnapshot(this, page_bytes);
  }
}

TableSnapshot::~TableSnapshot() {
  for (KeyTable& table : tables_) table.AbortSnapshot();
}

bool TableSnapshot::Continue(int64_t* bytes) {
  for (; next_group_ < groups_.size(); ++next_group_) {
    KeyTable& table = tables_[next_group_];
    *bytes -= table.ContinueSnapshot(*bytes);
    if (table.in_snapshot()) return true;
    const int group = static_cast<int>(next_group_);
    WEIR_CHECK(groups_[group].saved == groups_[group].entries);
    Finish(group, StateKeyForm::kNumber);
    Finish(group, StateKeyForm::kAny);
  }
  return false;
}

StateChunkWriter& TableSnapshot::Writer(int group, StateKeyForm keys) {
  Group& state = groups_[group];
  std::unique_ptr<StateChunkWriter>& writer = state.writers[static_cast<size_t>(keys)];
  if (writer == nullptr) {
    // Memory for a whole chunk only where there is one to come.
    const size_t page = kFixedPageBytes + stride_;
    size_t expected = (state.entries - state.saved) * stride_ + page;
    if (keys == StateKeyForm::kAny && state.saved > 0) expected = 0;
    writer =
        std::make_unique<StateChunkWriter>(range_.begin + group, max_parallelism_, info_, keys,
                                           state.entries, std::min(expected, kChunkBytes + page));
  }
  return *writer;
}

void TableSnapshot::Finish(int group, StateKeyForm keys) {
  std::unique_ptr<StateChunkWriter>& writer = groups_[group].writers[static_cast<size_t>(keys)];
  if (writer == nullptr) return;
  if (writer->entries() > 0) chunks_.push_back({range_.begin + group, writer->Finish()});
  writer.reset();
}

void TableSnapshot::Added(int group, StateKeyForm keys) {
  if (groups_[group].writers[static_cast<size_t>(keys)]->bytes() >= kChunkBytes) {
    Finish(group, keys);
  }
}

void TableSnapshot::Save(const KeyTable& table, const uint8_t* slot, const uint8_t* end) {
  const int group = static_cast<int>(&table - tables_.data());
  while (slot != end && Word(slot) == 0) slot += stride_;
  if (slot == end) return;
  // A table has keys of one form, all but null.
  const bool one_by_one = info_.kind == StateTableKind::kBytes ||
                          info_.value_width > kSmallValueBytes ||
                          (Word(slot) & TableKey::kFormMask) != TableKey::kWord;
  if (!one_by_one) {
    uint64_t others = 0;
    switch (info_.value_width) {
      case 8:
        others = SaveNumbers<8>(group, slot, end);
        break;
      case 16:
        others = SaveNumbers<16>(group, slot, end);
        break;
      case 24:
        others = SaveNumbers<24>(group, slot, end);
        break;
      default:
        others = SaveNumbers<0>(group, slot, end);
    }
    if (others == 0) return;
  }
  for (; slot != end; slot += stride_) {
    const uint64_t form = Word(slot) & TableKey::kFormMask;
    if (form != 0 && (one_by_one || form != TableKey::kWord)) SaveAny(group, slot);
  }
}

// Keys that are numbers, without a branch: every slot is written down, and only those that count
// move the place for the next. How many other keys there are.
template <size_t kValueBytes>
uint64_t TableSnapshot::SaveNumbers(int group, const uint8_t* slot, const uint8_t* end) {
  const size_t value_bytes = kValueBytes > 0 ? kValueBytes : info_.value_width;
  const size_t entry_bytes = kWordBytes + value_bytes;
  const size_t slots = static_cast<size_t>(end - slot) / stride_;
  StateChunkWriter& writer = Writer(group, StateKeyForm::kNumber);
  char* const begin = writer.Extend((slots + 1) * entry_bytes);
  char* out = begin;
  uint64_t others = 0;
  for (; slot != end; slot += stride_) {
    std::memcpy(out, slot + kWordBytes, kWordBytes + value_bytes);
    const uint64_t form = Word(slot) & TableKey::kFormMask;
    out += form == TableKey::kWord ? entry_bytes : 0;
    others += form > TableKey::kWord;
  }
  const uint64_t entries = static_cast<uint64_t>(out - begin) / entry_bytes;
  writer.Filled(out, entries);
  groups_[group].saved += entries;
  Added(group, StateKeyForm::kNumber);
  return others;
}

void TableSnapshot::SaveAny(int group, const uint8_t* slot) {
  const TableKey key = KeyTable::KeyOf(slot + KeyTable::kHeadBytes);
  const uint8_t* slot_value = slot + KeyTable::kHeadBytes;
  const bool fixed = info_.kind == StateTableKind::kFixed;
  const std::string_view value =
      fixed ? std::string_view(reinterpret_cast<const char*>(slot_value), info_.value_width)
            : view_(slot_value);
  const bool number = key.form() == TableKey::kWord;
  const StateKeyForm form = number ? StateKeyForm::kNumber : StateKeyForm::kAny;
  const std::string_view key_bytes =
      key.IsLong() ? key.LongBytes()
                   : std::string_view(reinterpret_cast<const char*>(&key.word),
                                      number ? kWordBytes : key.word >> 56);
  StateChunkWriter& writer = Writer(group, form);
  char* out = writer.Extend(2 * sizeof(uint32_t) + key_bytes.size() + value.size());
  out = number ? PutBytes(out, key_bytes.data(), key_bytes.size())
               : PutSized(out, key_bytes.data(), key_bytes.size());
  out =
      fixed ? PutBytes(out, value.data(), value.size()) : PutSized(out, value.data(), value.size());
  writer.Filled(out, 1);
  ++groups_[group].saved;
  Added(group, form);
}

}  // namespace weir
