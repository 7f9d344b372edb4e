#pragma once

#include <string>

#include "cli/commands/commands.h"
#include "common/graph/job_graph.h"

namespace weir::cli {

// A job as it is submitted: its graph and, if it came from a job library, that library's bytes.
struct LoadedJob {
  JobGraph graph;  // checked as far as it can be here; paths absolute
  std::string library;
  // Vertices whose columns only a worker can see (files.source without "schema").
  std::vector<std::string> unknown_schemas;
};

// Reads JOB.json or JOB.so, applies the command line's options and checks it. User errors name the
// file.
StatusOr<LoadedJob> LoadJob(const RunOptions& options);

}  // namespace weir::cli
