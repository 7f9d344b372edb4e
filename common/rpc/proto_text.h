#pragma once

#include <string>
#include <string_view>

namespace weir {

// `text` with every byte that is no UTF-8 replaced by U+FFFD. A proto `string` must be UTF-8, or
// its receiver refuses the whole message; paths and payloads travel as `bytes` instead.
std::string Utf8Text(std::string_view text);

}  // namespace weir
