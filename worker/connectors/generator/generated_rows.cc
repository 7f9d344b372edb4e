#include "worker/connectors/generator/generated_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/cpu.h"

namespace weir {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

inline uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

inline double Fraction(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// floor(bits * bound / 2^64).
inline int64_t Scale(uint64_t bits, uint64_t bound) {
  return static_cast<int64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

// The same for bounds below 2^32, of which a compiler makes vector code.
inline uint64_t ScaleSmall(uint64_t bits, uint64_t bound) {
  return ((bits >> 32) * bound + (((bits & 0xffffffff) * bound) >> 32)) >> 32;
}

// What one split draws.
struct Draws {
  uint64_t first;       // base + offset * kGolden
  int64_t first_seq;    // of the first row
  int64_t splits;       // from one to the next
  uint64_t keys_bound;  // r is scaled to this when it is a key; 0: key becomes r itself
};

[[gnu::always_inline]] inline void DrawColumns(const Draws& draws, size_t count,
                                               int64_t* __restrict seq, uint64_t* __restrict key,
                                               double* __restrict value) {
  const Draws d = draws;
  if (d.keys_bound != 0) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t r = Mix(d.first + i * kGolden);
      seq[i] = d.first_seq + static_cast<int64_t>(i) * d.splits;
      key[i] = ScaleSmall(r, d.keys_bound);
      value[i] = Fraction(Mix(r + 1));
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t r = Mix(d.first + i * kGolden);
      seq[i] = d.first_seq + static_cast<int64_t>(i) * d.splits;
      key[i] = r;
      value[i] = Fraction(Mix(r + 1));
    }
  }
}

#if WEIR_HAS_AVX512_CODE
WEIR_AVX512 void DrawColumnsAvx512(const Draws& draws, size_t count, int64_t* seq, uint64_t* key,
                                   double* value) {
  DrawColumns(draws, count, seq, key, value);
}
#endif

void Draw(const Draws& draws, size_t count, int64_t* seq, uint64_t* key, double* value) {
#if WEIR_HAS_AVX512_CODE
  if (HasAvx512()) return DrawColumnsAvx512(draws, count, seq, key, value);
#endif
  DrawColumns(draws, count, seq, key, value);
}

// Makes of each draw key 0, or one of the `others` from 1 on. REQUIRES: 0 < others < 2^32.
[[gnu::always_inline]] inline void PickHotKeys(double hot_fraction, uint64_t others, size_t count,
                                               uint64_t* key) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t r = key[i];
    const uint64_t other = 1 + ScaleSmall(r, others);
    key[i] = Fraction(Mix(r)) < hot_fraction ? 0 : other;
  }
}

#if WEIR_HAS_AVX512_CODE
WEIR_AVX512 void PickHotKeysAvx512(double hot_fraction, uint64_t others, size_t count,
                                   uint64_t* key) {
  PickHotKeys(hot_fraction, others, count, key);
}
#endif

void HotKeys(double hot_fraction, uint64_t others, size_t count, uint64_t* key) {
#if WEIR_HAS_AVX512_CODE
  if (HasAvx512()) return PickHotKeysAvx512(hot_fraction, others, count, key);
#endif
  PickHotKeys(hot_fraction, others, count, key);
}

// The letters a to p for the low four bits of each byte of `bits`, then for the high ones.
[[gnu::always_inline]] inline void WriteLetters(uint64_t bits, uint64_t* out) {
  constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;
  constexpr uint64_t kLetters = 0x6161616161616161;
  out[0] = (bits & kNibbles) + kLetters;
  out[1] = ((bits >> 4) & kNibbles) + kLetters;
}

// Words of letters that are made at a time. The last ones may be written past their row, which the
// next row overwrites, and past the last row.
constexpr size_t kWordBytes = 16;
constexpr size_t kWordsAtOnceMax = 8;
constexpr size_t kBytesPastTexts = kWordBytes * kWordsAtOnceMax;

// The texts of `count` rows, `width` bytes each.
template <size_t kWordsAtOnce>
[[gnu::always_inline]] inline void MakeTexts(uint64_t first, size_t count, size_t width,
                                             uint8_t* out) {
  for (size_t i = 0; i < count; ++i, out += width) {
    const uint64_t r = Mix(first + i * kGolden) + 2;
    for (size_t at = 0; at < width; at += kWordBytes * kWordsAtOnce) {
      uint64_t letters[2 * kWordsAtOnce];
      for (size_t word = 0; word < kWordsAtOnce; ++word) {
        WriteLetters(Mix(r + at / kWordBytes + word), letters + 2 * word);
      }
      std::memcpy(out + at, letters, sizeof(letters));
    }
  }
}

#if WEIR_HAS_AVX512_CODE
WEIR_AVX512 void MakeTextsAvx512(uint64_t first, size_t count, size_t width, uint8_t* out) {
  MakeTexts<kWordsAtOnceMax>(first, count, width, out);
}
#endif

void Texts(uint64_t first, size_t count, size_t width, uint8_t* out) {
#if WEIR_HAS_AVX512_CODE
  // Of short texts most of eight words would be made for nothing.
  if (HasAvx512() && width > kWordBytes) return MakeTextsAvx512(first, count, width, out);
#endif
  MakeTexts<1>(first, count, width, out);
}

