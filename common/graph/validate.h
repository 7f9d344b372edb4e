#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/job_graph.h"
#include "common/graph/job_options.h"
#include "common/graph/type_descriptor.h"

namespace weir {

// Looks up types that a job library brings; nullptr when unknown.
using TypeLookup = std::function<const TypeDescriptor*(const std::string& type)>;

// Checks a graph as a whole and completes it: options, names, uids (given to vertices without one),
// unknown types and config fields (nearest name), inputs, cycles, unreachable vertices, edges,
// hash columns, parallelism, and schemas from the sources on. Every error is a user error that
// names the place ("vertex 'per-carrier': config field …"), the value and what is valid.
//
// Vertices whose output schema cannot be known here (source without a schema; types unknown to
// `extra`, when `allow_unknown_types`) keep output_schema as given; what depends on an absent
// schema is left unchecked and complete is false.
struct Validated {
  JobGraph graph;
  JobOptions options;
  bool complete = true;  // every schema is known
};
StatusOr<Validated> Validate(JobGraph graph, const TypeLookup& extra = {},
                             bool allow_unknown_types = false);

// All names that the vertices of the job hold. User error: two of them hold one that they may not
// share.
StatusOr<std::vector<ExclusiveName>> ExclusiveNamesOf(const JobGraph& graph, const JobId& job);

// The first of `names` that is among `held`; nullptr: none.
const ExclusiveName* FindHeld(const std::vector<ExclusiveName>& names,
                              const std::vector<ExclusiveName>& held);

}  // namespace weir
