#include "worker/connectors/kafka/sink/kafka_sink.h"

#include <algorithm>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/record/json_format.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/sink/kafka_stage.h"
#include "worker/connectors/kafka/sink/kafka_store.h"
#include "worker/connectors/kafka/sink/sink_topic.h"
#include "worker/connectors/kafka/sink/topic_ends.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 5'000'000;
constexpr int64_t kPublishingBytesMin = 256 << 20;
// Longer values of a bad row are left out of what is said of it.
constexpr size_t kToldTextBytesMax = 200;

// The row as JSON, without long texts: among its columns may be those that tell where it is from.
std::string Describe(const RecordBatch& batch, int64_t row) {
  std::vector<Field> fields;
  std::vector<Column> columns;
  for (int i = 0; i < batch.columns(); ++i) {
    const Column& column = batch.column(i);
    if (IsVariableWidth(column.type()) && column.Text(row).size() > kToldTextBytesMax) continue;
    fields.push_back(batch.schema()->field(i));
    columns.push_back(column);
  }
  const int32_t selected[] = {static_cast<int32_t>(row)};
  const RecordBatch part(std::make_shared<const Schema>(Schema(std::move(fields))), batch.rows(),
                         std::move(columns));
  std::string text;
  AppendJsonRows(part.Select(selected), &text);
  text.pop_back();
  return text;
}

}  // namespace

void KafkaSink::Open(SinkContext& context, std::function<void(Status)> done) {
  context_ = &context;
  name_ = Concat("kafka.sink '", context.uid(), "'");
  StatusOr<KafkaSinkConfig> config = ParseKafkaSinkConfig(context.config());
  Status status = config.status();
  if (status.ok()) status = CheckKafkaSinkInput(*config, *context.input_schema());
  if (!status.ok()) {
    done(status);
    return;
  }
  config_ = *std::move(config);
  committed_ = context.resumed_from();  // whose output is settled before tasks start
  bad_data_ = BadDataOf(config_, context.options());
  transactions_ = clients_.TransactionsFor(context.executor());
  if (bad_data_ == BadData::kDeadLetter) {
    letters_ = std::make_unique<KafkaSinkLetters>(context, config_.dead_letter_path, config_.topic);
  }
  scope_.Spawn(OpenTopic(std::move(done)));
}

Co<Status> KafkaSink::OpenLetters() {
  if (letters_ == nullptr) co_return Status();
  co_return co_await Async<Status>(
      [this](Async<Status>::Done done) { letters_->Open(std::move(done)); });
}

Co<void> KafkaSink::OpenTopic(std::function<void(Status)> done) {
  int64_t retry_us = kRetryFirstMicros;
  int doubts = 0;
  // Where letters go is nothing to wait for.
  Status status = co_await OpenLetters();
  const bool opened = status.ok();
  while (true) {
    if (opened) status = co_await Begin();
    const bool is_gone = opened && status.code() == StatusCode::kNotFound;
    const bool again = opened && (is_gone ? ++doubts < TopicEnds::kGoneDoubts : status.retryable());
    if (is_gone && !again && context_->resumed_from().value() > 0) {
      status = status.WithContext(Concat("topic '", config_.topic, "' was deleted"));
    }
    context_->SetWaiting("open", again ? status.message() : "");
    if (!again) {
      context_->timers().After(0, [alive = std::weak_ptr<int>(alive_), done = std::move(done),
                                   status = std::move(status)] {
        if (!alive.expired()) done(status);
      });
      co_return;
    }
    log::Warning(name_, " cannot begin yet: ", status.message(), " subtask=", context_->subtask(),
                 " retry_ms=", retry_us / 1000);
    if (is_gone) retry_us = TopicEnds::kDoubtMicros;
    co_await Sleep(context_->timers(), retry_us);
    retry_us = std::min(2 * retry_us, kRetryMaxMicros);
  }
}

Co<Status> KafkaSink::Describe() {
  StatusOr<KafkaTopic> topic = co_await DescribeTopic(*transactions_, config_);
  if (!topic.ok()) co_return topic.status().WithContext(name_);
  topic_ = *topic;
  if (topic_.partitions > 0) co_return Status();
  co_return UnavailableError(Concat(name_, ": topic '", config_.topic, "' has no partitions"));
}

Co<Status> KafkaSink::Begin() {
  Status status = co_await Describe();
  if (!status.ok()) co_return status;
  rows_ =
      std::make_unique<KafkaRows>(config_, context_->input_schema(), topic_, context_->subtask());
  if (config_.delivery == KafkaDelivery::kAtLeastOnce) co_return co_await BeginSending();
  // Rows may be staged from here on, while the identity is still being taken over.
  status = co_await MakeDirectories(context_->files(), context_->staging_directory());
  if (!status.ok()) co_return status.WithContext(name_);
  BeginStaging();
  co_return Status();
}

