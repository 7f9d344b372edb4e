#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/graph/builtin_configs.h"
#include "common/operator/sink.h"

// The names of files.sink in its directory, and what a committable of it says. An on-disk contract.
//
//   <job>-<uid>-<subtask>-<checkpoint>-<part>.jsonl|csv   final: published, never changed again
//   .weir-<job id>-g<generation>-<subtask>-<number>-<uid>.pending   rows of one part until then
//   .weir-sink                                            the mark: whose directory it is
//   .weir-sink.tmp-<job id>-g<generation>-<subtask>-0-<uid>   the mark while it is being made
//
// The checkpoint of a part is the one at whose barrier it was sealed; its number is not used again
// in the job, and parts of it are counted from 0: so a final name stands for the same bytes for
// ever. A pending file keeps its name from its first row on (at that time nobody knows the
// checkpoint), and the committable says what its final name and length are.
namespace weir {

inline constexpr std::string_view kMarkName = ".weir-sink";

std::string FinalName(const std::string& job_name, const std::string& uid, int subtask,
                      CheckpointId checkpoint, int part, FileFormat format);
// Of which checkpoint FinalName gives `name` for this job and uid; nullopt: it never does.
std::optional<CheckpointId> CheckpointOfFinalName(std::string_view name,
                                                  const std::string& job_name,
                                                  const std::string& uid);
bool IsFinalName(std::string_view name, const std::string& job_name, const std::string& uid);

// The empty file by which submission tries whether the directory can be written; left only when the
// worker dies between making and removing it.
inline constexpr std::string_view kProbePrefix = ".weir-probe-";
std::string ProbeName(const JobId& job, const std::string& uid);

// What a hidden name (pending, or the temporary of the mark) says about who made it.
struct HiddenName {
  JobId job;
  Generation generation;
  int subtask = 0;
  int64_t number = 0;  // counts the files of this subtask in this generation
  std::string uid;
  bool operator==(const HiddenName&) const = default;
};
std::string PendingName(const HiddenName& name);
// The part of the mark's temporary name that ClaimFile calls unique.
std::string MarkUnique(const HiddenName& name);
// Either kind of hidden name; nullopt for any other.
std::optional<HiddenName> ParseHiddenName(std::string_view name);

// What the mark file says. Names have no line ends.
struct Mark {
  JobId job;
  std::string job_name;
  std::string uid;
  std::string maker;  // MarkUnique of who made it: no two marks have the same
};
std::string MarkContents(const Mark& mark);
// kDataLoss when these are not the bytes of a mark.
StatusOr<Mark> ParseMark(std::string_view bytes);

// The payload of a committable of this sink: names in the sink's directory, the length in bytes,
// and by the maker of its mark which directory that was.
struct FilePart {
  std::string pending_name;
  std::string final_name;
  int64_t length = 0;
  std::string mark_maker;
  bool operator==(const FilePart&) const = default;
};
std::string EncodeFilePart(const FilePart& part);
StatusOr<FilePart> DecodeFilePart(std::string_view payload);

}  // namespace weir
