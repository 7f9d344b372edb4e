#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/connectors/kafka/sink/staged_publisher.h"
#include "worker/connectors/sealed_parts/part_store.h"

namespace weir {

// Where a subtask of kafka.sink stages its parts, and its identity that publishes them.
// Thread: the task's. Kill points: those of StagedPublisher and kafka.before_notice.
class KafkaStore : public PartStore {
 public:
  // From checkpoint `restored_from` (0: none), nothing later may have been published;
  // `resumed_from` is the same one where it is of this job. `takes_any`: also an identity that may
  // be another live job's.
  KafkaStore(StagedPublisherOptions options, std::string uid, int subtask,
             CheckpointId resumed_from, CheckpointId restored_from, bool takes_any)
      : options_(options),
        uid_(std::move(uid)),
        subtask_(subtask),
        resumed_from_(resumed_from),
        restored_from_(restored_from),
        takes_any_(takes_any),
        publisher_(std::move(options)) {}

  const std::string& owner() const override { return options_.owner; }
  const std::string& directory() const override { return options_.directory; }
  // Fences the identity in, and sees to it that it has a marker from now on. Tries for as long as
  // it may heal.
  Co<Status> Open() override;
  std::string NameOf(int64_t number) const override;
  Co<Status> CheckSealed(std::vector<SealedPart> parts) override;
  std::string PayloadOf(const SealedPart& part) const override;
  Co<Status> Publish(std::vector<SealedPart> parts, bool tried) override;

 private:
  Co<Status> TakeOver();

  const StagedPublisherOptions options_;
  const std::string uid_;
  const int subtask_;
  const CheckpointId resumed_from_;
  const CheckpointId restored_from_;
  const bool takes_any_;
  StagedPublisher publisher_;
};

}  // namespace weir
