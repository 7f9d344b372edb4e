// Goal: a daemon runs with exactly what its user wrote, flag over file over default, or says what
// is wrong and where. Method: command lines and YAML files against the keys of both daemons;
// expected defaults are those of surface.md, "Daemons".

#include "common/daemon/daemon_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "common/daemon/endpoint.h"
#include "coordinator/server/coordinator_config.h"
#include "worker/server/worker_config.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DaemonConfigTest : public ::testing::Test {
 protected:
  DaemonConfigTest()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   ("daemon-config-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~DaemonConfigTest() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& text) {
    std::string path = directory_ / "test.yaml";
    std::ofstream(path) << text;
    return path;
  }
  StatusOr<CoordinatorConfig> Coordinator(std::vector<std::string> arguments) {
    auto parsed = CoordinatorCommandLine().Parse(arguments);
    if (!parsed.ok()) return parsed.status();
    return ReadCoordinatorConfig(parsed->config);
  }
  StatusOr<WorkerConfig> Worker(std::vector<std::string> arguments) {
    auto parsed = WorkerCommandLine().Parse(arguments);
    if (!parsed.ok()) return parsed.status();
    return ReadWorkerConfig(parsed->config);
  }
  std::string WorkerError(std::vector<std::string> arguments) {
    Status status = Worker(std::move(arguments)).status();
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    return status.message();
  }
  std::string CoordinatorError(std::vector<std::string> arguments) {
    return Coordinator(std::move(arguments)).status().message();
  }

  std::filesystem::path directory_;
};

