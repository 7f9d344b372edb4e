#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/job_graph.h"
#include "common/graph/type_descriptor.h"
#include "common/graph/validate.h"
#include "common/operator/job_library.h"
#include "common/operator/registry.h"

namespace weir {

// A job library in this process. Never unloaded: operators and state may hold on to its code.
// Thread: immutable once loaded.
class JobLibrary {
 public:
  // Loads the shared library at `path`; the same file again is the same library. What it was built
  // against is read from the file before any of its code runs: another ABI version is refused with
  // both named. User error also for what is no job library, for operator types that are built in or
  // registered twice, and for whatever the dynamic linker says. Thread: thread-safe.
  static StatusOr<const JobLibrary*> Load(const std::string& path);

  // Runs the library's WEIR_JOB; `arguments` as on the command line. The graph is not yet
  // validated. User error for arguments that are missing, wrong or not asked for.
  StatusOr<JobGraph> BuildGraph(const std::vector<std::string>& arguments) const;

  // Its operators, and behind them those of Registry::Global().
  const Registry& registry() const { return registry_; }
  // Descriptors of its operators, made from their OutputSchema. Sorted by name.
  const std::map<std::string, TypeDescriptor>& types() const { return types_; }
  // For Validate. Valid as long as the process.
  TypeLookup type_lookup() const;
  const std::string& path() const { return path_; }

 private:
  using BuildFunction = void (*)(JobBuilder&, const JobArguments&);

  explicit JobLibrary(std::string path) : path_(std::move(path)), registry_(&Registry::Global()) {}

  // Fills in what the library brings, once its initialisers have run.
  Status Describe(void* handle);

  const std::string path_;
  Registry registry_;
  std::map<std::string, TypeDescriptor> types_;
  BuildFunction build_ = nullptr;
};

}  // namespace weir
