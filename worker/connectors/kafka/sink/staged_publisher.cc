#include "worker/connectors/kafka/sink/staged_publisher.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/sink/sink_topic.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

// Read, and handed to the producer, at a time.
constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kAskAgainFirstMicros = 20'000;
constexpr int64_t kAskAgainMaxMicros = 1'000'000;

Async<Status> Confirm(const std::function<void(std::function<void(Status)>)>& confirm) {
  return Async<Status>([&confirm](Async<Status>::Done done) { confirm(std::move(done)); });
}

KafkaResult LocalFailure(Status status) {
  return {.verdict = KafkaVerdict::kAbort, .status = std::move(status)};
}

}  // namespace

StagedPublisher::StagedPublisher(StagedPublisherOptions options)
    : options_(std::move(options)),
      place_({.group = options_.producer.transactional_id,
              .topic = options_.producer.topic,
              .partition = 0}),
      watch_(*options_.timers, options_.producer.cluster.brokers, options_.waits,
             options_.patience_us),
      ends_(options_.producer.topic, options_.producer.cluster.brokers, *options_.timers, watch_),
      topic_(*options_.transactions, options_.producer.cluster, options_.producer.topic,
             *options_.timers, watch_) {}

Co<KafkaResult> StagedPublisher::Watched(std::string what, std::function<void(KafkaDone)> call) {
  watch_.Begin(what);
  KafkaResult result = co_await Async<KafkaResult>([&](Async<KafkaResult>::Done done) {
    topic_.Begin([done](Status deleted) {
      done({.verdict = KafkaVerdict::kFatal, .status = std::move(deleted)});
    });
    call(std::move(done));
  });
  topic_.End(result.done());
  watch_.End(result.status);
  co_return result;
}

Co<KafkaResult> StagedPublisher::Call(TransactionalProducer& producer, ProducerCall call,
                                      std::string what) {
  std::function<void(KafkaDone)> start = [&producer, call](KafkaDone done) {
    (producer.*call)(std::move(done));
  };
  co_return co_await Watched(std::move(what), std::move(start));
}

Co<KafkaResult> StagedPublisher::Produce(std::string records) {
  std::function<void(KafkaDone)> start = [this, &records](KafkaDone done) {
    producer_->Produce(std::move(records), std::move(done));
  };
  co_return co_await Watched("take rows", std::move(start));
}

Co<KafkaResult> StagedPublisher::SendMarker(KafkaMarker marker) {
  std::function<void(KafkaDone)> start = [this, &marker](KafkaDone done) {
    producer_->SendMarker(place_, marker, std::move(done));
  };
  co_return co_await Watched("take the marker", std::move(start));
}

Co<StatusOr<std::optional<KafkaMarker>>> StagedPublisher::ReadMarker() {
  using Answer = StatusOr<std::optional<KafkaMarker>>;
  watch_.Begin("tell the marker");
  Answer marker = co_await Async<Answer>([this](Async<Answer>::Done done) {
    options_.transactions->ReadMarker(options_.producer.cluster, place_, std::move(done));
  });
  watch_.End(marker.status());
  co_return marker;
}

Co<KafkaResult> StagedPublisher::Insist(ProducerCall call, std::string what) {
  int64_t wait_us = kAskAgainFirstMicros;
  while (true) {
    KafkaResult result = co_await Call(*producer_, call, what);
    if (result.verdict != KafkaVerdict::kUnknown) co_return result;
    if (wait_us >= kAskAgainMaxMicros) {
      log::Warning(options_.owner, " has no answer yet, to ", what, ": ", result.status.message());
    }
    co_await Sleep(*options_.timers, wait_us);
    wait_us = std::min(2 * wait_us, kAskAgainMaxMicros);
  }
}

std::string StagedPublisher::Place() const {
  return Concat("group '", place_.group, "', topic '", place_.topic, "' partition ",
                place_.partition);
}

