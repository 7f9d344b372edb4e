#include "tests/sim/storage.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {
namespace {

enum class Operation : uint8_t {
  kRead,
  kCreate,
  kWrite,
  kTruncate,
  kSync,
  kSyncDirectory,
  kLink,
  kRename,
  kList,
  kStat,
  kRemove,
  kRemoveDirectory,
  kMakeDirectory,
};

// A removal behind a creation that is slow.
constexpr int64_t kLookAgainUs = 1000;

constexpr std::string_view kNames[] = {
    "read",           "create", "write", "truncate", "sync",   "sync_directory",
    "link",           "rename", "list",  "stat",     "remove", "remove_directory",
    "make_directory",
};

std::string_view NameOf(Operation operation) { return kNames[static_cast<int>(operation)]; }

bool NeedsRoom(Operation operation) {
  switch (operation) {
    case Operation::kCreate:
    case Operation::kWrite:
    case Operation::kLink:
    case Operation::kRename:
    case Operation::kMakeDirectory:
      return true;
    default:
      return false;
  }
}

bool Changes(Operation operation) {
  return NeedsRoom(operation) || operation == Operation::kTruncate ||
         operation == Operation::kRemove || operation == Operation::kRemoveDirectory;
}

// The only executor of the file system that is there to arrange and to look: nothing is asked of
// it that takes time.
class NoExecutor : public Executor {
 public:
  void Post(std::function<void()>) override { WEIR_CHECK_MESSAGE(false, "view() is to look at"); }
  bool InOwnerThread() const override { return true; }
};

}  // namespace

// Everything behind the file systems. A request lives in a slot of a pool from Submit until its
// answer was delivered or nobody is left to get it; events carry the number of the slot, so that
// they need no memory of their own.
struct Storage::State {
  enum class Phase : uint8_t { kFree, kScheduled, kHanging, kAnswering, kPosted };

  struct Request {
    Phase phase = Phase::kFree;
    Operation operation = Operation::kRead;
    uint32_t ticket = 0;   // of the present use of the slot
    uint64_t number = 0;   // in the order of asking
    int64_t boot = 0;      // of the machine
    View* view = nullptr;  // nullptr: it is gone
    Process* process = nullptr;
    const std::string* title = nullptr;
    std::weak_ptr<int> life;
    Executor* owner = nullptr;
    std::string path, to, bytes;
    int64_t offset = 0;  // or size
    int64_t length = 0;
    FileSystem::Done done;
    FileSystem::DoneWith<std::string> done_bytes;
    FileSystem::DoneWith<std::vector<FileInfo>> done_list;
    FileSystem::DoneWith<FileInfo> done_info;
    // What is answered.
    Status status;
    std::vector<FileInfo> list;

    bool gone() const { return view == nullptr || life.expired(); }
    // Makes an entry of a completion log.
    bool is_claim() const {
      return operation == Operation::kLink && to.find("/log/") != std::string::npos;
    }
  };

  State(Scheduler& scheduler, const World& world, Probes& probes)
      : scheduler(scheduler),
        world(world),
        probes(probes),
        disk(std::make_shared<MemoryDisk>()),
        view(no_executor, disk) {}

  void Release(Request& request);
  void Submit(uint32_t slot);
  void Schedule(uint32_t slot, int64_t delay_us);
  void CarryOut(uint32_t slot);
  // The file that it removes is being made, by request of the same process before.
  bool BehindCreation(const Request& request) const;
  // What is in the way of carrying it out.
  Status Refusal(const Request& request);
  void Act(Request& request);
  void AnswerLater(uint32_t slot);
  void Answer(uint32_t slot);
  void Deliver(uint32_t slot, uint32_t ticket);
  void Forget(View* view);
  const std::string* Title(const Process& process);

  Scheduler& scheduler;
  const World& world;
  Probes& probes;
  NoExecutor no_executor;
  std::shared_ptr<MemoryDisk> disk;
  MemoryFileSystem view;
  std::function<void(const StorageEvent&)> observer;
  Hook before, after;
  Slowness slowness;
  bool faults_on = false;
  bool full = false;
  bool read_only = false;
  bool hanging = false;
  int64_t boot = 0;
  uint64_t requests = 0;
  std::deque<Request> pool;
  std::vector<uint32_t> free;
  std::deque<std::string> titles;  // of processes that may be gone
};

