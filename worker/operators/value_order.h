#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

namespace weir {

// The total order of min and max: NaN is above all numbers, as in PostgreSQL; 0.0 and -0.0 are
// equal; texts are compared byte by byte.
template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (std::isnan(b) && !std::isnan(a));
  return a < b;
}

}  // namespace weir
