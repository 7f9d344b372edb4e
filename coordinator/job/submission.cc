#include "coordinator/job/submission.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/concat.h"
#include "common/graph/type_descriptor.h"
#include "common/graph/validate.h"
#include "common/storage/file_system.h"
#include "coordinator/metadata/job_registry.h"
#include "coordinator/metadata/sha256.h"

namespace weir {
namespace {

// "path" of built-in vertices starts at the client's directory.
void MakePathsAbsolute(std::string_view directory, JobGraph* graph) {
  if (directory.empty()) return;
  for (JobVertex& vertex : graph->vertices) {
    if (BuiltinTypes().find(vertex.type) == BuiltinTypes().end()) continue;
    const ConfigValue* path = vertex.config.Find("path");
    if (path == nullptr || !path->is_text() || path->as_text().empty()) continue;
    if (path->as_text().front() == '/') continue;
    vertex.config.Set("path", JoinPath(directory, path->as_text()));
  }
}

}  // namespace

StatusOr<Submission> PrepareSubmission(const SubmitRequest& request) {
  if (!IsJobId(request.job.value())) {
    return InvalidArgumentError(
        Concat("job id '", request.job, "': expected 32 lower-case hex digits"));
  }
  JobGraph graph = request.graph;
  MakePathsAbsolute(request.client_directory, &graph);
  if (!request.library.empty()) {
    graph.library_sha256 = Sha256Hex(request.library);
  } else if (!graph.library_sha256.empty()) {
    return InvalidArgumentError(
        Concat("the job names library ", graph.library_sha256, " but does not bring it"));
  }
  std::string digest =
      Sha256Hex(Concat(ToJson(graph), "\n", graph.library_sha256, "\n", request.restore_from));
  StatusOr<Validated> validated =
      Validate(std::move(graph), {}, /*allow_unknown_types=*/!request.library.empty());
  if (!validated.ok()) return validated.status();
  Submission submission;
  submission.graph = std::move(validated->graph);
  submission.options = validated->options;
  submission.digest = std::move(digest);
  WEIR_ASSIGN_OR_RETURN(submission.exclusive_names,
                        ExclusiveNamesOf(submission.graph, request.job));
  return submission;
}

Status CheckCovers(const JobGraph& graph, const JobOptions& options,
                   const CheckpointManifest& manifest) {
  std::set<std::string> stateful;
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    if (!snapshot.handles.empty()) stateful.insert(snapshot.uid);
  }
  for (const CheckpointManifest::OperatorInfo& info : manifest.operators) {
    if (!stateful.contains(info.uid)) continue;
    const JobVertex* vertex = graph.FindVertex(info.uid);
    if (vertex == nullptr) {
      return FailedPreconditionError(Concat("checkpoint ", manifest.checkpoint, " of job ",
                                            manifest.job, " holds state of operator '", info.uid,
                                            "', which this job does not have"));
    }
    int max_parallelism =
        vertex->max_parallelism > 0 ? vertex->max_parallelism : options.max_parallelism;
    if (max_parallelism != info.max_parallelism) {
      return FailedPreconditionError(
          Concat("operator '", info.uid, "' has max_parallelism ", max_parallelism,
                 ", its state in checkpoint ", manifest.checkpoint, " of job ", manifest.job,
                 " has ", info.max_parallelism, ": it is fixed for the life of the state"));
    }
  }
  return Status();
}

}  // namespace weir
