// weir-worker: wires a worker to the world and waits for a signal.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>

#include "common/base/clock.h"
#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/daemon/daemon_start.h"
#include "common/daemon/end_signals.h"
#include "common/operator/library_loader.h"
#include "common/operator/registry.h"
#include "common/rpc/grpc_coordinator_gateway.h"
#include "common/storage/posix_file_system.h"
#include "common/threading/event_loop.h"
#include "common/threading/io_pool.h"
#include "worker/connectors/blackhole/blackhole.h"
#include "worker/connectors/files/register.h"
#include "worker/connectors/generator/generator_source.h"
#include "worker/connectors/kafka/rdkafka_clients.h"
#include "worker/connectors/kafka/register.h"
#include "worker/network/tcp_data_plane.h"
#include "worker/operators/builtin_operators.h"
#include "worker/server/grpc_worker_server.h"
#include "worker/server/worker_config.h"
#include "worker/task/threaded_task_runner.h"
#include "worker/task/worker_node.h"

namespace weir {
namespace {

// Syncs wait for the disk, each on a thread: few would keep the writes of the rows that follow.
constexpr int kIoThreadsMin = 16;
constexpr int64_t kCoordinatorSilenceUs = 5'000'000;
constexpr std::chrono::seconds kEndMax{15};
constexpr std::chrono::seconds kSlowStorage{3};
constexpr std::chrono::milliseconds kKafkaEndMax{500};

Status MakeWorkDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return UnavailableError(Concat("cannot make work_dir ", path, ": ", error.message()));
  return {};
}

StatusOr<LoadedLibrary> LoadLibrary(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const JobLibrary* library, JobLibrary::Load(path));
  return LoadedLibrary{library->type_lookup(), &library->registry()};
}

// The worker can no longer keep its word: whatever it still does must not be seen by anybody.
void Die(const std::string& reason) {
  log::Error("ends at once: ", reason);
  _exit(1);
}

std::string DialedHost(const WorkerConfig& config, const Endpoint& listen) {
  return DialedAddress(config.shared.advertised, listen, 0).host;
}

int Run(const WorkerConfig& config, DaemonStart& start) {
  EndSignals signals;
  if (Status status = log::Start(config.shared.log_level, config.shared.log_file); !status.ok()) {
    return start.CannotStart(status);
  }
  if (Status status = MakeWorkDirectory(config.work_dir); !status.ok()) {
    return start.CannotStart(status);
  }
  Registry& registry = Registry::Global();
  RegisterBlackhole(registry);
  RegisterFilesConnector(registry);
  RegisterGenerator(registry);
  RdkafkaClients kafka;
  RegisterKafkaConnector(registry, kafka, kafka);
  RegisterBuiltinOperators(registry);

  SystemClock clock;
  Random random = Random::FromSystem();
  EventLoop loop("worker-loop");
  IoPool pool(std::max(kIoThreadsMin, config.task_threads));
  PosixFileSystem files(loop, pool);
  ThreadedTaskRunner runner(config.task_threads);
  TcpDataPlane data_plane({.listen = config.data_listen.ToString(),
                           .advertised_host = DialedHost(config, config.data_listen),
                           .timeouts = {}});
  if (Status status = data_plane.Start(); !status.ok()) return start.CannotStart(status);
  GrpcCoordinatorGateway coordinators(loop, kCoordinatorSilenceUs);
  std::unique_ptr<WorkerNode> node;
  GrpcWorkerServer server(config.shared.listen.ToString(), loop,
                          [&]() -> WorkerHandler& { return *node; });
  if (Status status = server.Start(); !status.ok()) return start.CannotStart(status);

  WorkerOptions options;
  options.info.name = WorkerName(config.name);
  options.info.incarnation = WorkerIncarnation(random.HexName(16));
  options.info.control_address =
      DialedAddress(config.shared.advertised, config.shared.listen, server.port()).ToString();
  options.info.data_address = data_plane.address();
  options.info.host = HostName();
  options.info.work_dir = config.work_dir;
  options.info.pid = getpid();
  options.info.slots = config.slots;
  options.info.version = WEIR_VERSION;
  options.coordinators = config.coordinators;
  options.coordinator_timeout_us = config.coordinator_timeout_us;
  WorkerEnvironment environment;
  environment.executor = &loop;
  environment.timers = &loop;
  environment.files = &files;
  environment.clock = &clock;
  environment.random = &random;
  environment.coordinators = &coordinators;
  environment.data_plane = &data_plane;
  environment.runner = &runner;
  environment.registry = &registry;
  environment.kafka = &kafka;
  environment.make_files = [&pool](Executor& owner) {
    return std::make_unique<PosixFileSystem>(owner, pool);
  };
  environment.slow_storage = [&pool] { return pool.Slowest(kSlowStorage); };
  environment.load_library = LoadLibrary;
  environment.die = Die;
  log::Info("weir-worker ", WEIR_VERSION, " name=", config.name, " pid=", options.info.pid,
            " control=", options.info.control_address, " data=", options.info.data_address,
            " slots=", config.slots, " work_dir=", config.work_dir);
  node = std::make_unique<WorkerNode>(std::move(options), std::move(environment));
  loop.Post([&] { node->Start(); });
  pool.Start();
  runner.Start();
  loop.Start();

  log::Info("ends: ", signals.Wait());
  std::promise<void> ended;
  loop.Post([&] { node->Stop([&] { ended.set_value(); }); });
  if (ended.get_future().wait_for(kEndMax) != std::future_status::ready) {
    Die("its tasks did not end in time");
  }
  server.Stop();
  loop.Stop();
  node.reset();
  runner.Stop();
  data_plane.Stop();
  pool.Stop();
  // Threads of a Kafka client that hangs must not see the end of main.
  if (!kafka.WaitForEnd(kKafkaEndMax)) _exit(signals.exit_code());
  return signals.exit_code();
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::DaemonStart start("weir-worker");
  auto parsed = start.Parse(weir::WorkerCommandLine(), argc, argv);
  if (!parsed) return start.exit_code();
  auto config = weir::ReadWorkerConfig(*parsed);
  if (!config.ok()) return start.WrongUsage(config.status());
  return weir::Run(*config, start);
}
