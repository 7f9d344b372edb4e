#include "common/base/random.h"

#include <random>

namespace weir {

Random Random::FromSystem() {
  std::random_device device;
  return Random((uint64_t{device()} << 32) | device());
}

uint64_t Random::Next64() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::string Random::HexName(int digits) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string name;
  name.reserve(digits);
  uint64_t bits = 0;
  for (int i = 0; i < digits; ++i) {
    if (i % 16 == 0) bits = Next64();
    name += kHex[bits & 15];
    bits >>= 4;
  }
  return name;
}

}  // namespace weir
