#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/commands/commands.h"
#include "cli/commands/signals.h"
#include "common/base/clock.h"
#include "common/base/concat.h"
#include "common/rpc/coordinator_client.h"

namespace weir::cli {
namespace {

constexpr int64_t kPollUs = 50'000;
constexpr int64_t kStartMaxUs = 20'000'000;
constexpr int64_t kStopMaxUs = 8'000'000;

struct Process {
  std::string name;
  pid_t pid = 0;
  std::string log;
  bool ended = false;
};

// Where the daemons lie: beside this very program.
StatusOr<std::string> BinaryDirectory() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return ErrnoError(errno, "cannot find this program's folder");
  return std::filesystem::path(std::string(path, static_cast<size_t>(length)))
      .parent_path()
      .string();
}

StatusOr<int> FreePort(int wanted) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoError(errno, "cannot make a socket");
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(wanted));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  int error_number = errno;
  close(fd);
  if (!bound) {
    return FailedPreconditionError(Concat("port ", wanted, " of 127.0.0.1 is not free (",
                                          strerror(error_number), "); choose another with --port"));
  }
  return static_cast<int>(ntohs(address.sin_port));
}

// Holds the folder of a local cluster for as long as this process lives; the descriptor stays open
// and is not handed on to the daemons.
Status LockDirectory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return ErrnoError(error.value(), Concat("cannot make ", directory.string()));
  std::string path = (directory / "lock").string();
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoError(errno, Concat("cannot open ", path));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return {};
  int error_number = errno;
  close(fd);
  if (error_number != EWOULDBLOCK) return ErrnoError(error_number, Concat("cannot lock ", path));
  return FailedPreconditionError(Concat("another local cluster runs in ", directory.string(),
                                        "; choose another folder with --dir"));
}

// Starts a daemon with its output in a log file. It ends with this program, however that ends.
StatusOr<pid_t> Spawn(const std::vector<std::string>& command, const std::string& log) {
  int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return ErrnoError(errno, Concat("cannot open ", log));
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) {
    int error_number = errno;
    close(log_fd);
    return ErrnoError(error_number, "cannot start a process");
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    setpgid(0, 0);  // Ctrl-C reaches this program alone, which then stops the daemons in order
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0) dup2(null_fd, STDIN_FILENO);
    execv(arguments[0], arguments.data());
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  close(log_fd);
  return pid;
}

std::string LogTail(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > 5) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return Concat("ended by signal ", WTERMSIG(status));
  return Concat("ended with exit code ", WEXITSTATUS(status));
}

// Notes children that have ended; says so when `tell`. Returns how many still run.
int Reap(std::vector<Process>& processes, bool tell) {
  int running = 0;
  for (Process& process : processes) {
    if (process.ended) continue;
    int status = 0;
    if (waitpid(process.pid, &status, WNOHANG) == process.pid) {
      process.ended = true;
      if (tell) {
        std::printf("%s  pid %d  %s (log %s)\n", process.name.c_str(), process.pid,
                    HowItEnded(status).c_str(), process.log.c_str());
        std::fflush(stdout);
      }
    } else {
      ++running;
    }
  }
  return running;
}

// Workers first, so that each takes leave of a living coordinator; whoever does not end is killed.
void StopAll(std::vector<Process>& processes) {
  SystemClock clock;
  int64_t start_us = clock.MonotonicMicros();
  for (bool coordinator : {false, true}) {
    for (size_t i = 0; i < processes.size(); ++i) {
      if ((i == 0) == coordinator && !processes[i].ended) kill(processes[i].pid, SIGTERM);
    }
    int64_t bound_us = coordinator ? kStopMaxUs : kStopMaxUs / 2;
    while (clock.MonotonicMicros() - start_us < bound_us && Interrupts() < 2) {
      int running = Reap(processes, false);
      bool done = coordinator ? running == 0 : running <= (processes[0].ended ? 0 : 1);
      if (done) break;
      Pause(kPollUs);
    }
  }
  for (Process& process : processes) {
    if (!process.ended) kill(process.pid, SIGKILL);
  }
  while (Reap(processes, false) > 0) Pause(kPollUs);
}

}  // namespace

