#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/storage/file_flows.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"

namespace weir {

struct LeadershipOptions {
  std::string checkpoint_dir;
  std::string address;  // what others dial
  std::string host;
  int64_t pid = 0;
  int64_t lease_timeout_us = 5'000'000;
  bool take_over = false;  // do not wait for the present leader's lease the first time
};

// Contents of `coordinator.lease`.
struct Lease {
  CoordinatorNumber number;
  std::string address;
  std::string host;
  int64_t pid = 0;
  int64_t wall_us = 0;
  bool released = false;  // its holder ended on purpose
};
std::string EncodeLease(const Lease& lease);
StatusOr<Lease> DecodeLease(std::string_view text);

// Decides when this process may lead, through `coordinators/<number>` and `coordinator.lease` below
// the checkpoint directory. The number is made only at the moment of taking over, because making it
// deposes the present leader. All this is for liveness alone: who is right about a job is decided
// by its completion log. Lives from Start to Stop; waits, leads, loses and waits again in between.
// Thread: confined to the executor; must not be destroyed from inside a listener.
//
// What a crash may leave behind: a number without a lease (the next one waits lease_timeout), a
// lease that is not released (likewise), `coordinator.lease.tmp-*`.
class Leadership {
 public:
  struct Listener {
    std::function<void()> won;  // leading() from here on
    std::function<void(std::string reason)> lost;
    std::function<void()> waiting;  // another one leads: waits_for() says who
  };

  Leadership(LeadershipOptions options, Timers& timers, FileSystem& files, const Clock& clock,
             Random& random);
  ~Leadership();

  void Start(Listener listener);
  // Releases the lease if leading; `done` when that is durable or has failed.
  void Stop(std::function<void()> done);

  bool leading() const { return leading_; }
  // REQUIRES: leading().
  CoordinatorNumber number() const { return number_; }
  // Looks at storage: OK if no higher number is there. What this coordinator made durable before is
  // then seen by every later leader when it takes office. kUnavailable otherwise.
  Co<Status> Confirm();
  // Whether it has seen within the lease timeout that it leads: not after a long sleep, until it
  // has looked again, nor while storage does not answer.
  bool fresh() const;
  // The file of the own number and its contents: proof that a worker sees the same directory.
  const std::string& nonce_path() const { return nonce_path_; }
  const std::string& nonce() const { return nonce_; }
  // "coordinator 12 at 10.0.0.1:7070 (host a, pid 4711)"; "" when nothing is known.
  const std::string& waits_for() const { return waits_for_; }
  // While leading: why storage does not let it renew its lease, and since when; "" when it does.
  // The lead is kept, for who is right is decided elsewhere; but nothing else can be written
  // either.
  const std::string& trouble() const { return trouble_; }
  int64_t trouble_since_wall_us() const { return trouble_since_wall_us_; }

 private:
  Co<void> Run();
  Co<Status> PrepareDirectories();
  // OK once it may claim the next number; false: asked to stop.
  Co<bool> AwaitTurn();
  Co<Status> ClaimNumber();
  Co<void> Lead();
  Co<void> RemoveOlderNumbers(std::vector<CoordinatorNumber> numbers);
  Co<StatusOr<std::vector<CoordinatorNumber>>> ListNumbers();
  Co<Status> WriteLease(bool released);
  Co<void> Pause(int64_t us);
  void SetTrouble(std::string trouble);
  std::string NumberPath(CoordinatorNumber number) const;

  const LeadershipOptions options_;
  Timers& timers_;
  FileSystem& files_;
  const Clock& clock_;
  Random& random_;
  Listener listener_;
  bool take_over_;
  bool stopping_ = false;
  bool ended_ = false;  // Run has returned
  std::function<void()> stopped_;
  bool leading_ = false;
  CoordinatorNumber highest_;  // last seen; the next one claimed is above
  CoordinatorNumber number_;
  int64_t seen_leading_us_ = 0;  // when the look began that found no higher number
  std::string nonce_path_;
  std::string nonce_;
  std::string waits_for_;
  std::string trouble_;
  int64_t trouble_since_wall_us_ = 0;
  TimerId timer_ = 0;
  CoSignal wake_;
  CoScope scope_;
};

}  // namespace weir
