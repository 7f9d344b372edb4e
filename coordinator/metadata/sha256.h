#pragma once

#include <string>
#include <string_view>

namespace weir {

// SHA-256 of the bytes (FIPS 180-4) as 64 lower-case hex digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace weir
