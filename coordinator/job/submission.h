#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/control/messages.h"
#include "common/graph/job_graph.h"
#include "common/graph/job_options.h"
#include "common/graph/type_descriptor.h"

namespace weir {

// A submission as far as the coordinator can check it alone.
struct Submission {
  JobGraph graph;  // paths absolute, library named by its digest, completed by Validate
  JobOptions options;
  std::string digest;  // of all that the client sent
  std::vector<ExclusiveName> exclusive_names;
};

// User errors: no job id, an invalid graph, a library that is named but not sent.
StatusOr<Submission> PrepareSubmission(const SubmitRequest& request);

// Whether the job can start from the checkpoint: no state without its operator, the same
// max_parallelism. User error that names the uid.
Status CheckCovers(const JobGraph& graph, const JobOptions& options,
                   const CheckpointManifest& manifest);

}  // namespace weir
