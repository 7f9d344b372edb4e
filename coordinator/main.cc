// weir-coordinator: wires the coordinator to the world and waits for a signal.

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/daemon/daemon_start.h"
#include "common/daemon/end_signals.h"
#include "common/rpc/grpc_worker_gateway.h"
#include "common/storage/posix_file_system.h"
#include "common/threading/event_loop.h"
#include "common/threading/io_pool.h"
#include "coordinator/job/coordinator.h"
#include "coordinator/server/coordinator_config.h"
#include "coordinator/server/grpc_coordinator_server.h"

namespace weir {
namespace {

// Whether the checkpoint directory is there, or can be made, and can be written in: what is wrong
// with it from the start will not heal by waiting.
Status CheckDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoError(error.value(), Concat("cannot make checkpoint_dir ", path));
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoError(errno, Concat("cannot use checkpoint_dir ", path));
  }
  return {};
}

constexpr int kIoThreads = 4;
constexpr std::chrono::seconds kEndMax{5};
constexpr std::chrono::seconds kSlowStorage{3};

int Run(const CoordinatorConfig& config, DaemonStart& start) {
  EndSignals signals;
  if (Status status = log::Start(config.shared.log_level, config.shared.log_file); !status.ok()) {
    return start.CannotStart(status);
  }
  if (Status status = CheckDirectory(config.checkpoint_dir); !status.ok()) {
    return start.CannotStart(status);
  }
  SystemClock clock;
  Random random = Random::FromSystem();
  EventLoop loop("coord-loop");
  IoPool pool(kIoThreads);
  PosixFileSystem files(loop, pool);
  GrpcWorkerGateway gateway(loop, config.heartbeat_timeout_us);
  std::unique_ptr<Coordinator> coordinator;
  GrpcCoordinatorServer server(config.shared.listen.ToString(), loop,
                               [&]() -> CoordinatorHandler& { return *coordinator; });
  if (Status status = server.Start(); !status.ok()) return start.CannotStart(status);

  CoordinatorOptions options;
  options.checkpoint_dir = config.checkpoint_dir;
  options.address =
      DialedAddress(config.shared.advertised, config.shared.listen, server.port()).ToString();
  options.host = HostName();
  options.pid = getpid();
  options.heartbeat_interval_us = config.heartbeat_interval_us;
  options.heartbeat_timeout_us = config.heartbeat_timeout_us;
  options.lease_timeout_us = config.lease_timeout_us;
  options.take_over = config.take_over;
  log::Info("weir-coordinator ", WEIR_VERSION, " pid=", options.pid, " address=", options.address,
            " checkpoint_dir=", options.checkpoint_dir);
  coordinator = std::make_unique<Coordinator>(
      options, CoordinatorEnvironment{loop, loop, files, gateway, clock, random,
                                      [&pool] { return pool.Slowest(kSlowStorage); }});
  loop.Post([&] { coordinator->Start(); });
  pool.Start();
  loop.Start();

  log::Info("ends: ", signals.Wait());
  std::promise<void> ended;
  loop.Post([&] { coordinator->Stop([&] { ended.set_value(); }); });
  if (ended.get_future().wait_for(kEndMax) != std::future_status::ready) {
    log::Warning("the lease could not be released in time; the next coordinator waits for it");
    _exit(signals.exit_code());
  }
  server.Stop();
  loop.Stop();
  coordinator.reset();
  pool.Stop();
  return signals.exit_code();
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  weir::DaemonStart start("weir-coordinator");
  auto parsed = start.Parse(weir::CoordinatorCommandLine(), argc, argv);
  if (!parsed) return start.exit_code();
  auto config = weir::ReadCoordinatorConfig(*parsed);
  if (!config.ok()) return start.WrongUsage(config.status());
  return weir::Run(*config, start);
}
