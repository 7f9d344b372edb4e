#include "common/checkpoint/manifest.h"

#include <charconv>

#include "common/base/concat.h"

namespace weir {
namespace {

// A positive decimal number without leading zeros, so that each has one spelling.
bool ParseNumber(std::string_view text, uint64_t* number) {
  if (text.empty() || text.front() == '0') return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr std::string_view kPrefix = "chk-";

}  // namespace

int64_t CheckpointManifest::StateBytes() const {
  int64_t bytes = 0;
  for (const OperatorSnapshot& snapshot : snapshots) {
    for (const StateHandle& handle : snapshot.handles) bytes += handle.length;
  }
  return bytes;
}

std::string CheckpointDirectoryName(CheckpointId checkpoint, Generation generation) {
  return Concat(kPrefix, checkpoint, ".", generation);
}

bool ParseCheckpointDirectoryName(std::string_view name, CheckpointId* checkpoint,
                                  Generation* generation) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  size_t dot = name.find('.');
  uint64_t numbers[2];
  if (dot == std::string_view::npos || !ParseNumber(name.substr(0, dot), &numbers[0]) ||
      !ParseNumber(name.substr(dot + 1), &numbers[1])) {
    return false;
  }
  *checkpoint = CheckpointId(numbers[0]);
  *generation = Generation(numbers[1]);
  return true;
}

}  // namespace weir
