#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/control/messages.h"
#include "common/storage/file_flows.h"
#include "common/threading/co.h"
#include "coordinator/metadata/job_registry.h"

// What workers are asked to settle of a checkpoint. Who gives the orders adds its number and the
// library.
namespace weir {

// One for each vertex of the job `record` that owns committables, with what `manifest` lists of it;
// `directory` is the job's or a copy.
std::vector<SettleRequest> MakeSettleRequests(const JobRecord& record,
                                              const CheckpointManifest& manifest,
                                              const std::string& directory);

// Those of the job whose checkpoint lies in `directory`, as far as the checkpoint lists anything:
// `successor` starts from it. The job's record lies there too; a checkpoint that somebody copied
// may have none, and is settled as if the graph had been the successor's. REQUIRES: that job has
// ended; so nothing of it is aborted: generation 0 is below all.
// Errors: kDataLoss (the record is damaged), kFailedPrecondition (rows are listed of a vertex that
// the graph does not have), and those of storage, which may pass.
Co<StatusOr<std::vector<SettleRequest>>> MakeSuccessionRequests(FileSystem& files,
                                                                JobRecord successor,
                                                                CheckpointManifest manifest,
                                                                std::string directory);

}  // namespace weir