// log1p(x) / x and expm1(x) / x, also near 0.
double Log1pOver(double x) {
  return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3 - 0.25 * x));
}
double Expm1Over(double x) {
  return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x * 0.5 * (1 + x / 3 * (1 + 0.25 * x));
}

}  // namespace

ZipfDistribution::ZipfDistribution(int64_t n, double exponent) : n_(n), exponent_(exponent) {
  h_integral_first_ = HIntegral(1.5) - 1;
  h_integral_last_ = HIntegral(static_cast<double>(n) + 0.5);
  acceptance_ = 2 - HIntegralInverse(HIntegral(2.5) - H(2));
}

double ZipfDistribution::H(double x) const { return std::exp(-exponent_ * std::log(x)); }

double ZipfDistribution::HIntegral(double x) const {
  double log_x = std::log(x);
  return Expm1Over((1 - exponent_) * log_x) * log_x;
}

double ZipfDistribution::HIntegralInverse(double x) const {
  double t = std::max(x * (1 - exponent_), -1.0);
  return std::exp(Log1pOver(t) * x);
}

int64_t ZipfDistribution::Draw(uint64_t bits) const {
  while (true) {
    double u = h_integral_last_ + Fraction(bits) * (h_integral_first_ - h_integral_last_);
    double x = HIntegralInverse(u);
    // Not a cast of what may be beyond int64: n is at most 2^63 - 1.
    int64_t k = x >= static_cast<double>(n_) ? n_ : std::max<int64_t>(1, std::llround(x));
    double k_real = static_cast<double>(k);
    if (k_real - x <= acceptance_ || u >= HIntegral(k_real + 0.5) - H(k_real)) return k;
    bits = Mix(bits + kGolden);
  }
}

GeneratedRows::GeneratedRows(const GeneratorConfig& config)
    : config_(config),
      schema_(std::make_shared<Schema>(GeneratorSchema(config))),
      zipf_(config.keys, config.zipf_exponent) {}

RecordBatch GeneratedRows::Make(int split, int64_t offset, int64_t rows) const {
  const size_t count = static_cast<size_t>(rows);
  auto seqs = std::make_shared<Buffer>(count * 8);
  auto keys = std::make_shared<Buffer>(count * 8);
  auto values = std::make_shared<Buffer>(count * 8);
  int64_t* seq = reinterpret_cast<int64_t*>(seqs->data());
  int64_t* key = reinterpret_cast<int64_t*>(keys->data());
  double* value = reinterpret_cast<double*>(values->data());

  const uint64_t base =
      Mix(Mix(static_cast<uint64_t>(config_.seed)) + static_cast<uint64_t>(split));
  const uint64_t first = base + static_cast<uint64_t>(offset) * kGolden;
  const uint64_t key_count = static_cast<uint64_t>(config_.keys);
  const bool scaled =
      config_.distribution == KeyDistribution::kUniform && key_count < (uint64_t{1} << 32);
  Draw({.first = first,
        .first_seq = offset * config_.splits + split,
        .splits = config_.splits,
        .keys_bound = scaled ? key_count : 0},
       count, seq, reinterpret_cast<uint64_t*>(key), value);
  switch (config_.distribution) {
    case KeyDistribution::kUniform:
      if (scaled) break;
      for (size_t i = 0; i < count; ++i) key[i] = Scale(static_cast<uint64_t>(key[i]), key_count);
      break;
    case KeyDistribution::kZipf:
      for (size_t i = 0; i < count; ++i) key[i] = zipf_.Draw(static_cast<uint64_t>(key[i])) - 1;
      break;
    case KeyDistribution::kHot:
      if (key_count > 1 && key_count - 1 < (uint64_t{1} << 32)) {
        HotKeys(config_.hot_fraction, key_count - 1, count, reinterpret_cast<uint64_t*>(key));
        break;
      }
      for (size_t i = 0; i < count; ++i) {
        uint64_t r = static_cast<uint64_t>(key[i]);
        bool hot = key_count == 1 || Fraction(Mix(r)) < config_.hot_fraction;
        key[i] = hot ? 0 : 1 + Scale(r, key_count - 1);
      }
      break;
  }

  std::vector<Column> columns;
  columns.emplace_back(Type::kInt64, rows, nullptr, std::move(seqs));
  columns.emplace_back(Type::kInt64, rows, nullptr, std::move(keys));
  columns.emplace_back(Type::kFloat64, rows, nullptr, std::move(values));
  if (config_.payload_bytes > 0) {
    const size_t width = static_cast<size_t>(config_.payload_bytes);
    auto data = std::make_shared<Buffer>(count * width + kBytesPastTexts);
    auto offsets = std::make_shared<Buffer>((count + 1) * 4);
    int32_t* ends = reinterpret_cast<int32_t*>(offsets->data());
    for (size_t i = 0; i <= count; ++i) ends[i] = static_cast<int32_t>(i * width);
    Texts(first, count, width, data->data());
    columns.emplace_back(Type::kString, rows, nullptr, std::move(data), std::move(offsets));
  }
  return RecordBatch(schema_, rows, std::move(columns));
}

}  // namespace weir
