#include "common/storage/file_system.h"

#include "common/base/concat.h"

namespace weir {

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  if (directory.back() == '/') return Concat(directory, name);
  return Concat(directory, '/', name);
}

std::string ParentPath(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  while (slash > 0 && path[slash - 1] == '/') --slash;
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

}  // namespace weir
