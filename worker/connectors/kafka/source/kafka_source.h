#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/graph/kafka_configs.h"
#include "common/graph/topic_pattern.h"
#include "common/operator/source.h"
#include "common/threading/co.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"
#include "worker/connectors/kafka/source/kafka_dead_letters.h"
#include "worker/connectors/kafka/source/kafka_position.h"
#include "worker/connectors/kafka/source/kafka_row_decoder.h"
#include "worker/connectors/kafka/source/known_rows.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

// Reads the partitions of one subtask; each is a split, "topic/partition", and belongs to the
// subtask OwnerOf says. The partitions found at the start begin where the config says; those that
// come later begin at their beginning, and are not part of a bounded read. Positions are in
// checkpoints alone; the group's offsets follow completed ones, for others to see.
//
// What was to be read and is not there (any more) is an error that names partition, wanted and
// available offsets; with on_lost_rows continue, rows deleted in front of the log's beginning are
// counted and left behind. A topic that was deleted and made anew is an error always: the last row
// that was read is compared with what stands there whenever reading begins at a restored position,
// when the cluster did not know a topic for a moment, and every discovery_interval. While no broker
// answers, the source waits and says so.
//
// A message that is no row ends the job, is left out and counted, or becomes a dead letter too.
// Poll only decodes; everything else are flows. Thread: the task's.
class KafkaSource : public Source {
 public:
  // `consumers` outlives it.
  explicit KafkaSource(KafkaConsumers& consumers) : consumers_(consumers) {}
  ~KafkaSource() override;

  Status Open(SourceContext& context, const std::vector<SplitState>& restored) override;
  StatusOr<PollResult> Poll(Output& output) override;
  bool Reachable() const override { return away_.ok(); }
  std::vector<SplitState> SnapshotPositions() override;
  void OnSnapshot(uint64_t checkpoint) override;
  CommittableOwner* committable_owner() override;
  void OnCompleted(uint64_t checkpoint) override;
  void Close() override;

 private:
  struct Split {
    TopicPartition partition;
    KafkaPosition position;
    int32_t tag = 0;
    bool reading = false;  // assigned, or about to be
    // The row in front of the position has to come first, and be this one.
    std::optional<KafkaRowMark> expected;
    const KafkaMessage* last = nullptr;  // taken by the Poll under way
    std::string early_end;               // says that it ends before the offset to read to; or ""
  };
  using Positions = std::vector<std::pair<TopicPartition, int64_t>>;

  // ---- flows
  Co<void> Run();
  // Topics and their partition counts; waits for as long as no broker answers. No value: failed.
  Co<std::optional<std::map<std::string, int32_t>>> FindTopics();
  Co<void> Discover(bool first);
  // Finds out where partitions that are not read yet begin and end, and reads them.
  Co<Status> Begin(std::vector<TopicPartition> partitions, bool first);
  // Reads these from their positions on, having seen that they can be.
  Co<Status> Resume(std::vector<Split*> splits);
  Co<void> Again(int32_t tag);
  Co<void> CheckAll();
  // Looks now and then whether rows that were read are still there.
  Co<void> Recognise();
  Co<void> DropEnded(TopicPartition partition);
  Co<void> CommitForOthers(Positions offsets);
  Co<void> WaitForBrokers();
  Co<void> WakeLater(int64_t delay_us);
  Co<StatusOr<std::vector<KafkaOffsets>>> ListOffsets(std::vector<TopicPartition> partitions);
  // Repeats `ask` while no broker answers.
  template <typename T>
  Co<StatusOr<T>> Ask(std::function<void(std::function<void(StatusOr<T>)>)> ask);
  Co<Status> Assign(std::vector<KafkaAssignment> assignments);

  // ---- decisions
  // Where a split begins that no checkpoint knows.
  Status SetStart(Split* split, const KafkaOffsets& offsets, std::optional<int64_t> found,
                  bool first);
  // Rows in front of `offsets.low` are lost.
  Status SkipLost(Split* split, const KafkaOffsets& offsets);
  bool WasPending(const TopicPartition& partition) const;
  bool Owns(const TopicPartition& partition) const;
  // Whether a topic of the config has to be there.
  bool Needs(const std::string& topic) const;
  Status Missing(const std::string& topic) const;

  // ---- rows
  void DropDoubtful();
  // Moves rows of the batch into picked_, up to `rows_max` and `bytes_max`, which falls by theirs.
  Status Pick(int64_t rows_max, int64_t* bytes_max);
  Status OnBadRow(const KafkaMessage& message, const Status& why);
  void HandleEvents();
  void OnPartitionEnd(Split* split, int64_t offset);
  void End(Split* split);
  void ForgetEarlyEnd(Split* split);
  void ShowEarlyEnds();
  bool AllEnded() const;
  bool MayLeaveOut() const;
  void SetRate();
  void NoteAway(const Status& status);
  void NoteBack();
  void Fail(Status status);
  std::string Name() const;

  KafkaConsumers& consumers_;
  SourceContext* context_ = nullptr;
  KafkaSourceConfig config_;
  std::optional<TopicPattern> pattern_;
  BadData bad_data_ = BadData::kFail;
  Status failed_;
  bool closed_ = false;
  Status away_;           // OK: brokers answer
  bool waiting_ = false;  // WaitForBrokers runs

  bool fresh_ = true;                                 // nothing was restored
  std::vector<KafkaPendingStart> pending_;            // own: they begin where the config says
  std::map<TopicPartition, KafkaPosition> restored_;  // own: not begun yet, or read and gone
  // Bounded: of topics that were restored, of all subtasks, whether all is read.
  std::map<std::string, bool> read_to_end_;
  bool started_ = false;                   // the first partitions are being read
  std::map<std::string, int32_t> topics_;  // partitions of each, as last seen
  std::map<TopicPartition, std::unique_ptr<Split>> splits_;
  std::vector<Split*> by_tag_;
  int64_t reading_ = 0;     // splits that have not ended
  bool check_all_ = false;  // once the batch is read: what is read may not be what it was
  bool checking_ = false;   // CheckAll runs
  int64_t partitions_all_ = 0;

  KafkaBatch batch_;
  size_t next_ = 0;  // row of batch_
  std::vector<const KafkaMessage*> picked_;
  std::vector<Split*> touched_;  // have a `last`
  std::optional<KafkaRowDecoder> decoder_;

  std::unique_ptr<KafkaDeadLetters> dead_letters_;  // if bad rows become some
  bool dead_letters_open_ = false;
  std::optional<RateLimiter> limiter_;
  bool waking_ = false;

  std::deque<std::pair<uint64_t, Positions>> snapshots_;  // not known to be completed
  Positions snapshot_;                                    // the last one taken
  bool committing_ = false;
  bool commit_failed_ = false;  // said so

  std::unique_ptr<KnownRows> known_;
  std::unique_ptr<KafkaConsumer> consumer_;  // gone before what its answers need
  CoScope scope_;
};

}  // namespace weir
