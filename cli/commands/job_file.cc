#include "cli/commands/job_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/concat.h"
#include "common/graph/validate.h"
#include "common/operator/library_loader.h"

namespace weir::cli {
namespace {

// Job libraries above this size are refused before they travel.
constexpr int64_t kLibraryBytesMax = int64_t{200} << 20;

StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgumentError(
        Concat("job '", path, "' is a directory: expected JOB.json or JOB.so"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return NotFoundError(Concat("cannot read job '", path, "': ", std::strerror(errno)));
  }
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

bool IsLibrary(const std::string& bytes) {
  return bytes.compare(0, 4,
                       "\x7f"
                       "ELF") == 0;
}

// Relative paths are those of this process, whoever reads them later.
void MakePathsAbsolute(JobGraph* graph) {
  std::error_code error;
  std::filesystem::path here = std::filesystem::current_path(error);
  for (JobVertex& vertex : graph->vertices) {
    if (vertex.type != "files.source" && vertex.type != "files.sink" &&
        vertex.type != "kafka.source" && vertex.type != "kafka.sink") {
      continue;
    }
    for (const char* field : {"path", "dead_letter_path"}) {
      const ConfigValue* path = vertex.config.Find(field);
      if (path == nullptr || !path->is_text() || path->as_text().empty()) continue;
      vertex.config.Set(field, (here / path->as_text()).lexically_normal().string());
    }
  }
}

}  // namespace

StatusOr<LoadedJob> LoadJob(const RunOptions& options) {
  WEIR_ASSIGN_OR_RETURN(std::string bytes, ReadFile(options.job_file));
  LoadedJob job;
  TypeLookup types;
  if (IsLibrary(bytes)) {
    if (static_cast<int64_t>(bytes.size()) > kLibraryBytesMax) {
      return InvalidArgumentError(Concat("job library '", options.job_file, "' has ", bytes.size(),
                                         " bytes, more than ", kLibraryBytesMax));
    }
    std::error_code error;
    std::string path = std::filesystem::absolute(options.job_file, error).string();
    WEIR_ASSIGN_OR_RETURN(const JobLibrary* library, JobLibrary::Load(path));
    WEIR_ASSIGN_OR_RETURN(job.graph, library->BuildGraph(options.arguments));
    types = library->type_lookup();
    job.library = std::move(bytes);
  } else {
    if (!options.arguments.empty()) {
      return InvalidArgumentError(Concat("job '", options.job_file,
                                         "' is no job library: it takes ", "no arguments ('",
                                         options.arguments[0], "')"));
    }
    StatusOr<JobGraph> parsed = ParseJobGraph(bytes);
    if (!parsed.ok()) return parsed.status().WithContext(options.job_file);
    job.graph = std::move(*parsed);
  }
  for (const std::string& setting : options.settings) {
    size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgumentError(Concat("--set '", setting, "': expected name=value"));
    }
    job.graph.options[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  if (options.parallelism > 0) job.graph.options["parallelism"] = Concat(options.parallelism);
  if (!options.name.empty()) job.graph.name = options.name;
  MakePathsAbsolute(&job.graph);
  StatusOr<Validated> validated = Validate(std::move(job.graph), types);
  if (!validated.ok()) return validated.status().WithContext(options.job_file);
  job.graph = std::move(validated->graph);
  for (const JobVertex& vertex : job.graph.vertices) {
    if (vertex.type == "files.source" && !vertex.output_schema) {
      job.unknown_schemas.push_back(vertex.uid);
    }
  }
  return job;
}

}  // namespace weir::cli
