#include "worker/connectors/kafka/rdkafka_instance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "worker/connectors/kafka/kafka_marker.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kInterceptor = "weir";
constexpr size_t kBatchRows = 1000;
constexpr size_t kTextBytesMax = 512;
// A call without an answer is repeated so often, and for so long before the caller hears of it.
constexpr int kSliceMs = 500;
constexpr milliseconds kPatience{5000};
constexpr int kPauseMs = 10;
constexpr int kLookMs = 5000;
constexpr int64_t kTransactionalLingerMs = 1000;
constexpr int16_t kProduceKey = 0;  // number of the request in the protocol
// Requests of rows that make no progress for so long may have lost their broker.
constexpr milliseconds kRequestPatience{100};
constexpr int kRequestPauseMs = 2;
// A lost answer heals after this time.
constexpr int64_t kTransactionalSocketMs = 3000;
constexpr int64_t kSocketMs = 10'000;
// What one producer holds of rows that are not delivered yet.
constexpr const char* kQueueRowsMax = "50000";
constexpr const char* kQueueKbytesMax = "32768";
// Rows of a full request, of a partition. librdkafka walks over them three times more once they are
// acknowledged, and memory of twice as many (250 bytes each, of small rows) is in no L2 by then.
constexpr const char* kRequestRowsMax = "5000";
constexpr int64_t kMessageBytesMin = 1000;
constexpr int64_t kMessageBytesMax = 1'000'000'000;

bool Fenced(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
         code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

// What a sink has to be granted, for messages.
std::string_view Needed(rd_kafka_resp_err_t code, bool transactional) {
  switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return transactional ? " (needed: WRITE and READ on the topic)"
                           : " (needed: WRITE on the topic)";
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:  // of who may write to no topic at all
      return transactional ? "" : " (needed: WRITE on the topic)";
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
      return " (needed: READ on the group)";
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return " (needed: WRITE on the transactional id)";
    default:
      return "";
  }
}

}  // namespace

StatusOr<RdkafkaPtr<rd_kafka_conf_t>> MakeProducerConf(const KafkaProducerOptions& options,
                                                       const RdkafkaSettings& more) {
  const int64_t bytes_max =
      std::clamp(options.message_bytes_max, kMessageBytesMin, kMessageBytesMax);
  RdkafkaSettings usual = {{"queue.buffering.max.messages", kQueueRowsMax},
                           {"queue.buffering.max.kbytes", kQueueKbytesMax}};
  // Rows are copied, so that only what was not delivered has to be reported.
  RdkafkaSettings fixed = {{"delivery.report.only.error", "true"},
                           {"enable.idempotence", "true"},
                           // Of FindEnds.
                           {"isolation.level", "read_uncommitted"},
                           {"message.max.bytes", Concat(bytes_max)}};
  if (options.transactional_id.empty()) {
    usual.emplace_back("socket.timeout.ms", Concat(kSocketMs));
  } else {
    const int64_t timeout_ms = options.transaction_timeout_us / 1000;
    usual.emplace_back("socket.timeout.ms", Concat(std::min(timeout_ms, kTransactionalSocketMs)));
    // Full requests; a commit sends what there is at once. Rows that have waited for so long, and
    // those that a flush sends, make the broker's thread of librdkafka 2.0.2 spin as long as a
    // request of their partition is under way.
    usual.emplace_back("linger.ms", Concat(std::min(timeout_ms - 1, kTransactionalLingerMs)));
    usual.emplace_back("batch.num.messages", kRequestRowsMax);
    fixed.emplace_back("transactional.id", options.transactional_id);
    fixed.emplace_back("transaction.timeout.ms", Concat(timeout_ms));
    fixed.emplace_back("message.timeout.ms", Concat(timeout_ms));
  }
  fixed.insert(fixed.end(), more.begin(), more.end());
  return MakeRdkafkaConf(options.cluster, usual, fixed);
}

RdkafkaInstance::RdkafkaInstance(KafkaProducerOptions options, RdkafkaPtr<rd_kafka_conf_t> conf,
                                 std::function<bool()> given_up)
    : options_(std::move(options)), given_up_(std::move(given_up)), conf_(std::move(conf)) {}

