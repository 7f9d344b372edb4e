#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir {

// The nearest of `known` to `name` by edit distance (case does not count), if it is near enough to
// be meant; else "". For the "did you mean" of errors.
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace weir
