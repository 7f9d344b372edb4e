#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/network/socket.h"

namespace weir {

class Link;

// What other threads leave for the network thread: commands, and links that have frames to send.
// An eventfd wakes it, written only when it is not signalled already. Lives as long as any link,
// so that channel ends are harmless after the data plane stopped. Thread: thread-safe.
class NetMailbox {
 public:
  struct Mail {
    std::vector<std::function<void()>> commands;
    std::vector<std::shared_ptr<Link>> links;
  };

  NetMailbox();

  void Post(std::function<void()> command);
  // `link` has frames to send. A link asks again only after the network thread found it empty.
  void Flush(std::shared_ptr<Link> link);
  // Takes all that is there, in order of posting. From the network thread.
  Mail Take();
  // Drops what is there and what comes later.
  void Close();
  // Written when there is mail and never read: to be polled edge-triggered.
  int event_fd() const { return event_.fd(); }

 private:
  void Signal();

  Socket event_;
  std::atomic<bool> signalled_ = false;
  std::mutex mutex_;
  Mail mail_;            // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace weir
