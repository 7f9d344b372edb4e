#include "tests/sim/checkers/kafka.h"

#include <utility>

#include "common/base/concat.h"
#include "worker/connectors/kafka/kafka_marker.h"

namespace weir::sim {

KafkaChecker::KafkaChecker(const CheckContext& context, Facts& facts,
                           ExactlyOnceChecker& exactly_once)
    : context_(context), facts_(facts), exactly_once_(exactly_once) {
  context_.kafka->set_observer(this);
}

void KafkaChecker::OnCommitted(const std::string& topic, int32_t,
                               const std::vector<const KafkaModelRecord*>& records) {
  const int sink = facts_.workload().VertexOf(topic);
  if (sink < 0) {
    context_.violation(Concat("rows in topic ", topic, ", which no sink has"));
  } else {
    exactly_once_.AddRecords(sink, records);
  }
}

void KafkaChecker::OnOffsetSent(const std::string& group, const KafkaGroupOffset& offset) {
  StatusOr<KafkaMarker> marker = ParseMarker(offset.offset, offset.metadata);
  if (!marker.ok()) {
    context_.violation(Concat("group ", group, ": ", marker.status().message()));
    return;
  }
  if (marker->checkpoint == CheckpointId()) return;  // before the first one
  // What was sealed for one that was aborted is listed by the next.
  for (const CompletedEntry& entry : facts_.completed()) {
    if (entry.checkpoint >= marker->checkpoint && facts_.IsDurable(entry)) return;
  }
  context_.violation(Concat("group ", group, " is told that checkpoint ", marker->checkpoint,
                            " is published, but none from there on has completed for good"));
}

void KafkaChecker::OnOffsetCommitted(const std::string& group, const KafkaGroupOffset& before,
                                     const KafkaGroupOffset& offset) {
  if (before.offset < 0) return;
  StatusOr<KafkaMarker> older = ParseMarker(before.offset, before.metadata);
  StatusOr<KafkaMarker> newer = ParseMarker(offset.offset, offset.metadata);
  if (older.ok() && newer.ok()) {
    // That its job is done with it may be said of what is published already.
    const auto place = [](const KafkaMarker& marker) {
      return std::tuple(marker.checkpoint, marker.part, marker.released);
    };
    if (place(*older) < place(*newer)) return;
  }
  context_.violation(Concat("the marker of group ", group, " goes from ", before.offset, " (",
                            before.metadata, ") to ", offset.offset, " (", offset.metadata, ")"));
}

void KafkaChecker::AtEnd() {
  context_.kafka->Advance(context_.now_us());
  // A late copy of AddPartitionsToTxn may have begun one without rows: that holds nobody back, and
  // the broker ends it after its time.
  for (const std::string& topic : context_.kafka->topics()) {
    for (int32_t partition = 0; partition < context_.kafka->partitions(topic); ++partition) {
      const int64_t stable = context_.kafka->last_stable_offset(topic, partition);
      const int64_t end = context_.kafka->high_watermark(topic, partition);
      if (stable == end) continue;
      context_.violation(
          Concat("readers of ", topic, "/", partition, " are held back at ", stable, " of ", end));
    }
  }
}

}  // namespace weir::sim
