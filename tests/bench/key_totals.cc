// What the running counts of a count job must add up to, from the contract of the generator's rows
// alone (worker/connectors/generator/generated_rows.h). Knows nothing of Weir.
//
//   key_totals --rows N --keys K --splits S [--hot-fraction-percent P]
//
// Of a key with t rows the counts are 1 ... t. Prints the sum of all counts, and of all counts
// times (key + 1).

#include <string>
#include <vector>

#include "tests/bench/limits/limits.h"

namespace {

using namespace limits;

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t z) {  // the finaliser of SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

int main(int argc, char** argv) {
  Stopwatch watch;
  Flags flags(argc, argv);
  const uint64_t rows = static_cast<uint64_t>(flags.Number("rows", 0));
  const uint64_t keys = static_cast<uint64_t>(flags.Number("keys", 1));
  const uint64_t splits = static_cast<uint64_t>(flags.Number("splits", 128));
  const uint64_t hot_percent = static_cast<uint64_t>(flags.Number("hot-fraction-percent", 0));
  flags.RejectUnknown();
  if (keys < 2 || splits == 0) Fail("--keys at least 2, --splits at least 1");
  const double hot_fraction = static_cast<double>(hot_percent) / 100;

  std::vector<uint32_t> totals(keys);
  for (uint64_t split = 0; split < splits; ++split) {
    const uint64_t base = Mix(Mix(0) + split);
    for (uint64_t offset = 0; offset * splits + split < rows; ++offset) {
      const uint64_t r = Mix(base + offset * kGolden);
      uint64_t key = 0;
      if (hot_percent == 0) {
        key = MapToRange(r, keys);
      } else if (static_cast<double>(Mix(r) >> 11) * 0x1.0p-53 >= hot_fraction) {
        key = 1 + MapToRange(r, keys - 1);
      }
      ++totals[key];
    }
  }
  uint64_t sum = 0;
  uint64_t weighted = 0;
  for (uint64_t key = 0; key < keys; ++key) {
    const uint64_t counts = uint64_t{totals[key]} * (uint64_t{totals[key]} + 1) / 2;
    sum += counts;
    weighted += counts * (key + 1);
  }
  watch.Stop();
  PrintResult(watch, {.name = "key_totals",
                      .rows = rows,
                      .checksum = 0,
                      .bytes = 0,
                      .extra = ",\"sum\":" + std::to_string(sum) +
                               ",\"weighted\":" + std::to_string(weighted)});
}
