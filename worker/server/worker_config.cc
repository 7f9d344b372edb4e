#include "worker/server/worker_config.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "common/base/concat.h"
#include "common/graph/job_options.h"

namespace weir {
namespace {

constexpr int64_t kSlotsMax = 32768;
constexpr int64_t kThreadsMax = 1024;
constexpr int64_t kCoordinatorTimeoutMinUs = 1'000'000;

StatusOr<int> ReadCount(const DaemonConfig& config, const std::string& key, int64_t max) {
  int64_t count = config.Integer(key);
  if (count > max) {
    return InvalidArgumentError(Concat(key, " is '", count, "': expected 0 to ", max));
  }
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(count);
}

}  // namespace

DaemonCommandLine WorkerCommandLine() {
  using Kind = ConfigKey::Kind;
  std::vector<ConfigKey> keys = {
      {"name", Kind::kText, "",
       "Name of this worker; a second live one of the same name is refused. Unset: host name and "
       "process id."},
      {"coordinators", Kind::kTextList, "127.0.0.1:7070",
       "HOST:PORT of every coordinator, separated by commas; the worker follows the one that "
       "leads."},
      {"listen", Kind::kText, "127.0.0.1:0",
       "HOST:PORT for the coordinator's calls; port 0 takes a free one."},
      {"data_listen", Kind::kText, "",
       "HOST:PORT for the records of other workers. Unset: the host of listen, a free port."},
      {"slots", Kind::kInteger, "0",
       "How much it hosts: a slot takes one subtask of each vertex of a job. 0: as many as cores."},
      {"task_threads", Kind::kInteger, "0", "Threads that run tasks. 0: as many as cores."},
      {"work_dir", Kind::kText, "/var/lib/weir/worker",
       "Directory for files that need not outlive the worker."},
      {"coordinator_timeout", Kind::kDuration, "1min",
       "Without a coordinator for so long, the worker ends its tasks."},
  };
  for (ConfigKey& key : SharedKeys()) keys.push_back(std::move(key));
  std::vector<DaemonCommandLine::Section> sections = SharedSections(
      "the worker tells the coordinator and ends. Its tasks restart on other workers.");
  sections.push_back({"EXAMPLES",
                      "A worker beside its coordinator:\n"
                      "  weir-worker --work-dir /tmp/weir-worker\n"
                      "One that other machines reach:\n"
                      "  weir-worker --coordinators weir-1:7070,weir-2:7070 \\\n"
                      "              --listen 0.0.0.0:7071 --data-listen 0.0.0.0:7072 --insecure"});
  return DaemonCommandLine(
      {"weir-worker", "runs the tasks of a Weir cluster",
       "Offers slots to the coordinator and hosts the sources, operators and sinks of jobs in "
       "them. "
       "It keeps their state, takes snapshots of it, and publishes what their sinks wrote. It must "
       "see the coordinator's checkpoint directory under the same path.",
       "worker.yaml", std::move(sections)},
      std::move(keys));
}

StatusOr<WorkerConfig> ReadWorkerConfig(const DaemonConfig& config) {
  WorkerConfig out;
  WEIR_ASSIGN_OR_RETURN(out.shared, ReadSharedKeys(config));
  if (out.shared.advertised.port != 0) {
    // The worker has two ports, so that one cannot stand for both.
    return InvalidArgumentError(
        Concat("advertise is '", config.Text("advertise"), "': a worker takes a host alone"));
  }
  out.data_listen = {out.shared.listen.host, 0};
  if (!config.Text("data_listen").empty()) {
    WEIR_ASSIGN_OR_RETURN(out.data_listen, ReadListenAddress(config, "data_listen"));
  }
  out.name = config.Text("name");
  if (out.name.empty()) out.name = Concat(HostName(), "-", getpid());
  out.coordinators = config.TextList("coordinators");
  if (out.coordinators.empty()) {
    return InvalidArgumentError("coordinators is empty: expected at least one HOST:PORT");
  }
  for (const std::string& address : out.coordinators) {
    Status status = ParseEndpoint(address).status();
    if (!status.ok()) return status.WithContext("coordinators");
  }
  WEIR_ASSIGN_OR_RETURN(out.slots, ReadCount(config, "slots", kSlotsMax));
  WEIR_ASSIGN_OR_RETURN(out.task_threads, ReadCount(config, "task_threads", kThreadsMax));
  WEIR_ASSIGN_OR_RETURN(out.work_dir, AbsolutePath("work_dir", config.Text("work_dir")));
  out.coordinator_timeout_us = config.DurationUs("coordinator_timeout");
  if (out.coordinator_timeout_us < kCoordinatorTimeoutMinUs) {
    return InvalidArgumentError(Concat("coordinator_timeout is '",
                                       FormatDuration(out.coordinator_timeout_us), "': at least ",
                                       FormatDuration(kCoordinatorTimeoutMinUs)));
  }
  return out;
}

}  // namespace weir
