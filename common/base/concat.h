#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir {
namespace internal {

template <typename T>
void AppendPiece(std::string& out, const T& piece) {
  if constexpr (std::is_same_v<T, bool>) {
    out += piece ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += piece;
  } else if constexpr (std::is_arithmetic_v<T>) {
    char buffer[40];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), piece);
    out.append(buffer, end);
  } else if constexpr (requires { piece.value(); }) {
    AppendPiece(out, piece.value());
  } else {
    out += std::string_view(piece);
  }
}

}  // namespace internal

// The pieces (text, numbers, strong ids) as one string, for messages and names.
template <typename... T>
std::string Concat(const T&... pieces) {
  std::string out;
  (internal::AppendPiece(out, pieces), ...);
  return out;
}

}  // namespace weir
