#include "worker/task/job_checks.h"

#include <filesystem>
#include <map>

#include "common/base/concat.h"
#include "common/graph/builtin_configs.h"
#include "common/graph/kafka_configs.h"
#include "common/graph/validate.h"
#include "worker/connectors/files/files_checks.h"
#include "worker/connectors/kafka/kafka_checks.h"

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
  std::map<std::string, std::string> owner_of_directory;
  for (const JobVertex& vertex : validated->graph.vertices) {
    std::string place = Concat("vertex '", vertex.uid, "'");
    if (environment.kafka != nullptr && vertex.type == "kafka.source") {
      Status checked =
          co_await CheckKafkaSource(*environment.kafka, *environment.executor, *environment.clock,
                                    vertex.config, validated->graph.name, vertex.uid);
      if (!checked.ok()) co_return checked.WithContext(place);
    } else if (environment.kafka != nullptr && vertex.type == "kafka.sink") {
      Status checked =
          co_await CheckKafkaSink(*environment.kafka, *environment.executor, *environment.clock,
                                  vertex.config, request.job, vertex.uid);
      if (!checked.ok()) co_return checked.WithContext(place);
    }
    std::string field;
    std::string owner;
    if (vertex.type == "files.sink") {
      field = "path";
      owner = Concat("sink '", vertex.uid, "'");
    } else if (vertex.type == "files.source") {
      StatusOr<FilesSourceConfig> config = ParseFilesSourceConfig(vertex.config);
      if (!config.ok()) co_return config.status().WithContext(place);
      if (BadDataOf(*config, validated->options) != BadData::kDeadLetter) continue;
      field = "dead_letter_path";
      owner = Concat("the dead letters of source '", vertex.uid, "'");
    } else if (vertex.type == "kafka.source") {
      StatusOr<KafkaSourceConfig> config = ParseKafkaSourceConfig(vertex.config);
      if (!config.ok()) co_return config.status().WithContext(place);
      if (BadDataOf(*config, validated->options) != BadData::kDeadLetter) continue;
      field = "dead_letter_path";
      owner = Concat("the dead letters of source '", vertex.uid, "'");
    } else if (vertex.type == "kafka.sink") {
      StatusOr<KafkaSinkConfig> config = ParseKafkaSinkConfig(vertex.config);
      if (!config.ok()) co_return config.status().WithContext(place);
      if (BadDataOf(*config, validated->options) != BadData::kDeadLetter) continue;
      field = "dead_letter_path";
      owner = Concat("the dead letters of sink '", vertex.uid, "'");
    } else {
      continue;
    }
    StatusOr<std::string> path = vertex.config.Text(field);
    if (!path.ok()) co_return path.status().WithContext(place);
    std::string directory = std::filesystem::path(*path + "/").lexically_normal().string();
    auto [other, added] = owner_of_directory.emplace(directory, owner);
    if (!added) {
      co_return InvalidArgumentError(Concat(place, ": ", field, " ", directory, " is that of ",
                                            other->second,
                                            " too: each needs a directory of its own"));
    }
    Status checked = co_await CheckOutputDirectory(*environment.files, field, *path, request.job,
                                                   validated->graph.name, vertex.uid);
    if (!checked.ok()) co_return checked.WithContext(place);
  }
  co_return std::move(validated->graph);
}

}  // namespace weir
