#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/record/batch_builder.h"
#include "common/record/text_decoder.h"
#include "common/record/text_values.h"

// The inner loops of the readers of text: finding bytes and reading plain numbers, many bytes at a
// time. All of it reads up to kScanBytes behind what it looks at, whatever stands there.
namespace weir {

static_assert(std::endian::native == std::endian::little);

inline constexpr size_t kScanBytes = 16;

// The first byte from `at` on that ends the plain part of a JSON text: a quote, a backslash or a
// control character. REQUIRES: there is one.
inline const char* FindJsonTextEnd(const char* at) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1f);
  while (true) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i hits =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                     _mm_cmpeq_epi8(_mm_max_epu8(bytes, control), control));
    const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return at + std::countr_zero(mask);
    at += kScanBytes;
  }
#else
  while (*at != '"' && *at != '\\' && static_cast<uint8_t>(*at) >= 0x20) ++at;
  return at;
#endif
}

// The first comma, line end or quote from `at` on. REQUIRES: there is one.
inline const char* FindCsvSpecial(const char* at) {
#if defined(__SSE2__)
  const __m128i comma = _mm_set1_epi8(',');
  const __m128i line_end = _mm_set1_epi8('\n');
  const __m128i quote = _mm_set1_epi8('"');
  while (true) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i hits =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, comma), _mm_cmpeq_epi8(bytes, line_end)),
                     _mm_cmpeq_epi8(bytes, quote));
    const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return at + std::countr_zero(mask);
    at += kScanBytes;
  }
#else
  while (*at != ',' && *at != '\n' && *at != '"') ++at;
  return at;
#endif
}

// Tells whether rows of one text are valid UTF-8, in the order of the text. Where it is ASCII it
// looks at many rows at once. Thread: confined to its owner.
class Utf8Check {
 public:
  explicit Utf8Check(std::string_view text)
      : seen_to_(text.data()), end_(text.data() + text.size()), doubted_to_(text.data()) {}

  // REQUIRES: the bytes are of the text, and none before those of the last call.
  bool IsValid(const char* begin, const char* end) {
    while (seen_to_ < end) See();
    return begin >= doubted_to_ || IsValidUtf8({begin, static_cast<size_t>(end - begin)});
  }

 private:
  static constexpr size_t kWindowBytes = 4096;

  void See() {
    const size_t left = static_cast<size_t>(end_ - seen_to_);
    const char* stop = left < kWindowBytes ? end_ : seen_to_ + kWindowBytes;
    char bits = 0;
    for (const char* at = seen_to_; at < stop; ++at) bits = static_cast<char>(bits | *at);
    seen_to_ = stop;
    if ((bits & '\x80') != 0) doubted_to_ = stop;
  }

  const char* seen_to_;
  const char* const end_;
  const char* doubted_to_;  // somewhere in front of it there are bytes beyond ASCII
};

// Whether a reader of plain rows is worth a try: where rows are not plain, one in a few is tried
// all the same. Thread: confined to its owner.
class PlainTries {
 public:
  bool ShouldTry() { return declined_ < kDeclinedMax || ++passed_ % kTryEvery == 0; }
  void Took() { declined_ = 0; }
  void Declined() { ++declined_; }

 private:
  static constexpr int64_t kDeclinedMax = 8;
  static constexpr int64_t kTryEvery = 32;
  int64_t declined_ = 0;  // since it took one
  int64_t passed_ = 0;
};

// Has `reader` append the row at `at` to `out`, which has `rows` rows, if it is worth a try. Behind
// the row; nullptr: it is for the whole parser, and `out` is as it was. REQUIRES: as Read of the
// reader; what stands at `at` is of the text of `utf8`.
template <typename PlainReader>
const char* ReadPlainRow(const char* at, PlainReader& reader, PlainTries& tries, Utf8Check& utf8,
                         int64_t rows, BatchBuilder* out) {
  if (!tries.ShouldTry()) return nullptr;
  const char* next = reader.Read(at, out);
  if (next != nullptr && static_cast<size_t>(next - at) <= kTextRowBytesMax &&
      utf8.IsValid(at, next)) {
    tries.Took();
    return next;
  }
  tries.Declined();
  out->Truncate(rows);
  return nullptr;
}

