// Goal: no interleaving of leaders breaks the completion log. Method: leaders that run the real
// state machine against a log in memory, where a claim is a request that storage may carry out at
// any later time, once or twice, where a listing is no snapshot and deletions happen at any time
// later. Two leaders are walked through every interleaving, three through many random ones. Drivers
// that break one rule each must be caught: a check that cannot fail shows nothing.
// Checked is what models of the protocol fixed before this code: no checkpoint of an older
// generation completes once a newer one started; a generation starts from the newest completed
// checkpoint; generations grow.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "common/base/random.h"
#include "coordinator/checkpoint/completion_log.h"

namespace weir {
namespace {

enum class Bug {
  kNone,
  kLastTerm,      // seals only the last of the earlier terms
  kNoSecondLook,  // takes a term for sealed when any entry is a seal
  kGuess,         // takes silence for "not completed" and starts a new generation
  kList,          // finds its next number by listing
  kPruneLast,     // prunes the highest entry of a term as well
  kTornRead,      // reads what the look found, which may miss an entry below the seal
};

using Log = std::map<uint64_t, LogEntry>;

struct Claim {
  size_t leader = 0;
  Term term;
  uint64_t number = 0;
  LogEntry entry;
  std::string Key() const { return Concat(leader, ":", term, ":", number, ":", entry.token); }
};

struct Leader {
  std::optional<CompletionLog> log;
  std::optional<CompletionLog> before_claim;  // kGuess goes back to it
  int completions_left = 0;
  int restarts_left = 0;
  int prunes_left = 0;
  bool asked = false;                // the claim of the current action was sent
  std::optional<LogEntry> occupant;  // and this is the answer
  std::optional<Log> listing;        // what was there when the current listing began
  std::vector<NumberedEntry> last_listing;
  std::string told;  // every fact so far: determines the state of `log`
};

struct World {
  std::map<uint64_t, Log> terms;
  std::vector<Leader> leaders;
  std::map<std::string, Claim> flying;
  std::set<std::pair<Term, uint64_t>> deletions;
  // All that ever landed, pruned or not.
  std::set<std::string> landed;
  uint64_t generation_max = 0;
  uint64_t completed_generation_max = 0;
  uint64_t completed_max = 0;
  std::string wrong;

  std::string Key() const {
    std::string key;
    for (const auto& [term, log] : terms) {
      key += Concat("t", term);
      for (const auto& [number, entry] : log) key += Concat(" ", number, "=", entry.token);
    }
    for (const Leader& leader : leaders) {
      key += Concat("|", leader.told, leader.completions_left, leader.restarts_left,
                    leader.prunes_left, leader.asked, leader.log.has_value());
      if (leader.log && leader.log->action()) key += leader.log->action()->entry.token;
      if (leader.occupant) key += leader.occupant->token;
      if (leader.listing) {
        key += "L";
        for (const auto& [number, entry] : *leader.listing) key += Concat(number, entry.token);
      }
    }
    for (const auto& [name, claim] : flying) key += Concat("~", name);
    for (const auto& [term, number] : deletions) key += Concat("-", term, ".", number);
    for (const std::string& token : landed) key += Concat("+", token);
    return key;
  }

  void Land(const Claim& claim) {
    Log& log = terms[claim.term.value()];
    const auto [place, created] = log.emplace(claim.number, claim.entry);
    Leader& leader = leaders[claim.leader];
    if (leader.asked && leader.log->action() &&
        leader.log->action()->entry.token == claim.entry.token) {
      leader.occupant = place->second;
    }
    if (!created || !landed.insert(claim.entry.token).second) return;
    const LogEntry& entry = claim.entry;
    if (entry.kind == LogEntry::Kind::kCompleted) {
      if (generation_max > entry.generation.value() ||
          completed_generation_max > entry.generation.value()) {
        wrong = "late completion";
      }
      completed_generation_max = std::max(completed_generation_max, entry.generation.value());
      completed_max = std::max(completed_max, entry.checkpoint.value());
    }
    if (entry.kind == LogEntry::Kind::kStarted) {
      if (entry.generation.value() <= generation_max) wrong = "generation twice";
      if (entry.checkpoint.value() != completed_max) wrong = "not the newest";
      generation_max = std::max(generation_max, entry.generation.value());
    }
  }
};

class Model {
 public:
  explicit Model(Bug bug) : bug_(bug) {}

