#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "worker/state/batch_keys.h"
#include "worker/state/slot_memory.h"

namespace weir {

// The values of one width of the keys of one key group: open addressing with linear probing. A slot
// is {tag, word of the key, value}; long keys are copied into an arena. Slots are found by the
// highest bits of the hash, for the lowest ones are alike within a key group. A search begins at a
// slot of even index: with slots of up to 32 bytes it and the next are one line of the cache, and a
// key is in one of the two but for a few, so that both can be compared without a branch to
// mispredict.
//
// Values are pointed to in place. Pointers hold until version() changes; an insert that grows the
// table and an erase change it.
//
// While a snapshot is being written down, slots are in pages, and a page goes to the snapshot's
// Saver before the first change of one of its slots: whoever changes values calls BeforeChange;
// Insert and Erase do so themselves.
//
// Thread: confined to its owner.
class KeyTable {
 public:
  using Slots = SlotMemory::Piece;

  // Writes slots down as they are now. Empty ones have tag 0.
  class Saver {
   public:
    virtual ~Saver() = default;
    virtual void Save(const KeyTable& table, const uint8_t* slot, const uint8_t* end) = 0;
  };

  // `memory` must outlive the table. REQUIRES: value_width is a multiple of 8.
  KeyTable(size_t value_width, SlotMemory* memory)
      : stride_(StrideOf(value_width)), memory_(memory) {}

  // Brings the slot where the search for `key` begins into the cache.
  void Prefetch(const TableKey& key) const {
    if (capacity_ > 0) __builtin_prefetch(Home(key.tag), 1);
  }

  // For loops over many keys of the form kWord in tables of slots of kPairStride bytes: what tells
  // where the search for a key begins, until version() changes. REQUIRES: size() > 0.
  struct Pairs {
    uint8_t* slots = nullptr;
    uint64_t shift = 0;
    uint8_t* Of(uint64_t tag) const { return slots + (tag >> shift) * (2 * kPairStride); }
  };
  Pairs pairs() const { return {slots_.get(), static_cast<uint64_t>(shift_)}; }
  // The slot of the two that the key is in if it is in one of them. Both by arithmetic, of which no
  // compiler makes a branch; a word of the key is compared, never its hash.
  static uint8_t* SlotInPair(uint8_t* pair, uint64_t word) {
    return pair + static_cast<size_t>(Word(pair + sizeof(uint64_t)) != word) * kPairStride;
  }
  static bool HoldsWord(const uint8_t* slot, uint64_t word) {
    const uint64_t form = (Word(slot) & TableKey::kFormMask) ^ TableKey::kWord;
    return (form | (Word(slot + sizeof(uint64_t)) ^ word)) == 0;
  }
  static uint8_t* ValueIn(uint8_t* slot) { return slot + kHeadBytes; }
  static constexpr size_t kPairStride = 32;
  bool has_pairs() const { return stride_ == kPairStride; }

  // The value of `key`; nullptr when there is none.
  uint8_t* Find(const TableKey& key) const {
    if (capacity_ == 0) return nullptr;
    for (uint8_t* slot = Home(key.tag);; slot = Next(slot)) {
      const uint64_t tag = Word(slot);
      if (tag == key.tag && SameKey(Word(slot + sizeof(uint64_t)), key)) return slot + kHeadBytes;
      if (tag == 0) return nullptr;
    }
  }
  // Gives `key` a value of zeros. Slots that growing replaces go to `replaced` if that is given:
  // their values stay readable there. REQUIRES: the key is not there.
  uint8_t* Insert(const TableKey& key, std::vector<Slots>* replaced = nullptr);
  // REQUIRES: `value` is one of this table.
  void Erase(uint8_t* value);
  // Makes room for so many keys, so that inserting them does not grow the table. REQUIRES: no
  // snapshot is being written down.
  void Reserve(size_t keys);