Status StagedPublisher::Failed(const KafkaResult& result, std::string_view what) {
  // Whatever it was, this instance is not used any more.
  producer_ = nullptr;
  const Status status = result.status.WithContext(
      Concat(options_.owner, ": cannot ", what, " as '", options_.producer.transactional_id, "'"));
  // The next attempt looks whether it stays away.
  if (status.code() == StatusCode::kNotFound) return status.WithRetry(true);
  if (result.verdict != KafkaVerdict::kFenced) return status;
  return UnknownOutcomeError(
             Concat(status.message(),
                    ": a younger instance has the id, or the transaction took longer than its "
                    "timeout"))
      .WithRetry(false);
}

Co<Status> StagedPublisher::Fence() {
  producer_ = nullptr;
  Status current = co_await Confirm(options_.confirm_current);
  if (!current.ok()) co_return current.WithContext(options_.owner);
  StatusOr<std::unique_ptr<TransactionalProducer>> made =
      options_.transactions->MakeProducer(options_.producer);
  if (!made.ok()) co_return made.status().WithContext(options_.owner);
  // Nothing is published by it unless all of this succeeds.
  std::unique_ptr<TransactionalProducer> producer = *std::move(made);
  using MarkerRead = StatusOr<std::optional<KafkaMarker>>;
  std::optional<MarkerRead> early;
  if (PlantedBug("marker_before_init")) early = co_await ReadMarker();
  KillPoint("kafka.before_init");
  constexpr std::string_view kInitialise = "initialise transactions";
  KafkaResult result =
      co_await Call(*producer, &TransactionalProducer::Initialise, std::string(kInitialise));
  while (result.verdict == KafkaVerdict::kUnknown) {
    log::Warning(options_.owner, " waits for transactions to begin as '",
                 options_.producer.transactional_id, "': ", result.status.message());
    co_await Sleep(*options_.timers, kAskAgainMaxMicros);
    // Meanwhile the generation may have ended, and the id is another's.
    current = co_await Confirm(options_.confirm_current);
    if (!current.ok()) co_return current.WithContext(options_.owner);
    result = co_await Call(*producer, &TransactionalProducer::Initialise, std::string(kInitialise));
  }
  if (!result.done()) co_return Failed(result, kInitialise);
  KillPoint("kafka.after_init");
  // It may have come late, after the generation's end. Whoever comes after this answer initialises
  // after this instance did, and fences it.
  current = co_await Confirm(options_.confirm_current);
  if (!current.ok()) co_return current.WithContext(options_.owner);
  Status read = co_await ReadMarkerNow();
  if (!read.ok()) co_return read;
  if (early && early->ok()) marker_ = **std::move(early);
  producer_ = std::move(producer);
  co_return Status();
}

Co<Status> StagedPublisher::ReadMarkerNow() {
  StatusOr<std::optional<KafkaMarker>> marker = co_await ReadMarker();
  if (!marker.ok()) {
    co_return marker.status().WithContext(
        Concat(options_.owner, ": cannot read the marker of ", Place()));
  }
  marker_ = *std::move(marker);
  co_return Status();
}

Co<Status> StagedPublisher::Check(std::vector<SealedPart> stages) {
  Status status = co_await ReadMarkerNow();
  if (!status.ok() || stages.empty()) co_return status;
  co_return CheckFor(stages.back());
}

bool StagedPublisher::Counts() const {
  return marker_.has_value() &&
         (marker_->job == options_.job || marker_->job == options_.predecessor);
}