// ---- plain numbers: digits, with a minus or not, with a fraction or not, short -----------------

inline constexpr std::array<uint64_t, 20> kPowersOfTen = [] {
  std::array<uint64_t, 20> powers{};
  uint64_t power = 1;
  for (uint64_t& entry : powers) {
    entry = power;
    power *= 10;
  }
  return powers;
}();

// The decimal digits at the front of 8 bytes: how many there are and what number they make.
struct Digits {
  int count;
  uint64_t value;
};
inline Digits ReadUpTo8Digits(const char* at) {
  constexpr uint64_t kZeros = 0x3030303030303030;
  constexpr uint64_t kAboveNine = 0x4646464646464646;
  constexpr uint64_t kHighBits = 0x8080808080808080;
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  // A byte that is no digit sets its high bit; carries only spoil the bytes behind it.
  const uint64_t others = ((word + kAboveNine) | (word - kZeros)) & kHighBits;
  const int count = others == 0 ? 8 : std::countr_zero(others) >> 3;
  if (count == 0) return {0, 0};
  // The digits move to the end of the word, behind zeros: then neighbours are joined, three times.
  word = (word ^ kZeros) << (64 - 8 * count);
  word = word * 10 + (word >> 8);
  word = (((word & 0x000000ff000000ff) * 0x000f424000000064) +
          (((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001)) >>
         32;
  return {count, word & 0xffffffff};
}

inline constexpr int kPlainDigitsMax = 18;

// All the digits at `at`; more than kPlainDigitsMax: some count above it, and any value. Reads no
// further than 24 bytes.
inline Digits ReadDigits(const char* at) {
  Digits all = ReadUpTo8Digits(at);
  if (all.count < 8) return all;
  const Digits second = ReadUpTo8Digits(at + 8);
  all.value = all.value * kPowersOfTen[static_cast<size_t>(second.count)] + second.value;
  all.count += second.count;
  if (second.count < 8) return all;
  const Digits third = ReadUpTo8Digits(at + 16);
  all.value = all.value * kPowersOfTen[static_cast<size_t>(third.count)] + third.value;
  all.count += third.count;
  return all;
}

// An integer of at most kPlainDigitsMax digits. Behind it; nullptr: none is there. What stands
// behind it (digits never do) and zeros in front are the caller's to judge.
inline const char* ReadPlainInteger(const char* at, int64_t* value) {
  const bool negative = *at == '-';
  if (negative) ++at;
  const Digits digits = ReadDigits(at);
  if (digits.count == 0 || digits.count > kPlainDigitsMax) return nullptr;
  const int64_t number = static_cast<int64_t>(digits.value);
  *value = negative ? -number : number;
  return at + digits.count;
}

// A number like 7, -7.25 or 0.001 that is exactly the quotient of two doubles, so that one division
// rounds it right. Otherwise as ReadPlainInteger.
inline const char* ReadPlainDecimal(const char* at, double* value) {
  constexpr uint64_t kExactMax = uint64_t{1} << std::numeric_limits<double>::digits;
  constexpr std::array<double, 16> kExactPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool negative = *at == '-';
  if (negative) ++at;
  const Digits whole = ReadDigits(at);
  if (whole.count == 0 || whole.count > kPlainDigitsMax) return nullptr;
  at += whole.count;
  uint64_t mantissa = whole.value;
  double divisor = 1;
  if (*at == '.') {
    const Digits fraction = ReadDigits(at + 1);
    if (fraction.count == 0 || whole.count + fraction.count > kPlainDigitsMax ||
        fraction.count >= static_cast<int>(kExactPowers.size())) {
      return nullptr;
    }
    at += 1 + fraction.count;
    mantissa = mantissa * kPowersOfTen[static_cast<size_t>(fraction.count)] + fraction.value;
    divisor = kExactPowers[static_cast<size_t>(fraction.count)];
  }
  if (mantissa > kExactMax) return nullptr;
  const double number = static_cast<double>(mantissa) / divisor;
  *value = negative ? -number : number;
  return at;
}

}  // namespace weir