RdkafkaInstance::~RdkafkaInstance() { WEIR_CHECK(client_ == nullptr); }

std::string RdkafkaInstance::Whom() const {
  return transactional() ? Concat("transactional id '", options_.transactional_id, "' at ",
                                  options_.cluster.brokers)
                         : Concat("topic '", options_.topic, "' at ", options_.cluster.brokers);
}

Status RdkafkaInstance::Create() {
  if (conf_ == nullptr) return FailedPreconditionError("the producer could not be made");
  rd_kafka_conf_set_opaque(conf_.get(), this);
  rd_kafka_conf_set_dr_msg_cb(conf_.get(), OnDelivery);
  rd_kafka_conf_set_error_cb(conf_.get(), OnError);
  rd_kafka_conf_interceptor_add_on_new(conf_.get(), kInterceptor, OnNew, this);
  char text[kTextBytesMax] = "";
  // The client's from here on; and lost where it cannot be made: librdkafka 2.0.2 shares the
  // interceptors between the two and crashes when a conf is destroyed after that.
  client_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf_.release(), text, sizeof(text));
  if (client_ == nullptr) {
    return InvalidArgumentError(Concat("cannot make a Kafka producer for ", Whom(), ": ", text));
  }
  topic_.reset(rd_kafka_topic_new(client_, options_.topic.c_str(), nullptr));
  if (topic_ == nullptr) {
    return InvalidArgumentError(Concat("cannot produce to topic '", options_.topic,
                                       "': ", RdkafkaText(rd_kafka_last_error())));
  }
  batch_.reserve(kBatchRows);
  return {};
}

void RdkafkaInstance::Destroy() {
  topic_.reset();
  if (client_ != nullptr) {
    if (transactional()) AwaitRowsUnderWay();
    rd_kafka_destroy(client_);
  }
  client_ = nullptr;
}

