#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/answer_watch.h"
#include "worker/connectors/kafka/sink/topic_ends.h"
#include "worker/connectors/kafka/sink/topic_watch.h"
#include "worker/connectors/sealed_parts/part_store.h"

namespace weir {

// What a StagedPublisher works with; all of it outlives the publisher.
struct StagedPublisherOptions {
  std::string owner;              // "kafka.sink 'out'", for messages
  KafkaProducerOptions producer;  // its transactional id is the identity
  JobId job;                      // that the marker is to name; one of its own counts
  // The job that `job` takes the output over from: a marker of its counts as well.
  std::optional<JobId> predecessor;
  // All jobs that ever had the identity went on from one another, so that the checkpoint of any
  // marker can be compared.
  bool is_of_one_line = true;
  // `job` takes nothing over: with all stages published it does not matter who went on.
  bool is_bystander = false;
  // After these stages `job` publishes nothing as this identity, and the marker says so.
  bool releases = false;
  // Where it cannot be told what was published, or more was than the stages tell of, it is
  // published again.
  bool may_double = false;
  Generation generation;  // that publishes
  std::string directory;  // of the stages' files
  FileSystem* files = nullptr;
  Timers* timers = nullptr;
  KafkaTransactions* transactions = nullptr;
  std::function<void(std::function<void(Status)>)> confirm_current;
  std::function<void(std::string)> waits;  // as AnswerWatch tells it
  int64_t patience_us = AnswerWatch::kPatienceMicros;
  // Nobody removes what stays of the stages: then it is an error.
  bool is_last = false;
};

// Publishes the stages of one identity, in order, each part in one transaction together with the
// marker that says how far it is: so a reader of the topic sees each part whole and once, whatever
// dies when. What makes it safe (docs/kafka.md says it to users):
//  - An instance of the producer is fenced in before anything else: the coordinator confirms that
//    the generation is current, Initialise ends whatever an earlier instance left open, the
//    coordinator confirms again, for Initialise may come late, and the marker that is read then is
//    final.
//  - What the marker covers is never published again; what it does not cover is.
//  - Who takes the output over from another job has it with the last part: until then the marker
//    keeps that one's name, for a part before it may be refused. Of two that do so at the same
//    time it is the one that commits the last part, and the other finds its name there.
//  - When it is not known what became of a commit it is asked again, or the marker tells.
//  - An instance that was disturbed begins no further transaction: a delayed end of an earlier one
//    could end it half way.
//  - A topic that was deleted, or made anew, takes nothing more: the marker is gone with it, and it
//    ends earlier than what was published; a call that makes no progress for seconds asks for it.
//  - A stage that the topic refuses for good is not published, nor is any behind it, and its file
//    stays.
//  - A fenced instance is never replaced here: who fenced it may be the rightful one. The
//    generation fails, and the coordinator decides.
//
// Retryable errors: the same call may be made again; it goes on where it stopped. Thread: confined
// to the executor of `transactions`. Crash: an open transaction stays until the next Fence of the
// identity. Kill points: kafka.before_init, kafka.after_init, kafka.after_begin,
// kafka.half_produced, kafka.before_commit, kafka.after_commit.
class StagedPublisher {
 public:
  explicit StagedPublisher(StagedPublisherOptions options);

  // Takes the identity over, and reads its marker.
  Co<Status> Fence();
  // What Publish would refuse, by a look at the marker alone: whoever has the identity keeps it,
  // and may write another marker right afterwards.
  Co<Status> Check(std::vector<SealedPart> stages);
  // Fences where that is due, and refuses then what Publish would: nothing of the identity is open
  // afterwards.
  Co<Status> MakeReady(SealedPart last);
  // Of the last Fence or commit; no value: none was ever written.
  const std::optional<KafkaMarker>& marker() const { return marker_; }
  // User error that names group, topic and what was found: the marker is missing, of another job,
  // or beyond `checkpoint`, the last one that this output may know of. REQUIRES: Fence succeeded.
  Status CheckMarker(CheckpointId checkpoint) const;
  // Writes the marker alone, as if the stage of `checkpoint` had been published.
  Co<Status> WriteMarker(CheckpointId checkpoint);
  // Publishes what the marker does not cover, fences first where that is due, and removes the files
  // of all of them. REQUIRES: in order, at least one.
  Co<Status> Publish(std::vector<SealedPart> stages);
  // "group 'x', topic 'y' partition 0".
  std::string Place() const;

 private:
  bool Counts() const;
  // Whether the marker's checkpoint can be compared with those of stages.
  bool IsComparable() const;
  using ProducerCall = void (TransactionalProducer::*)(KafkaDone);

  // The calls, watched: one whose topic was deleted meanwhile is kFatal, a user error, and its
  // instance is to be let go.
  Co<KafkaResult> Watched(std::string what, std::function<void(KafkaDone)> call);
  Co<KafkaResult> Call(TransactionalProducer& producer, ProducerCall call, std::string what);
  Co<KafkaResult> Produce(std::string records);
  Co<KafkaResult> SendMarker(KafkaMarker marker);
  Co<StatusOr<std::optional<KafkaMarker>>> ReadMarker();
  // Makes a call that has no answer again until it has one.
  Co<KafkaResult> Insist(ProducerCall call, std::string what);
  bool Covers(const SealedPart& stage) const;
  Co<Status> ReadMarkerNow();
  Status CheckFor(const SealedPart& last) const;
  // Files that are not there. Their rows were published, for only then one is removed: unless
  // somebody else did, so the log tells of them.
  Co<std::set<std::string>> FindGone(std::vector<SealedPart> stages);
  // Whether the instance may begin no further transaction. REQUIRES: there is one.
  bool IsSpent() const;
  Co<Status> PublishOne(SealedPart stage, KafkaMarker marker);
  // What is to be said of a stage that the topic refuses for good. Retryable where its requests
  // were made for another limit than the topic has by now.
  Co<Status> Refused(SealedPart stage, Status status);
  // Rows of the file into the open transaction.
  Co<KafkaResult> ProduceFile(SealedPart stage);
  // The rest of the transaction that holds what is to be published up to `marker`.
  Co<Status> EndTransaction(KafkaMarker marker);
  // What is to be said of a call that failed, after the open transaction has been given up.
  Co<Status> GiveUp(KafkaResult result, std::string what);
  // Status of a failed call that leaves no transaction to be ended.
  Status Failed(const KafkaResult& result, std::string_view what);
  Co<Status> RemoveStaged(std::string name);
  KafkaMarker MarkerOf(const SealedPart& stage) const;

  StagedPublisherOptions options_;  // what a producer is made with follows the topic
  const KafkaMarkerPlace place_;
  AnswerWatch watch_;
  TopicEnds ends_;
  TopicWatch topic_;
  std::map<int32_t, int64_t> produced_;              // rows in the open transaction, by partition
  std::unique_ptr<TransactionalProducer> producer_;  // nullptr: Fence first
  std::optional<KafkaMarker> marker_;
};

}  // namespace weir
