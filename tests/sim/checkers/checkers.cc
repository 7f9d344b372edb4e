#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/commits.h"
#include "tests/sim/checkers/completion.h"
#include "tests/sim/checkers/consistent_cut.h"
#include "tests/sim/checkers/exactly_once.h"
#include "tests/sim/checkers/facts.h"
#include "tests/sim/checkers/files.h"
#include "tests/sim/checkers/kafka.h"
#include "tests/sim/checkers/restore.h"

namespace weir::sim {

std::vector<std::unique_ptr<Checker>> MakeCheckers(const CheckContext& context) {
  auto known = std::make_unique<Facts>(context);
  Facts& facts = *known;
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.push_back(std::move(known));  // before those that ask it
  checkers.push_back(std::make_unique<CompletionChecker>(context, facts));
  checkers.push_back(std::make_unique<CommitsChecker>(context, facts));
  auto exactly_once = std::make_unique<ExactlyOnceChecker>(context, facts);
  if (context.kafka != nullptr) {
    checkers.push_back(std::make_unique<KafkaChecker>(context, facts, *exactly_once));
  }
  checkers.push_back(std::move(exactly_once));
  checkers.push_back(std::make_unique<ConsistentCutChecker>(context, facts));
  checkers.push_back(std::make_unique<FilesChecker>(context, facts));
  checkers.push_back(std::make_unique<RestoreChecker>(context, facts));
  return checkers;
}

}  // namespace weir::sim
