#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weir {

// Zeroed memory for the slots of the tables of one state backend. Large tables are looked into at
// random places: on pages of 4 KiB most look-ups walk the page table too. So pieces from 64 KiB on
// come from huge pages of 2 MiB (where the system has them to give): smaller ones share a page with
// others of their size, larger ones have their own. Smaller pieces are of the heap, so that few
// keys cost little. A page without pieces goes back to the system. Lifetime: must outlive all of
// its pieces. Thread: confined to its owner.
class SlotMemory {
 public:
  struct Free {
    SlotMemory* memory = nullptr;
    size_t bytes = 0;
    void operator()(uint8_t* piece) const { memory->Give(piece, bytes); }
  };
  using Piece = std::unique_ptr<uint8_t[], Free>;

  SlotMemory() = default;
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;
  ~SlotMemory();  // REQUIRES: all pieces were given back

  // `bytes` of zeros, aligned to 64 bytes.
  Piece Take(size_t bytes);

 private:
  static constexpr size_t kPageBytes = size_t{2} << 20;
  static constexpr size_t kPieceBytesMin = size_t{64} << 10;

  // A huge page cut into pieces of one size.
  struct Page {
    uint8_t* begin = nullptr;
    size_t piece_bytes = 0;
    uint32_t free = 0;   // bit i: piece i is free
    uint32_t fresh = 0;  // bit i: piece i was never taken, so it is of zeros
  };

  static size_t RoundedUp(size_t bytes);
  static uint8_t* Map(size_t bytes);
  static void Unmap(uint8_t* begin, size_t bytes);
  void Give(uint8_t* piece, size_t bytes);

  std::vector<Page> pages_;
};

}  // namespace weir