// The file system of one process.
class Storage::View : public FileSystem {
 public:
  View(State& state, Process& process, Executor& owner)
      : state_(state), process_(process), owner_(owner), title_(state.Title(process)) {}
  ~View() override { state_.Forget(this); }

  void Read(std::string path, int64_t offset, int64_t length, DoneWith<std::string> done) override {
    uint32_t slot = Begin(Operation::kRead, std::move(path));
    if (slot == kNone) return;
    State::Request& request = state_.pool[slot];
    request.offset = offset;
    request.length = length;
    request.done_bytes = std::move(done);
    state_.Submit(slot);
  }
  void Create(std::string path, std::string bytes, Done done) override {
    uint32_t slot = Begin(Operation::kCreate, std::move(path));
    if (slot == kNone) return;
    state_.pool[slot].bytes = std::move(bytes);
    End(slot, std::move(done));
  }
  void WriteAt(std::string path, int64_t offset, std::string bytes, Done done) override {
    uint32_t slot = Begin(Operation::kWrite, std::move(path));
    if (slot == kNone) return;
    state_.pool[slot].offset = offset;
    state_.pool[slot].bytes = std::move(bytes);
    End(slot, std::move(done));
  }
  void Truncate(std::string path, int64_t size, Done done) override {
    uint32_t slot = Begin(Operation::kTruncate, std::move(path));
    if (slot == kNone) return;
    state_.pool[slot].offset = size;
    End(slot, std::move(done));
  }
  void Sync(std::string path, Done done) override {
    Plain(Operation::kSync, std::move(path), std::move(done));
  }
  void SyncDirectory(std::string path, Done done) override {
    Plain(Operation::kSyncDirectory, std::move(path), std::move(done));
  }
  void Link(std::string from, std::string to, Done done) override {
    uint32_t slot = Begin(Operation::kLink, std::move(from));
    if (slot == kNone) return;
    state_.pool[slot].to = std::move(to);
    End(slot, std::move(done));
  }
  void Rename(std::string from, std::string to, Done done) override {
    uint32_t slot = Begin(Operation::kRename, std::move(from));
    if (slot == kNone) return;
    state_.pool[slot].to = std::move(to);
    End(slot, std::move(done));
  }
  void List(std::string path, DoneWith<std::vector<FileInfo>> done) override {
    uint32_t slot = Begin(Operation::kList, std::move(path));
    if (slot == kNone) return;
    state_.pool[slot].done_list = std::move(done);
    state_.Submit(slot);
  }
  void Stat(std::string path, DoneWith<FileInfo> done) override {
    uint32_t slot = Begin(Operation::kStat, std::move(path));
    if (slot == kNone) return;
    state_.pool[slot].done_info = std::move(done);
    state_.Submit(slot);
  }
  void Remove(std::string path, Done done) override {
    Plain(Operation::kRemove, std::move(path), std::move(done));
  }
  void RemoveDirectory(std::string path, Done done) override {
    Plain(Operation::kRemoveDirectory, std::move(path), std::move(done));
  }
  void MakeDirectory(std::string path, Done done) override {
    Plain(Operation::kMakeDirectory, std::move(path), std::move(done));
  }

 private:
  static constexpr uint32_t kNone = ~0u;

  // kNone: the process is dead, nothing is asked for any more.
  uint32_t Begin(Operation operation, std::string path) {
    if (!process_.alive()) return kNone;
    uint32_t slot;
    if (state_.free.empty()) {
      slot = static_cast<uint32_t>(state_.pool.size());
      state_.pool.emplace_back();
    } else {
      slot = state_.free.back();
      state_.free.pop_back();
    }
    State::Request& request = state_.pool[slot];
    request.operation = operation;
    request.number = ++state_.requests;
    request.path = std::move(path);
    request.view = this;
    request.process = &process_;
    request.title = title_;
    request.life = process_.life();
    request.owner = &owner_;
    return slot;
  }
  void End(uint32_t slot, Done done) {
    state_.pool[slot].done = std::move(done);
    state_.Submit(slot);
  }
  void Plain(Operation operation, std::string path, Done done) {
    uint32_t slot = Begin(operation, std::move(path));
    if (slot != kNone) End(slot, std::move(done));
  }

