#include "worker/connectors/kafka/sink/kafka_stage.h"

#include <charconv>

#include "common/base/concat.h"
#include "common/base/consume_text.h"

namespace weir {
namespace {

constexpr std::string_view kSuffix = ".records";
constexpr std::string_view kStageFirstLine = "kafka-stage 1";

// A number, not negative, and what ends it.
template <typename T>
bool ConsumeNumber(std::string_view* text, std::string_view end, T* value) {
  if (text->empty() || text->front() < '0' || text->front() > '9') return false;
  auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return Consume(text, end);
}

}  // namespace

std::string ToFileName(const StagedName& name) {
  return Concat('g', name.generation, '-', name.subtask, '-', name.number, '-', name.uid, kSuffix);
}

std::optional<StagedName> ParseStagedName(std::string_view file_name) {
  StagedName name;
  std::string_view text = file_name;
  uint64_t generation = 0;
  if (!Consume(&text, "g") || !ConsumeNumber(&text, "-", &generation) ||
      !ConsumeNumber(&text, "-", &name.subtask) || !ConsumeNumber(&text, "-", &name.number) ||
      !text.ends_with(kSuffix)) {
    return std::nullopt;
  }
  name.generation = Generation(generation);
  name.uid = std::string(text.substr(0, text.size() - kSuffix.size()));
  // Numbers with leading zeros are not ours.
  return ToFileName(name) == file_name ? std::optional(std::move(name)) : std::nullopt;
}

std::string EncodeStage(const SealedPart& part) {
  return Concat(kStageFirstLine, '\n', part.name, '\n', part.bytes, '\n', part.rows, '\n',
                part.parts, '\n');
}

bool IsStage(const Committable& committable) {
  return committable.payload.starts_with("kafka-stage ");
}

StatusOr<SealedPart> DecodeStage(const Committable& committable) {
  std::string_view text = committable.payload;
  SealedPart part;
  part.checkpoint = committable.checkpoint;
  part.index = committable.part;
  bool valid = Consume(&text, kStageFirstLine) && Consume(&text, "\n");
  const size_t name_end = text.find('\n');
  valid = valid && name_end != std::string_view::npos;
  if (valid) {
    part.name = std::string(text.substr(0, name_end));
    text.remove_prefix(name_end + 1);
    valid = (part.name.empty() || ParseStagedName(part.name).has_value()) &&
            ConsumeNumber(&text, "\n", &part.bytes) && ConsumeNumber(&text, "\n", &part.rows) &&
            ConsumeNumber(&text, "\n", &part.parts) && text.empty() && part.parts > part.index &&
            part.index >= 0;
  }
  if (!valid) {
    return DataLossError(Concat("not a committable of kafka.sink: '", committable.payload, "'"));
  }
  return part;
}

std::string KafkaIdentity(const KafkaSinkConfig& config, const JobId& job, const std::string& uid,
                          int subtask) {
  const std::string& prefix = config.transactional_id_prefix;
  return Concat(prefix.empty() ? job.value() : prefix, '-', uid, '-', subtask);
}

}  // namespace weir
