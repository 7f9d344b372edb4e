#include "coordinator/job/settle_requests.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/graph/job_options.h"
#include "common/graph/type_descriptor.h"

namespace weir {

std::vector<SettleRequest> MakeSettleRequests(const JobRecord& record,
                                              const CheckpointManifest& manifest,
                                              const std::string& directory) {
  std::vector<SettleRequest> requests;
  StatusOr<JobOptions> parsed = ParseJobOptions(record.graph.options);
  const JobOptions options = parsed.ok() ? *parsed : JobOptions();
  for (const JobVertex& vertex : record.graph.vertices) {
    // Libraries bring operators, never sinks and sources.
    auto type = BuiltinTypes().find(vertex.type);
    if (type == BuiltinTypes().end()) continue;
    const TypeDescriptor& descriptor = type->second;
    SettleRequest request;
    request.job = record.id;
    request.vertex = vertex;
    request.job_name = record.graph.name;
    request.job_directory = directory;
    for (const OperatorSnapshot& snapshot : manifest.snapshots) {
      if (snapshot.uid != vertex.uid) continue;
      request.committables.insert(request.committables.end(), snapshot.committables.begin(),
                                  snapshot.committables.end());
    }
    const bool owner =
        descriptor.kind == VertexKind::kSink || !request.committables.empty() ||
        (descriptor.owns_committables && descriptor.owns_committables(vertex.config, options));
    if (owner) requests.push_back(std::move(request));
  }
  return requests;
}

Co<StatusOr<std::vector<SettleRequest>>> MakeSuccessionRequests(FileSystem& files,
                                                                JobRecord successor,
                                                                CheckpointManifest manifest,
                                                                std::string directory) {
  JobRecord other = successor;
  other.id = manifest.job;
  const std::string path = JoinPath(directory, "job.pb");
  StatusOr<std::string> bytes = co_await ReadWhole(files, path);
  // Any other error is not "there is none": another graph would settle other identities.
  const bool recorded = bytes.status().code() != StatusCode::kNotFound;
  if (recorded) {
    if (!bytes.ok()) co_return bytes.status();
    StatusOr<JobRecord> stored = DecodeJobRecord(*bytes);
    if (!stored.ok()) co_return DataLossError(Concat(path, ": ", stored.status().message()));
    other = *std::move(stored);
  }
  std::vector<SettleRequest> requests = MakeSettleRequests(other, manifest, directory);
  for (const OperatorSnapshot& snapshot : manifest.snapshots) {
    if (snapshot.committables.empty()) continue;
    const bool known = std::any_of(requests.begin(), requests.end(), [&](const auto& request) {
      return request.vertex.uid == snapshot.uid;
    });
    if (known) continue;
    co_return FailedPreconditionError(
        Concat("checkpoint ", manifest.checkpoint, " of job ", manifest.job, " lists rows of ",
               snapshot.uid, " that may have to be published, and ",
               recorded ? Concat(path, " has no such vertex")
                        : Concat("nothing tells where: ", path,
                                 " does not exist (copy it with the checkpoint), and this job has "
                                 "no such vertex")));
  }
  std::erase_if(requests, [](const SettleRequest& one) { return one.committables.empty(); });
  for (SettleRequest& request : requests) {
    request.successor = successor.id;
    for (const JobVertex& vertex : successor.graph.vertices) {
      if (vertex.type == request.vertex.type) request.successor_vertices.push_back(vertex);
    }
  }
  co_return requests;
}

}  // namespace weir
