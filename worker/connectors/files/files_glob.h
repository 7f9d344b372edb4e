#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/storage/file_system.h"
#include "common/threading/co.h"

namespace weir {

struct FoundFile {
  std::string path;
  int64_t size = 0;      // bytes
  uint64_t version = 0;  // FileInfo's
  bool operator==(const FoundFile&) const = default;
};

// Whether a component of the pattern holds *, ? or [.
bool HasWildcard(std::string_view pattern);

// Files that match an absolute pattern (fnmatch: *, ? and [] within a component; a leading dot only
// by a dot), sorted by path. A file of exactly that name matches as well, whatever characters it
// holds. A directory that is not there: no match. Thread: confined to the file system's executor.
Co<StatusOr<std::vector<FoundFile>>> FindFiles(FileSystem& files, std::string pattern);

}  // namespace weir
