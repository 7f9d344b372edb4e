#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/version.h"
#include "common/graph/job_builder.h"

// What makes a shared library a job library: WEIR_JOB builds the job, WEIR_OPERATOR (registry.h)
// brings operators. The library links to libweir alone.
namespace weir {

// The number changes whenever a class or function that job libraries use changes its layout or
// meaning.
#define WEIR_ABI_VERSION WEIR_VERSION " abi 3"

// The arguments of a job, written as `--input X`, `--input=X` or `input=X`. Each is asked for by
// name; asking for one that is missing gives an empty value, and the job is refused afterwards with
// all that is wrong: so a job builder needs no error handling. Thread: externally synchronised.
class JobArguments {
 public:
  // User error for a word that is no argument, a name without a value, a doubled name.
  static StatusOr<JobArguments> Parse(const std::vector<std::string>& words);

  bool has(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::string text(const std::string& name, const std::string& absent) const;
  int64_t integer(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t absent) const;

  // User error if an argument was missing or no integer, or if one was given that nobody asked for.
  Status Check() const;

 private:
  const std::string* Ask(const std::string& name) const;
  int64_t ParseInteger(const std::string& name, const std::string& value) const;

  std::map<std::string, std::string> values_;
  mutable std::map<std::string, bool> asked_;
  mutable std::vector<std::string> errors_;
};

}  // namespace weir

// In front of the version that a library was built against: the loader finds it in the file, before
// any code of the library runs.
#define WEIR_ABI_MARKER "\x7fWEIR-JOB-LIBRARY\x1f"

// `WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) { … }`: once in a library.
#define WEIR_JOB(builder, arguments)                                                               \
  extern "C" {                                                                                     \
  extern const char weir_job_library_abi[] __attribute__((visibility("default")));                 \
  __attribute__((used)) const char weir_job_library_abi[] = WEIR_ABI_MARKER WEIR_ABI_VERSION "\n"; \
  }                                                                                                \
  static void WeirBuildJob(builder, arguments);                                                    \
  extern "C" __attribute__((visibility("default"))) void weir_build_job(                           \
      ::weir::JobBuilder& weir_job, const ::weir::JobArguments& weir_arguments) {                  \
    WeirBuildJob(weir_job, weir_arguments);                                                        \
  }                                                                                                \
  static void WeirBuildJob(builder, arguments)