Status StagedPublisher::CheckMarker(CheckpointId checkpoint) const {
  const JobId& sealer = options_.predecessor.value_or(options_.job);
  const auto refuse = [&](std::string_view why, std::string_view advice) {
    const std::string_view other_ways =
        options_.predecessor ? ", write to another topic, or set 'on_doubled_rows' to \"continue\""
                             : "";
    return FailedPreconditionError(
        Concat(options_.owner, ": ", why, " (", Place(), ")", advice, other_ways));
  };
  if (!marker_.has_value()) {
    if (options_.may_double) return {};
    return refuse(
        Concat("the marker that tells what was published is missing; wanted: one of job ", sealer,
               " of checkpoint ", checkpoint,
               " or earlier; found: none. The group was deleted or has expired, or the topic was "
               "made anew; going on would publish rows twice or never"),
        options_.predecessor ? ". Start without a checkpoint" : "");
  }
  if (!Counts() && options_.predecessor) {
    if (options_.may_double) return {};
    return refuse(
        Concat("another job has gone on from this output; wanted: a marker of job ", sealer,
               ", checkpoint ", checkpoint, " or earlier; found: job ", marker_->job,
               ", checkpoint ", marker_->checkpoint, "; going on would publish rows twice"),
        Concat(". Start from the newest checkpoint of job ", marker_->job));
  }
  if (!Counts()) {
    return refuse(
        Concat("the marker there belongs to another job; wanted: job ", sealer, ", checkpoint ",
               checkpoint, "; found: job ", marker_->job, ", checkpoint ", marker_->checkpoint),
        ". That one was started from a checkpoint of this one and has gone on from it, "
        "or both have one 'transactional_id_prefix' and this one needs another");
  }
  if (marker_->checkpoint > checkpoint && !options_.may_double) {
    return refuse(
        Concat("the output is ahead of the state: it has been published up to checkpoint ",
               marker_->checkpoint, " of job ", marker_->job,
               " and the job goes on from checkpoint ", checkpoint,
               "; going on would publish rows twice"),
        options_.predecessor ? ". Start from a later checkpoint" : "");
  }
  return {};
}

bool StagedPublisher::IsComparable() const {
  return Counts() || (marker_.has_value() && options_.is_of_one_line);
}

bool StagedPublisher::Covers(const SealedPart& stage) const {
  return IsComparable() && std::tuple(stage.checkpoint, stage.index) <=
                               std::tuple(marker_->checkpoint, marker_->part);
}

KafkaMarker StagedPublisher::MarkerOf(const SealedPart& stage) const {
  return {.job = options_.job,
          .generation = options_.generation,
          .checkpoint = stage.checkpoint,
          .part = stage.index,
          .parts = stage.parts};
}

bool StagedPublisher::IsSpent() const {
  return producer_->disturbed() && !PlantedBug("no_new_instance_after_disturbed");
}

Co<Status> StagedPublisher::GiveUp(KafkaResult result, std::string what) {
  if (result.verdict == KafkaVerdict::kFenced || result.verdict == KafkaVerdict::kFatal) {
    co_return Failed(result, what);
  }
  const Status status = result.status.WithContext(
      Concat(options_.owner, ": cannot ", what, " as '", options_.producer.transactional_id, "'"));
  KafkaResult aborted = co_await Insist(&TransactionalProducer::Abort, "abort a transaction");
  if (aborted.verdict == KafkaVerdict::kFenced || topic_.is_deleted()) {
    co_return Failed(aborted, "abort a transaction");
  }
  if (!aborted.done() || IsSpent()) producer_ = nullptr;
  co_return status.code() == StatusCode::kNotFound ? status.WithRetry(true) : status;
}

Co<Status> StagedPublisher::EndTransaction(KafkaMarker marker) {
  KafkaResult result = co_await SendMarker(marker);
  if (!result.done()) co_return co_await GiveUp(result, "send the marker");
  KillPoint("kafka.before_commit");
  result = co_await Insist(&TransactionalProducer::Commit,
                           Concat("commit checkpoint ", marker.checkpoint));
  if (!result.done()) co_return co_await GiveUp(result, "commit");
  KillPoint("kafka.after_commit");
  marker_ = std::move(marker);
  ends_.Add(std::exchange(produced_, {}));
  if (IsSpent()) producer_ = nullptr;
  co_return Status();
}

Co<Status> StagedPublisher::WriteMarker(CheckpointId checkpoint) {
  KafkaResult result =
      co_await Call(*producer_, &TransactionalProducer::Begin, "begin a transaction");
  if (!result.done()) co_return Failed(result, "begin a transaction");
  SealedPart nothing;
  nothing.checkpoint = checkpoint;
  co_return co_await EndTransaction(MarkerOf(nothing));
}

