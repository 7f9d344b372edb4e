#include "coordinator/checkpoint/completion_log.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/kill_point.h"

namespace weir {
namespace {

bool IsIntent(LogEntry::Kind kind) {
  return kind == LogEntry::Kind::kCancelling || kind == LogEntry::Kind::kFailing ||
         kind == LogEntry::Kind::kStopping;
}

bool IsEnd(LogEntry::Kind kind) {
  return kind == LogEntry::Kind::kCanceled || kind == LogEntry::Kind::kFailed ||
         kind == LogEntry::Kind::kFinished;
}

// The completed checkpoint an entry tells of, if any.
std::optional<CompletedCheckpoint> CompletedIn(const LogEntry& entry) {
  if (entry.kind == LogEntry::Kind::kCompleted) {
    return CompletedCheckpoint{entry.checkpoint, entry.generation, entry.manifest_checksum};
  }
  if (entry.kind == LogEntry::Kind::kStarted && entry.checkpoint.value() > 0) {
    return CompletedCheckpoint{entry.checkpoint, entry.checkpoint_generation,
                               entry.manifest_checksum};
  }
  return std::nullopt;
}

}  // namespace

CompletionLog::CompletionLog(std::string owner, int64_t wall_us)
    : owner_(std::move(owner)), wall_us_(wall_us) {
  Ask(LogAction::Kind::kListTerms, Term());
}

void CompletionLog::Ask(LogAction::Kind kind, Term term) {
  action_ = LogAction{.kind = kind, .term = term, .number = 0, .entry = {}};
}

void CompletionLog::AskClaim(Term term, uint64_t number, LogEntry entry) {
  action_ = LogAction{
      .kind = LogAction::Kind::kClaim, .term = term, .number = number, .entry = std::move(entry)};
}

LogEntry CompletionLog::MakeEntry(LogEntry::Kind kind, int64_t wall_us) {
  LogEntry entry;
  entry.kind = kind;
  entry.token = Concat(owner_, "-", ++tokens_);
  entry.wall_us = wall_us;
  return entry;
}

LogEntry CompletionLog::MakeStarted(int64_t wall_us) {
  LogEntry entry = MakeEntry(LogEntry::Kind::kStarted, wall_us);
  entry.generation = Generation(generation_.value() + 1);
  if (newest_) {
    entry.checkpoint = newest_->checkpoint;
    entry.checkpoint_generation = newest_->generation;
    entry.manifest_checksum = newest_->manifest_checksum;
  }
  return entry;
}

void CompletionLog::OnTermsListed(std::vector<Term> terms) {
  WEIR_CHECK(action_ && step_ == Step::kListTerms);
  to_seal_.insert(terms.begin(), terms.end());
  const uint64_t highest = to_seal_.empty() ? 0 : to_seal_.rbegin()->value();
  step_ = Step::kMakeTerm;
  Ask(LogAction::Kind::kMakeTerm, Term(highest + 1));
}

void CompletionLog::OnTermTaken() {
  WEIR_CHECK(action_ && step_ == Step::kMakeTerm);
  // Somebody else's, or an own one whose making was not answered: sealed like any earlier one.
  to_seal_.insert(action_->term);
  Ask(LogAction::Kind::kMakeTerm, Term(action_->term.value() + 1));
}

void CompletionLog::OnTermMade() {
  WEIR_CHECK(action_ && step_ == Step::kMakeTerm);
  term_ = action_->term;
  LookAtNextTerm();
}

void CompletionLog::LookAtNextTerm() {
  if (!to_seal_.empty()) {
    step_ = Step::kLook;
    Ask(LogAction::Kind::kListTerm, *to_seal_.begin());
    return;
  }
  if (end_) {
    phase_ = Phase::kEnded;
    action_.reset();
    return;
  }
  step_ = Step::kClaim;
  AskClaim(term_, 1, MakeStarted(wall_us_));
}

void CompletionLog::OnTermListed(std::vector<NumberedEntry> entries) {
  WEIR_CHECK(action_ && (step_ == Step::kLook || step_ == Step::kRead));
  const Term term = action_->term;
  const auto highest = std::max_element(
      entries.begin(), entries.end(),
      [](const NumberedEntry& a, const NumberedEntry& b) { return a.number < b.number; });
  const bool is_sealed = highest != entries.end() && highest->entry.kind == LogEntry::Kind::kSealed;
  if (!is_sealed && !PlantedBug("no_seal")) {
    const uint64_t last = highest == entries.end() ? 0 : highest->number;
    step_ = Step::kSeal;
    AskClaim(term, last + 1, MakeEntry(LogEntry::Kind::kSealed, wall_us_));
    return;
  }
  if (step_ == Step::kLook) {
    // A listing is no snapshot: it may show a seal and miss an entry below that was made while it
    // went on. One that begins when the seal is there misses nothing.
    step_ = Step::kRead;
    Ask(LogAction::Kind::kListTerm, term);
    return;
  }
  std::sort(entries.begin(), entries.end(),
            [](const NumberedEntry& a, const NumberedEntry& b) { return a.number < b.number; });
  for (const NumberedEntry& entry : entries) Learn(term, entry.number, entry.entry);
  to_seal_.erase(term);
  LookAtNextTerm();
}

void CompletionLog::OnClaimed() {
  WEIR_CHECK(action_ && (step_ == Step::kSeal || step_ == Step::kClaim));
  if (step_ == Step::kSeal) {
    // A pruned number may have been filled, below entries that were made meanwhile: look again.
    LookAtNextTerm();
    return;
  }
  const LogAction done = std::move(*action_);
  action_.reset();
  number_ = done.number;
  Learn(done.term, done.number, done.entry);
  phase_ = end_ ? Phase::kEnded : Phase::kLeading;
}

void CompletionLog::OnOccupied(const LogEntry& entry) {
  WEIR_CHECK(action_ && (step_ == Step::kSeal || step_ == Step::kClaim));
  if (step_ == Step::kSeal || entry.token == action_->entry.token) {
    OnClaimed();
    return;
  }
  action_.reset();
  phase_ = Phase::kDeposed;
}

void CompletionLog::Learn(Term term, uint64_t number, const LogEntry& entry) {
  if (!entries_.emplace(std::pair(term, number), entry).second) return;
  if (entry.kind == LogEntry::Kind::kStarted || entry.kind == LogEntry::Kind::kCompleted) {
    generation_ = std::max(generation_, entry.generation);
  }
  if (std::optional<CompletedCheckpoint> completed = CompletedIn(entry);
      completed && (!newest_ || completed->checkpoint > newest_->checkpoint)) {
    newest_ = completed;
  }
  if (IsIntent(entry.kind)) intent_ = entry;  // terms and numbers are learnt in order
  if (IsEnd(entry.kind)) {
    end_ = entry;
  }
  if (end_) intent_.reset();
}

void CompletionLog::ClaimOwn(LogEntry entry) {
  WEIR_CHECK(leading() && !action_);
  step_ = Step::kClaim;
  AskClaim(term_, number_ + 1, std::move(entry));
}

void CompletionLog::ClaimStarted(int64_t wall_us) { ClaimOwn(MakeStarted(wall_us)); }

void CompletionLog::ClaimCompleted(CheckpointId checkpoint, uint64_t manifest_checksum,
                                   int64_t wall_us) {
  WEIR_CHECK(!newest_ || checkpoint > newest_->checkpoint);
  LogEntry entry = MakeEntry(LogEntry::Kind::kCompleted, wall_us);
  entry.generation = generation_;
  entry.checkpoint = checkpoint;
  entry.manifest_checksum = manifest_checksum;
  ClaimOwn(std::move(entry));
}

void CompletionLog::ClaimIntent(LogEntry::Kind kind, CheckpointId checkpoint, std::string reason,
                                int64_t wall_us) {
  WEIR_CHECK(IsIntent(kind));
  LogEntry entry = MakeEntry(kind, wall_us);
  entry.checkpoint = checkpoint;
  entry.reason = std::move(reason);
  ClaimOwn(std::move(entry));
}

void CompletionLog::ClaimEnd(LogEntry::Kind kind, std::string reason, int64_t wall_us,
                             const JobTotals& totals, bool leaves_rows) {
  WEIR_CHECK(IsEnd(kind));
  LogEntry entry = MakeEntry(kind, wall_us);
  entry.reason = std::move(reason);
  entry.totals = totals;
  entry.leaves_rows = leaves_rows;
  ClaimOwn(std::move(entry));
}

std::vector<CompletedCheckpoint> CompletionLog::Completed() const {
  std::map<CheckpointId, CompletedCheckpoint> all;
  for (const auto& [place, entry] : entries_) {
    if (std::optional<CompletedCheckpoint> completed = CompletedIn(entry)) {
      all.emplace(completed->checkpoint, *completed);
    }
  }
  std::vector<CompletedCheckpoint> result;
  for (const auto& [checkpoint, completed] : all) result.push_back(completed);
  return result;
}

std::vector<std::pair<Term, uint64_t>> CompletionLog::PruneCandidates(
    const std::set<CheckpointId>& retained) const {
  std::vector<std::pair<Term, uint64_t>> result;
  if (!leading() || action_) return result;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto next = std::next(entry);
    const bool highest = next == entries_.end() || next->first.first != entry->first.first;
    const LogEntry& content = entry->second;
    const std::optional<CompletedCheckpoint> completed = CompletedIn(content);
    const bool needed =
        IsIntent(content.kind) || IsEnd(content.kind) ||
        (content.kind == LogEntry::Kind::kStarted && content.generation == generation_) ||
        (completed && (completed->checkpoint == newest_->checkpoint ||
                       retained.contains(completed->checkpoint)));
    if (!highest && !needed) result.push_back(entry->first);
  }
  return result;
}

void CompletionLog::OnPruned(Term term, uint64_t number) { entries_.erase({term, number}); }

std::optional<LogEntry> EndedIn(const std::vector<NumberedEntry>& entries) {
  for (const NumberedEntry& entry : entries) {
    if (IsEnd(entry.entry.kind)) return entry.entry;
  }
  return std::nullopt;
}

}  // namespace weir
