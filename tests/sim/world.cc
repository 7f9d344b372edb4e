#include "tests/sim/world.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/base/concat.h"
#include "tests/sim/workload/world_drawer.h"

namespace weir::sim {
namespace {

std::string Seconds(int64_t us) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3gs", static_cast<double>(us) / 1e6);
  return text;
}

std::string Odds(double odds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", odds);
  return text;
}

std::string DescribeOdds(const EffectOdds& odds) {
  std::string out;
  auto add = [&](std::string_view name, double value, int64_t us) {
    if (value <= 0) return;
    out += Concat(out.empty() ? "" : ", ", name, " ", Odds(value));
    if (us > 0) out += Concat(" (up to ", Seconds(us), ")");
  };
  add("lost request", odds.rpc_lost_request, 0);
  add("lost reply", odds.rpc_lost_reply, 0);
  add("doubled request", odds.rpc_duplicate, 0);
  add("slow call", odds.rpc_slow, odds.rpc_slow_us);
  add("storage error before", odds.storage_error_before, 0);
  add("storage error after", odds.storage_error_after, 0);
  add("slow storage", odds.storage_slow, odds.storage_slow_us);
  add("slow claim", odds.claim_slow, odds.storage_slow_us);
  add("claim error after", odds.claim_error_after, 0);
  add("kill point", odds.kill_point, 0);
  return out.empty() ? "none" : out;
}

}  // namespace

std::string_view ToString(FaultKind kind) {
  static constexpr std::array<std::string_view, static_cast<size_t>(FaultKind::kCount)> kNames = {
      "kill worker",       "kill coordinator", "kill all",   "power loss",       "pause worker",
      "pause coordinator", "stop worker",      "partition",  "break connection", "disk full",
      "disk read-only",    "disk hanging",     "clock jump", "kafka down",       "kafka partition"};
  return kNames[static_cast<size_t>(kind)];
}

const std::vector<std::string>& AllKillPoints() {
  static const std::vector<std::string> kPoints = {"coordinator.before_manifest",
                                                   "coordinator.after_manifest",
                                                   "coordinator.after_claim_sent",
                                                   "coordinator.before_claim_answer",
                                                   "coordinator.before_notice",
                                                   "coordinator.during_restore",
                                                   "task.during_alignment",
                                                   "task.after_prepare",
                                                   "task.while_restoring",
                                                   "snapshot.while_writing",
                                                   "sink.before_prepare_sync",
                                                   "sink.after_prepare",
                                                   "sink.before_rename",
                                                   "sink.between_renames",
                                                   "sink.before_sync"};
  return kPoints;
}

const std::vector<std::string>& KafkaKillPoints() {
  static const std::vector<std::string> kPoints = {
      "kafka.before_init",   "kafka.after_init",   "kafka.after_begin",  "kafka.half_produced",
      "kafka.before_commit", "kafka.after_commit", "kafka.before_notice"};
  return kPoints;
}

std::string World::ToString() const {
  std::string out = Concat("world ", seed, ": ", shape, "\n");
  out += Concat("  rows ", rows, " in ", files.size(), " files, ", keys.size(), " keys, at most ",
                parallelism, " subtasks a vertex\n");
  out += Concat("  cluster: ", coordinators, " coordinators, ", workers, " workers of ", slots,
                fresh_worker_names ? " slots under fresh names" : " slots", ", heartbeat ",
                Seconds(heartbeat_interval_us), "/", Seconds(heartbeat_timeout_us), ", lease ",
                Seconds(lease_timeout_us), "\n");
  out += Concat("  speed: calls ", Seconds(rpc_us_max), ", storage ", Seconds(storage_us_max),
                ", channels ", Seconds(channel_us_max), " and ", channel_window_bytes,
                " bytes, steps ", Seconds(step_us_max), "\n");
  if (kafka.partitions > 0) {
    out += Concat("  kafka: ", kafka.partitions, " partitions, lost request ",
                  Odds(kafka.lost_request), ", lost answer ", Odds(kafka.lost_answer), ", cut ",
                  Odds(kafka.cut), ", late ", Odds(kafka.late), " (up to ", Seconds(kafka.late_us),
                  "), ends within ", Seconds(kafka.end_marker_us), "\n");
  }
  out += Concat("  faults for ", Seconds(faults_us), "; odds: ", DescribeOdds(odds), "\n");
  for (const FaultPlan& plan : faults) {
    out += Concat("    ", sim::ToString(plan.kind), " every ", Seconds(plan.every_us), ", up to ",
                  Seconds(plan.dwell_us_max), "\n");
  }
  for (const std::string& point : kill_points) out += Concat("    dies at ", point, "\n");
  out += Concat("  job ", graph_json, "\n");
  return out;
}

World DrawWorld(uint64_t seed) { return WorldDrawer(seed).Draw(); }

}  // namespace weir::sim
