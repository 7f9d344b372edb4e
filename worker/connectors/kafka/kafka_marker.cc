#include "worker/connectors/kafka/kafka_marker.h"

#include <charconv>
#include <vector>

#include "common/base/concat.h"

namespace weir {
namespace {

constexpr std::string_view kHeld = "weir1";
constexpr std::string_view kReleased = "weir2";
constexpr std::string_view kReleasedWord = "released";
constexpr size_t kWords = 5;  // without that one
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
  const std::string text = Concat(marker.released ? kReleased : kHeld, ' ', marker.job, ' ',
                                  marker.generation, ' ', marker.part, ' ', marker.parts);
  return marker.released ? Concat(text, ' ', kReleasedWord) : text;
}

StatusOr<KafkaMarker> ParseMarker(int64_t offset, std::string_view metadata) {
  std::vector<std::string_view> words = Words(metadata);
  KafkaMarker marker;
  uint64_t generation = 0;
  marker.released = words[0] == kReleased && words.back() == kReleasedWord;
  if (words.size() != kWords + (marker.released ? 1 : 0) ||
      (words[0] != kHeld && !marker.released) || words[1].empty() ||
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