  World First(size_t leaders, int completions, int restarts, int prunes) const {
    World world;
    for (size_t i = 0; i < leaders; ++i) {
      Leader leader;
      leader.completions_left = completions;
      leader.restarts_left = restarts;
      leader.prunes_left = prunes;
      world.leaders.push_back(std::move(leader));
    }
    return world;
  }

  std::vector<World> Moves(const World& world) const {
    std::vector<World> result;
    for (const auto& [name, claim] : world.flying) {
      World once = world;
      once.flying.erase(name);
      once.Land(claim);
      result.push_back(std::move(once));
      World repeated = world;  // a repetition of the request is still under way
      repeated.Land(claim);
      result.push_back(std::move(repeated));
    }
    for (const auto& deletion : world.deletions) {
      World next = world;
      next.deletions.erase(deletion);
      next.terms[deletion.first.value()].erase(deletion.second);
      result.push_back(std::move(next));
    }
    for (size_t i = 0; i < world.leaders.size(); ++i) LeaderMoves(world, i, &result);
    return result;
  }

 private:
  void LeaderMoves(const World& world, size_t index, std::vector<World>* result) const {
    const Leader& leader = world.leaders[index];
    if (!leader.log) {
      World next = world;
      next.leaders[index].log.emplace(Concat("L", index), 0);
      result->push_back(std::move(next));
      return;
    }
    if (!leader.log->action()) {
      if (leader.log->leading()) LeadingMoves(world, index, result);
      return;
    }
    const LogAction& action = *leader.log->action();
    switch (action.kind) {
      case LogAction::Kind::kListTerms: {
        World next = world;
        std::vector<Term> terms;
        for (const auto& [term, log] : world.terms) terms.push_back(Term(term));
        if (bug_ == Bug::kLastTerm && terms.size() > 1) terms.erase(terms.begin(), terms.end() - 1);
        next.leaders[index].log->OnTermsListed(terms);
        next.leaders[index].told += Concat("T", terms.size());
        result->push_back(std::move(next));
        return;
      }
      case LogAction::Kind::kMakeTerm: {
        World next = world;
        const bool made = next.terms.try_emplace(action.term.value()).second;
        next.leaders[index].told += made ? "M" : "X";
        made ? next.leaders[index].log->OnTermMade() : next.leaders[index].log->OnTermTaken();
        result->push_back(std::move(next));
        return;
      }
      case LogAction::Kind::kListTerm:
        ListingMoves(world, index, result);
        return;
      case LogAction::Kind::kClaim:
        ClaimMoves(world, index, result);
        return;
    }
  }

  void LeadingMoves(const World& world, size_t index, std::vector<World>* result) const {
    const Leader& leader = world.leaders[index];
    if (leader.completions_left > 0) {
      World next = world;
      Leader& own = next.leaders[index];
      --own.completions_left;
      own.before_claim.emplace(*own.log);
      const auto& newest = own.log->newest_completed();
      own.log->ClaimCompleted(CheckpointId(newest ? newest->checkpoint.value() + 1 : 1), 0, 0);
      own.told += "c";
      result->push_back(std::move(next));
    }
    if (leader.restarts_left > 0) {
      World next = world;
      --next.leaders[index].restarts_left;
      next.leaders[index].log->ClaimStarted(0);
      next.leaders[index].told += "s";
      result->push_back(std::move(next));
    }
    if (leader.prunes_left > 0) {
      auto candidates = leader.log->PruneCandidates({});
      if (bug_ == Bug::kPruneLast) {
        for (const auto& [term, log] : world.terms) {
          if (!log.empty()) candidates.emplace_back(Term(term), log.rbegin()->first);
        }
      }
      if (candidates.empty()) return;
      World next = world;
      Leader& own = next.leaders[index];
      --own.prunes_left;
      own.told += "p";
      for (const auto& [term, number] : candidates) {
        next.deletions.emplace(term, number);
        own.log->OnPruned(term, number);
        own.told += Concat(term, ".", number);
      }
      result->push_back(std::move(next));
    }
  }

