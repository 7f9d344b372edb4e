#pragma once

#include <cstdint>

#include "common/graph/builtin_configs.h"
#include "common/record/record_batch.h"

namespace weir {

// Draws k in [1, n] with probability proportional to 1 / k^exponent by rejection-inversion
// (Hörmann and Derflinger, 1996): constant time, no table. Thread: immutable.
class ZipfDistribution {
 public:
  // REQUIRES: n >= 1, exponent > 0.
  ZipfDistribution(int64_t n, double exponent);
  // A pure function of `bits`.
  int64_t Draw(uint64_t bits) const;

 private:
  double H(double x) const;
  double HIntegral(double x) const;
  double HIntegralInverse(double x) const;

  int64_t n_;
  double exponent_;
  double h_integral_first_;
  double h_integral_last_;
  double acceptance_;
};

// Makes the rows (seq, key, value [, payload]) of a generator. Each is a pure function of the
// config's seed, the split and the offset; this is a contract, fixed by vectors in a test:
//   base    mix(mix(seed) + split)                 mix: the finaliser of SplitMix64
//   r       mix(base + offset * 0x9e3779b97f4a7c15)
//   seq     offset * splits + split
//   key     uniform: floor(r * keys / 2^64); zipf: Draw(r) - 1; hot: 0 if a fraction made of mix(r)
//           is below hot_fraction, else 1 + floor(r * (keys - 1) / 2^64)
//   value   (mix(r + 1) >> 11) / 2^53, in [0, 1)
//   payload 16 letters a to p a word, words mix(r + 2), mix(r + 3), …: of the low four bits of
//           each byte, lowest byte first, then of the high four bits of each byte
// Thread: immutable.
class GeneratedRows {
 public:
  explicit GeneratedRows(const GeneratorConfig& config);

  // Rows offset … offset + rows - 1 of the split. REQUIRES: rows * payload_bytes < 2^31.
  RecordBatch Make(int split, int64_t offset, int64_t rows) const;
  const SchemaPtr& schema() const { return schema_; }

 private:
  GeneratorConfig config_;
  SchemaPtr schema_;
  ZipfDistribution zipf_;
};

}  // namespace weir