  State& state_;
  Process& process_;
  Executor& owner_;
  const std::string* title_;
};

const std::string* Storage::State::Title(const Process& process) {
  return &titles.emplace_back(process.title());
}

void Storage::State::Release(Request& request) {
  // What the callbacks hold is let go last: that may ask for more.
  FileSystem::Done done = std::move(request.done);
  auto done_bytes = std::move(request.done_bytes);
  auto done_list = std::move(request.done_list);
  auto done_info = std::move(request.done_info);
  request.done = nullptr;
  request.done_bytes = nullptr;
  request.done_list = nullptr;
  request.done_info = nullptr;
  request.phase = Phase::kFree;
  ++request.ticket;
  request.view = nullptr;
  request.process = nullptr;
  request.life.reset();
  request.bytes = std::string();
  request.to.clear();
  request.list.clear();
  request.status = Status();
}

void Storage::State::Submit(uint32_t slot) {
  pool[slot].boot = boot;
  Process* const process = pool[slot].process;  // nullptr: its file system went while it was paused
  if (process != nullptr && process->paused()) {
    // Stopped inside the very event that asks: it asks when it goes on.
    pool[slot].phase = Phase::kScheduled;
    process->After(0, [this, slot, boot = boot] {
      if (pool[slot].boot == boot) Submit(slot);
    });
    return;
  }
  int64_t delay_us = scheduler.Between(0, world.storage_us_max);
  const EffectOdds& odds = world.odds;
  if (faults_on &&
      (scheduler.Chance(odds.storage_slow) ||
       (odds.claim_slow > 0 && pool[slot].is_claim() && scheduler.Chance(odds.claim_slow)))) {
    delay_us = scheduler.Between(0, odds.storage_slow_us);
  }
  if (slowness && process != nullptr) {
    const Request& request = pool[slot];
    delay_us =
        std::max(delay_us, slowness(*process, NameOf(request.operation), request.path, request.to));
  }
  Schedule(slot, delay_us);
}

void Storage::State::Schedule(uint32_t slot, int64_t delay_us) {
  pool[slot].phase = Phase::kScheduled;
  scheduler.After(delay_us, [this, slot] { CarryOut(slot); });
}

Status Storage::State::Refusal(const Request& request) {
  auto refuse = [&](int error_number, std::string_view why) {
    return ErrnoError(error_number,
                      Concat("cannot ", NameOf(request.operation), " ", request.path, why));
  };
  if (before && !request.gone()) {
    Status status = before(*request.process, NameOf(request.operation), request.path, request.to);
    if (!status.ok()) return status;
  }
  if (full && NeedsRoom(request.operation)) {
    probes.Hit(Probe::kDiskFull);
    return refuse(ENOSPC, "");
  }
  if (read_only && Changes(request.operation)) {
    probes.Hit(Probe::kDiskReadOnly);
    return refuse(EROFS, "");
  }
  if (faults_on && scheduler.Chance(world.odds.storage_error_before)) {
    if (request.operation == Operation::kSync && scheduler.Chance(0.5)) {
      disk->FailSync(request.path);
    }
    return refuse(EIO, " (simulated)");
  }
  return {};
}

bool Storage::State::BehindCreation(const Request& request) const {
  if (request.operation != Operation::kRemove || request.life.expired()) return false;
  return std::any_of(pool.begin(), pool.end(), [&](const Request& other) {
    return (other.phase == Phase::kScheduled || other.phase == Phase::kHanging) &&
           other.operation == Operation::kCreate && other.number < request.number &&
           other.process == request.process && other.path == request.path;
  });
}

void Storage::State::CarryOut(uint32_t slot) {
  Request& request = pool[slot];
  if (request.boot != boot) {
    // The machine lost its power meanwhile.
    Release(request);
    free.push_back(slot);
    return;
  }
  if (hanging) {
    probes.Hit(Probe::kDiskHanging);
    request.phase = Phase::kHanging;
    return;
  }
  if (BehindCreation(request)) return Schedule(slot, kLookAgainUs);
  bool was_gone = request.gone();
  const bool must = request.operation == Operation::kRemove && !request.life.expired();
  if (was_gone && !must && scheduler.Chance(0.5)) {
    Release(request);
    free.push_back(slot);
    return;
  }
  request.status = Refusal(request);
  if (!was_gone && request.gone()) {  // the hook was a crash just before
    Release(request);
    free.push_back(slot);
    return;
  }
  if (request.status.ok()) Act(request);
  AnswerLater(slot);
}

