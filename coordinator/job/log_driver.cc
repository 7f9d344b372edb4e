#include "coordinator/job/log_driver.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "coordinator/job/effects.h"

namespace weir {
namespace {

constexpr int64_t kRetryUs = 200'000;
constexpr size_t kTermDigits = 6;
constexpr size_t kEntryDigits = 10;

std::string Digits(uint64_t value, size_t digits) {
  std::string text = Concat(value);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

// The number that a name of at least so many digits stands for; 0 for any other name.
uint64_t ParseDigits(std::string_view name, size_t digits) {
  uint64_t number = 0;
  if (name.size() < digits) return 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

std::vector<uint64_t> Numbers(const std::vector<FileInfo>& names, size_t digits) {
  std::vector<uint64_t> numbers;
  for (const FileInfo& info : names) {
    if (uint64_t number = ParseDigits(info.name, digits)) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// A failed sync says nothing about a later one that succeeds: it ends the leader.
Status NotDurable(const Status& status) {
  return InternalError(Concat("the completion log could not be made durable: ", status.message()));
}

// The entry, or none if it was pruned meanwhile.
Co<StatusOr<std::optional<LogEntry>>> ReadEntry(FileSystem& files, std::string path) {
  StatusOr<std::string> bytes = co_await ReadWhole(files, path);
  if (bytes.status().code() == StatusCode::kNotFound) co_return std::optional<LogEntry>();
  if (!bytes.ok()) co_return bytes.status();
  StatusOr<LogEntry> entry = DecodeLogEntry(*bytes);
  if (!entry.ok()) co_return entry.status().WithContext(Concat("log entry ", path, " is damaged"));
  co_return std::optional<LogEntry>(*std::move(entry));
}

}  // namespace

LogDriver::LogDriver(CoordinatorEnvironment& environment, std::string job_directory,
                     std::string owner, std::function<void(const std::string&)> trouble,
                     std::function<Co<Status>()> confirm)
    : environment_(environment),
      directory_(JoinPath(job_directory, "log")),
      trouble_(std::move(trouble)),
      confirm_(std::move(confirm)),
      log_(std::make_unique<CompletionLog>(std::move(owner), environment.clock.WallMicros())) {}

std::string LogDriver::TermPath(Term term) const {
  return JoinPath(directory_, Digits(term.value(), kTermDigits));
}

std::string LogDriver::EntryPath(Term term, uint64_t number) const {
  return JoinPath(TermPath(term), Digits(number, kEntryDigits));
}

void LogDriver::RequireGeneration(Generation generation, std::string evidence) {
  required_ = generation;
  evidence_ = std::move(evidence);
}

Co<Status> LogDriver::Drive() {
  while (log_->action().has_value()) {
    LogAction action = *log_->action();
    Status status;
    if (action.kind == LogAction::Kind::kClaim && action.entry.kind == LogEntry::Kind::kStarted &&
        action.entry.generation <= required_) {
      co_return DataLossError(Concat("completion log ", directory_,
                                     " has lost entries: its last generation is ",
                                     action.entry.generation.value() - 1, ", ", evidence_));
    }
    switch (action.kind) {
      case LogAction::Kind::kListTerms:
        status = co_await ListTerms();
        break;
      case LogAction::Kind::kMakeTerm:
        status = co_await MakeTerm(action.term);
        break;
      case LogAction::Kind::kListTerm:
        status = co_await ListTerm(action.term);
        break;
      case LogAction::Kind::kClaim:
        status = co_await Claim(action);
        break;
    }
    if (status.ok()) {
      trouble_("");
      continue;
    }
    if (status.code() == StatusCode::kInternal || status.code() == StatusCode::kDataLoss) {
      co_return status;
    }
    trouble_(Concat("storage: ", status.message()));
    co_await Sleep(environment_.timers, kRetryUs);
  }
  co_return Status();
}

Co<Status> LogDriver::CheckThere(std::string directory) {
  StatusOr<FileInfo> present = co_await StatFile(environment_.files, directory);
  if (present.status().code() != StatusCode::kNotFound) co_return present.status();
  // Without its record the job is not there at all: another directory may be mounted.
  StatusOr<FileInfo> record =
      co_await StatFile(environment_.files, JoinPath(ParentPath(directory_), "job.pb"));
  if (!record.ok()) co_return record.status();
  co_return DataLossError(Concat("completion log ", directory, " does not exist: it was removed"));
}

Co<Status> LogDriver::ListTerms() {
  // Made with the job. A new one in its place would be a fresh start.
  Status there = co_await CheckThere(directory_);
  if (!there.ok()) co_return there;
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(environment_.files, directory_);
  if (!names.ok()) co_return names.status();
  // The names that were seen are durable before anybody acts on them.
  Status synced = co_await SyncDirectory(environment_.files, directory_);
  if (!synced.ok()) co_return NotDurable(synced);
  std::vector<Term> terms;
  for (uint64_t number : Numbers(*names, kTermDigits)) terms.push_back(Term(number));
  log_->OnTermsListed(std::move(terms));
  co_return Status();
}

Co<Status> LogDriver::MakeTerm(Term term) {
  Status made = co_await MakeDirectory(environment_.files, TermPath(term));
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) co_return made;
  Status synced = co_await SyncDirectory(environment_.files, directory_);
  if (!synced.ok()) co_return NotDurable(synced);
  if (made.ok()) {
    log_->OnTermMade();
  } else {
    log_->OnTermTaken();
  }
  co_return Status();
}

Co<Status> LogDriver::ListTerm(Term term) {
  std::string directory = TermPath(term);
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(environment_.files, directory);
  if (!names.ok()) co_return names.status();
  Status synced = co_await SyncDirectory(environment_.files, directory);
  if (!synced.ok()) co_return NotDurable(synced);
  std::vector<NumberedEntry> entries;
  for (uint64_t number : Numbers(*names, kEntryDigits)) {
    std::string path = EntryPath(term, number);
    synced = co_await SyncFile(environment_.files, path);
    if (synced.code() == StatusCode::kNotFound) continue;
    if (!synced.ok()) co_return NotDurable(synced);
    StatusOr<std::optional<LogEntry>> entry = co_await ReadEntry(environment_.files, path);
    if (!entry.ok()) co_return entry.status();
    if (entry->has_value()) entries.push_back(NumberedEntry{number, **std::move(entry)});
  }
  if (!entries.empty() && entries.back().entry.kind == LogEntry::Kind::kSealed) {
    // A claim that was under way would only find the seal: its temporary file is of no use.
    for (const FileInfo& info : *names) {
      if (info.name.find(kTemporaryMark) == std::string::npos) continue;
      Status removed = co_await RemoveFile(environment_.files, JoinPath(directory, info.name));
      if (!removed.ok() && removed.code() != StatusCode::kNotFound) co_return removed;
    }
  }
  log_->OnTermListed(std::move(entries));
  co_return Status();
}

Co<Status> LogDriver::Claim(LogAction action) {
  FileSystem& files = environment_.files;
  if (action.entry.kind == LogEntry::Kind::kSealed) {
    // A coordinator that was paused on its way into office does not know yet that it is too late.
    Status confirmed = co_await confirm_();
    if (!confirmed.ok()) co_return confirmed;
  }
  bool completes = action.entry.kind == LogEntry::Kind::kCompleted;
  std::string path = EntryPath(action.term, action.number);
  // Each attempt has a temporary file of its own: one whose sync failed is never linked.
  std::string temporary = Concat(path, kTemporaryMark, environment_.random.HexName(8));
  Status status = co_await CreateFile(files, temporary, EncodeLogEntry(action.entry));
  if (status.ok()) status = co_await SyncFile(files, temporary);
  if (!status.ok()) {
    (void)co_await RemoveFile(files, temporary);
    if (status.code() == StatusCode::kNotFound) {
      Status there = co_await CheckThere(ParentPath(path));
      if (there.code() == StatusCode::kDataLoss) co_return there;
    }
    co_return UnknownOutcomeError(status.message());
  }
  status = co_await LinkFile(files, temporary, path);
  bool occupied = status.code() == StatusCode::kAlreadyExists;
  if (status.ok() || occupied) {
    Status synced = co_await SyncDirectory(files, ParentPath(path));
    if (!synced.ok()) co_return NotDurable(synced);
    if (completes) KillPoint("coordinator.after_claim_sent");
  }
  // The claim stands or not without the temporary name: nobody waits for its end.
  files.Remove(temporary, [](const Status&) {});
  if (!status.ok() && !occupied) co_return UnknownOutcomeError(status.message());
  if (!occupied) {
    if (completes) KillPoint("coordinator.before_claim_answer");
    log_->OnClaimed();
    co_return Status();
  }
  status = co_await SyncFile(files, path);
  if (!status.ok() && status.code() != StatusCode::kNotFound) co_return NotDurable(status);
  StatusOr<std::optional<LogEntry>> entry = co_await ReadEntry(files, path);
  if (!entry.ok()) co_return entry.status();
  // Pruned since: by somebody who leads later, and only above something that is there.
  LogEntry found;
  if (entry->has_value()) found = **std::move(entry);
  log_->OnOccupied(found);
  co_return Status();
}

Co<void> LogDriver::Prune(std::set<CheckpointId> retained) {
  for (auto [term, number] : log_->PruneCandidates(retained)) {
    Status removed = co_await RemoveFile(environment_.files, EntryPath(term, number));
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
      log::Warning("cannot prune the completion log: ", removed.message());
      co_return;
    }
    log_->OnPruned(term, number);
  }
}

Co<Status> SyncLog(FileSystem& files, std::string job_directory) {
  std::string directory = JoinPath(job_directory, "log");
  StatusOr<std::vector<FileInfo>> terms = co_await ListDirectory(files, directory);
  if (!terms.ok()) co_return terms.status();
  for (uint64_t term : Numbers(*terms, kTermDigits)) {
    std::string term_path = JoinPath(directory, Digits(term, kTermDigits));
    StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, term_path);
    if (!names.ok()) co_return names.status();
    for (uint64_t number : Numbers(*names, kEntryDigits)) {
      Status synced = co_await SyncFile(files, JoinPath(term_path, Digits(number, kEntryDigits)));
      if (!synced.ok()) co_return synced;
    }
    Status synced = co_await SyncDirectory(files, term_path);
    if (!synced.ok()) co_return synced;
  }
  co_return co_await SyncDirectory(files, directory);
}

Co<StatusOr<std::vector<NumberedEntry>>> ReadLog(FileSystem& files, std::string job_directory) {
  std::string directory = JoinPath(job_directory, "log");
  std::vector<NumberedEntry> entries;
  StatusOr<std::vector<FileInfo>> terms = co_await ListDirectory(files, directory);
  if (terms.status().code() == StatusCode::kNotFound) co_return entries;
  if (!terms.ok()) co_return terms.status();
  for (uint64_t term : Numbers(*terms, kTermDigits)) {
    std::string term_path = JoinPath(directory, Digits(term, kTermDigits));
    StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, term_path);
    if (names.status().code() == StatusCode::kNotFound) continue;
    if (!names.ok()) co_return names.status();
    for (uint64_t number : Numbers(*names, kEntryDigits)) {
      StatusOr<std::optional<LogEntry>> entry =
          co_await ReadEntry(files, JoinPath(term_path, Digits(number, kEntryDigits)));
      if (!entry.ok()) co_return entry.status();
      if (entry->has_value()) entries.push_back(NumberedEntry{number, **std::move(entry)});
    }
  }
  co_return entries;
}

}  // namespace weir
