#include "coordinator/membership/leadership.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/graph/config.h"

namespace weir {
namespace {

constexpr int64_t kRenewalUs = 1'000'000;
constexpr int64_t kPollUs = 250'000;
constexpr std::string_view kLeaseName = "coordinator.lease";
constexpr std::string_view kNumbersName = "coordinators";
constexpr size_t kNumberDigits = 6;

// The number that a file name stands for; 0 for any other name.
uint64_t ParseNumber(std::string_view name) {
  uint64_t number = 0;
  if (name.size() < kNumberDigits) return 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

std::string Describe(const Lease& lease) {
  return Concat("coordinator ", lease.number, " at ", lease.address, " (host ", lease.host,
                ", pid ", lease.pid, ")");
}

}  // namespace

std::string EncodeLease(const Lease& lease) {
  ConfigValue value(ConfigMembers{});
  value.Set("number", static_cast<int64_t>(lease.number.value()));
  value.Set("address", lease.address);
  value.Set("host", lease.host);
  value.Set("pid", lease.pid);
  value.Set("time_us", lease.wall_us);
  value.Set("released", lease.released);
  return value.ToJson() + "\n";
}

StatusOr<Lease> DecodeLease(std::string_view text) {
  WEIR_ASSIGN_OR_RETURN(ConfigValue value, ParseJson(text));
  if (!value.is_object()) return DataLossError("lease is no JSON object");
  Config config(std::move(value));
  Lease lease;
  WEIR_ASSIGN_OR_RETURN(int64_t number, config.Integer("number"));
  lease.number = CoordinatorNumber(static_cast<uint64_t>(number));
  WEIR_ASSIGN_OR_RETURN(lease.address, config.Text("address"));
  WEIR_ASSIGN_OR_RETURN(lease.host, config.Text("host"));
  WEIR_ASSIGN_OR_RETURN(lease.pid, config.Integer("pid"));
  WEIR_ASSIGN_OR_RETURN(lease.wall_us, config.Integer("time_us"));
  WEIR_ASSIGN_OR_RETURN(lease.released, config.Bool("released"));
  return lease;
}

Leadership::Leadership(LeadershipOptions options, Timers& timers, FileSystem& files,
                       const Clock& clock, Random& random)
    : options_(std::move(options)),
      timers_(timers),
      files_(files),
      clock_(clock),
      random_(random),
      take_over_(options_.take_over) {}

Leadership::~Leadership() {
  if (timer_ != 0) timers_.Cancel(timer_);
}

void Leadership::Start(Listener listener) {
  listener_ = std::move(listener);
  scope_.Spawn(Run());
}

void Leadership::Stop(std::function<void()> done) {
  if (ended_) {
    done();
    return;
  }
  stopping_ = true;
  stopped_ = std::move(done);
  wake_.Notify();
}

std::string Leadership::NumberPath(CoordinatorNumber number) const {
  std::string digits = Concat(number);
  if (digits.size() < kNumberDigits) digits.insert(0, kNumberDigits - digits.size(), '0');
  return Concat(options_.checkpoint_dir, "/", kNumbersName, "/", digits);
}

Co<void> Leadership::Pause(int64_t us) {
  if (stopping_) co_return;
  timer_ = timers_.After(us, [this] {
    timer_ = 0;
    wake_.Notify();
  });
  co_await wake_.Wait();
  if (timer_ != 0) timers_.Cancel(timer_);
  timer_ = 0;
}

Co<void> Leadership::Run() {
  while (!stopping_) {
    Status prepared = co_await PrepareDirectories();
    if (prepared.ok()) break;
    log::Error("cannot prepare the checkpoint directory, trying again: ", prepared.message());
    co_await Pause(kRenewalUs);
  }
  while (!stopping_) {
    bool turn = co_await AwaitTurn();
    if (!turn) break;
    Status claimed = co_await ClaimNumber();
    if (!claimed.ok()) {
      log::Warning("cannot take the lead, waiting again: ", claimed.message());
      co_await Pause(kPollUs);
      continue;
    }
    waits_for_.clear();
    leading_ = true;
    seen_leading_us_ = clock_.MonotonicMicros();
    log::Info("leads as coordinator ", number_, " of ", options_.checkpoint_dir);
    listener_.won();
    co_await Lead();
    leading_ = false;
  }
  ended_ = true;
  if (stopped_) std::exchange(stopped_, nullptr)();
}

Co<Status> Leadership::PrepareDirectories() {
  co_return co_await MakeDirectories(files_, JoinPath(options_.checkpoint_dir, kNumbersName));
}

Co<StatusOr<std::vector<CoordinatorNumber>>> Leadership::ListNumbers() {
  StatusOr<std::vector<FileInfo>> names =
      co_await ListDirectory(files_, JoinPath(options_.checkpoint_dir, kNumbersName));
  if (!names.ok()) co_return names.status();
  std::vector<CoordinatorNumber> numbers;
  for (const FileInfo& info : *names) {
    if (uint64_t number = ParseNumber(info.name)) numbers.push_back(CoordinatorNumber(number));
  }
  std::sort(numbers.begin(), numbers.end());
  co_return numbers;
}

bool Leadership::fresh() const {
  return leading_ && clock_.MonotonicMicros() - seen_leading_us_ <= options_.lease_timeout_us;
}

Co<Status> Leadership::Confirm() {
  StatusOr<std::vector<CoordinatorNumber>> numbers = co_await ListNumbers();
  if (!numbers.ok()) co_return numbers.status();
  if (!leading_ || numbers->empty() || numbers->back() != number_) {
    co_return UnavailableError(Concat("coordinator ", number_, " does not lead any more"));
  }
  co_return Status();
}

Co<bool> Leadership::AwaitTurn() {
  // What the present leader shows of itself; it is alive while this changes.
  std::optional<std::string> seen;
  int64_t seen_us = 0;
  while (!stopping_) {
    StatusOr<std::vector<CoordinatorNumber>> numbers = co_await ListNumbers();
    StatusOr<std::string> text =
        co_await ReadWhole(files_, JoinPath(options_.checkpoint_dir, kLeaseName));
    bool absent = text.status().code() == StatusCode::kNotFound;
    if (!numbers.ok() || (!text.ok() && !absent)) {
      log::Warning("cannot see who leads: ",
                   numbers.ok() ? text.status().message() : numbers.status().message());
      co_await Pause(kPollUs);
      continue;
    }
    highest_ = numbers->empty() ? CoordinatorNumber(0) : numbers->back();
    if (take_over_ || (numbers->empty() && absent)) {
      take_over_ = false;
      co_return true;
    }
    StatusOr<Lease> lease =
        absent ? StatusOr<Lease>(NotFoundError("no lease")) : DecodeLease(*text);
    if (lease.ok() && lease->released && lease->number == highest_) co_return true;
    std::string shown = Concat(highest_, "\n", absent ? std::string() : *text);
    if (shown != seen) {
      bool first = !seen.has_value();
      seen = std::move(shown);
      seen_us = clock_.MonotonicMicros();
      std::string whom = lease.ok() && lease->number == highest_
                             ? Describe(*lease)
                             : Concat("coordinator ", highest_, " (which has shown no lease yet)");
      if (first || whom != waits_for_) {
        waits_for_ = std::move(whom);
        log::Info("waits for ", waits_for_, ", which leads ", options_.checkpoint_dir);
      }
      if (first) listener_.waiting();
    } else if (clock_.MonotonicMicros() - seen_us >= options_.lease_timeout_us) {
      log::Info("takes over from ", waits_for_, ": its lease has not changed for ",
                (clock_.MonotonicMicros() - seen_us) / 1000, " ms");
      co_return true;
    }
    co_await Pause(kPollUs);
  }
  co_return false;
}

Co<Status> Leadership::ClaimNumber() {
  CoordinatorNumber number(highest_.value() + 1);
  std::string path = NumberPath(number);
  ConfigValue value(ConfigMembers{});
  value.Set("number", static_cast<int64_t>(number.value()));
  value.Set("address", options_.address);
  value.Set("host", options_.host);
  value.Set("pid", options_.pid);
  value.Set("token", random_.HexName(32));
  std::string contents = value.ToJson() + "\n";
  Status claimed = co_await ClaimFile(files_, path, contents, random_.HexName(8));
  if (!claimed.ok()) {
    // Taken by another, or nobody knows: only the contents say.
    StatusOr<std::string> found = co_await ReadWhole(files_, path);
    if (!found.ok() || *found != contents) co_return claimed;
  }
  number_ = number;
  nonce_path_ = path;
  nonce_ = contents;
  co_return Status();
}

Co<Status> Leadership::WriteLease(bool released) {
  Lease lease;
  lease.number = number_;
  lease.address = options_.address;
  lease.host = options_.host;
  lease.pid = options_.pid;
  lease.wall_us = clock_.WallMicros();
  lease.released = released;
  std::string text = EncodeLease(lease);
  co_return co_await ReplaceDurably(files_, JoinPath(options_.checkpoint_dir, kLeaseName),
                                    std::move(text), random_.HexName(8));
}

Co<void> Leadership::RemoveOlderNumbers(std::vector<CoordinatorNumber> numbers) {
  for (CoordinatorNumber number : numbers) {
    if (number >= number_) continue;
    Status removed = co_await RemoveFile(files_, NumberPath(number));
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
      log::Warning("cannot remove ", NumberPath(number), ": ", removed.message());
    }
  }
}

void Leadership::SetTrouble(std::string trouble) {
  if (trouble_.empty()) trouble_since_wall_us_ = clock_.WallMicros();
  if (trouble.empty()) trouble_since_wall_us_ = 0;
  trouble_ = std::move(trouble);
}

Co<void> Leadership::Lead() {
  while (true) {
    bool release = stopping_;
    int64_t look_us = clock_.MonotonicMicros();
    StatusOr<std::vector<CoordinatorNumber>> numbers = co_await ListNumbers();
    if (numbers.ok() && !numbers->empty() && numbers->back() > number_) {
      std::string reason = Concat("coordinator ", numbers->back(), " leads now");
      log::Warning("coordinator ", number_, " steps down: ", reason);
      leading_ = false;
      SetTrouble("");
      listener_.lost(std::move(reason));
      co_return;
    }
    Status renewed = numbers.status();
    if (renewed.ok() && std::find(numbers->begin(), numbers->end(), number_) == numbers->end()) {
      // Another directory than the one it leads: whatever was made here would be hidden as soon as
      // the right one is mounted again.
      renewed = UnavailableError(
          Concat(NumberPath(number_), ", by which it leads, is not there (is it mounted?)"));
    }
    if (renewed.ok()) {
      seen_leading_us_ = look_us;
      co_await RemoveOlderNumbers(*std::move(numbers));
      renewed = co_await WriteLease(release);
      if (release && renewed.ok()) log::Info("coordinator ", number_, " has released its lease");
    }
    if (!renewed.ok()) log::Warning("cannot renew the lease: ", renewed.message());
    SetTrouble(renewed.ok() ? "" : renewed.message());
    if (release) break;
    co_await Pause(kRenewalUs);
  }
}

}  // namespace weir
