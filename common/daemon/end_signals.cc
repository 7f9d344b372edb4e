#include "common/daemon/end_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

EndSignals::EndSignals() {
  // A peer that goes away is an error of the write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals = EndingSignals();
  WEIR_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  WEIR_CHECK_MESSAGE(signal_fd_ >= 0 && stop_fd_ >= 0, "cannot make descriptors for signals");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "signals");
    Run();
  });
}

EndSignals::~EndSignals() {
  uint64_t one = 1;
  WEIR_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
  sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void EndSignals::Run() {
  while (true) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) {
      WEIR_CHECK(errno == EINTR);
      continue;
    }
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) continue;
    if (ending_) _exit(128 + static_cast<int>(info.ssi_signo));
    Request(0, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
  }
}

void EndSignals::Request(int exit_code, std::string reason) {
  if (requested_.exchange(true)) return;
  reason_ = std::move(reason);
  exit_code_ = exit_code;
  ending_ = true;
  ending_.notify_all();
}

std::string EndSignals::Wait() {
  ending_.wait(false);
  return reason_;
}

}  // namespace weir
