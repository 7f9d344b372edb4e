#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weir {

// A value that a sample of `values` says most of them are equal to; none when there is no such or
// they are few. Costs little beside a pass over the values.
template <typename T>
std::optional<T> Dominant(std::span<const T> values) {
  constexpr size_t kSamples = 16;
  constexpr size_t kEnough = 10;
  constexpr size_t kValuesMin = 64;
  if (values.size() < kValuesMin) return std::nullopt;
  const size_t step = values.size() / kSamples;
  // If more than half are equal, they outlast the others.
  T candidate = values[0];
  int votes = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    const T value = values[i * step];
    if (votes == 0) candidate = value;
    votes += value == candidate ? 1 : -1;
  }
  size_t equal = 0;
  for (size_t i = 0; i < kSamples; ++i) equal += values[i * step] == candidate ? 1 : 0;
  if (equal < kEnough) return std::nullopt;
  return candidate;
}

// Packs the numbers of the values that are not `dominant` at `rest`, which has room for one more
// than there are values; how many they are.
template <typename T>
int64_t FindOthers(std::span<const T> values, T dominant, int32_t* rest) {
  int64_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    rest[count] = static_cast<int32_t>(i);
    count += static_cast<int64_t>(values[i] != dominant);
  }
  return count;
}

}  // namespace weir