int Local(const LocalOptions& options) {
  StatusOr<std::string> binaries = BinaryDirectory();
  if (!binaries.ok()) return Report(Session{}, binaries.status());
  StatusOr<int> port = FreePort(options.port);
  if (!port.ok()) return Report(Session{}, port.status());
  std::error_code error;
  std::filesystem::path directory = std::filesystem::absolute(options.directory, error);
  if (error) return Report(Session{}, ErrnoError(error.value(), options.directory));
  Status locked = LockDirectory(directory);
  if (!locked.ok()) return Report(Session{}, locked);
  if (options.clean) {
    // Only what an earlier `weir local` made is removed.
    for (const char* part : {"checkpoints", "workers", "logs"}) {
      std::filesystem::remove_all(directory / part, error);
      if (error) {
        return Report(Session{}, ErrnoError(error.value(),
                                            Concat("cannot remove ", (directory / part).string())));
      }
    }
  }
  for (const char* part : {"checkpoints", "workers", "logs"}) {
    std::filesystem::create_directories(directory / part, error);
    if (error) {
      return Report(Session{},
                    ErrnoError(error.value(), Concat("cannot make ", (directory / part).string())));
    }
  }
  int slots = options.slots > 0
                  ? options.slots
                  : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::string address = Concat("127.0.0.1:", *port);
  CatchInterrupts();

  std::vector<Process> processes;
  auto start = [&](const std::string& name, std::vector<std::string> command) -> Status {
    std::string log = (directory / "logs" / (name + ".log")).string();
    command.push_back("--log-level");
    command.push_back(options.log_level);
    StatusOr<pid_t> pid = Spawn(command, log);
    if (!pid.ok()) return pid.status();
    processes.push_back({name, *pid, log, false});
    return {};
  };
  Status started = start("coordinator", {*binaries + "/weir-coordinator", "--listen", address,
                                         "--checkpoint-dir", (directory / "checkpoints").string()});
  for (int i = 1; i <= options.workers && started.ok(); ++i) {
    std::string name = Concat("worker-", i);
    started = start(
        name, {*binaries + "/weir-worker", "--name", name, "--coordinators", address, "--slots",
               Concat(slots), "--work-dir", (directory / "workers" / name).string()});
  }
  if (!started.ok()) {
    if (!processes.empty()) StopAll(processes);
    return Report(Session{}, started);
  }

  SystemClock clock;
  int64_t start_us = clock.MonotonicMicros();
  {
    CoordinatorClient client(address);
    while (Interrupts() == 0) {
      StatusOr<std::vector<WorkerStatus>> workers = client.ListWorkers();
      if (workers.ok() && static_cast<int>(workers->size()) >= options.workers) break;
      int running = Reap(processes, true);
      if (running < static_cast<int>(processes.size()) ||
          clock.MonotonicMicros() - start_us > kStartMaxUs) {
        std::fprintf(stderr, "weir: the local cluster did not start\n");
        for (const Process& process : processes) {
          if (process.ended || running == static_cast<int>(processes.size())) {
            std::fprintf(stderr, "last lines of %s:\n%s", process.log.c_str(),
                         LogTail(process.log).c_str());
          }
        }
        StopAll(processes);
        return kFailed;
      }
      Pause(kPollUs);
    }
  }
  if (Interrupts() == 0) {
    for (size_t i = 0; i < processes.size(); ++i) {
      if (i == 0) {
        std::printf("coordinator  %s  pid %d\n", address.c_str(), processes[i].pid);
      } else {
        std::printf("%-11s  pid %d  slots %d\n", processes[i].name.c_str(), processes[i].pid,
                    slots);
      }
    }
    std::printf(
        "data and logs in %s (kept; --clean starts afresh).  Ctrl-C stops all of it.\n",
        options.directory[0] == '/' ? directory.c_str() : Concat("./", options.directory).c_str());
    std::fflush(stdout);
  }
  while (Interrupts() == 0) {
    if (Reap(processes, true) == 0) {
      std::fprintf(stderr, "weir: all processes have ended\n");
      return kFailed;
    }
    Pause(kPollUs);
  }
  StopAll(processes);
  std::printf("stopped\n");
  return kDone;
}

}  // namespace weir::cli
