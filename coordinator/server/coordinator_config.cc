#include "coordinator/server/coordinator_config.h"

#include "common/base/concat.h"
#include "common/graph/job_options.h"

namespace weir {
namespace {

// A leader renews its lease every second: one that waits must not lose patience before.
constexpr int64_t kLeaseTimeoutMinUs = 2'000'000;
constexpr int64_t kHeartbeatIntervalMinUs = 10'000;

}  // namespace

DaemonCommandLine CoordinatorCommandLine() {
  using Kind = ConfigKey::Kind;
  std::vector<ConfigKey> keys = {
      {"listen", Kind::kText, "127.0.0.1:7070",
       "HOST:PORT for workers and clients; port 0 takes a free one."},
      {"checkpoint_dir", Kind::kText, "/var/lib/weir/checkpoints",
       "Directory of jobs and checkpoints, which every worker must see under the same path."},
      {"heartbeat_interval", Kind::kDuration, "1s", "How often workers report."},
      {"heartbeat_timeout", Kind::kDuration, "5s",
       "A worker that is silent for so long is lost: its jobs restart elsewhere."},
      {"lease_timeout", Kind::kDuration, "5s",
       "A waiting coordinator takes over when the leading one has not renewed its lease for so "
       "long."},
      {"take_over", Kind::kSwitch, "false",
       "Lead at once, whatever the lease of another coordinator says.", /*flag_only=*/true},
  };
  for (ConfigKey& key : SharedKeys()) keys.push_back(std::move(key));
  std::vector<DaemonCommandLine::Section> sections =
      SharedSections("the coordinator ends. Jobs go on when the next one starts.");
  sections.push_back({"EXAMPLES",
                      "A coordinator for this machine alone:\n"
                      "  weir-coordinator --checkpoint-dir /tmp/weir\n"
                      "One that other machines reach:\n"
                      "  weir-coordinator --listen 0.0.0.0:7070 --insecure \\\n"
                      "                   --checkpoint-dir /mnt/shared/weir"});
  return DaemonCommandLine(
      {"weir-coordinator", "owns the jobs of a Weir cluster",
       "Accepts jobs, schedules them onto workers, triggers and completes their checkpoints, and "
       "restarts them after failures. Everything it must remember is in the checkpoint directory: "
       "started again, it takes up every job that has not ended. A second coordinator on the same "
       "directory waits until the first one is gone.",
       "coordinator.yaml", std::move(sections)},
      std::move(keys));
}

StatusOr<CoordinatorConfig> ReadCoordinatorConfig(const DaemonConfig& config) {
  CoordinatorConfig out;
  WEIR_ASSIGN_OR_RETURN(out.shared, ReadSharedKeys(config));
  WEIR_ASSIGN_OR_RETURN(out.checkpoint_dir,
                        AbsolutePath("checkpoint_dir", config.Text("checkpoint_dir")));
  out.heartbeat_interval_us = config.DurationUs("heartbeat_interval");
  out.heartbeat_timeout_us = config.DurationUs("heartbeat_timeout");
  out.lease_timeout_us = config.DurationUs("lease_timeout");
  out.take_over = config.Switch("take_over");
  if (out.heartbeat_interval_us < kHeartbeatIntervalMinUs) {
    return InvalidArgumentError(Concat("heartbeat_interval is '",
                                       FormatDuration(out.heartbeat_interval_us), "': at least ",
                                       FormatDuration(kHeartbeatIntervalMinUs)));
  }
  if (out.heartbeat_timeout_us <= out.heartbeat_interval_us) {
    return InvalidArgumentError(Concat(
        "heartbeat_timeout is '", FormatDuration(out.heartbeat_timeout_us),
        "': must be more than heartbeat_interval, ", FormatDuration(out.heartbeat_interval_us)));
  }
  if (out.lease_timeout_us < kLeaseTimeoutMinUs) {
    return InvalidArgumentError(Concat("lease_timeout is '", FormatDuration(out.lease_timeout_us),
                                       "': at least ", FormatDuration(kLeaseTimeoutMinUs)));
  }
  return out;
}

}  // namespace weir
