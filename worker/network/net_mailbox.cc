#include "worker/network/net_mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace weir {

NetMailbox::NetMailbox() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  WEIR_CHECK_MESSAGE(event_.fd() >= 0, "cannot make an eventfd");
}

void NetMailbox::Post(std::function<void()> command) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    mail_.commands.push_back(std::move(command));
  }
  Signal();
}

void NetMailbox::Flush(std::shared_ptr<Link> link) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    mail_.links.push_back(std::move(link));
  }
  Signal();
}

void NetMailbox::Signal() {
  if (signalled_.exchange(true)) return;
  const uint64_t one = 1;
  // Cannot fail: the counter is far from its end.
  [[maybe_unused]] const ssize_t written = write(event_.fd(), &one, sizeof(one));
}

NetMailbox::Mail NetMailbox::Take() {
  signalled_.store(false);  // first the signal, then the mail: what comes in between signals again
  std::lock_guard lock(mutex_);
  return std::exchange(mail_, {});
}

void NetMailbox::Close() {
  Mail dropped;
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped = std::exchange(mail_, {});
}

}  // namespace weir
