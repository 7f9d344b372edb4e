#include "worker/connectors/files/file_names.h"

#include <charconv>
#include <vector>

#include "common/base/concat.h"
#include "common/base/consume_text.h"

namespace weir {
namespace {

constexpr std::string_view kHiddenPrefix = ".weir-";
constexpr std::string_view kPendingSuffix = ".pending";
constexpr std::string_view kMarkTemporaryPrefix = ".weir-sink.tmp-";
constexpr std::string_view kMarkFirstLine = "weir-sink 2";
constexpr std::string_view kPartFirstLine = "file-part 2";

// A number as Concat writes it: no sign, no leading zero.
template <typename T>
bool ConsumePlainNumber(std::string_view* text, T* value) {
  if (text->empty() || text->front() < '0' || text->front() > '9') return false;
  if (text->front() == '0' && text->size() > 1 && (*text)[1] >= '0' && (*text)[1] <= '9') {
    return false;
  }
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

std::string HiddenBody(const HiddenName& name) {
  return Concat(name.job, "-g", name.generation, '-', name.subtask, '-', name.number, '-',
                name.uid);
}

// Lines that all end with a line end; empty when the last one does not.
std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace

std::string FinalName(const std::string& job_name, const std::string& uid, int subtask,
                      CheckpointId checkpoint, int part, FileFormat format) {
  return Concat(job_name, '-', uid, '-', subtask, '-', checkpoint, '-', part,
                format == FileFormat::kCsv ? ".csv" : ".jsonl");
}

std::optional<CheckpointId> CheckpointOfFinalName(std::string_view name,
                                                  const std::string& job_name,
                                                  const std::string& uid) {
  int subtask, part;
  uint64_t checkpoint;
  const bool is_final = Consume(&name, Concat(job_name, '-', uid, '-')) &&
                        ConsumePlainNumber(&name, &subtask) && Consume(&name, "-") &&
                        ConsumePlainNumber(&name, &checkpoint) && Consume(&name, "-") &&
                        ConsumePlainNumber(&name, &part) && (name == ".csv" || name == ".jsonl");
  return is_final ? std::optional(CheckpointId(checkpoint)) : std::nullopt;
}

bool IsFinalName(std::string_view name, const std::string& job_name, const std::string& uid) {
  return CheckpointOfFinalName(name, job_name, uid).has_value();
}

std::string ProbeName(const JobId& job, const std::string& uid) {
  return Concat(kProbePrefix, job, '-', uid);
}

std::string PendingName(const HiddenName& name) {
  return Concat(kHiddenPrefix, HiddenBody(name), kPendingSuffix);
}

std::string MarkUnique(const HiddenName& name) { return HiddenBody(name); }

std::optional<HiddenName> ParseHiddenName(std::string_view text) {
  if (!Consume(&text, kMarkTemporaryPrefix)) {
    if (!Consume(&text, kHiddenPrefix) || !text.ends_with(kPendingSuffix)) return std::nullopt;
    text.remove_suffix(kPendingSuffix.size());
  }
  size_t job_end = text.find('-');
  if (job_end == 0 || job_end == std::string_view::npos) return std::nullopt;
  HiddenName name;
  name.job = JobId(std::string(text.substr(0, job_end)));
  text.remove_prefix(job_end);
  uint64_t generation;
  if (!Consume(&text, "-g") || !ConsumePlainNumber(&text, &generation) || !Consume(&text, "-") ||
      !ConsumePlainNumber(&text, &name.subtask) || !Consume(&text, "-") ||
      !ConsumePlainNumber(&text, &name.number) || !Consume(&text, "-") || text.empty()) {
    return std::nullopt;
  }
  name.generation = Generation(generation);
  name.uid = std::string(text);
  return name;
}

std::string MarkContents(const Mark& mark) {
  return Concat(kMarkFirstLine, '\n', mark.job, '\n', mark.job_name, '\n', mark.uid, '\n',
                mark.maker, '\n');
}

StatusOr<Mark> ParseMark(std::string_view bytes) {
  std::vector<std::string_view> lines = Lines(bytes);
  if (lines.size() != 5 || lines[0] != kMarkFirstLine) {
    return DataLossError("not the mark of a weir sink");
  }
  return Mark{JobId(std::string(lines[1])), std::string(lines[2]), std::string(lines[3]),
              std::string(lines[4])};
}

std::string EncodeFilePart(const FilePart& part) {
  return Concat(kPartFirstLine, '\n', part.pending_name, '\n', part.final_name, '\n', part.length,
                '\n', part.mark_maker, '\n');
}

StatusOr<FilePart> DecodeFilePart(std::string_view payload) {
  std::vector<std::string_view> lines = Lines(payload);
  FilePart part;
  if (lines.size() == 5 && lines[0] == kPartFirstLine && ParseHiddenName(lines[1]).has_value() &&
      !lines[2].empty() && lines[2].front() != '.' &&
      lines[2].find('/') == std::string_view::npos && ConsumePlainNumber(&lines[3], &part.length) &&
      lines[3].empty() && !lines[4].empty()) {
    part.pending_name = std::string(lines[1]);
    part.final_name = std::string(lines[2]);
    part.mark_maker = std::string(lines[4]);
    return part;
  }
  return DataLossError(Concat("not a committable of files.sink: '", payload, "'"));
}

}  // namespace weir
