#include "common/base/names.h"

#include <algorithm>
#include <cstddef>

namespace weir {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
          Lower(a[i - 2]) == Lower(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Names that people type are short; the table of a longer one costs more than the hint is worth.
constexpr size_t kNameBytesMax = 128;

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kNameBytesMax) return "";
  const std::string* nearest = nullptr;
  size_t nearest_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > kNameBytesMax) continue;
    const size_t distance = EditDistance(name, candidate);
    // A third of the letters may be wrong, at least one, but never all of them.
    const size_t length = std::max(name.size(), candidate.size());
    if (distance > std::max<size_t>(1, length / 3) || distance >= length) continue;
    if (nearest == nullptr || distance < nearest_distance) {
      nearest = &candidate;
      nearest_distance = distance;
    }
  }
  return nearest == nullptr ? "" : *nearest;
}

}  // namespace weir