  // All slots go to `saver`, in pages of about so many bytes (a power of two). `saver` must stay
  // until that is done or AbortSnapshot. REQUIRES: no snapshot is being written down.
  void BeginSnapshot(Saver* saver, size_t page_bytes);
  bool in_snapshot() const { return unsaved_ != nullptr; }
  // Has the page of a value saved if it is not yet.
  void BeforeChange(const uint8_t* value) {
    if (unsaved_ == nullptr) return;
    const size_t page = static_cast<size_t>(value - kHeadBytes - slots_.get()) >> unsaved_->shift;
    if (unsaved_->Has(page)) SavePage(page);
  }
  // Has the memory come that BeforeChange of this value is going to read.
  void PrefetchPage(const uint8_t* value) const {
    if (unsaved_ == nullptr) return;
    const size_t page = static_cast<size_t>(value - kHeadBytes - slots_.get()) >> unsaved_->shift;
    if (!unsaved_->Has(page)) return;
    const uint8_t* line = slots_.get() + (page << unsaved_->shift);
    for (const uint8_t* end = line + (size_t{1} << unsaved_->shift); line < end; line += 64) {
      __builtin_prefetch(line);
    }
  }
  // Saves pages in order, about so many bytes of slots; how many it were. The last one ends the
  // snapshot.
  int64_t ContinueSnapshot(int64_t bytes);
  void AbortSnapshot() { unsaved_.reset(); }

  int64_t size() const { return size_; }
  uint64_t version() const { return version_; }
  // Memory held.
  int64_t bytes() const;

  // All values, in no order that means anything.
  std::vector<uint8_t*> Values() const;
  size_t stride() const { return stride_; }
  static constexpr size_t kHeadBytes = 2 * sizeof(uint64_t);
  static TableKey KeyOf(const uint8_t* value) {
    return {Word(value - kHeadBytes), Word(value - sizeof(uint64_t))};
  }

 private:
  // The pages that a snapshot still has to see. A slot is in the page in which it begins.
  struct Unsaved {
    Saver* saver;
    int shift;         // log2 of the bytes of a page
    size_t count;      // of bits set
    size_t next_word;  // no bit is set in front of it
    std::vector<uint64_t> bits;
    bool Has(size_t page) const { return (bits[page / 64] >> (page % 64) & 1) != 0; }
  };

  static constexpr size_t StrideOf(size_t value_width) {
    return std::max(kHeadBytes + value_width, kPairStride);
  }
  // Copies of long keys. Memory of erased ones is wasted until the next Compact.
  struct Arena {
    std::vector<std::unique_ptr<char[]>> chunks;
    size_t chunk_size = 0;  // of the last one
    size_t chunk_used = 0;
    size_t allocated = 0;
    size_t live = 0;
    size_t dead = 0;
    uint64_t Add(const TableKey& key);
  };

  static uint64_t Word(const uint8_t* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  static bool SameKey(uint64_t word, const TableKey& key) {
    if (word == key.word) return true;
    return key.IsLong() && TableKey{key.tag, word}.LongBytes() == key.LongBytes();
  }

  size_t HomeIndex(uint64_t tag) const { return tag >> shift_ << 1; }
  uint8_t* Home(uint64_t tag) const { return slots_.get() + HomeIndex(tag) * stride_; }
  uint8_t* Next(uint8_t* slot) const {
    slot += stride_;
    return slot == end_ ? slots_.get() : slot;
  }
  size_t IndexOf(const uint8_t* slot) const { return (slot - slots_.get()) / stride_; }
  uint8_t* EmptySlot(uint64_t tag) const;
  void Grow(size_t capacity, std::vector<Slots>* replaced);
  void SavePage(size_t page);
  void CompactKeys();

  size_t stride_;
  SlotMemory* memory_;
  Slots slots_;             // capacity_ slots; an empty one has tag 0
  uint8_t* end_ = nullptr;  // behind them
  size_t capacity_ = 0;     // 0 or a power of two
  int shift_ = 0;           // 64 - log2(capacity_ / 2)
  int64_t size_ = 0;
  uint64_t version_ = 0;
  Arena keys_;
  std::unique_ptr<Unsaved> unsaved_;  // none when no snapshot needs a slot any more
};

}  // namespace weir
