#include "worker/state/key_table.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace weir {
namespace {

constexpr size_t kCapacityMin = 8;
// How full the slots may become: small tables only half, for a branch that is mispredicted costs
// them more than the memory.
constexpr size_t kSparseCapacityMax = 512;
size_t FullAt(size_t capacity) {
  return capacity <= kSparseCapacityMax ? capacity / 2 : capacity / 4 * 3;
}
constexpr size_t kChunkMin = 256;
constexpr size_t kChunkMax = 64 << 10;
// Erased keys are worth a compaction when they hold more than the live ones and this.
constexpr size_t kDeadBytesMin = 4 << 10;

// Whether a comes before b in the order of snapshots.
bool Before(const TableKey& a, const TableKey& b) {
  const uint64_t a_hash = a.tag >> 2;
  const uint64_t b_hash = b.tag >> 2;
  if (a_hash != b_hash) return a_hash < b_hash;
  std::string a_bytes;
  std::string b_bytes;
  a.AppendBytes(&a_bytes);
  b.AppendBytes(&b_bytes);
  return a_bytes < b_bytes;
}

}  // namespace

uint64_t KeyTable::Arena::Add(const TableKey& key) {
  const size_t size = sizeof(uint32_t) + key.LongBytes().size();
  if (chunk_size - chunk_used < size) {
    chunk_size = std::max(std::clamp(chunk_size * 2, kChunkMin, kChunkMax), size);
    chunks.push_back(std::make_unique_for_overwrite<char[]>(chunk_size));
    chunk_used = 0;
    allocated += chunk_size;
  }
  char* at = chunks.back().get() + chunk_used;
  std::memcpy(at, reinterpret_cast<const char*>(key.word), size);
  chunk_used += size;
  live += size;
  return reinterpret_cast<uint64_t>(at);
}

int64_t KeyTable::bytes() const {
  return static_cast<int64_t>(sizeof(*this) + capacity_ * stride_ + keys_.allocated);
}

uint8_t* KeyTable::EmptySlot(uint64_t tag) const {
  uint8_t* slot = Home(tag);
  while (Word(slot) != 0) slot = Next(slot);
  return slot;
}

uint8_t* KeyTable::Insert(const TableKey& key, std::vector<Slots>* replaced) {
  if (static_cast<size_t>(size_) + 1 > FullAt(capacity_)) Grow(replaced);
  uint8_t* slot = EmptySlot(key.tag);
  const uint64_t word = key.IsLong() ? keys_.Add(key) : key.word;
  std::memcpy(slot, &key.tag, sizeof(uint64_t));
  std::memcpy(slot + sizeof(uint64_t), &word, sizeof(uint64_t));
  ++size_;
  return slot + kHeadBytes;
}

void KeyTable::Grow(std::vector<Slots>* replaced) {
  Slots old = std::move(slots_);
  const size_t old_capacity = capacity_;
  capacity_ = std::max(kCapacityMin, old_capacity * 2);
  shift_ = 65 - std::countr_zero(capacity_);
  slots_ = memory_->Take(capacity_ * stride_);
  end_ = slots_.get() + capacity_ * stride_;
  ++version_;
  for (size_t i = 0; i < old_capacity; ++i) {
    const uint8_t* slot = old.get() + i * stride_;
    if (Word(slot) != 0) std::memcpy(EmptySlot(Word(slot)), slot, stride_);
  }
  if (replaced != nullptr && old != nullptr) replaced->push_back(std::move(old));
}

void KeyTable::Erase(uint8_t* value) {
  uint8_t* hole = value - kHeadBytes;
  if (const TableKey key = KeyOf(value); key.IsLong()) {
    const size_t bytes = sizeof(uint32_t) + key.LongBytes().size();
    keys_.live -= bytes;
    keys_.dead += bytes;
  }
  // Later slots of the run move up, unless that would put one in front of its home.
  const size_t mask = capacity_ - 1;
  for (uint8_t* slot = Next(hole); Word(slot) != 0; slot = Next(slot)) {
    const size_t from_home = (IndexOf(slot) - HomeIndex(Word(slot))) & mask;
    const size_t from_hole = (IndexOf(slot) - IndexOf(hole)) & mask;
    if (from_home < from_hole) continue;
    std::memcpy(hole, slot, stride_);
    hole = slot;
  }
  std::memset(hole, 0, stride_);
  --size_;
  ++version_;
  if (keys_.dead > keys_.live + kDeadBytesMin) CompactKeys();
}

void KeyTable::CompactKeys() {
  const Arena old = std::exchange(keys_, Arena());
  for (uint8_t* slot = slots_.get(); slot != end_; slot += stride_) {
    const TableKey key = KeyOf(slot + kHeadBytes);
    if (key.tag == 0 || !key.IsLong()) continue;
    const uint64_t word = keys_.Add(key);
    std::memcpy(slot + sizeof(uint64_t), &word, sizeof(uint64_t));
  }
}

std::vector<uint8_t*> KeyTable::Values() const {
  std::vector<uint8_t*> values;
  values.reserve(size_);
  for (uint8_t* slot = slots_.get(); slot != end_; slot += stride_) {
    if (Word(slot) != 0) values.push_back(slot + kHeadBytes);
  }
  return values;
}

std::vector<uint8_t*> KeyTable::SortedValues() const {
  std::vector<uint8_t*> values;
  values.reserve(size_);
  // Slots are all but in order: by home, but for those that wrapped around to the front.
  for (const bool wrapped : {false, true}) {
    for (uint8_t* slot = slots_.get(); slot != end_; slot += stride_) {
      if (Word(slot) == 0 || (HomeIndex(Word(slot)) > IndexOf(slot)) != wrapped) continue;
      values.push_back(slot + kHeadBytes);
      for (size_t i = values.size() - 1; i > 0 && Before(KeyOf(values[i]), KeyOf(values[i - 1]));
           --i) {
        std::swap(values[i], values[i - 1]);
      }
    }
  }
  return values;
}

}  // namespace weir
