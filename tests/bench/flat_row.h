// Rows of few fields as the benchmark's jobs write them, taken apart without Weir's parser or
// another library. Header only.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "tests/bench/limits/limits.h"

namespace limits {

[[noreturn]] inline void BadLine(std::string_view line, const char* place) {
  Fail("%s: not an output row: %.*s", place, static_cast<int>(line.size()), line.data());
}

// Index of a field's name.
template <size_t kCount>
size_t FieldOf(const std::array<std::string_view, kCount>& names, std::string_view name,
               const char* place) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    Fail("%s: unknown field '%.*s'", place, static_cast<int>(name.size()), name.data());
  }
  return static_cast<size_t>(found - names.begin());
}

// The texts of {"k":1,"sum":2,"d":1.5} by the order of `names`. The fields may stand in any order,
// each once; their values are numbers.
template <size_t kCount>
std::array<std::string_view, kCount> ParseFlatJson(
    const std::array<std::string_view, kCount>& names, std::string_view line, const char* place) {
  std::array<std::string_view, kCount> texts;
  if (line.size() < 2 || line.front() != '{' || line.back() != '}') BadLine(line, place);
  std::string_view rest = line.substr(1, line.size() - 2);
  for (size_t i = 0; i < kCount; ++i) {
    size_t colon = rest.find("\":");
    if (rest.empty() || rest.front() != '"' || colon == rest.npos) BadLine(line, place);
    size_t end = std::min(rest.find(',', colon), rest.size());
    std::string_view& text = texts[FieldOf(names, rest.substr(1, colon - 1), place)];
    if (text.data() != nullptr) BadLine(line, place);
    text = rest.substr(colon + 2, end - colon - 2);
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
  if (!rest.empty()) BadLine(line, place);
  return texts;
}

template <typename Number>
Number ParseNumber(std::string_view text, std::string_view line, const char* place) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) BadLine(line, place);
  return number;
}

// Row i of make_rows, but for its letters.
struct MadeRow {
  static constexpr uint64_t kFirstTs = 1'700'000'000'000;

  MadeRow(uint64_t row, uint64_t keys) {
    const uint64_t random = SplitMix64(row);
    key = MapToRange(random, keys);
    value = random % 1000;
    d = static_cast<double>(random / 1000 % 100'000) / 100;
  }
  uint64_t key;
  uint64_t value;
  double d;
};

}  // namespace limits
