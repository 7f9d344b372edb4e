#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/checkpoint/manifest_codec.h"

namespace weir {

// An entry as it lies in the directory of its term, under its number (from 1).
struct NumberedEntry {
  uint64_t number = 0;
  LogEntry entry;
};

// A checkpoint that completed, as the log tells it.
struct CompletedCheckpoint {
  CheckpointId checkpoint;
  Generation generation;
  uint64_t manifest_checksum = 0;
  bool operator==(const CompletedCheckpoint&) const = default;
};

// The effect the log asks for next. Its outcome is told by the function named here; if there is no
// outcome (an error, silence), nothing is told and the same action is carried out again.
struct LogAction {
  enum class Kind {
    kListTerms,  // numbers of all term directories (none if there is no log yet): OnTermsListed
    kMakeTerm,   // create directory `term` if absent, durably: OnTermMade or OnTermTaken
    kListTerm,   // all entries of `term`: OnTermListed
    kClaim,      // create entry `number` of `term` if absent, durably: OnClaimed or OnOccupied
  };
  Kind kind = Kind::kListTerms;
  Term term;            // all but kListTerms
  uint64_t number = 0;  // kClaim
  LogEntry entry;       // kClaim
};

// The completion log of one job as one leader works with it (design.md, section 5): takes charge in
// a term of its own, then claims one entry after another, and learns when it has been deposed.
//
// Drive it: while action() is there, carry it out and tell the outcome. In the beginning that takes
// charge; afterwards phase() is kLeading, kEnded or kDeposed. Each Claim… function makes one more
// action; when that is done, phase() tells whether the entry stands (kDeposed: it does not).
//
// What the driver owes: entries are listed and occupants read only from storage that was made
// durable first (file and directory synced), for leaders act on them; an entry that vanishes
// between listing and reading was pruned and is left out; one that cannot be decoded ends the
// leader with an error that names the file.
//
// Lifetime: one term; a deposed leader makes a new one to lead again. Thread: confined to
// coord-loop. Invariant: at most one action at a time; numbers of the own term are counted, never
// found by listing. A crash at any point leaves at most one claim that storage may still carry out,
// which the next leader's seal settles.
class CompletionLog {
 public:
  enum class Phase {
    kTakingCharge,
    kLeading,
    kEnded,    // the job is CANCELED, FAILED or FINISHED: nobody takes it up
    kDeposed,  // somebody else's entry lies at the own next number: final, nothing may be done
  };

  // `owner` is unique to this object among all leaders there ever were: tokens begin with it.
  // `wall_us` is written into the first entries, for people.
  CompletionLog(std::string owner, int64_t wall_us);

  Phase phase() const { return phase_; }
  bool leading() const { return phase_ == Phase::kLeading; }
  // What to do next; absent when the log waits for a Claim… call. Stays the same until its outcome
  // is told.
  const std::optional<LogAction>& action() const { return action_; }

  // Outcomes. REQUIRES: action() is of the kind that the outcome belongs to.
  void OnTermsListed(std::vector<Term> terms);
  void OnTermMade();
  void OnTermTaken();  // the directory is there already, whoever made it
  void OnTermListed(std::vector<NumberedEntry> entries);
  void OnClaimed();
  // The number holds `entry` already; its token tells whether it is the one that was claimed.
  void OnOccupied(const LogEntry& entry);

  // Claims. REQUIRES: leading(), no action().
  // A new generation, the highest so far plus one: generation() once it stands.
  void ClaimStarted(int64_t wall_us);
  // REQUIRES: `checkpoint` is above newest_completed(). Its manifest is durable.
  void ClaimCompleted(CheckpointId checkpoint, uint64_t manifest_checksum, int64_t wall_us);
  // kCancelling, kFailing, kStopping. `checkpoint` only for kStopping.
  void ClaimIntent(LogEntry::Kind kind, CheckpointId checkpoint, std::string reason,
                   int64_t wall_us);
  // kCanceled, kFailed, kFinished: phase() is kEnded once it stands.
  void ClaimEnd(LogEntry::Kind kind, std::string reason, int64_t wall_us,
                const JobTotals& totals = {}, bool leaves_rows = false);

  // What is known. Complete once phase() left kTakingCharge.
  Term term() const { return term_; }
  // Of the newest STARTED: while leading, this leader's own. 0: none.
  Generation generation() const { return generation_; }
  // The highest one that completed.
  const std::optional<CompletedCheckpoint>& newest_completed() const { return newest_; }
  // All that the entries still tell of, ascending; those not retained may be gone from storage.
  std::vector<CompletedCheckpoint> Completed() const;
  // The last kCancelling, kFailing or kStopping; whoever leads carries it on. Absent: none, or
  // the job has ended.
  const std::optional<LogEntry>& intent() const { return intent_; }
  // kCanceled, kFailed or kFinished.
  const std::optional<LogEntry>& end() const { return end_; }

  // Entries that may be deleted now (in any order, at any later time, or never): not the highest of
  // a term, nor one of a checkpoint in `retained`, nor one that alone tells of the newest
  // generation, the newest completed checkpoint, an intent or an end. Empty unless leading.
  std::vector<std::pair<Term, uint64_t>> PruneCandidates(
      const std::set<CheckpointId>& retained) const;
  // The entry was deleted: it is not named again.
  void OnPruned(Term term, uint64_t number);

 private:
  enum class Step { kListTerms, kMakeTerm, kLook, kSeal, kRead, kClaim };

  void Ask(LogAction::Kind kind, Term term);
  void AskClaim(Term term, uint64_t number, LogEntry entry);
  void LookAtNextTerm();
  void ClaimOwn(LogEntry entry);
  LogEntry MakeEntry(LogEntry::Kind kind, int64_t wall_us);
  LogEntry MakeStarted(int64_t wall_us);
  // Takes in an entry that stands.
  void Learn(Term term, uint64_t number, const LogEntry& entry);

  const std::string owner_;
  const int64_t wall_us_;
  uint64_t tokens_ = 0;
  Phase phase_ = Phase::kTakingCharge;
  Step step_ = Step::kListTerms;
  std::optional<LogAction> action_;

  Term term_;               // the own one
  std::set<Term> to_seal_;  // earlier terms that are not yet sealed and read
  uint64_t number_ = 0;     // last number of the own term that is known to be occupied

  std::map<std::pair<Term, uint64_t>, LogEntry> entries_;  // of sealed terms and the own one
  Generation generation_;
  std::optional<CompletedCheckpoint> newest_;
  std::optional<LogEntry> intent_;
  std::optional<LogEntry> end_;
};

// Whether a job whose log holds these entries (of any terms, in any order) has ended, and how: a
// leader need not take charge of it.
std::optional<LogEntry> EndedIn(const std::vector<NumberedEntry>& entries);

}  // namespace weir
