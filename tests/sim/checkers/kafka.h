#pragma once

#include <string>
#include <vector>

#include "tests/sim/checkers/checker.h"
#include "tests/sim/checkers/exactly_once.h"
#include "tests/sim/checkers/facts.h"
#include "tests/sim/kafka/kafka_broker.h"

namespace weir::sim {

// What readers of committed rows may rely on: the markers of an identity only grow, in the order of
// its stages; none is sent, not even into an open transaction, before a checkpoint that may list
// its stage has completed for good; and when the job has ended, no transaction holds a reader back.
// Shows each row to the checker of exactly once as it becomes visible.
// Thread: confined to the simulation.
class KafkaChecker : public Checker, public KafkaBroker::Observer {
 public:
  KafkaChecker(const CheckContext& context, Facts& facts, ExactlyOnceChecker& exactly_once);

  std::string_view name() const override { return "kafka"; }
  void AtEnd() override;

  void OnCommitted(const std::string& topic, int32_t partition,
                   const std::vector<const KafkaModelRecord*>& records) override;
  void OnOffsetSent(const std::string& group, const KafkaGroupOffset& offset) override;
  void OnOffsetCommitted(const std::string& group, const KafkaGroupOffset& before,
                         const KafkaGroupOffset& offset) override;

 private:
  const CheckContext context_;
  Facts& facts_;
  ExactlyOnceChecker& exactly_once_;
};

}  // namespace weir::sim
