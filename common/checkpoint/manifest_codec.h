#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/graph/job_graph.h"

// Disk forms that need protobuf; implemented in common/rpc (target weir_rpc), used through these
// functions so that nobody else sees a proto.
namespace weir {

// Bytes of `_metadata`: a proto with a magic, a version and an XXH3-64 of its own bytes.
std::string EncodeManifest(const CheckpointManifest& manifest);
// kDataLoss for anything else.
StatusOr<CheckpointManifest> DecodeManifest(std::string_view bytes);

// Contents of `<job_id>/job.pb`.
struct JobRecord {
  JobId id;
  JobGraph graph;
  std::string restore_from;  // absolute chk directory to start from; "" if none
  int64_t submit_wall_us = 0;
  std::string submit_digest;  // identifies the content of the submission
};
std::string EncodeJobRecord(const JobRecord& record);
StatusOr<JobRecord> DecodeJobRecord(std::string_view bytes);

// What an ended job amounted to, for people.
struct JobTotals {
  int64_t records_in = 0;
  int64_t records_out = 0;
  int64_t checkpoints_completed = 0;
  int64_t restarts = 0;
  bool operator==(const JobTotals&) const = default;
};

// One entry of the completion log (design.md, section 5).
struct LogEntry {
  enum class Kind {
    kSealed,
    kStarted,
    kCompleted,
    kCancelling,
    kFailing,
    kStopping,
    kCanceled,
    kFailed,
    kFinished,
  };
  Kind kind = Kind::kSealed;
  std::string token;                 // unique: how a claimant knows its own entry
  Generation generation;             // kStarted, kCompleted
  CheckpointId checkpoint;           // kCompleted; kStarted: newest completed (0: none); kStopping
  Generation checkpoint_generation;  // kStarted: generation of that newest completed checkpoint
  uint64_t manifest_checksum = 0;    // kCompleted; kStarted: of that newest completed checkpoint
  std::string reason;                // kFailing, kFailed, kCancelling: for people
  int64_t wall_us = 0;               // for people
  JobTotals totals;                  // kCanceled, kFailed, kFinished
  bool leaves_rows = false;          // these: some of completed checkpoints may be unpublished
  bool operator==(const LogEntry&) const = default;
};
std::string EncodeLogEntry(const LogEntry& entry);
StatusOr<LogEntry> DecodeLogEntry(std::string_view bytes);

}  // namespace weir
