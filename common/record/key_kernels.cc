#include "common/record/key_kernels.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/base/cpu.h"
#include "common/record/xxh3_word.h"

#if WEIR_HAS_AVX512_CODE
// The headers of g++ 12 set a register to itself to say that any value will do, and it warns of it.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace weir {
namespace {

// Up to so many subtasks a pass over the hashes for each of them costs less than sorting rows by
// subtask.
constexpr int kFewSubtasks = 8;

#if WEIR_HAS_AVX512_CODE

// What HashWord does, for eight words. The product of 64 by 64 bits is put together from four of 32
// by 32.
WEIR_AVX512 void HashWordsAvx512(const uint64_t* words, size_t count, uint64_t* hashes) {
  const __m512i flip_low = _mm512_set1_epi64(static_cast<int64_t>(xxh3::kFlipLow));
  const __m512i flip_high = _mm512_set1_epi64(static_cast<int64_t>(xxh3::kFlipHigh));
  const __m512i mark = _mm512_set1_epi64(1);
  const __m512i nine = _mm512_set1_epi64(9);
  const __m512i low_half = _mm512_set1_epi64(0xffffffff);
  const __m512i multiplier = _mm512_set1_epi64(static_cast<int64_t>(xxh3::kAvalanche));
  const __m512i reversed =
      _mm512_broadcast_i32x4(_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const __mmask8 rows = left >= 8 ? 0xff : static_cast<__mmask8>((1u << left) - 1);
    const __m512i bits = _mm512_maskz_loadu_epi64(rows, words + i);
    const __m512i low =
        _mm512_xor_si512(_mm512_or_si512(_mm512_slli_epi64(bits, 8), mark), flip_low);
    const __m512i high = _mm512_xor_si512(bits, flip_high);
    const __m512i low_top = _mm512_srli_epi64(low, 32);
    const __m512i high_top = _mm512_srli_epi64(high, 32);
    const __m512i bottom = _mm512_mul_epu32(low, high);
    const __m512i middle =
        _mm512_add_epi64(_mm512_mul_epu32(low_top, high), _mm512_srli_epi64(bottom, 32));
    const __m512i middle_too =
        _mm512_add_epi64(_mm512_mul_epu32(low, high_top), _mm512_and_si512(middle, low_half));
    const __m512i top = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_mul_epu32(low_top, high_top), _mm512_srli_epi64(middle, 32)),
        _mm512_srli_epi64(middle_too, 32));
    const __m512i product_low =
        _mm512_or_si512(_mm512_slli_epi64(middle_too, 32), _mm512_and_si512(bottom, low_half));
    __m512i hash = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_shuffle_epi8(low, reversed), _mm512_add_epi64(high, nine)),
        _mm512_xor_si512(product_low, top));
    hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 37));
    hash = _mm512_mullo_epi64(hash, multiplier);
    hash = _mm512_xor_si512(hash, _mm512_srli_epi64(hash, 32));
    _mm512_mask_storeu_epi64(hashes + i, rows, hash);
  }
}

// REQUIRES: max_parallelism is a power of two.
WEIR_AVX512 bool FindKeyGroupsAvx512(const uint64_t* hashes, size_t count, int max_parallelism,
                                     KeyGroupRange range, uint16_t* groups) {
  const __m512i mask = _mm512_set1_epi64(max_parallelism - 1);
  const __m512i begin = _mm512_set1_epi64(range.begin);
  const __m512i size = _mm512_set1_epi64(range.size());
  unsigned outside = 0;
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const __mmask8 rows = left >= 8 ? 0xff : static_cast<__mmask8>((1u << left) - 1);
    const __m512i hash = _mm512_maskz_loadu_epi64(rows, hashes + i);
    const __m512i group = _mm512_sub_epi64(_mm512_and_si512(hash, mask), begin);
    outside |= _mm512_mask_cmpge_epu64_mask(rows, group, size);
    _mm_mask_storeu_epi16(groups + i, rows, _mm512_maskz_cvtepi64_epi16(rows, group));
  }
  return outside == 0;
}

// The rows of `subtask` are packed together at `out`, which has room for count + 8 of them; their
// number. REQUIRES: max_parallelism is a power of two.
WEIR_AVX512 int64_t PackRowsAvx512(const uint64_t* hashes, size_t count, KeyGroupRange groups,
                                   int max_parallelism, int32_t* out) {
  const __m512i mask = _mm512_set1_epi64(max_parallelism - 1);
  const __m512i begin = _mm512_set1_epi64(groups.begin);
  const __m512i size = _mm512_set1_epi64(groups.size());
  const __m256i eight = _mm256_set1_epi32(8);
  __m256i numbers = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  int32_t* const start = out;
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const __mmask8 rows = left >= 8 ? 0xff : static_cast<__mmask8>((1u << left) - 1);
    const __m512i hash = _mm512_maskz_loadu_epi64(rows, hashes + i);
    const __m512i group = _mm512_sub_epi64(_mm512_and_si512(hash, mask), begin);
    const __mmask8 picked = _mm512_mask_cmplt_epu64_mask(rows, group, size);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_maskz_compress_epi32(picked, numbers));
    out += __builtin_popcount(picked);
    numbers = _mm256_add_epi32(numbers, eight);
  }
  return out - start;
}

