#pragma once

#include <cstdint>
#include <string>

namespace weir {

// Injected source of random numbers and unique names. Thread: confined to its owner.
// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for jitter and names.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // Seeded from the operating system.
  static Random FromSystem();

  uint64_t Next64();
  // Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next64() % bound; }
  // Uniform in [0, 1).
  double Fraction() { return static_cast<double>(Next64() >> 11) * 0x1.0p-53; }
  // `digits` lower-case hex digits.
  std::string HexName(int digits);

 private:
  uint64_t state_;
};

}  // namespace weir