Co<KafkaResult> StagedPublisher::ProduceFile(SealedPart stage) {
  const std::string path = JoinPath(options_.directory, stage.name);
  int64_t offset = 0;  // of the next block
  int64_t read = 0;    // bytes of the file that were seen
  int64_t rows = 0;
  int64_t wanted = kPieceBytes;
  bool half = false;
  while (offset < stage.bytes) {
    StatusOr<std::string> piece = co_await ReadAt(*options_.files, path, offset, wanted);
    if (piece.status().code() == StatusCode::kNotFound) {
      co_return LocalFailure(FailedPreconditionError(
          Concat(path, " is lost: somebody removed it before its rows were published (", Place(),
                 " has them not)")));
    }
    if (!piece.ok()) co_return LocalFailure(piece.status());
    read = offset + static_cast<int64_t>(piece->size());
    size_t head = 0;
    if (offset == 0) {
      Status status = CheckKafkaFileHeader(*piece);
      if (!status.ok()) co_return LocalFailure(status.WithContext(path).WithRetry(false));
      head = kKafkaFileHeaderBytes;
    }
    KafkaBlockReader blocks(std::string_view(*piece).substr(head), path,
                            offset + static_cast<int64_t>(head));
    KafkaBlock block;
    while (true) {
      StatusOr<bool> more = blocks.Next(&block);
      if (!more.ok()) co_return LocalFailure(more.status().WithRetry(false));
      if (!*more) break;
      rows += block.rows;
      produced_[block.partition] += block.rows;
    }
    const size_t used = head + blocks.used();
    // A block that is there in part is read again, as a whole.
    offset += static_cast<int64_t>(used);
    if (blocks.used() == 0) {
      if (static_cast<int64_t>(piece->size()) < wanted) break;
      wanted = std::max(kPieceBytes, static_cast<int64_t>(blocks.wanted()));
      continue;
    }
    wanted = kPieceBytes;
    piece->resize(used);
    if (head > 0) piece->erase(0, head);
    KafkaResult result = co_await Produce(*std::move(piece));
    if (!result.done()) co_return result;
    if (!std::exchange(half, true)) KillPoint("kafka.half_produced");
  }
  if (offset != stage.bytes || read != stage.bytes || rows != stage.rows) {
    co_return LocalFailure(
        DataLossError(Concat(path, " has ", read, " bytes with ", rows, " rows; sealed were ",
                             stage.bytes, " bytes with ", stage.rows))
            .WithRetry(false));
  }
  co_return KafkaResult();
}

Co<Status> StagedPublisher::PublishOne(SealedPart stage, KafkaMarker marker) {
  produced_.clear();
  KafkaResult result =
      co_await Call(*producer_, &TransactionalProducer::Begin, "begin a transaction");
  if (!result.done()) co_return Failed(result, "begin a transaction");
  KillPoint("kafka.after_begin");
  if (!stage.name.empty()) {
    result = co_await ProduceFile(stage);
    if (!result.done()) co_return co_await GiveUp(result, "publish rows");
  }
  co_return co_await EndTransaction(std::move(marker));
}

Co<Status> StagedPublisher::Refused(SealedPart stage, Status status) {
  KafkaProducerOptions& producer = options_.producer;
  StatusOr<KafkaTopic> topic =
      co_await DescribeTopic(watch_, *options_.transactions, producer.cluster, producer.topic);
  if (!topic.ok()) co_return status.WithRetry(topic.status().retryable());
  if (std::exchange(producer.message_bytes_max, topic->message_bytes_max) !=
      topic->message_bytes_max) {
    producer_ = nullptr;
    co_return status.WithRetry(true);
  }
  co_return OutOfRangeError(
      Concat(status.message(), "; ", LimitsOf(*topic), ". None of the ", stage.rows,
             " rows of checkpoint ", stage.checkpoint, ", part ", stage.index + 1, " of ",
             stage.parts, ", is published, nor any behind them: they are kept in ",
             JoinPath(options_.directory, stage.name),
             ". Let the topic take them, and start a job from the newest checkpoint (weir run "
             "--from)"));
}