void Storage::State::Act(Request& request) {
  const std::string& path = request.path;
  const std::string& to = request.to;
  Status& status = request.status;
  switch (request.operation) {
    case Operation::kRead: {
      StatusOr<std::string> bytes = disk->Read(path, request.offset, request.length);
      status = bytes.status();
      if (bytes.ok()) request.bytes = *std::move(bytes);
      break;
    }
    case Operation::kCreate:
      status = disk->Create(path, std::move(request.bytes));
      break;
    case Operation::kWrite:
      status = disk->WriteAt(path, request.offset, request.bytes);
      break;
    case Operation::kTruncate:
      status = disk->Truncate(path, request.offset);
      break;
    case Operation::kSync:
      status = disk->Sync(path);
      break;
    case Operation::kSyncDirectory:
      status = disk->SyncDirectory(path);
      break;
    case Operation::kLink:
      status = disk->Link(path, to);
      break;
    case Operation::kRename:
      status = disk->Rename(path, to);
      break;
    case Operation::kList: {
      StatusOr<std::vector<FileInfo>> list = disk->List(path);
      status = list.status();
      if (list.ok()) request.list = *std::move(list);
      break;
    }
    case Operation::kStat: {
      StatusOr<FileInfo> info = disk->Stat(path);
      status = info.status();
      if (info.ok()) request.list.push_back(*std::move(info));
      break;
    }
    case Operation::kRemove:
      status = disk->Remove(path);
      break;
    case Operation::kRemoveDirectory:
      status = disk->RemoveDirectory(path);
      break;
    case Operation::kMakeDirectory:
      status = disk->MakeDirectory(path);
      break;
  }
  std::hash<std::string_view> hash;
  scheduler.Note(hash(path) * 31 + hash(to) + static_cast<uint64_t>(request.operation) * 2 +
                 (status.ok() ? 1 : 0));
  if (scheduler.tracing()) {
    std::string text = Concat(request.gone() ? "late " : "", NameOf(request.operation), " ", path,
                              to.empty() ? "" : " to ", to);
    if (!status.ok()) text += Concat(": ", status.message());
    scheduler.Trace(*request.title, text);
  }
  const bool claim = request.is_claim();
  if (request.gone()) {
    probes.Hit(Probe::kLateFileOperation);
    if (claim) probes.Hit(Probe::kClaimLate);
  }
  if (!status.ok()) {
    // The same bytes: its own entry, claimed again.
    if (claim && status.code() == StatusCode::kAlreadyExists) {
      const std::string* own = disk->Bytes(path);
      const std::string* there = disk->Bytes(to);
      if (own != nullptr && there != nullptr && *own != *there) probes.Hit(Probe::kClaimOccupied);
    }
    return;
  }
  if (observer) {
    observer({scheduler.now_us(), *request.title, NameOf(request.operation), path, to});
  }
  Status injected;
  if (after && !request.gone()) {
    injected = after(*request.process, NameOf(request.operation), path, to);
  }
  if (injected.ok() && faults_on &&
      (scheduler.Chance(world.odds.storage_error_after) ||
       (claim && scheduler.Chance(world.odds.claim_error_after)))) {
    injected = ErrnoError(
        EIO, Concat("cannot ", NameOf(request.operation), " ", path, " (simulated, carried out)"));
  }
  if (injected.ok()) return;
  if (claim) probes.Hit(Probe::kClaimUnknown);
  status = std::move(injected);
}

// Half of the answers come at once, so that what asks for one thing after the other is not slowed
// down twice; the others leave a gap between the effect and its answer.
void Storage::State::AnswerLater(uint32_t slot) {
  Request& request = pool[slot];
  request.phase = Phase::kAnswering;
  if (request.gone() || scheduler.random().Below(2) == 0) {
    Answer(slot);
    return;
  }
  scheduler.After(scheduler.Between(0, world.storage_us_max), [this, slot] { Answer(slot); });
}