  // A listing shows what is there from its beginning to its end; of what is made meanwhile, here
  // all or only the highest. What is deleted meanwhile is gone when it is read.
  void ListingMoves(const World& world, size_t index, std::vector<World>* result) const {
    const Leader& leader = world.leaders[index];
    const uint64_t term = leader.log->action()->term.value();
    const Log& log = world.terms.at(term);
    if (!leader.listing) {
      World next = world;
      next.leaders[index].listing = log;
      result->push_back(std::move(next));
      return;
    }
    std::vector<NumberedEntry> all, some;
    for (const auto& [number, entry] : log) {
      all.push_back({number, entry});
      if (leader.listing->contains(number) || number == log.rbegin()->first) {
        some.push_back({number, entry});
      }
    }
    for (const auto& entries : {all, some}) {
      World next = world;
      Leader& own = next.leaders[index];
      std::vector<NumberedEntry> shown = entries;
      const auto seal = std::find_if(shown.begin(), shown.end(), [](const NumberedEntry& entry) {
        return entry.entry.kind == LogEntry::Kind::kSealed;
      });
      if (bug_ == Bug::kNoSecondLook && seal != shown.end()) {
        std::rotate(seal, seal + 1, shown.end());  // believes that nothing lies above a seal
        shown.back().number += 1'000;
      }
      Tell(own, shown);
      if (bug_ == Bug::kTornRead && own.log->action()->kind == LogAction::Kind::kListTerm &&
          own.log->action()->term.value() == term) {
        Tell(own, shown);
      }
      result->push_back(std::move(next));
      if (all.size() == some.size()) return;
    }
  }

  static void Tell(Leader& own, const std::vector<NumberedEntry>& entries) {
    own.listing.reset();
    own.told += "l";
    for (const NumberedEntry& entry : entries) {
      own.told += Concat(entry.number, entry.entry.token, ",");
    }
    own.log->OnTermListed(entries);
  }

  void ClaimMoves(const World& world, size_t index, std::vector<World>* result) const {
    const Leader& leader = world.leaders[index];
    const LogAction& action = *leader.log->action();
    Claim claim{index, action.term, action.number, action.entry};
    if (bug_ == Bug::kList && action.entry.kind == LogEntry::Kind::kCompleted) {
      const Log& log = world.terms.at(action.term.value());
      claim.number = log.empty() ? 1 : log.rbegin()->first + 1;
    }
    if (!leader.asked) {
      World next = world;
      next.leaders[index].asked = true;
      next.flying.emplace(claim.Key(), claim);
      result->push_back(std::move(next));
      return;
    }
    if (leader.occupant) {
      World next = world;
      Leader& own = next.leaders[index];
      const LogEntry occupant = *own.occupant;
      own.asked = false;
      own.occupant.reset();
      own.told += Concat("o", occupant.token);
      own.log->OnOccupied(occupant);
      if (own.log->leading()) {
        // Who believes that an entry stands is right.
        if (!next.landed.contains(action.entry.token)) next.wrong = "believes in nothing";
      }
      result->push_back(std::move(next));
      return;
    }
    if (bug_ == Bug::kGuess && action.entry.kind == LogEntry::Kind::kCompleted) {
      World next = world;
      Leader& own = next.leaders[index];
      own.asked = false;
      own.log.emplace(*own.before_claim);
      own.log->ClaimStarted(0);
      own.told += "g";
      result->push_back(std::move(next));
    }
  }