TEST_F(DaemonConfigTest, CoordinatorDefaults) {
  auto config = Coordinator({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shared.listen.ToString(), "127.0.0.1:7070");
  EXPECT_EQ(config->shared.advertised.host, "");
  EXPECT_EQ(config->shared.log_level, log::Level::kInfo);
  EXPECT_EQ(config->shared.log_file, "");
  EXPECT_EQ(config->checkpoint_dir, "/var/lib/weir/checkpoints");
  EXPECT_EQ(config->heartbeat_interval_us, 1'000'000);
  EXPECT_EQ(config->heartbeat_timeout_us, 5'000'000);
  EXPECT_EQ(config->lease_timeout_us, 5'000'000);
  EXPECT_FALSE(config->take_over);
}

TEST_F(DaemonConfigTest, WorkerDefaults) {
  auto config = Worker({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shared.listen.ToString(), "127.0.0.1:0");
  EXPECT_EQ(config->data_listen.ToString(), "127.0.0.1:0");
  EXPECT_EQ(config->name, HostName() + "-" + std::to_string(getpid()));
  EXPECT_THAT(config->coordinators, ElementsAre("127.0.0.1:7070"));
  EXPECT_EQ(config->slots, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(config->task_threads, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(config->work_dir, "/var/lib/weir/worker");
  EXPECT_EQ(config->coordinator_timeout_us, 60'000'000);
}

TEST_F(DaemonConfigTest, EveryKeyIsReadFromTheFile) {
  auto coordinator = Coordinator({"--config", File(R"(# comment
listen: 127.0.0.2:0
advertise: weir-1
checkpoint_dir: /mnt/weir/
heartbeat_interval: 100ms
heartbeat_timeout: 1s
lease_timeout: 2s
log_level: debug
log_file: "/tmp/log file"
)")});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_EQ(coordinator->shared.listen.host, "127.0.0.2");
  EXPECT_EQ(coordinator->shared.advertised.host, "weir-1");
  EXPECT_EQ(coordinator->checkpoint_dir, "/mnt/weir");
  EXPECT_EQ(coordinator->heartbeat_interval_us, 100'000);
  EXPECT_EQ(coordinator->heartbeat_timeout_us, 1'000'000);
  EXPECT_EQ(coordinator->lease_timeout_us, 2'000'000);
  EXPECT_EQ(coordinator->shared.log_level, log::Level::kDebug);
  EXPECT_EQ(coordinator->shared.log_file, "/tmp/log file");

  auto worker = Worker({"--config", File(R"(
name: "7"
coordinators: [weir-1:7070, "weir-2:7070"]
listen: 0.0.0.0:1
data_listen: '[::]:2'
insecure: true
slots: 3
task_threads: 4
work_dir: relative/dir
coordinator_timeout: 5min
log_level:
)")});
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->name, "7");
  EXPECT_THAT(worker->coordinators, ElementsAre("weir-1:7070", "weir-2:7070"));
  EXPECT_EQ(worker->shared.listen.ToString(), "0.0.0.0:1");
  EXPECT_EQ(worker->data_listen.ToString(), "[::]:2");
  EXPECT_EQ(worker->slots, 3);
  EXPECT_EQ(worker->task_threads, 4);
  EXPECT_EQ(worker->work_dir, std::filesystem::current_path() / "relative/dir");
  EXPECT_EQ(worker->coordinator_timeout_us, 300'000'000);
  EXPECT_EQ(worker->shared.log_level, log::Level::kInfo);  // an empty value is the default
}

TEST_F(DaemonConfigTest, FlagsGoBeforeTheFile) {
  std::string file = File("slots: 3\nname: from-file\ncoordinators: [a:1]\ninsecure: true\n");
  auto worker =
      Worker({"--slots=5", "--config", file, "--coordinators", "b:2,c:3", "--coordinators", "d:4"});
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->slots, 5);
  EXPECT_EQ(worker->name, "from-file");
  EXPECT_THAT(worker->coordinators, ElementsAre("b:2", "c:3", "d:4"));
  EXPECT_THAT(WorkerError({"--config", file, "--insecure=false", "--listen", "0.0.0.0:0"}),
              HasSubstr("insecure"));
  auto coordinator = Coordinator({"--take-over", "--heartbeat-timeout", "9s"});
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_TRUE(coordinator->take_over);
  EXPECT_EQ(coordinator->heartbeat_timeout_us, 9'000'000);
}

TEST_F(DaemonConfigTest, UnknownNamesAreRefusedWithTheNearestOne) {
  std::string file = File("slots: 3\nwork-dir: x\n");
  EXPECT_EQ(WorkerError({"--config", file}),
            file + ":2: unknown key 'work-dir': did you mean 'work_dir'?");
  EXPECT_EQ(WorkerError({"--config", File("zzz: 1\n")}),
            file + ":1: unknown key 'zzz'; --help lists the known ones");
  EXPECT_EQ(WorkerError({"--slot", "3"}), "unknown flag '--slot': did you mean --slots?");
  EXPECT_EQ(WorkerError({"--slot=3"}), "unknown flag '--slot': did you mean --slots?");
  EXPECT_EQ(WorkerError({"start"}), "unexpected argument 'start'; --help lists the known flags");
  EXPECT_THAT(CoordinatorError({"--config", File("take_over: true\n")}),
              HasSubstr(":1: unknown key 'take_over'"));
}

TEST_F(DaemonConfigTest, WrongValuesAreRefusedWithKeyValueAndPlace) {
  std::string file = File("slots: three\n");
  EXPECT_EQ(WorkerError({"--config", file}),
            file + ":1: slots is 'three': expected a whole number, 0 or more");
  EXPECT_EQ(WorkerError({"--slots", "-1"}), "--slots is '-1': expected a whole number, 0 or more");
  EXPECT_EQ(WorkerError({"--slots", "40000"}), "slots is '40000': expected 0 to 32768");
  EXPECT_EQ(WorkerError({"--coordinator-timeout", "60"}),
            "--coordinator-timeout is '60': expected a duration, as in 250ms, 10s, 5min or 1h");
  EXPECT_EQ(WorkerError({"--insecure=maybe"}), "--insecure is 'maybe': expected true or false");
  EXPECT_EQ(WorkerError({"--log-level", "loud"}),
            "log_level 'loud' is none of debug, info, warning, error");
  EXPECT_EQ(WorkerError({"--coordinators", "weir-1"}),
            "coordinators: 'weir-1' is no address: expected HOST:PORT, as in 127.0.0.1:7070");
  EXPECT_EQ(WorkerError({"--coordinators", ""}),
            "coordinators is empty: expected at least one HOST:PORT");
  EXPECT_EQ(WorkerError({"--advertise", "weir-1:7"}),
            "advertise is 'weir-1:7': a worker takes a host alone");
  EXPECT_EQ(CoordinatorError({"--checkpoint-dir", ""}),
            "checkpoint_dir is empty: expected a directory");
  EXPECT_EQ(CoordinatorError({"--heartbeat-interval", "5s"}),
            "heartbeat_timeout is '5s': must be more than heartbeat_interval, 5s");
  EXPECT_EQ(CoordinatorError({"--lease-timeout", "1s"}), "lease_timeout is '1s': at least 2s");
  EXPECT_THAT(WorkerError({"--slots"}), HasSubstr("--slots"));  // no value
}

TEST_F(DaemonConfigTest, FilesThatAreNoneAreRefused) {
  EXPECT_EQ(WorkerError({"--config", "/nowhere/worker.yaml"}),
            "cannot read /nowhere/worker.yaml: No such file or directory");
  EXPECT_EQ(WorkerError({"--config", directory_}),
            "cannot read " + directory_.string() + ": it is a directory");
  std::string file = File("slots: [1\n");
  EXPECT_THAT(WorkerError({"--config", file}), HasSubstr(file + ":"));
  File("just words\n");
  EXPECT_EQ(WorkerError({"--config", file}),
            file + " holds no mapping: expected lines 'key: value'");
  File("slots: 1\nslots: 2\n");
  EXPECT_EQ(WorkerError({"--config", file}), file + ":2: key 'slots' for the second time");
  File("slots: {a: 1}\n");
  EXPECT_EQ(WorkerError({"--config", file}), file + ":1: 'slots' must be one plain value");
  File("");
  EXPECT_TRUE(Worker({"--config", file}).ok());
}

TEST_F(DaemonConfigTest, OthersMayReachItOnlyWhenToldSo) {
  EXPECT_TRUE(Coordinator({"--listen", "localhost:0"}).ok());
  EXPECT_TRUE(Coordinator({"--listen", "[::1]:0"}).ok());
  for (const char* address : {"0.0.0.0:7070", "10.0.0.1:7070", "[::]:0", "weir-1:7070"}) {
    EXPECT_THAT(CoordinatorError({"--listen", address}), HasSubstr("set insecure to true"));
    EXPECT_TRUE(Coordinator({"--listen", address, "--insecure"}).ok());
    EXPECT_THAT(WorkerError({"--data-listen", address}), HasSubstr("data_listen is '"));
  }
}

TEST_F(DaemonConfigTest, HelpNamesEveryKeyWithItsDefault) {
  auto parsed = WorkerCommandLine().Parse({"--help"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  for (const char* text :
       {"NAME", "weir-worker - ", "SYNOPSIS", "OPTIONS", "--config FILE", "--coordinators LIST",
        "Default: 127.0.0.1:7070.", "--coordinator-timeout DURATION", "Default: 1min.",
        "--insecure\n", "SIGNALS", "SIGTERM", "EXIT STATUS", "EXAMPLES"}) {
    EXPECT_THAT(parsed->print, HasSubstr(text));
  }
  std::istringstream lines(parsed->print);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  parsed = CoordinatorCommandLine().Parse({"--version"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->print, testing::MatchesRegex("weir-coordinator [0-9.]+\n"));
}

TEST(EndpointTest, OnlyHostAndPortIsAnAddress) {
  for (const char* wrong : {"", "host", ":1", "host:", "host:65536", "host:-1", "host:1x", "::1:5",
                            "[host]:1", "a b:1", "http://host:1"}) {
    EXPECT_FALSE(ParseEndpoint(wrong).ok()) << wrong;
  }
  EXPECT_EQ(ParseEndpoint("[::1]:65535")->host, "::1");
  EXPECT_EQ(ParseEndpoint("[::1]:65535")->port, 65535);
}

TEST(EndpointTest, OthersDialWhatIsAdvertisedElseWhatIsListenedOn) {
  Endpoint none;
  EXPECT_EQ(DialedAddress(none, {"127.0.0.1", 0}, 5).ToString(), "127.0.0.1:5");
  EXPECT_EQ(DialedAddress(none, {"0.0.0.0", 0}, 5).ToString(), HostName() + ":5");
  EXPECT_EQ(DialedAddress(none, {"::", 0}, 5).ToString(), HostName() + ":5");
  EXPECT_EQ(DialedAddress(*ParseAdvertised("weir-1"), {"0.0.0.0", 0}, 5).ToString(), "weir-1:5");
  EXPECT_EQ(DialedAddress(*ParseAdvertised("weir-1:9"), {"0.0.0.0", 0}, 5).ToString(), "weir-1:9");
}

}  // namespace
}  // namespace weir
