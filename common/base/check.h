#pragma once

#include <string_view>

namespace weir {

// Prints file, line and message to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              std::string_view message);

}  // namespace weir

// For our own invariants, on in release builds. Never for anything that a peer, a disk, a broker
// or a user can cause.
#define WEIR_CHECK(condition)                                  \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::weir::CheckFailed(__FILE__, __LINE__, #condition, ""); \
  } while (false)
#define WEIR_CHECK_MESSAGE(condition, message)                        \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::weir::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
