// Goal: one leader's steps through the completion log, in the order of the rules it follows.
// Method: outcomes are told by hand, or by a log in memory that a whole leader runs against.

#include "coordinator/checkpoint/completion_log.h"

#include <gtest/gtest.h>

#include <map>

namespace weir {
namespace {

using Action = LogAction::Kind;
using Kind = LogEntry::Kind;
using Phase = CompletionLog::Phase;

LogEntry Entry(Kind kind, const std::string& token, uint64_t generation = 0,
               uint64_t checkpoint = 0, uint64_t checksum = 0) {
  LogEntry entry;
  entry.kind = kind;
  entry.token = token;
  entry.generation = Generation(generation);
  entry.checkpoint = CheckpointId(checkpoint);
  entry.manifest_checksum = checksum;
  return entry;
}

// A log whose storage answers at once.
class Storage {
 public:
  // Carries out what `log` asks for until it asks for nothing.
  void Drive(CompletionLog& log) {
    while (log.action()) {
      const LogAction action = *log.action();
      switch (action.kind) {
        case Action::kListTerms: {
          std::vector<Term> found;
          for (const auto& [term, entries] : terms) found.push_back(Term(term));
          log.OnTermsListed(found);
          break;
        }
        case Action::kMakeTerm:
          terms.try_emplace(action.term.value()).second ? log.OnTermMade() : log.OnTermTaken();
          break;
        case Action::kListTerm:
          log.OnTermListed(List(action.term.value()));
          break;
        case Action::kClaim: {
          const auto [place, created] =
              terms[action.term.value()].emplace(action.number, action.entry);
          created ? log.OnClaimed() : log.OnOccupied(place->second);
          break;
        }
      }
    }
  }
  std::vector<NumberedEntry> List(uint64_t term) const {
    std::vector<NumberedEntry> result;
    for (const auto& [number, entry] : terms.at(term)) result.push_back({number, entry});
    return result;
  }
  std::vector<Kind> Kinds(uint64_t term) const {
    std::vector<Kind> result;
    for (const auto& [number, entry] : terms.at(term)) result.push_back(entry.kind);
    return result;
  }

