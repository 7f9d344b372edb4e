#include "worker/task/job_checks.h"

#include <filesystem>
#include <map>

#include "common/base/concat.h"
#include "common/graph/validate.h"
#include "worker/connectors/files/files_checks.h"

namespace weir {

Co<StatusOr<JobGraph>> CheckJobHere(WorkerEnvironment& environment, CheckJobRequest request) {
  TypeLookup types;
  if (!request.library_path.empty()) {
    StatusOr<LoadedLibrary> loaded = environment.load_library(request.library_path);
    if (!loaded.ok()) co_return loaded.status();
    types = std::move(loaded->types);
  }
  JobGraph graph = std::move(request.graph);
  for (JobVertex& vertex : graph.vertices) {
    if (vertex.type != "files.source") continue;
    StatusOr<ResolvedFilesSource> resolved =
        co_await ResolveFilesSource(*environment.files, vertex.config);
    if (!resolved.ok()) {
      co_return resolved.status().WithContext(Concat("vertex '", vertex.uid, "'"));
    }
    vertex.config = std::move(resolved->config);
    vertex.output_schema = std::move(resolved->schema);
  }
  StatusOr<Validated> validated = Validate(std::move(graph), types);
  if (!validated.ok()) co_return validated.status();
  if (!validated->complete) {
    co_return InternalError(Concat("job '", validated->graph.name,
                                   "' still has a vertex of unknown schema after all checks"));
  }
  std::map<std::string, std::string> sink_of_directory;
  for (const JobVertex& vertex : validated->graph.vertices) {
    if (vertex.type != "files.sink") continue;
    StatusOr<std::string> path = vertex.config.Text("path");
    if (!path.ok()) co_return path.status().WithContext(Concat("vertex '", vertex.uid, "'"));
    std::string directory = std::filesystem::path(*path + "/").lexically_normal().string();
    auto [other, added] = sink_of_directory.emplace(directory, vertex.uid);
    if (!added) {
      co_return InvalidArgumentError(Concat("vertex '", vertex.uid, "': path ", directory,
                                            " is that of sink '", other->second,
                                            "' too: each sink needs a directory of its own"));
    }
    Status checked = co_await CheckFilesSink(*environment.files, vertex.config, request.job,
                                             validated->graph.name, vertex.uid);
    if (!checked.ok()) co_return checked.WithContext(Concat("vertex '", vertex.uid, "'"));
  }
  co_return std::move(validated->graph);
}

}  // namespace weir
