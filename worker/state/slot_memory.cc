#include "worker/state/slot_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "common/base/check.h"

namespace weir {
namespace {

constexpr size_t kAlignment = 64;

uint32_t AllPieces(size_t count) { return count == 32 ? ~uint32_t{0} : (uint32_t{1} << count) - 1; }

}  // namespace

SlotMemory::~SlotMemory() { WEIR_CHECK(pages_.empty()); }

// Of a piece: the size that a page is cut into, or whole pages.
size_t SlotMemory::RoundedUp(size_t bytes) {
  if (bytes > kPageBytes / 2) return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return std::bit_ceil(bytes);
}

uint8_t* SlotMemory::Map(size_t bytes) {
  // As much more as it takes to begin at the border of a huge page.
  const size_t mapped_bytes = bytes + kPageBytes;
  void* mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WEIR_CHECK_MESSAGE(mapped != MAP_FAILED, "out of memory");
  uint8_t* const mapped_begin = static_cast<uint8_t*>(mapped);
  const size_t in_front =
      (kPageBytes - reinterpret_cast<uintptr_t>(mapped) % kPageBytes) % kPageBytes;
  uint8_t* const begin = mapped_begin + in_front;
  if (in_front > 0) Unmap(mapped_begin, in_front);
  Unmap(begin + bytes, kPageBytes - in_front);
  // A wish: without huge pages small ones do.
  madvise(begin, bytes, MADV_HUGEPAGE);
  return begin;
}

void SlotMemory::Unmap(uint8_t* begin, size_t bytes) { WEIR_CHECK(munmap(begin, bytes) == 0); }

SlotMemory::Piece SlotMemory::Take(size_t bytes) {
  if (bytes < kPieceBytesMin) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded);
    WEIR_CHECK_MESSAGE(memory != nullptr, "out of memory");
    std::memset(memory, 0, bytes);
    return Piece(static_cast<uint8_t*>(memory), Free{this, bytes});
  }
  const size_t rounded = RoundedUp(bytes);
  if (rounded >= kPageBytes) return Piece(Map(rounded), Free{this, bytes});
  auto page = std::ranges::find_if(
      pages_, [&](const Page& p) { return p.piece_bytes == rounded && p.free != 0; });
  if (page == pages_.end()) {
    Page made;
    made.begin = Map(kPageBytes);
    made.piece_bytes = rounded;
    made.free = made.fresh = AllPieces(kPageBytes / rounded);
    page = pages_.insert(pages_.end(), made);
  }
  const int index = std::countr_zero(page->free);
  const uint32_t bit = uint32_t{1} << index;
  uint8_t* const piece = page->begin + static_cast<size_t>(index) * rounded;
  if ((page->fresh & bit) == 0) std::memset(piece, 0, bytes);
  page->free &= ~bit;
  page->fresh &= ~bit;
  return Piece(piece, Free{this, bytes});
}

void SlotMemory::Give(uint8_t* piece, size_t bytes) {
  if (bytes < kPieceBytesMin) {
    std::free(piece);
    return;
  }
  const size_t rounded = RoundedUp(bytes);
  if (rounded >= kPageBytes) {
    Unmap(piece, rounded);
    return;
  }
  const auto page = std::ranges::find_if(pages_, [&](const Page& p) {
    return !std::less<>()(piece, p.begin) && std::less<>()(piece, p.begin + kPageBytes);
  });
  WEIR_CHECK(page != pages_.end() && page->piece_bytes == rounded);
  page->free |= uint32_t{1} << (static_cast<size_t>(piece - page->begin) / rounded);
  if (page->free == AllPieces(kPageBytes / rounded)) {
    Unmap(page->begin, kPageBytes);
    pages_.erase(page);
  }
}

}  // namespace weir
