#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/kafka_configs.h"
#include "common/operator/sink.h"
#include "common/threading/co.h"
#include "worker/connectors/files/files_committer.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/staged_publisher.h"

namespace weir {

// Settles what kafka.sink sealed: takes over each identity that the checkpoint lists, all at the
// same time, and publishes what its marker does not cover, of a few at a time, so that neither
// memory nor a transaction's time grows with their number. No transaction of them is open
// afterwards. For a successor that writes to the same topic, exactly once, the markers name that
// one from then on, with the last part or alone: whoever wants to go on from there too is
// refused, the job that sealed the stages included. Dead letters it settles as files.sink's files
// are. Errors that may heal are tried again for a few seconds, then answered: who asked says so and
// asks again. Answers may destroy it. Thread: confined to the context's executor.
class KafkaCommitter : public Committer {
 public:
  explicit KafkaCommitter(KafkaClients& clients);

  void Open(CommitterContext& context) override;
  void Check(std::vector<Committable> committables, std::function<void(Status)> done) override;
  void Commit(std::vector<Committable> committables, std::function<void(Status)> done) override;
  // Removes staged files, and hidden ones of dead letters, alone, by exact name.
  void AbortOthers(Generation generation, std::vector<Committable> listed,
                   std::function<void(Status)> done) override;
  std::string waits_for() const override;

 private:
  using StagesBySubtask = std::map<int, std::vector<SealedPart>>;
  // The answers of some identities: the first error of all, when the last one is there.
  struct Round {
    size_t waiting = 0;
    Status status;
    CoSignal changed;
  };

  StatusOr<StagesBySubtask> Decode(const std::vector<Committable>& committables) const;
  Co<void> CommitAll(StagesBySubtask stages, std::vector<Committable> letters,
                     std::function<void(Status)> done);
  Co<Status> CommitStages(StagesBySubtask stages);
  Co<Status> Describe();
  Co<Status> CommitOnce(StagesBySubtask stages);
  // All identities at the same time.
  using IdentityFlow = Co<Status> (KafkaCommitter::*)(int subtask, std::vector<SealedPart> stages);
  Co<Status> ForAll(StagesBySubtask stages, IdentityFlow flow);
  Co<void> ForOne(IdentityFlow flow, int subtask, std::vector<SealedPart> stages,
                  std::shared_ptr<Round> round);
  Co<Status> Settle(int subtask, std::vector<SealedPart> stages);
  Co<Status> CheckMarker(int subtask, std::vector<SealedPart> stages);
  Co<void> CheckAll(StagesBySubtask stages, std::function<void(Status)> done);
  // What publishes for one subtask, as this settlement has to; topic_ may not be known yet.
  StagedPublisherOptions PublisherOptions(int subtask);
  // Of a successor: those of its sinks that go on with this one's output.
  std::vector<KafkaSinkConfig> Heirs(const JobSuccessor& successor) const;
  Co<void> AbortAll(Generation generation, StagesBySubtask stages, std::vector<Committable> letters,
                    std::function<void(Status)> done);
  Co<Status> RemoveStaged(Generation generation, StagesBySubtask listed);
  // As mail of its own, not inside the flow that ends with it.
  void Answer(std::function<void(Status)> done, Status status);

  KafkaClients& clients_;
  FilesCommitter letters_;
  CommitterContext* context_ = nullptr;
  std::string name_;
  Status config_status_;
  KafkaSinkConfig config_;
  std::unique_ptr<KafkaTransactions> transactions_;
  KafkaTopic topic_;
  std::map<int, std::string> waiting_;  // by subtask, -1: the topic's description
  int publishing_ = 0;                  // identities
  CoSignal published_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope identities_;
  CoScope scope_;
};

}  // namespace weir
