#include "coordinator/job/settle_requests.h"

#include <utility>

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

Co<std::vector<SettleRequest>> MakeSuccessionRequests(FileSystem& files, JobRecord successor,
                                                      CheckpointManifest manifest,
                                                      std::string directory) {
  JobRecord other = successor;
  other.id = manifest.job;
  StatusOr<std::string> bytes = co_await ReadWhole(files, JoinPath(directory, "job.pb"));
  if (bytes.ok()) {
    StatusOr<JobRecord> stored = DecodeJobRecord(*bytes);
    if (stored.ok()) other = *std::move(stored);
  }
  std::vector<SettleRequest> requests = MakeSettleRequests(other, manifest, directory);
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