// librdkafka 2.0.2 frees the text of a transaction's error first and ends its connections then: a
// request of rows that is refused in between, as the id was fenced, frees the text once more.
void RdkafkaInstance::AwaitRowsUnderWay() {
  rd_kafka_purge(client_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
  const auto until = steady_clock::now() + kPatience;
  while (rd_kafka_outq_len(client_) > 0 && steady_clock::now() < until) {
    rd_kafka_poll(client_, kPauseMs);
  }
}

rd_kafka_resp_err_t RdkafkaInstance::OnNew(rd_kafka_t* client, const rd_kafka_conf_t*, void* self,
                                           char*, size_t) {
  rd_kafka_interceptor_add_on_request_sent(client, kInterceptor, OnRequestSent, self);
  rd_kafka_interceptor_add_on_response_received(client, kInterceptor, OnResponse, self);
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t RdkafkaInstance::OnRequestSent(rd_kafka_t*, int, const char*, int32_t,
                                                   int16_t key, int16_t, int32_t, size_t,
                                                   void* self) {
  auto* instance = static_cast<RdkafkaInstance*>(self);
  if (key == kProduceKey) ++instance->requests_of_rows_;
  for (Watched& watched : instance->watched_) {
    if (watched.key != key) continue;
    // One at a time: the one before it was given up.
    if (watched.waits.exchange(true)) instance->disturbed_ = true;
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t RdkafkaInstance::OnResponse(rd_kafka_t*, int, const char*, int32_t, int16_t key,
                                                int16_t, int32_t, size_t, int64_t,
                                                rd_kafka_resp_err_t error, void* self) {
  // Comes once from the thread of the broker, and once more from the one that reads the answer.
  auto* instance = static_cast<RdkafkaInstance*>(self);
  if (key == kProduceKey) --instance->requests_of_rows_;
  for (Watched& watched : instance->watched_) {
    if (watched.key != key) continue;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
      watched.answered = true;
      watched.waits = false;
    } else if (watched.waits) {
      instance->disturbed_ = true;
    }
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void RdkafkaInstance::OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
  auto* instance = static_cast<RdkafkaInstance*>(self);
  const rd_kafka_resp_err_t code = message->err;
  if (!instance->lost_row_.ok() || code == RD_KAFKA_RESP_ERR_NO_ERROR ||
      code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT) {
    return;
  }
  instance->disturbed_ = true;
  instance->lost_row_ = RdkafkaStatus(
      code, Concat(RdkafkaSilence(code, instance->options_.cluster.brokers), "a row of ",
                   message->len + message->key_len, " bytes for partition ", message->partition,
                   " of topic '", instance->options_.topic, "', or one sent with it: ",
                   RdkafkaText(code), Needed(code, instance->transactional())));
}

void RdkafkaInstance::OnError(rd_kafka_t*, int error, const char* reason, void* self) {
  static_cast<RdkafkaInstance*>(self)->trouble_.Note(static_cast<rd_kafka_resp_err_t>(error),
                                                     reason);
}

void RdkafkaInstance::NoteLostAnswers() {
  for (const Watched& watched : watched_) {
    if (watched.waits) disturbed_.store(true, std::memory_order_relaxed);
  }
}

bool RdkafkaInstance::SawFatal(std::string_view what, KafkaResult* result) const {
  char text[kTextBytesMax] = "";
  const rd_kafka_resp_err_t code = rd_kafka_fatal_error(client_, text, sizeof(text));
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  std::string message =
      Concat("cannot ", what, ", ", Whom(), ": ", text, Needed(code, transactional()));
  if (Fenced(code)) {
    *result = {KafkaVerdict::kFenced, UnavailableError(std::move(message))};
  } else {
    *result = {KafkaVerdict::kFatal, RdkafkaStatus(code, std::move(message))};
  }
  return true;
}

KafkaResult RdkafkaInstance::Judge(std::string_view what,
                                   RdkafkaPtr<rd_kafka_error_t> error) const {
  if (error == nullptr) return {};
  const rd_kafka_resp_err_t code = rd_kafka_error_code(error.get());
  std::string message =
      Concat(RdkafkaSilence(code, options_.cluster.brokers), "cannot ", what, ", ", Whom(), ": ",
             rd_kafka_error_string(error.get()), Needed(code, transactional()));
  if (Fenced(code)) return {KafkaVerdict::kFenced, UnavailableError(std::move(message))};
  KafkaResult fatal;
  if (SawFatal(what, &fatal)) return fatal;
  if (rd_kafka_error_is_fatal(error.get())) {
    return {KafkaVerdict::kFatal, RdkafkaStatus(code, std::move(message))};
  }
  if (rd_kafka_error_txn_requires_abort(error.get())) {
    if (!lost_row_.ok()) return {KafkaVerdict::kAbort, lost_row_};
    return {KafkaVerdict::kAbort, RdkafkaStatus(code, std::move(message))};
  }
  if (rd_kafka_error_is_retriable(error.get()) || code == RD_KAFKA_RESP_ERR__TIMED_OUT) {
    return {KafkaVerdict::kUnknown, UnavailableError(message + trouble_.Shown())};
  }
  return {KafkaVerdict::kFatal, RdkafkaStatus(code, std::move(message))};
}

KafkaResult RdkafkaInstance::Repeat(std::string_view what,
                                    const std::function<rd_kafka_error_t*()>& call) {
  const auto begin = steady_clock::now();
  while (true) {
    const auto called = steady_clock::now();
    KafkaResult result = Judge(what, RdkafkaPtr<rd_kafka_error_t>(call()));
    rd_kafka_poll(client_, 0);
    if (result.verdict != KafkaVerdict::kUnknown) {
      if (result.done()) trouble_.Clear();
      return result;
    }
    if (given_up_() || steady_clock::now() - begin >= kPatience) return result;
    // It may say at once that it cannot answer now.
    if (steady_clock::now() - called < milliseconds(kPauseMs)) rd_kafka_poll(client_, kPauseMs);
  }
}

KafkaResult RdkafkaInstance::Initialise() {
  if (client_ == nullptr) {
    if (Status status = Create(); !status.ok()) return {KafkaVerdict::kFatal, status};
  }
  if (!transactional()) return {};
  return Repeat("initialise transactions",
                [this] { return rd_kafka_init_transactions(client_, kSliceMs); });
}

KafkaResult RdkafkaInstance::Begin() {
  lost_row_ = {};
  requests_of_rows_ = 0;
  return Repeat("begin a transaction", [this] { return rd_kafka_begin_transaction(client_); });
}

KafkaResult RdkafkaInstance::JudgeProduced(std::string_view what, rd_kafka_resp_err_t code) const {
  KafkaResult fatal;
  if (SawFatal(what, &fatal)) return fatal;
  const KafkaVerdict verdict = transactional() ? KafkaVerdict::kAbort : KafkaVerdict::kFatal;
  if (!lost_row_.ok()) return {verdict, lost_row_};
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  return {verdict, RdkafkaStatus(code, Concat("cannot ", what, ", ", Whom(), ": ",
                                              RdkafkaText(code), Needed(code, transactional())))};
}

KafkaResult RdkafkaInstance::ProduceBatch(int32_t partition) {
  rd_kafka_message_t* begin = batch_.data();
  rd_kafka_message_t* const end = begin + batch_.size();
  while (begin != end) {
    const int rows = static_cast<int>(end - begin);
    const int taken =
        rd_kafka_produce_batch(topic_.get(), partition, RD_KAFKA_MSG_F_COPY, begin, rows);
    if (taken == rows) break;
    // On a full queue the head is taken; everything else is refused for a reason of its own.
    while (begin != end && begin->err == RD_KAFKA_RESP_ERR_NO_ERROR) ++begin;
    if (begin == end) break;
    if (begin->err != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      return JudgeProduced(
          Concat("produce a row of ", begin->len + begin->key_len, " bytes for partition ",
                 partition, " of topic '", options_.topic, "'"),
          begin->err);
    }
    if (given_up_()) return {KafkaVerdict::kUnknown, CancelledError("given up")};
    WaitForRoom();
    if (KafkaResult lost = JudgeProduced("produce", RD_KAFKA_RESP_ERR_NO_ERROR); !lost.done()) {
      return lost;
    }
  }
  batch_.clear();
  return {};
}

KafkaResult RdkafkaInstance::ProduceOne(int32_t partition, const KafkaRecordView& record) {
  std::array<rd_kafka_vu_t, 7> fields;
  size_t count = 0;
  auto add = [&](rd_kafka_vtype_t type) -> rd_kafka_vu_t& {
    fields[count].vtype = type;
    return fields[count++];
  };
  add(RD_KAFKA_VTYPE_RKT).u.rkt = topic_.get();
  add(RD_KAFKA_VTYPE_PARTITION).u.i32 = partition;
  add(RD_KAFKA_VTYPE_MSGFLAGS).u.i = RD_KAFKA_MSG_F_COPY;
  if (record.value.has_value()) {
    rd_kafka_vu_t& value = add(RD_KAFKA_VTYPE_VALUE);
    value.u.mem.ptr = const_cast<char*>(record.value->data());
    value.u.mem.size = record.value->size();
  }
  if (record.key.has_value()) {
    rd_kafka_vu_t& key = add(RD_KAFKA_VTYPE_KEY);
    key.u.mem.ptr = const_cast<char*>(record.key->data());
    key.u.mem.size = record.key->size();
  }
  if (record.timestamp_ms >= 0) add(RD_KAFKA_VTYPE_TIMESTAMP).u.i64 = record.timestamp_ms;
  rd_kafka_headers_t* headers = nullptr;
  if (!record.headers.empty()) {
    headers = rd_kafka_headers_new(record.headers.size());
    for (const KafkaHeaderView& header : record.headers) {
      rd_kafka_header_add(
          headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
          header.value.has_value() ? header.value->data() : nullptr,
          header.value.has_value() ? static_cast<ssize_t>(header.value->size()) : 0);
    }
    add(RD_KAFKA_VTYPE_HEADERS).u.headers = headers;  // the client's once it has taken the row
  }
  KafkaResult result;
  while (true) {
    RdkafkaPtr<rd_kafka_error_t> error(rd_kafka_produceva(client_, fields.data(), count));
    if (error == nullptr) return {};
    if (rd_kafka_error_code(error.get()) != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      const size_t bytes = (record.key.has_value() ? record.key->size() : 0) +
                           (record.value.has_value() ? record.value->size() : 0);
      result = JudgeProduced(Concat("produce a row of ", bytes, " bytes for partition ", partition,
                                    " of topic '", options_.topic, "'"),
                             rd_kafka_error_code(error.get()));
      break;
    }
    if (given_up_()) {
      result = {KafkaVerdict::kUnknown, CancelledError("given up")};
      break;
    }
    WaitForRoom();
    result = JudgeProduced("produce", RD_KAFKA_RESP_ERR_NO_ERROR);
    if (!result.done()) break;
  }
  if (headers != nullptr) rd_kafka_headers_destroy(headers);
  return result;
}

KafkaResult RdkafkaInstance::Produce(const std::string& records) {
  WEIR_CHECK(client_ != nullptr);
  KafkaBlockReader blocks(records);
  KafkaBlock block;
  while (true) {
    StatusOr<bool> more = blocks.Next(&block);
    if (!more.ok()) return {KafkaVerdict::kFatal, more.status()};
    if (!*more) break;
    batch_.clear();
    KafkaRecordReader reader(block);
    KafkaRecordView record;
    while (reader.Next(&record)) {
      if (record.timestamp_ms >= 0 || !record.headers.empty()) {
        // A batch of librdkafka has room for neither. The rows before this one go first.
        if (KafkaResult result = ProduceBatch(block.partition); !result.done()) return result;
        if (KafkaResult result = ProduceOne(block.partition, record); !result.done()) return result;
        continue;
      }
      rd_kafka_message_t& message = batch_.emplace_back();
      if (record.value.has_value()) {
        message.payload = const_cast<char*>(record.value->data());
        message.len = record.value->size();
      }
      if (record.key.has_value()) {
        message.key = const_cast<char*>(record.key->data());
        message.key_len = record.key->size();
      }
      if (batch_.size() < kBatchRows) continue;
      if (KafkaResult result = ProduceBatch(block.partition); !result.done()) return result;
    }
    if (!reader.status().ok()) return {KafkaVerdict::kFatal, reader.status()};
    if (KafkaResult result = ProduceBatch(block.partition); !result.done()) return result;
  }
  if (blocks.used() != records.size()) {
    return {KafkaVerdict::kFatal,
            DataLossError(Concat("records: the last block of ", records.size(),
                                 " bytes is cut off at offset ", blocks.used()))};
  }
  rd_kafka_poll(client_, 0);
  return JudgeProduced("produce", RD_KAFKA_RESP_ERR_NO_ERROR);
}

bool RdkafkaInstance::WaitForPartitions(int timeout_ms) {
  const auto until = steady_clock::now() + milliseconds(timeout_ms);
  while (!watched_[0].answered) {
    if (steady_clock::now() >= until) return false;
    rd_kafka_poll(client_, kPauseMs);
  }
  // The answer is counted just before librdkafka reads it.
  rd_kafka_poll(client_, kPauseMs);
  return true;
}

KafkaResult RdkafkaInstance::SendMarker(const KafkaMarkerPlace& place, const KafkaMarker& marker,
                                        int timeout_ms) {
  RdkafkaPtr<rd_kafka_topic_partition_list_t> offsets(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* offset =
      rd_kafka_topic_partition_list_add(offsets.get(), place.topic.c_str(), place.partition);
  // librdkafka drops a negative one silently and says that all is well.
  WEIR_CHECK(marker.checkpoint.value() <= INT64_MAX);
  offset->offset = static_cast<int64_t>(marker.checkpoint.value());
  const std::string metadata = MarkerMetadata(marker);
  // Freed with the list, by librdkafka's own free.
  offset->metadata = rd_kafka_mem_malloc(client_, metadata.size());
  std::copy(metadata.begin(), metadata.end(), static_cast<char*>(offset->metadata));
  offset->metadata_size = metadata.size();
  RdkafkaPtr<rd_kafka_consumer_group_metadata_t> group(
      rd_kafka_consumer_group_metadata_new(place.group.c_str()));
  const std::string what = Concat("put the marker of group '", place.group, "' into a transaction");
  KafkaResult result =
      Judge(what, RdkafkaPtr<rd_kafka_error_t>(rd_kafka_send_offsets_to_transaction(
                      client_, offsets.get(), group.get(), timeout_ms)));
  rd_kafka_poll(client_, 0);
  // Its answer was lost, and a copy may come late: only another transaction is sure to have it.
  if (result.verdict == KafkaVerdict::kUnknown) result.verdict = KafkaVerdict::kAbort;
  return result;
}

KafkaResult RdkafkaInstance::Flush() {
  const auto begin = steady_clock::now();
  const int rows = rd_kafka_outq_len(client_);
  while (rd_kafka_flush(client_, kSliceMs) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    if (KafkaResult lost = JudgeProduced("flush", RD_KAFKA_RESP_ERR_NO_ERROR); !lost.done()) {
      return lost;
    }
    if (given_up_() || steady_clock::now() - begin >= kPatience) {
      const int left = rd_kafka_outq_len(client_);
      const rd_kafka_resp_err_t code =
          left < rows ? RD_KAFKA_RESP_ERR_NO_ERROR : RD_KAFKA_RESP_ERR__TIMED_OUT;
      return {KafkaVerdict::kUnknown,
              UnavailableError(Concat(RdkafkaSilence(code, options_.cluster.brokers), left,
                                      " rows are not delivered to ", Whom(), trouble_.Shown()))};
    }
  }
  trouble_.Clear();
  return JudgeProduced("flush", RD_KAFKA_RESP_ERR_NO_ERROR);
}

void RdkafkaInstance::WaitForRoom() {
  // Nothing is under way from a queue full of rows that wait for more of their partitions.
  if (requests_of_rows_ > 0) {
    rd_kafka_poll(client_, kPauseMs);
  } else {
    rd_kafka_flush(client_, kPauseMs);
  }
}

void RdkafkaInstance::WaitForFullRequests() {
  auto progress = steady_clock::now();
  int rows = rd_kafka_outq_len(client_);
  // Seen twice: between an answer and the next request there is none either.
  for (int none = 0; none < 2 && rows > 0 && !given_up_();) {
    none = requests_of_rows_ > 0 ? 0 : none + 1;
    rd_kafka_poll(client_, kRequestPauseMs);
    const auto now = steady_clock::now();
    const int rows_before = std::exchange(rows, rd_kafka_outq_len(client_));
    if (rows != rows_before) progress = now;
    if (now - progress > kRequestPatience) return;
  }
}

KafkaResult RdkafkaInstance::Commit() {
  if (!transactional()) return Flush();
  WaitForFullRequests();
  KafkaResult result = Repeat("commit a transaction",
                              [this] { return rd_kafka_commit_transaction(client_, kSliceMs); });
  NoteLostAnswers();
  return result;
}

StatusOr<std::vector<int64_t>> RdkafkaInstance::FindEnds() {
  WEIR_CHECK(client_ != nullptr);
  RdkafkaPtr<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(options_.partitions));
  for (int32_t partition = 0; partition < options_.partitions; ++partition) {
    // In place of a time: the end.
    rd_kafka_topic_partition_list_add(list.get(), options_.topic.c_str(), partition)->offset =
        RD_KAFKA_OFFSET_END;
  }
  rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(client_, list.get(), kLookMs);
  rd_kafka_poll(client_, 0);
  std::vector<int64_t> ends;
  for (int i = 0; i < list->cnt; ++i) {
    const rd_kafka_resp_err_t own = RdkafkaErrorOf(list->elems[i]);
    ends.push_back(list->elems[i].offset);
    if (own == RD_KAFKA_RESP_ERR_NO_ERROR) continue;
    error = own;
    break;
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return ends;
  if (error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) {
    // For the next question: that there is none librdkafka believes for minutes.
    const rd_kafka_metadata_t* metadata = nullptr;
    rd_kafka_metadata(client_, 0, topic_.get(), &metadata, kLookMs);
    const RdkafkaPtr<const rd_kafka_metadata_t> held(metadata);
  }
  const std::string silence = RdkafkaSilence(error, options_.cluster.brokers);
  const std::string at = silence.empty() ? Concat(" at ", options_.cluster.brokers) : "";
  return RdkafkaStatus(error, Concat(silence, "cannot find the ends of topic '", options_.topic,
                                     "'", at, ": ", RdkafkaText(error), trouble_.Shown()));
}

KafkaResult RdkafkaInstance::Abort() {
  KafkaResult result = Repeat("abort a transaction",
                              [this] { return rd_kafka_abort_transaction(client_, kSliceMs); });
  NoteLostAnswers();
  return result;
}

}  // namespace weir
