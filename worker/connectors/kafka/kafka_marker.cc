#include "worker/connectors/kafka/kafka_marker.h"

#include <charconv>
#include <vector>

#include "common/base/concat.h"

namespace weir {
namespace {

constexpr std::string_view kVersion = "weir1";
constexpr size_t kWords = 5;
constexpr size_t kShownBytesMax = 100;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    size_t blank = text.find(' ');
    words.push_back(text.substr(0, blank));
    if (blank == std::string_view::npos) return words;
    text.remove_prefix(blank + 1);
  }
}

template <typename T>
bool Number(std::string_view text, T* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string MarkerMetadata(const KafkaMarker& marker) {
  return Concat(kVersion, ' ', marker.job, ' ', marker.generation, ' ', marker.part, ' ',
                marker.parts);
}

StatusOr<KafkaMarker> ParseMarker(int64_t offset, std::string_view metadata) {
  std::vector<std::string_view> words = Words(metadata);
  KafkaMarker marker;
  uint64_t generation = 0;
  if (words.size() != kWords || words[0] != kVersion || words[1].empty() ||
      !Number(words[2], &generation) || !Number(words[3], &marker.part) ||
      !Number(words[4], &marker.parts) || marker.part < 0 || marker.part >= marker.parts ||
      offset < 0) {
    return FailedPreconditionError(Concat("offset ", offset, " with metadata '",
                                          metadata.substr(0, kShownBytesMax),
                                          "' is no marker that this version knows"));
  }
  marker.job = JobId(std::string(words[1]));
  marker.generation = Generation(generation);
  marker.checkpoint = CheckpointId(static_cast<uint64_t>(offset));
  return marker;
}

}  // namespace weir