// `subtasks` has room for count values. REQUIRES: max_parallelism is a power of two.
WEIR_AVX512 void FindSubtasksAvx512(const uint64_t* hashes, size_t count, int max_parallelism,
                                    int parallelism, uint16_t* subtasks) {
  const __m512i mask = _mm512_set1_epi64(max_parallelism - 1);
  const __m512i factor = _mm512_set1_epi64(parallelism);
  const __m128i shift = _mm_cvtsi32_si128(std::countr_zero(static_cast<unsigned>(max_parallelism)));
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const __mmask8 rows = left >= 8 ? 0xff : static_cast<__mmask8>((1u << left) - 1);
    const __m512i group = _mm512_and_si512(_mm512_maskz_loadu_epi64(rows, hashes + i), mask);
    const __m512i subtask = _mm512_srl_epi64(_mm512_mul_epu32(group, factor), shift);
    _mm_mask_storeu_epi16(subtasks + i, rows, _mm512_maskz_cvtepi64_epi16(rows, subtask));
  }
}

#endif

}  // namespace

void HashWords(std::span<const uint64_t> words, uint64_t* hashes) {
#if WEIR_HAS_AVX512_CODE
  if (HasAvx512()) return HashWordsAvx512(words.data(), words.size(), hashes);
#endif
  for (size_t i = 0; i < words.size(); ++i) hashes[i] = xxh3::HashWord(words[i]);
}

bool FindKeyGroups(std::span<const uint64_t> hashes, int max_parallelism, KeyGroupRange range,
                   uint16_t* groups) {
  const uint64_t max = static_cast<uint64_t>(max_parallelism);
#if WEIR_HAS_AVX512_CODE
  if (std::has_single_bit(max) && HasAvx512()) {
    return FindKeyGroupsAvx512(hashes.data(), hashes.size(), max_parallelism, range, groups);
  }
#endif
  // Differences to the begin of the range wrap around for groups in front of it.
  const uint64_t begin = static_cast<uint64_t>(range.begin);
  const uint64_t size = static_cast<uint64_t>(range.size());
  bool outside = false;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const uint64_t group = static_cast<uint64_t>(KeyGroupOf(hashes[i], max_parallelism)) - begin;
    outside |= group >= size;
    groups[i] = static_cast<uint16_t>(group);
  }
  return !outside;
}

RowsBySubtask::RowsBySubtask(int parallelism, int max_parallelism)
    : parallelism_(parallelism),
      max_parallelism_(max_parallelism),
      subtask_of_group_(max_parallelism),
      begin_(parallelism),
      count_(parallelism) {
  WEIR_CHECK(parallelism >= 1 && parallelism <= max_parallelism && max_parallelism <= 32768);
  for (int group = 0; group < max_parallelism; ++group) {
    subtask_of_group_[group] =
        static_cast<uint16_t>(SubtaskOf(group, max_parallelism, parallelism));
  }
}

void RowsBySubtask::Assign(std::span<const uint64_t> hashes) {
#if WEIR_HAS_AVX512_CODE
  if (parallelism_ <= kFewSubtasks && HasAvx512() &&
      std::has_single_bit(static_cast<unsigned>(max_parallelism_))) {
    return AssignFew(hashes);
  }
#endif
  AssignMany(hashes);
}

void RowsBySubtask::AssignFew(std::span<const uint64_t> hashes) {
#if WEIR_HAS_AVX512_CODE
  const size_t room = hashes.size() + 8;
  if (rows_.size() < room * parallelism_) rows_.resize(room * parallelism_);
  for (int subtask = 0; subtask < parallelism_; ++subtask) {
    begin_[subtask] = static_cast<int64_t>(room * subtask);
    count_[subtask] = PackRowsAvx512(hashes.data(), hashes.size(),
                                     KeyGroupsOf(subtask, max_parallelism_, parallelism_),
                                     max_parallelism_, rows_.data() + begin_[subtask]);
  }
#else
  AssignMany(hashes);
#endif
}

void RowsBySubtask::FindSubtasks(std::span<const uint64_t> hashes, uint16_t* subtasks) const {
  const uint64_t max = static_cast<uint64_t>(max_parallelism_);
  if (!std::has_single_bit(max)) {
    for (size_t i = 0; i < hashes.size(); ++i) subtasks[i] = subtask_of_group_[hashes[i] % max];
    return;
  }
#if WEIR_HAS_AVX512_CODE
  if (HasAvx512()) {
    FindSubtasksAvx512(hashes.data(), hashes.size(), max_parallelism_, parallelism_, subtasks);
    return;
  }
#endif
  for (size_t i = 0; i < hashes.size(); ++i) subtasks[i] = subtask_of_group_[hashes[i] & (max - 1)];
}

void RowsBySubtask::AssignMany(std::span<const uint64_t> hashes) {
  if (rows_.size() < hashes.size()) rows_.resize(hashes.size());
  if (subtask_of_row_.size() < hashes.size()) subtask_of_row_.resize(hashes.size());
  const std::span<uint16_t> subtasks(subtask_of_row_.data(), hashes.size());
  FindSubtasks(hashes, subtasks.data());
  std::ranges::fill(count_, 0);
  for (const uint16_t subtask : subtasks) ++count_[subtask];
  int64_t begin = 0;
  for (int subtask = 0; subtask < parallelism_; ++subtask) {
    begin_[subtask] = begin;
    begin += count_[subtask];
  }
  for (size_t i = 0; i < subtasks.size(); ++i) {
    rows_[begin_[subtasks[i]]++] = static_cast<int32_t>(i);
  }
  for (int subtask = 0; subtask < parallelism_; ++subtask) begin_[subtask] -= count_[subtask];
}

}  // namespace weir