void Storage::State::Answer(uint32_t slot) {
  Request& request = pool[slot];
  if (request.gone()) {
    Release(request);
    free.push_back(slot);
    return;
  }
  request.phase = Phase::kPosted;
  uint32_t ticket = request.ticket;
  // Of 16 bytes that can be copied, so that std::function keeps them in itself.
  struct Mail {
    State* state;
    uint32_t slot, ticket;
    void operator()() const { state->Deliver(slot, ticket); }
  };
  request.owner->Post(Mail{this, slot, ticket});
}

void Storage::State::Deliver(uint32_t slot, uint32_t ticket) {
  Request& request = pool[slot];
  if (request.ticket != ticket) return;
  Operation operation = request.operation;
  Status status = std::move(request.status);
  switch (operation) {
    case Operation::kRead: {
      auto done = std::move(request.done_bytes);
      std::string bytes = std::move(request.bytes);
      Release(request);
      free.push_back(slot);
      done(status.ok() ? StatusOr<std::string>(std::move(bytes)) : std::move(status));
      return;
    }
    case Operation::kList: {
      auto done = std::move(request.done_list);
      std::vector<FileInfo> list = std::move(request.list);
      Release(request);
      free.push_back(slot);
      done(status.ok() ? StatusOr<std::vector<FileInfo>>(std::move(list)) : std::move(status));
      return;
    }
    case Operation::kStat: {
      auto done = std::move(request.done_info);
      std::vector<FileInfo> list = std::move(request.list);
      Release(request);
      free.push_back(slot);
      done(status.ok() ? StatusOr<FileInfo>(std::move(list.front())) : std::move(status));
      return;
    }
    default: {
      auto done = std::move(request.done);
      Release(request);
      free.push_back(slot);
      done(std::move(status));
    }
  }
}

void Storage::State::Forget(View* view) {
  // By number: letting go of a callback may ask for more.
  for (uint32_t slot = 0; slot < pool.size(); ++slot) {
    Request& request = pool[slot];
    if (request.view != view) continue;
    if (request.phase == Phase::kPosted) {
      Release(request);
      free.push_back(slot);
      continue;
    }
    request.view = nullptr;
    request.process = nullptr;
    FileSystem::Done done = std::exchange(request.done, nullptr);
    auto done_bytes = std::exchange(request.done_bytes, nullptr);
    auto done_list = std::exchange(request.done_list, nullptr);
    auto done_info = std::exchange(request.done_info, nullptr);
  }
}

Storage::Storage(Scheduler& scheduler, const World& world, Probes& probes)
    : state_(std::make_unique<State>(scheduler, world, probes)) {}

Storage::~Storage() = default;

std::unique_ptr<FileSystem> Storage::Open(Process& process, Executor& owner) {
  return std::make_unique<View>(*state_, process, owner);
}

void Storage::set_observer(std::function<void(const StorageEvent&)> observer) {
  state_->observer = std::move(observer);
}

void Storage::PowerLoss() {
  ++state_->boot;
  // What hangs never comes back.
  for (uint32_t slot = 0; slot < state_->pool.size(); ++slot) {
    State::Request& request = state_->pool[slot];
    if (request.phase != State::Phase::kHanging) continue;
    state_->Release(request);
    state_->free.push_back(slot);
  }
  bool lost = state_->disk->CrashByChance(state_->scheduler.random());
  if (lost) state_->probes.Hit(Probe::kPowerLossUnsynced);
  if (state_->scheduler.tracing()) {
    state_->scheduler.Trace("storage", lost ? "power loss: not all was synced" : "power loss");
  }
}

void Storage::set_faults_on(bool on) { state_->faults_on = on; }

void Storage::set_full(bool full) { state_->full = full; }

void Storage::set_read_only(bool read_only) { state_->read_only = read_only; }

void Storage::set_hanging(bool hanging) {
  state_->hanging = hanging;
  if (hanging) return;
  for (uint32_t slot = 0; slot < state_->pool.size(); ++slot) {
    if (state_->pool[slot].phase != State::Phase::kHanging) continue;
    state_->Schedule(slot, state_->scheduler.Between(0, state_->world.storage_us_max));
  }
}

void Storage::set_before(Hook hook) { state_->before = std::move(hook); }

void Storage::set_after(Hook hook) { state_->after = std::move(hook); }

void Storage::set_slowness(Slowness slowness) { state_->slowness = std::move(slowness); }

MemoryFileSystem& Storage::view() { return state_->view; }

}  // namespace weir::sim