Co<Status> StagedPublisher::RemoveStaged(std::string name) {
  if (name.empty()) co_return Status();
  Status status = co_await RemoveFile(*options_.files, JoinPath(options_.directory, name));
  if (status.ok() || status.code() == StatusCode::kNotFound) co_return Status();
  if (options_.is_last) co_return status.WithContext(options_.owner);
  // The Committer of the next generation removes what stays.
  log::Warning(options_.owner, " cannot remove what is published: ", status.message());
  co_return Status();
}

Co<Status> StagedPublisher::MakeReady(SealedPart last) {
  if (producer_ != nullptr) co_return Status();
  Status status = co_await Fence();
  if (!status.ok()) co_return status;
  co_return CheckFor(last);
}

Status StagedPublisher::CheckFor(const SealedPart& last) const {
  return options_.is_bystander && Covers(last) ? Status() : CheckMarker(last.checkpoint);
}

Co<std::set<std::string>> StagedPublisher::FindGone(std::vector<SealedPart> stages) {
  std::set<std::string> gone;
  int64_t rows = 0;
  CheckpointId first;
  CheckpointId last;
  for (const SealedPart& stage : stages) {
    if (stage.name.empty() || Covers(stage)) continue;
    const std::string path = JoinPath(options_.directory, stage.name);
    StatusOr<FileInfo> info = co_await StatFile(*options_.files, path);
    if (info.status().code() != StatusCode::kNotFound) continue;
    if (gone.empty()) first = stage.checkpoint;
    last = stage.checkpoint;
    rows += stage.rows;
    gone.insert(stage.name);
  }
  if (!gone.empty()) {
    log::Warning(options_.owner, ": ", rows, " rows of checkpoint ", first,
                 first == last ? std::string() : Concat(" to ", last),
                 " are taken for published, as their files are gone: files=", gone.size(),
                 " directory=", options_.directory, ", ", Place());
  }
  co_return gone;
}

Co<Status> StagedPublisher::Publish(std::vector<SealedPart> stages) {
  if (stages.empty()) co_return Status();
  KafkaMarker last = MarkerOf(stages.back());
  last.released = options_.releases;
  Status status = co_await MakeReady(stages.back());
  if (!status.ok()) co_return status;
  // Where the marker of somebody else does not, the files may tell what was published.
  const bool files_tell = options_.may_double && !Counts();
  const bool goes_back = options_.may_double && !options_.is_bystander && Counts() &&
                         marker_->checkpoint > last.checkpoint;
  if (options_.may_double && (!Counts() || goes_back)) {
    log::Warning(options_.owner, " goes on from checkpoint ", last.checkpoint,
                 " although rows may come twice (on_doubled_rows is continue): found ",
                 marker_ ? Concat("checkpoint ", marker_->checkpoint, " of job ", marker_->job)
                         : std::string("no marker"),
                 ", ", Place());
  }
  std::set<std::string> gone;
  if (files_tell) gone = co_await FindGone(stages);
  for (const SealedPart& stage : stages) {
    status = co_await MakeReady(stages.back());
    if (!status.ok()) co_return status;
    const bool is_gone = files_tell && (stage.name.empty() || gone.contains(stage.name));
    if (!is_gone && !Covers(stage)) {
      KafkaMarker marker = MarkerOf(stage);
      if (&stage == &stages.back()) {
        marker.released = options_.releases;
      } else if (Counts()) {
        marker.job = marker_->job;
      }
      status = (co_await ends_.Look(*producer_)).WithContext(options_.owner);
      if (status.ok()) status = co_await PublishOne(stage, std::move(marker));
      if (status.code() == StatusCode::kOutOfRange) status = co_await Refused(stage, status);
      if (!status.ok()) co_return status;
    }
    Status removed = co_await RemoveStaged(stage.name);
    if (!removed.ok()) co_return removed;
  }
  const bool is_said = Counts() && marker_->job == last.job && marker_->released;
  if (!goes_back && (!options_.releases || is_said)) co_return Status();
  status = co_await MakeReady(stages.back());
  if (!status.ok()) co_return status;
  KafkaResult begun =
      co_await Call(*producer_, &TransactionalProducer::Begin, "begin a transaction");
  if (!begun.done()) co_return Failed(begun, "begin a transaction");
  co_return co_await EndTransaction(std::move(last));
}

}  // namespace weir