void KafkaSink::BeginStaging() {
  SinkContext& context = *context_;
  StagedPublisherOptions publisher;
  publisher.owner = name_;
  publisher.producer = MakeProducerOptions(
      config_, topic_, KafkaIdentity(config_, context.job(), context.uid(), context.subtask()));
  publisher.job = context.job();
  publisher.generation = context.generation();
  publisher.directory = context.staging_directory();
  publisher.files = &context.files();
  publisher.timers = &context.timers();
  publisher.transactions = transactions_.get();
  publisher.confirm_current = [&context](std::function<void(Status)> done) {
    context.ConfirmCurrent(std::move(done));
  };
  publisher.waits = [&context](std::string what) {
    context.SetWaiting("publish", std::move(what));
  };
  SealedPartsOptions options;
  options.uid = context.uid();
  options.generation = context.generation();
  options.subtask = context.subtask();
  options.part_bytes_max = config_.transaction_bytes_max;
  AppendKafkaFileHeader(&options.head);
  options.seals_empty_parts = true;
  options.publishing_bytes_max = std::max(4 * config_.transaction_bytes_max, kPublishingBytesMin);
  options.files = &context.files();
  options.timers = &context.timers();
  options.wake = [&context] { context.Wake(); };
  options.fail = [&context](Status status) { context.Fail(std::move(status)); };
  options.waits = [&context](std::string_view part, std::string what) {
    context.SetWaiting(part, std::move(what));
  };
  parts_ = std::make_unique<SealedParts>(
      std::make_unique<KafkaStore>(std::move(publisher), context.uid(), context.subtask(),
                                   context.resumed_from(), context.restored_from(),
                                   config_.continue_on_doubled_rows),
      std::move(options));
  SetOwner(*parts_);
  parts_->Open([&context](const Status& status) {
    if (!status.ok()) context.Fail(status);
  });
}

Co<Status> KafkaSink::BeginSending() {
  StatusOr<std::unique_ptr<TransactionalProducer>> producer =
      transactions_->MakeProducer(MakeProducerOptions(config_, topic_, ""));
  if (!producer.ok()) co_return producer.status().WithContext(name_);
  TransactionalProducer& made = **producer;
  KafkaResult result = co_await Async<KafkaResult>(
      [&made](Async<KafkaResult>::Done done) { made.Initialise(std::move(done)); });
  if (!result.done()) co_return result.status.WithContext(name_);
  SinkContext& context = *context_;
  PlainWriterOptions options;
  options.owner = name_;
  options.cluster = {config_.brokers, config_.properties};
  options.topic = config_.topic;
  options.limits = topic_;
  options.transactions = transactions_.get();
  options.timers = &context.timers();
  options.wake = [&context] { context.Wake(); };
  options.fail = [&context](Status status) { context.Fail(std::move(status)); };
  options.waits = [&context](std::string what) { context.SetWaiting("brokers", std::move(what)); };
  writer_ = std::make_unique<PlainWriter>(*std::move(producer), std::move(options));
  SetOwner(*writer_);
  writer_->Start();
  co_return Status();
}

void KafkaSink::SetOwner(CommittableOwner& owner) {
  owner_ = &owner;
  if (letters_ == nullptr) return;
  joined_ = std::make_unique<JoinedOwners>(owner, letters_->parts());
  owner_ = joined_.get();
}

const Status& KafkaSink::status() const {
  if (letters_ != nullptr && !letters_->parts().status().ok()) return letters_->parts().status();
  return parts_ != nullptr ? parts_->status() : writer_->status();
}

Status KafkaSink::Write(const RecordBatch& batch) {
  WEIR_RETURN_IF_ERROR(status());
  if (batch.rows() == 0) return {};
  std::vector<KafkaBadRow> bad;
  const auto encode = [&](std::string* out) {
    rows_->Encode(batch, context_->clock().WallMicros(), out, &bad);
    return batch.rows() - static_cast<int64_t>(bad.size());
  };
  if (parts_ != nullptr) {
    parts_->Write(encode);
  } else {
    std::string blocks;
    const int64_t rows = encode(&blocks);
    if (rows > 0) writer_->Write(std::move(blocks), rows);
  }
  rows_taken_ += batch.rows();
  return bad.empty() ? Status() : OnBadRows(batch, bad);
}

Status KafkaSink::OnBadRows(const RecordBatch& batch, const std::vector<KafkaBadRow>& bad) {
  const KafkaBadRow& first = bad.front();
  const std::string what =
      Concat(name_, ": topic '", config_.topic, "' cannot take row ",
             rows_taken_ - batch.rows() + first.row + 1, " of subtask ", context_->subtask(), ": ",
             first.reason, "; the row: ", weir::Describe(batch, first.row));
  if (bad_data_ == BadData::kFail) return InvalidArgumentError(what);
  context_->CountDropped(static_cast<int64_t>(bad.size()));
  rows_left_out_ += static_cast<int64_t>(bad.size());
  if (rows_left_out_ >= tell_at_) {
    log::Warning("left out: ", what, " rows_so_far=", rows_left_out_);
    tell_at_ = 2 * rows_left_out_;
  }
  if (letters_ == nullptr) return {};
  for (const KafkaBadRow& one : bad) letters_->Add(batch, one.row, one.reason);
  return {};
}

void KafkaSink::Publish(CheckpointId checkpoint, std::function<void(Status)> done) {
  owner_->Publish(checkpoint, [this, checkpoint, done = std::move(done)](const Status& status) {
    if (status.ok() && checkpoint > committed_) {
      committed_ = checkpoint;
      committed_wall_us_ = context_->clock().WallMicros();
    }
    done(status);
  });
}

std::optional<SinkProgress> KafkaSink::progress() const {
  if (writer_ != nullptr) {
    return SinkProgress{.publishing_rows = writer_->unconfirmed_rows(),
                        .publishing_bytes = writer_->unconfirmed_bytes(),
                        .committed = committed_,
                        .committed_wall_us = committed_wall_us_};
  }
  if (parts_ == nullptr) return std::nullopt;
  const SealedPartsProgress parts = parts_->progress();
  return SinkProgress{.staged_rows = parts.staged_rows,
                      .staged_bytes = parts.staged_bytes,
                      .publishing_rows = parts.publishing_rows,
                      .publishing_bytes = parts.publishing_bytes,
                      .committed = committed_,
                      .committed_wall_us = committed_wall_us_};
}

void KafkaSink::Close() {
  alive_ = nullptr;
  if (parts_ != nullptr) parts_->Close();
  if (writer_ != nullptr) writer_->Close();
  if (letters_ != nullptr) letters_->parts().Close();
}

}  // namespace weir
