#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/graph/kafka_configs.h"
#include "common/operator/sink.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/joined_owners.h"
#include "worker/connectors/kafka/sink/kafka_rows.h"
#include "worker/connectors/kafka/sink/kafka_sink_letters.h"
#include "worker/connectors/kafka/sink/plain_writer.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// Makes records of rows, and stages them (exactly once) or sends them (at least once). Rows are
// taken as soon as the topic is known; with exactly once the identity is taken over meanwhile, and
// no Prepare is answered before it is. Thread: the task's.
class KafkaSink : public Sink {
 public:
  explicit KafkaSink(KafkaClients& clients) : clients_(clients) {}

  void Open(SinkContext& context, std::function<void(Status)> done) override;
  Status Write(const RecordBatch& batch) override;
  bool Ready() const override { return owner_->Ready(); }
  std::string blocking_reason() const override { return owner_->blocking_reason(); }
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override {
    owner_->Prepare(checkpoint, std::move(done));
  }
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  void OnAborted(CheckpointId checkpoint) override { owner_->OnAborted(checkpoint); }
  std::optional<SinkProgress> progress() const override;
  void Close() override;

 private:
  Co<void> OpenTopic(std::function<void(Status)> done);
  Co<Status> OpenLetters();
  Co<Status> Describe();
  Co<Status> Begin();
  void BeginStaging();
  Co<Status> BeginSending();
  // Of the rows that are written.
  void SetOwner(CommittableOwner& owner);
  const Status& status() const;
  // Fails, or leaves the rows out, as the job wants it.
  Status OnBadRows(const RecordBatch& batch, const std::vector<KafkaBadRow>& bad);

  KafkaClients& clients_;
  SinkContext* context_ = nullptr;
  std::string name_;  // "kafka.sink 'out'"
  KafkaSinkConfig config_;
  BadData bad_data_ = BadData::kFail;
  std::unique_ptr<KafkaTransactions> transactions_;
  KafkaTopic topic_;
  std::unique_ptr<KafkaRows> rows_;
  std::unique_ptr<SealedParts> parts_;         // exactly once
  std::unique_ptr<PlainWriter> writer_;        // at least once
  std::unique_ptr<KafkaSinkLetters> letters_;  // if bad rows become dead letters
  std::unique_ptr<JoinedOwners> joined_;       // of rows and letters, where there are letters
  CommittableOwner* owner_ = nullptr;          // of all that is written
  int64_t rows_taken_ = 0;
  int64_t rows_left_out_ = 0;
  int64_t tell_at_ = 1;  // in the log, when that many are left out
  CheckpointId committed_;
  int64_t committed_wall_us_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // until Close
  CoScope scope_;
};

}  // namespace weir
