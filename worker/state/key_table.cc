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
  if (static_cast<size_t>(size_) + 1 > FullAt(capacity_)) {
    Grow(std::max(kCapacityMin, capacity_ * 2), replaced);
  }
  uint8_t* slot = EmptySlot(key.tag);
  BeforeChange(slot + kHeadBytes);
  const uint64_t word = key.IsLong() ? keys_.Add(key) : key.word;
  std::memcpy(slot, &key.tag, sizeof(uint64_t));
  std::memcpy(slot + sizeof(uint64_t), &word, sizeof(uint64_t));
  ++size_;
  return slot + kHeadBytes;
}

void KeyTable::Grow(size_t capacity, std::vector<Slots>* replaced) {
  ContinueSnapshot(INT64_MAX);  // its pages are those of the old slots
  Slots old = std::move(slots_);
  const size_t old_capacity = capacity_;
  capacity_ = capacity;
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
  if (in_snapshot()) {
    for (uint8_t* slot = hole; Word(slot) != 0; slot = Next(slot)) BeforeChange(slot + kHeadBytes);
  }
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

void KeyTable::Reserve(size_t keys) {
  WEIR_CHECK(unsaved_ == nullptr);
  size_t capacity = std::max(kCapacityMin, capacity_);
  while (FullAt(capacity) < keys) capacity *= 2;
  if (keys > 0 && capacity > capacity_) Grow(capacity, nullptr);
}

void KeyTable::BeginSnapshot(Saver* saver, size_t page_bytes) {
  WEIR_CHECK(unsaved_ == nullptr && std::has_single_bit(page_bytes));
  if (size_ == 0) return;
  const size_t pages = (capacity_ * stride_ + page_bytes - 1) / page_bytes;
  unsaved_ = std::make_unique<Unsaved>();
  unsaved_->saver = saver;
  unsaved_->shift = std::countr_zero(page_bytes);
  unsaved_->count = pages;
  unsaved_->bits.assign((pages + 63) / 64, ~uint64_t{0});
  if (pages % 64 != 0) unsaved_->bits.back() = (uint64_t{1} << (pages % 64)) - 1;
}

void KeyTable::SavePage(size_t page) {
  const auto first_slot = [&](size_t at) {
    const size_t slot = ((at << unsaved_->shift) + stride_ - 1) / stride_;
    return slots_.get() + std::min(slot, capacity_) * stride_;
  };
  const uint8_t* begin = first_slot(page);
  const uint8_t* end = first_slot(page + 1);
  if (begin != end) unsaved_->saver->Save(*this, begin, end);
  unsaved_->bits[page / 64] &= ~(uint64_t{1} << (page % 64));
  if (--unsaved_->count == 0) unsaved_.reset();
}

int64_t KeyTable::ContinueSnapshot(int64_t bytes) {
  int64_t done = 0;
  while (unsaved_ != nullptr && done < bytes) {
    const uint64_t word = unsaved_->bits[unsaved_->next_word];
    if (word == 0) {
      ++unsaved_->next_word;
      continue;
    }
    done += int64_t{1} << unsaved_->shift;
    SavePage(unsaved_->next_word * 64 + std::countr_zero(word));
  }
  return done;
}

}  // namespace weir
