#include "worker/connectors/files/files_checks.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "common/graph/builtin_configs.h"
#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/files/file_names.h"
#include "worker/connectors/files/files_glob.h"

namespace weir {
namespace {

constexpr int64_t kHeadBytes = 64 << 10;

// The directory that must be there, and the pattern of names below it.
std::pair<std::string, std::string> SplitPattern(const std::string& pattern) {
  size_t begin = 0;
  while (true) {
    size_t end = pattern.find('/', begin);
    if (end == std::string::npos || HasWildcard(pattern.substr(begin, end - begin))) break;
    begin = end + 1;
  }
  std::string directory = begin > 1 ? pattern.substr(0, begin - 1) : "/";
  return {directory, pattern.substr(begin)};
}

// Reads the head of a file until `start` has seen enough. `schema`: absent, and then taken from the
// first header.
Co<Status> CheckHead(FileSystem& files, std::string path, const FilesSourceConfig& config,
                     std::optional<Schema>* schema) {
  for (int64_t length = kHeadBytes;; length *= 2) {
    StatusOr<std::string> bytes = co_await ReadAt(files, path, 0, length);
    if (!bytes.ok()) co_return bytes.status();
    if (bytes->empty()) co_return Status();
    bool whole = static_cast<int64_t>(bytes->size()) < length;
    bool last = whole && !config.follow;
    if (!schema->has_value()) {
      StatusOr<std::optional<Schema>> read = ReadCsvSchema(*bytes, last);
      if (!read.ok()) co_return read.status().WithContext(path);
      if (read->has_value()) {
        *schema = **std::move(read);
        co_return Status();
      }
    } else {
      auto shared = std::make_shared<const Schema>(**schema);
      std::unique_ptr<TextDecoder> decoder =
          config.format == FileFormat::kJson ? MakeJsonDecoder(shared)
                                             : MakeCsvDecoder(shared, {.header = config.header});
      StatusOr<std::optional<TextProgress>> start = decoder->Start(*bytes, last);
      if (!start.ok()) co_return start.status().WithContext(path);
      if (start->has_value()) co_return Status();
    }
    if (whole) co_return Status();  // following: the header is not complete yet
    if (length > static_cast<int64_t>(kTextRowBytesMax)) {
      co_return InvalidArgumentError(
          Concat(path, ": the header is longer than ", kTextRowBytesMax, " bytes"));
    }
  }
}

Status NoMatch(const std::string& pattern, std::string_view why) {
  auto [directory, name] = SplitPattern(pattern);
  return NotFoundError(Concat("config field 'path' is '", pattern, "': no file matches '", name,
                              "' in ", directory, why));
}

}  // namespace

Co<StatusOr<ResolvedFilesSource>> ResolveFilesSource(FileSystem& files, Config config) {
  StatusOr<FilesSourceConfig> parsed = ParseFilesSourceConfig(config);
  if (!parsed.ok()) co_return parsed.status();
  const std::string& pattern = parsed->path;
  if (!pattern.starts_with('/')) {
    co_return InvalidArgumentError(
        Concat("config field 'path' is '", pattern, "': expected an absolute path"));
  }
  if (!parsed->schema.has_value() && parsed->format == FileFormat::kJson) {
    co_return InvalidArgumentError(
        "config field 'schema' is missing: the format json needs one, like {\"id\": \"INT64\"}");
  }
  StatusOr<std::vector<FoundFile>> found = co_await FindFiles(files, pattern);
  if (!found.ok()) co_return found.status();
  if (found->empty()) {
    std::string directory = SplitPattern(pattern).first;
    StatusOr<FileInfo> info = co_await StatFile(files, directory);
    if (!info.ok() && info.status().code() != StatusCode::kNotFound) co_return info.status();
    if (!info.ok()) co_return NoMatch(pattern, ": there is no such directory");
    if (!info->is_directory) co_return NoMatch(pattern, ": that is not a directory");
    if (!parsed->follow) {
      StatusOr<FileInfo> exact = co_await StatFile(files, pattern);
      co_return NoMatch(
          pattern, exact.ok() ? ": that is a directory; name its files, like /data/*.csv" : "");
    }
  }
  std::optional<Schema> schema = parsed->schema;
  for (const FoundFile& file : *found) {
    Status status = co_await CheckHead(files, file.path, *parsed, &schema);
    if (!status.ok()) co_return status;
  }
  if (!schema.has_value()) {
    co_return InvalidArgumentError(
        Concat("config field 'schema' is missing: no file that matches '", pattern,
               "' has a header that names the columns"));
  }
  if (!parsed->follow) {
    ConfigList paths;
    for (FoundFile& file : *found) paths.emplace_back(std::move(file.path));
    config.Set("files", std::move(paths));
  }
  co_return ResolvedFilesSource{std::move(config), *std::move(schema)};
}

namespace {

// Whether files can be made in `directory`.
Co<Status> CheckWritable(FileSystem& files, std::string directory, std::string name) {
  std::string probe = JoinPath(directory, name);
  Status status = co_await CreateFile(files, probe, "");
  if (!status.ok() && status.code() != StatusCode::kAlreadyExists) co_return status;
  status = co_await RemoveFile(files, probe);
  if (status.code() == StatusCode::kNotFound) co_return Status();  // of a check at the same time
  co_return status;
}

}  // namespace

Co<Status> CheckOutputDirectory(FileSystem& files, std::string field_name, std::string path,
                                JobId job, std::string job_name, std::string uid) {
  std::string field = Concat("config field '", field_name, "' is '", path, "'");
  if (!path.starts_with('/')) {
    co_return InvalidArgumentError(Concat(field, ": expected an absolute path"));
  }
  // The directory, or the nearest one above it.
  std::string present = path;
  StatusOr<FileInfo> info = co_await StatFile(files, present);
  while (info.status().code() == StatusCode::kNotFound && present != "/") {
    present = ParentPath(present);
    info = co_await StatFile(files, present);
  }
  if (!info.ok()) co_return info.status().WithContext(field);
  if (!info->is_directory) {
    co_return FailedPreconditionError(Concat(field, ": ", present, " is not a directory"));
  }
  if (present == path) {
    StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, path);
    if (!names.ok()) co_return names.status().WithContext(field);
    std::optional<Mark> mark;
    for (const FileInfo& name : *names) {
      if (name.name != kMarkName) continue;
      StatusOr<std::string> bytes = co_await ReadWhole(files, JoinPath(path, kMarkName), 4096);
      if (!bytes.ok()) co_return bytes.status().WithContext(field);
      StatusOr<Mark> read = ParseMark(*bytes);
      if (!read.ok()) co_return read.status().WithContext(JoinPath(path, kMarkName));
      mark = *std::move(read);
    }
    if (mark.has_value() && (mark->job != job || mark->uid != uid)) {
      int64_t count = 0;
      std::string first;
      for (const FileInfo& name : *names) {
        if (!IsFinalName(name.name, mark->job_name, mark->uid)) continue;
        if (count++ == 0) first = name.name;
      }
      co_return FailedPreconditionError(Concat(
          field, ": the directory holds the output of '", mark->uid, "' of job ", mark->job_name,
          " (", mark->job, "), ", count, " files",
          count > 0 ? Concat(", the first ", first) : std::string(),
          "; choose another path, or, if that job has ended, remove its files and ", kMarkName));
    }
    for (const FileInfo& name : *names) {
      bool own = false;
      if (std::optional<HiddenName> hidden = ParseHiddenName(name.name); hidden.has_value()) {
        own = hidden->job == job && hidden->uid == uid;
      } else if (name.name == kMarkName || name.name.starts_with(kProbePrefix)) {
        own = true;
      } else {
        own = mark.has_value() && IsFinalName(name.name, job_name, uid);
      }
      if (own && !name.is_directory) continue;
      co_return FailedPreconditionError(
          Concat(field, ": the directory holds '", name.name,
                 "', which is not of this sink; choose an empty or a new directory"));
    }
  }
  Status status = co_await CheckWritable(files, present, ProbeName(job, uid));
  co_return status.WithContext(field);
}

}  // namespace weir