  const Bug bug_;
};

struct Found {
  size_t states = 0;
  std::string wrong;
  uint64_t generation_max = 0;
  uint64_t completed_max = 0;
  bool deposed = false;
};

void Note(const World& world, Found* found) {
  found->generation_max = std::max(found->generation_max, world.generation_max);
  found->completed_max = std::max(found->completed_max, world.completed_max);
  for (const Leader& leader : world.leaders) {
    found->deposed |= leader.log && leader.log->phase() == CompletionLog::Phase::kDeposed;
  }
}

Found WalkAll(Bug bug, size_t leaders, int completions, int restarts, int prunes) {
  const Model model(bug);
  Found found;
  std::vector<World> todo = {model.First(leaders, completions, restarts, prunes)};
  std::unordered_set<size_t> seen = {std::hash<std::string>()(todo.front().Key())};
  while (!todo.empty()) {
    const World world = std::move(todo.back());
    todo.pop_back();
    for (World& next : model.Moves(world)) {
      if (!seen.insert(std::hash<std::string>()(next.Key())).second) continue;
      Note(next, &found);
      if (!next.wrong.empty()) {
        found.wrong = next.wrong;
        found.states = seen.size();
        return found;
      }
      todo.push_back(std::move(next));
    }
  }
  found.states = seen.size();
  return found;
}

Found WalkRandomly(Bug bug, size_t leaders, int walks) {
  const Model model(bug);
  Found found;
  Random random(7);
  for (int walk = 0; walk < walks; ++walk) {
    World world = model.First(leaders, 2, 1, 2);
    for (int step = 0; step < 300; ++step) {
      std::vector<World> moves = model.Moves(world);
      if (moves.empty()) break;
      world = std::move(moves[random.Below(moves.size())]);
      ++found.states;
      Note(world, &found);
      if (!world.wrong.empty()) {
        found.wrong = world.wrong;
        return found;
      }
    }
  }
  return found;
}

void Report(const char* what, const Found& found) {
  std::cout << what << ": " << found.states << " states, generations up to " << found.generation_max
            << ", checkpoints up to " << found.completed_max << ", " << found.wrong << std::endl;
}

TEST(CompletionLogModel, TwoLeadersInAnyInterleavingKeepThePromise) {
  const Found found = WalkAll(Bug::kNone, 2, 1, 0, 1);
  Report("two leaders", found);
  EXPECT_EQ(found.wrong, "");
  EXPECT_EQ(found.generation_max, 2u);
  EXPECT_EQ(found.completed_max, 2u);
  EXPECT_TRUE(found.deposed);
}

TEST(CompletionLogModel, ThreeLeadersThatRestartAndPruneKeepThePromise) {
  const Found found = WalkRandomly(Bug::kNone, 3, 5'000);
  Report("three leaders", found);
  EXPECT_EQ(found.wrong, "");
  EXPECT_GE(found.generation_max, 5u);
  EXPECT_GE(found.completed_max, 4u);
  EXPECT_TRUE(found.deposed);
}

class CompletionLogCanary : public testing::TestWithParam<std::pair<Bug, const char*>> {};

TEST_P(CompletionLogCanary, IsCaught) {
  const Found found = WalkRandomly(GetParam().first, 3, 200'000);
  Report(GetParam().second, found);
  EXPECT_NE(found.wrong, "");
}

INSTANTIATE_TEST_SUITE_P(Rules, CompletionLogCanary,
                         testing::Values(std::pair(Bug::kLastTerm, "LastTerm"),
                                         std::pair(Bug::kNoSecondLook, "NoSecondLook"),
                                         std::pair(Bug::kGuess, "Guess"),
                                         std::pair(Bug::kList, "List"),
                                         std::pair(Bug::kPruneLast, "PruneLast"),
                                         std::pair(Bug::kTornRead, "TornRead")),
                         [](const auto& info) { return std::string(info.param.second); });

}  // namespace
}  // namespace weir