  std::map<uint64_t, std::map<uint64_t, LogEntry>> terms;
};

TEST(CompletionLog, StartsANewJobInTermOneWithGenerationOne) {
  CompletionLog log("a", 5);
  ASSERT_EQ(log.action()->kind, Action::kListTerms);
  log.OnTermsListed({});
  ASSERT_EQ(log.action()->kind, Action::kMakeTerm);
  EXPECT_EQ(log.action()->term, Term(1));
  log.OnTermMade();
  ASSERT_EQ(log.action()->kind, Action::kClaim);
  EXPECT_EQ(log.action()->term, Term(1));
  EXPECT_EQ(log.action()->number, 1u);
  EXPECT_EQ(log.action()->entry.kind, Kind::kStarted);
  EXPECT_EQ(log.action()->entry.generation, Generation(1));
  EXPECT_EQ(log.action()->entry.checkpoint, CheckpointId(0));
  EXPECT_EQ(log.action()->entry.wall_us, 5);
  EXPECT_FALSE(log.leading());
  log.OnClaimed();
  EXPECT_TRUE(log.leading());
  EXPECT_FALSE(log.action());
  EXPECT_EQ(log.generation(), Generation(1));
  EXPECT_FALSE(log.newest_completed());
}

TEST(CompletionLog, TakesTheNextTermWhenAnotherLeaderMadeThatDirectory) {
  CompletionLog log("a", 0);
  log.OnTermsListed({Term(1), Term(2)});
  EXPECT_EQ(log.action()->term, Term(3));
  log.OnTermTaken();
  ASSERT_EQ(log.action()->kind, Action::kMakeTerm);
  EXPECT_EQ(log.action()->term, Term(4));
  log.OnTermMade();
  EXPECT_EQ(log.term(), Term(4));
  // The oldest first; the taken one is an earlier term like any other.
  std::vector<uint64_t> sealed;
  while (log.action()->kind != Action::kClaim || log.action()->entry.kind != Kind::kStarted) {
    const uint64_t term = log.action()->term.value();
    ASSERT_EQ(log.action()->kind, Action::kListTerm);
    log.OnTermListed({{1, Entry(Kind::kSealed, "x")}});
    if (sealed.empty() || sealed.back() != term) sealed.push_back(term);
  }
  EXPECT_EQ(sealed, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(CompletionLog, SealsAboveTheHighestEntryAndLooksAgainUntilTheSealIsHighest) {
  CompletionLog log("a", 0);
  log.OnTermsListed({Term(1)});
  log.OnTermMade();
  ASSERT_EQ(log.action()->kind, Action::kListTerm);
  log.OnTermListed({{1, Entry(Kind::kStarted, "o1", 1)}});
  ASSERT_EQ(log.action()->kind, Action::kClaim);
  EXPECT_EQ(log.action()->entry.kind, Kind::kSealed);
  EXPECT_EQ(log.action()->term, Term(1));
  EXPECT_EQ(log.action()->number, 2u);
  // The old leader was faster.
  log.OnOccupied(Entry(Kind::kCompleted, "o2", 1, 7));
  ASSERT_EQ(log.action()->kind, Action::kListTerm);
  log.OnTermListed({{1, Entry(Kind::kStarted, "o1", 1)}, {2, Entry(Kind::kCompleted, "o2", 1, 7)}});
  ASSERT_EQ(log.action()->kind, Action::kClaim);
  EXPECT_EQ(log.action()->number, 3u);
  log.OnClaimed();
  ASSERT_EQ(log.action()->kind, Action::kListTerm);
  const std::vector<NumberedEntry> sealed = {{1, Entry(Kind::kStarted, "o1", 1)},
                                             {2, Entry(Kind::kCompleted, "o2", 1, 7)},
                                             {3, Entry(Kind::kSealed, "s")}};
  log.OnTermListed(sealed);
  // What is read is listed after the seal was seen.
  ASSERT_EQ(log.action()->kind, Action::kListTerm);
  log.OnTermListed(sealed);
  ASSERT_EQ(log.action()->kind, Action::kClaim);
  EXPECT_EQ(log.action()->term, Term(2));
  EXPECT_EQ(log.action()->entry.generation, Generation(2));
  EXPECT_EQ(log.action()->entry.checkpoint, CheckpointId(7));
  EXPECT_EQ(log.action()->entry.checkpoint_generation, Generation(1));
}

TEST(CompletionLog, ReadsTheEntryThatTheListingWithTheSealHadMissed) {
  CompletionLog log("a", 0);
  log.OnTermsListed({Term(1)});
  log.OnTermMade();
  log.OnTermListed({{1, Entry(Kind::kStarted, "o1", 1)}, {3, Entry(Kind::kSealed, "s")}});
  log.OnTermListed({{1, Entry(Kind::kStarted, "o1", 1)},
                    {2, Entry(Kind::kCompleted, "o2", 1, 4)},
                    {3, Entry(Kind::kSealed, "s")}});
  EXPECT_EQ(log.action()->entry.checkpoint, CheckpointId(4));
}

TEST(CompletionLog, SealsAnEmptyTermAtNumberOne) {
  CompletionLog log("a", 0);
  log.OnTermsListed({Term(1)});
  log.OnTermMade();
  log.OnTermListed({});
  ASSERT_EQ(log.action()->kind, Action::kClaim);
  EXPECT_EQ(log.action()->number, 1u);
  EXPECT_EQ(log.action()->entry.kind, Kind::kSealed);
}

TEST(CompletionLog, CountsItsOwnNumbers) {
  Storage storage;
  CompletionLog log("a", 0);
  storage.Drive(log);
  log.ClaimCompleted(CheckpointId(3), 99, 10);
  ASSERT_EQ(log.action()->number, 2u);
  EXPECT_EQ(log.action()->entry.generation, Generation(1));
  EXPECT_EQ(log.action()->entry.checkpoint, CheckpointId(3));
  EXPECT_EQ(log.action()->entry.manifest_checksum, 99u);
  storage.Drive(log);
  EXPECT_EQ(log.newest_completed(), (CompletedCheckpoint{CheckpointId(3), Generation(1), 99}));
  log.ClaimStarted(20);
  ASSERT_EQ(log.action()->number, 3u);
  EXPECT_EQ(log.action()->entry.generation, Generation(2));
  EXPECT_EQ(log.action()->entry.checkpoint, CheckpointId(3));
  EXPECT_EQ(log.action()->entry.checkpoint_generation, Generation(1));
  EXPECT_EQ(log.action()->entry.manifest_checksum, 99u);
  EXPECT_EQ(log.generation(), Generation(1)) << "not before the entry stands";
  storage.Drive(log);
  EXPECT_EQ(log.generation(), Generation(2));
}

TEST(CompletionLog, AsksForTheSameClaimUntilItsOutcomeIsKnownAndKnowsItsOwnToken) {
  Storage storage;
  CompletionLog log("a", 0);
  storage.Drive(log);
  log.ClaimCompleted(CheckpointId(1), 1, 0);
  const LogAction first = *log.action();
  // No answer: nothing is told, the same is asked for. Then it turns out to be there already.
  ASSERT_TRUE(log.action());
  EXPECT_EQ(log.action()->entry, first.entry);
  log.OnOccupied(first.entry);
  EXPECT_TRUE(log.leading());
  EXPECT_EQ(log.newest_completed()->checkpoint, CheckpointId(1));
}

TEST(CompletionLog, IsDeposedForEverBySomebodyElsesEntryAtItsNumber) {
  Storage storage;
  CompletionLog first("a", 0);
  storage.Drive(first);
  CompletionLog second("b", 0);
  storage.Drive(second);
  EXPECT_TRUE(second.leading());
  EXPECT_EQ(second.generation(), Generation(2));
  first.ClaimCompleted(CheckpointId(1), 1, 0);
  storage.Drive(first);
  EXPECT_EQ(first.phase(), Phase::kDeposed);
  EXPECT_FALSE(first.newest_completed());
  EXPECT_FALSE(first.action());
  EXPECT_EQ(storage.Kinds(1), (std::vector{Kind::kStarted, Kind::kSealed}));
  EXPECT_EQ(storage.Kinds(2), (std::vector{Kind::kStarted}));
}

TEST(CompletionLog, IsDeposedBeforeItLedWhenItsTermWasSealedMeanwhile) {
  CompletionLog log("a", 0);
  log.OnTermsListed({});
  log.OnTermMade();
  log.OnOccupied(Entry(Kind::kSealed, "b-1"));
  EXPECT_EQ(log.phase(), Phase::kDeposed);
}

TEST(CompletionLog, CarriesOnAnIntentThroughSeveralLeaders) {
  Storage storage;
  CompletionLog first("a", 0);
  storage.Drive(first);
  first.ClaimIntent(Kind::kFailing, CheckpointId(), "disk on fire", 3);
  storage.Drive(first);
  EXPECT_EQ(first.intent()->reason, "disk on fire");
  CompletionLog second("b", 0);
  storage.Drive(second);
  CompletionLog third("c", 0);
  storage.Drive(third);
  ASSERT_TRUE(third.leading());
  ASSERT_TRUE(third.intent());
  EXPECT_EQ(third.intent()->kind, Kind::kFailing);
  EXPECT_EQ(third.intent()->reason, "disk on fire");
  third.ClaimEnd(Kind::kFailed, "disk on fire", 4);
  storage.Drive(third);
  EXPECT_EQ(third.phase(), Phase::kEnded);
  EXPECT_FALSE(third.intent());
}

TEST(CompletionLog, DoesNotTakeUpAnEndedJob) {
  Storage storage;
  CompletionLog first("a", 0);
  storage.Drive(first);
  EXPECT_FALSE(EndedIn(storage.List(1)));
  first.ClaimEnd(Kind::kFinished, "", 0);
  storage.Drive(first);
  EXPECT_EQ(EndedIn(storage.List(1))->kind, Kind::kFinished);
  CompletionLog second("b", 0);
  storage.Drive(second);
  EXPECT_EQ(second.phase(), Phase::kEnded);
  EXPECT_EQ(second.end()->kind, Kind::kFinished);
  EXPECT_TRUE(storage.terms.at(2).empty());
  EXPECT_FALSE(EndedIn({}));
}

TEST(CompletionLog, NewestIsTheHighestCheckpointOfAllTerms) {
  Storage storage;
  storage.terms[1] = {{1, Entry(Kind::kStarted, "x1", 4)},
                      {2, Entry(Kind::kCompleted, "x2", 4, 9, 90)},
                      {3, Entry(Kind::kSealed, "x3")}};
  storage.terms[2] = {{1, Entry(Kind::kStarted, "y1", 5, 9, 90)},
                      {2, Entry(Kind::kCompleted, "y2", 5, 12, 120)},
                      {3, Entry(Kind::kCompleted, "y3", 5, 13, 130)}};
  CompletionLog log("a", 0);
  storage.Drive(log);
  EXPECT_EQ(log.term(), Term(3));
  EXPECT_EQ(log.generation(), Generation(6));
  EXPECT_EQ(log.newest_completed(), (CompletedCheckpoint{CheckpointId(13), Generation(5), 130}));
  std::vector<uint64_t> all;
  for (const CompletedCheckpoint& completed : log.Completed()) {
    all.push_back(completed.checkpoint.value());
  }
  EXPECT_EQ(all, (std::vector<uint64_t>{9, 12, 13}));
}

TEST(CompletionLog, PrunesAllButWhatIsHighestRetainedOrAlone) {
  Storage storage;
  storage.terms[1] = {{1, Entry(Kind::kStarted, "x1", 4)},
                      {2, Entry(Kind::kCompleted, "x2", 4, 8)},
                      {3, Entry(Kind::kCompleted, "x3", 4, 9)},
                      {4, Entry(Kind::kCancelling, "x4")}};
  CompletionLog log("a", 0);
  storage.Drive(log);  // seals term 1 at 5; STARTED{5, 9} is entry 1 of term 2
  log.ClaimCompleted(CheckpointId(10), 0, 0);
  storage.Drive(log);
  log.ClaimCompleted(CheckpointId(11), 0, 0);
  EXPECT_TRUE(log.PruneCandidates({}).empty()) << "a claim is in flight";
  storage.Drive(log);
  using Places = std::vector<std::pair<Term, uint64_t>>;
  EXPECT_EQ(log.PruneCandidates({CheckpointId(11)}),
            (Places{{Term(1), 1}, {Term(1), 2}, {Term(1), 3}, {Term(2), 2}}));
  EXPECT_EQ(log.PruneCandidates({CheckpointId(9), CheckpointId(11)}),
            (Places{{Term(1), 1}, {Term(1), 2}, {Term(2), 2}}));
  for (const auto& [term, number] : log.PruneCandidates({})) {
    storage.terms[term.value()].erase(number);
    log.OnPruned(term, number);
  }
  EXPECT_TRUE(log.PruneCandidates({}).empty());
  // The next leader knows all it needs from what was left.
  CompletionLog next("b", 0);
  storage.Drive(next);
  EXPECT_EQ(next.generation(), Generation(6));
  EXPECT_EQ(next.newest_completed()->checkpoint, CheckpointId(11));
  EXPECT_EQ(next.intent()->kind, Kind::kCancelling);
}

}  // namespace
}  // namespace weir
