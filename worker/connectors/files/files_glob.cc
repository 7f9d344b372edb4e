#include "worker/connectors/files/files_glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/storage/file_flows.h"

namespace weir {
namespace {

// Appends what matches `pattern` from its component at `begin` on, below `directory`.
Co<Status> Find(FileSystem& files, std::string directory, std::string pattern, size_t begin,
                std::vector<FoundFile>* found) {
  // Components without wildcards are only a longer path.
  size_t end;
  std::string component;
  while (true) {
    while (begin < pattern.size() && pattern[begin] == '/') ++begin;
    end = std::min(pattern.find('/', begin), pattern.size());
    component = pattern.substr(begin, end - begin);
    if (end == pattern.size() || HasWildcard(component)) break;
    directory = JoinPath(directory, component);
    begin = end;
  }
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, directory);
  if (names.status().code() == StatusCode::kNotFound) co_return Status();
  if (!names.ok()) co_return names.status();
  for (const FileInfo& info : *names) {
    if (::fnmatch(component.c_str(), info.name.c_str(), FNM_PERIOD) != 0) continue;
    std::string path = JoinPath(directory, info.name);
    if (end < pattern.size()) {
      // A link to a directory is followed here: List on anything else finds nothing.
      Status status = co_await Find(files, path, pattern, end, found);
      if (!status.ok()) co_return status;
    } else if (!info.is_directory && info.is_regular) {
      found->push_back({.path = path, .size = info.size, .version = info.version});
    }
  }
  co_return Status();
}

}  // namespace

bool HasWildcard(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

Co<StatusOr<std::vector<FoundFile>>> FindFiles(FileSystem& files, std::string pattern) {
  std::vector<FoundFile> found;
  StatusOr<FileInfo> exact = co_await StatFile(files, pattern);
  if (exact.ok() && !exact->is_directory) {
    if (!exact->is_regular) {
      co_return InvalidArgumentError(
          Concat("config field 'path' is '", pattern, "': that is no regular file"));
    }
    found.push_back({.path = pattern, .size = exact->size, .version = exact->version});
    co_return found;
  }
  if (!exact.ok() && exact.status().code() != StatusCode::kNotFound) co_return exact.status();
  if (!HasWildcard(pattern)) co_return found;
  Status status = co_await Find(files, "/", pattern, 0, &found);
  if (!status.ok()) co_return status;
  std::sort(found.begin(), found.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.path < b.path; });
  co_return found;
}

}  // namespace weir
