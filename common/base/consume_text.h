#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

// For reading short texts of our own making, positions and names, from front to back: each call
// takes what it reads off the front of `text`, or answers false and leaves `text` as it is.
namespace weir {

inline bool Consume(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// A number in decimal, of at least `min`.
template <typename T>
bool ConsumeNumber(std::string_view* text, T* value, T min = 0) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || *value < min) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

// 16 digits, as hashes are written.
inline constexpr size_t kHexDigits = 16;

inline std::string HexText(uint64_t value) {
  std::string text(kHexDigits, '0');
  for (size_t i = kHexDigits; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 0xf];
  return text;
}

inline bool ConsumeHex(std::string_view* text, uint64_t* value) {
  if (text->size() < kHexDigits) return false;
  const char* end = text->data() + kHexDigits;
  const auto [stop, error] = std::from_chars(text->data(), end, *value, 16);
  if (error != std::errc() || stop != end) return false;
  text->remove_prefix(kHexDigits);
  return true;
}

}  // namespace weir
