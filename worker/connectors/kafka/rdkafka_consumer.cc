#include "worker/connectors/kafka/rdkafka_consumer.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "worker/connectors/kafka/rdkafka_settings.h"

namespace weir {
namespace {

using std::chrono::steady_clock;

constexpr int kQuestionMs = 5000;
constexpr size_t kTextBytesMax = 512;
// Rows that wait in the client: what a job that stands still holds. More would hide longer answers
// of the broker, but fall out of the cache before they are read.
constexpr int kQueuedRows = 30'000;
constexpr int kQueuedKilobytes = 16 << 10;
// Fetched at a time by who reads a row or two; a larger batch of rows comes whole all the same.
constexpr int kFewBytes = 16 << 10;
constexpr std::chrono::milliseconds kNudgePause{10};
constexpr int kNudgeMs = 1000;
constexpr size_t kNudgeRows = 5000;
constexpr size_t kNudgeBytes = 1 << 20;

using ListPtr = RdkafkaPtr<rd_kafka_topic_partition_list_t>;

ListPtr MakeList(const std::vector<TopicPartition>& partitions, int64_t offset) {
  ListPtr list(rd_kafka_topic_partition_list_new(static_cast<int>(partitions.size())));
  for (const TopicPartition& partition : partitions) {
    rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition)
        ->offset = offset;
  }
  return list;
}

bool IsUnknown(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

// The client with what its thread keeps; outlives the consumer when a call hangs.
// Thread: as the members say.
struct Client {
  std::string brokers;
  // From OnReady on, also of the owner's; client calls are thread-safe.
  rd_kafka_t* handle = nullptr;
  rd_kafka_queue_t* queue = nullptr;

  // The thread's.
  RdkafkaPtr<rd_kafka_conf_t> conf;  // until Create
  Status created;
  std::set<TopicPartition> assigned;
  std::map<TopicPartition, int32_t> leaders;  // as last heard
  steady_clock::time_point nudged;

  // The owner's, and filled by callbacks of its Polls.
  std::vector<KafkaEvent> events;
  RdkafkaTrouble trouble;
  std::function<void(Status)> commit_done;

  // Of both and librdkafka's.
  std::atomic<bool> wanted{false};  // to be woken
  std::atomic<bool> nudging{false};
  std::function<void()> wake;  // not from when events of the queue are switched off

  static void OnError(rd_kafka_t* handle, int error, const char* reason, void* self) {
    static_cast<Client*>(self)->NoteError(handle, static_cast<rd_kafka_resp_err_t>(error), reason);
  }
  void NoteError(rd_kafka_t* client, rd_kafka_resp_err_t code, const char* reason) {
    trouble.Note(code, reason);
    KafkaEvent event;
    if (IsUnknown(code)) {
      event.kind = KafkaEvent::Kind::kUnknownPartition;
      event.status = NotFoundError(reason);
    } else if (code == RD_KAFKA_RESP_ERR__FATAL) {
      char text[kTextBytesMax] = "";
      const rd_kafka_resp_err_t cause = rd_kafka_fatal_error(client, text, sizeof(text));
      event.kind = KafkaEvent::Kind::kFailed;
      event.status = UnavailableError(Concat(RdkafkaText(cause), ": ", text));
    } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
               code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__SSL) {
      event.kind = KafkaEvent::Kind::kBrokersAway;
      event.status =
          UnavailableError(Concat("Kafka brokers ", brokers, " do not answer", trouble.Shown()));
    } else if (code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
               code == RD_KAFKA_RESP_ERR__RESOLVE) {
      // The client itself takes its time to find that all are away.
      event.kind = KafkaEvent::Kind::kBrokerLost;
    } else {
      return;
    }
    events.push_back(std::move(event));
  }

  static void OnQueue(rd_kafka_t*, void* self) {
    Client* client = static_cast<Client*>(self);
    if (client->wanted.exchange(false, std::memory_order_relaxed)) client->wake();
  }

  static void OnCommit(rd_kafka_t*, rd_kafka_resp_err_t error,
                       rd_kafka_topic_partition_list_t* list, void* self) {
    Client* client = static_cast<Client*>(self);
    for (int i = 0; list != nullptr && i < list->cnt; ++i) {
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = list->elems[i].err;
    }
    // Not in the middle of a Poll: the answer may do anything.
    if (client->commit_done) client->commit_done(RdkafkaStatus(error, Concat(RdkafkaText(error))));
  }

  // ---- on the thread
  void Create() {
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_error_cb(conf.get(), OnError);
    char text[kTextBytesMax] = "";
    handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), text, sizeof(text));
    if (handle == nullptr) {
      created =
          InvalidArgumentError(Concat("cannot make a Kafka client for ", brokers, ": ", text));
      return;
    }
    conf.release();  // NOLINT(bugprone-unused-return-value): the client's now
    rd_kafka_poll_set_consumer(handle);
    queue = rd_kafka_queue_get_consumer(handle);
    rd_kafka_queue_cb_event_enable(queue, OnQueue, this);
  }

  void Destroy() {
    if (handle == nullptr) return;
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }

  Status Failed(std::string_view what, rd_kafka_resp_err_t code, std::string_view text = "") const {
    const std::string silence = RdkafkaSilence(code, brokers);
    const std::string at = silence.empty() ? Concat(" (cluster ", brokers, ")") : "";
    return RdkafkaStatus(code, Concat(silence, "cannot ", what, at, ": ",
                                      text.empty() ? RdkafkaText(code) : text));
  }
  Status Failed(std::string_view what, RdkafkaPtr<rd_kafka_error_t> error) const {
    if (error == nullptr) return {};
    return Failed(what, rd_kafka_error_code(error.get()), rd_kafka_error_string(error.get()));
  }

  Status Unassign(const std::vector<TopicPartition>& partitions) {
    std::vector<TopicPartition> known;
    for (const TopicPartition& partition : partitions) {
      if (assigned.erase(partition) > 0) known.push_back(partition);
    }
    if (known.empty()) return {};
    return Failed("end reading partitions",
                  RdkafkaPtr<rd_kafka_error_t>(rd_kafka_incremental_unassign(
                      handle, MakeList(known, RD_KAFKA_OFFSET_INVALID).get())));
  }

  Status Assign(const std::vector<KafkaAssignment>& assignments) {
    std::vector<TopicPartition> partitions;
    ListPtr list(rd_kafka_topic_partition_list_new(static_cast<int>(assignments.size())));
    for (const KafkaAssignment& assignment : assignments) {
      partitions.push_back(assignment.partition);
      rd_kafka_topic_partition_list_add(list.get(), assignment.partition.topic.c_str(),
                                        assignment.partition.partition)
          ->offset = assignment.offset;
    }
    WEIR_RETURN_IF_ERROR(Unassign(partitions));
    WEIR_RETURN_IF_ERROR(
        Failed("read partitions",
               RdkafkaPtr<rd_kafka_error_t>(rd_kafka_incremental_assign(handle, list.get()))));
    assigned.insert(partitions.begin(), partitions.end());
    return {};
  }

  Status List(const std::string& name, std::vector<KafkaTopicView>* views) {
    RdkafkaPtr<rd_kafka_topic_t> topic(
        name.empty() ? nullptr : rd_kafka_topic_new(handle, name.c_str(), nullptr));
    const std::string what = name.empty() ? "list topics" : Concat("look for topic '", name, "'");
    if (!name.empty() && topic == nullptr) return Failed(what, rd_kafka_last_error());
    const rd_kafka_metadata_t* answer = nullptr;
    const rd_kafka_resp_err_t error =
        rd_kafka_metadata(handle, name.empty() ? 1 : 0, topic.get(), &answer, kQuestionMs);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed(what, error);
    RdkafkaPtr<const rd_kafka_metadata_t> metadata(answer);
    for (int i = 0; i < metadata->topic_cnt; ++i) {
      const rd_kafka_metadata_topic_t& found = metadata->topics[i];
      KafkaTopicView& view = views->emplace_back();
      view.name = found.topic;
      view.partitions = found.partition_cnt;
      if (found.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        view.status = Failed(Concat("read topic '", view.name, "'"), found.err);
      }
      for (int p = 0; p < found.partition_cnt; ++p) {
        leaders[{view.name, found.partitions[p].id}] = found.partitions[p].leader;
      }
    }
    return {};
  }

  StatusOr<std::vector<KafkaOffsets>> Offsets(const std::vector<TopicPartition>& partitions) {
    std::vector<KafkaOffsets> offsets;
    for (const TopicPartition& partition : partitions) {
      KafkaOffsets& found = offsets.emplace_back();
      const rd_kafka_resp_err_t error =
          rd_kafka_query_watermark_offsets(handle, partition.topic.c_str(), partition.partition,
                                           &found.low, &found.end, kQuestionMs);
      if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return Failed(Concat("ask for the offsets of ", ToString(partition)), error);
      }
    }
    return offsets;
  }

  using MaybeOffsets = std::vector<std::optional<int64_t>>;
  StatusOr<MaybeOffsets> Found(std::string_view what, rd_kafka_resp_err_t error,
                               const rd_kafka_topic_partition_list_t& list) const {
    MaybeOffsets offsets;
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed(what, error);
    for (int i = 0; i < list.cnt; ++i) {
      if (list.elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed(what, list.elems[i].err);
      offsets.emplace_back();
      if (list.elems[i].offset >= 0) offsets.back() = list.elems[i].offset;
    }
    return offsets;
  }

  // Once enough rows are queued, librdkafka looks only once a second whether they still are: any
  // request to a broker has its thread look now.
  void Nudge() {
    std::this_thread::sleep_until(nudged + kNudgePause);
    std::set<int32_t> nudged_leaders;
    for (const TopicPartition& partition : assigned) {
      const auto leader = leaders.find(partition);
      if (!nudged_leaders.insert(leader == leaders.end() ? -1 : leader->second).second) continue;
      int64_t low = 0;
      int64_t high = 0;
      rd_kafka_query_watermark_offsets(handle, partition.topic.c_str(), partition.partition, &low,
                                       &high, kNudgeMs);
    }
    nudged = steady_clock::now();
    nudging = false;
  }
};

class RdkafkaConsumer : public KafkaConsumer {
 public:
  RdkafkaConsumer(RdkafkaThreads& threads, Executor& owner, KafkaConsumerOptions options,
                  RdkafkaPtr<rd_kafka_conf_t> conf, std::function<void()> wake)
      : owner_(owner),
        group_(std::move(options.group)),
        wake_(std::move(wake)),
        thread_(threads.Start()),
        answers_(owner),
        client_(std::make_shared<Client>()) {
    client_->brokers = std::move(options.cluster.brokers);
    client_->conf = std::move(conf);
    client_->wake = [this, alive = std::weak_ptr<int>(alive_)] {
      owner_.Post([this, alive] {
        if (!alive.expired()) wake_();
      });
    };
    Call<Status>([](Client& client) { return client.created; },
                 [this](Status status) { OnReady(std::move(status)); },
                 [](Client& client) { client.Create(); });
  }

  ~RdkafkaConsumer() override {
    Release();
    // After that no callback of the queue runs any more.
    if (ready_) rd_kafka_queue_cb_event_enable(client_->queue, nullptr, nullptr);
    thread_->End([client = client_, ready = ready_] {
      if (!ready && client->queue != nullptr) {
        rd_kafka_queue_cb_event_enable(client->queue, nullptr, nullptr);
      }
      client->Destroy();
    });
  }

  void Poll(size_t rows_max, KafkaBatch* batch) override {
    batch->clear();
    if (!ready_ || assigning_ > 0) {
      Release();
      batch->events.swap(client_->events);
      return;
    }
    // The queue tells when it is empty no longer, so one who sleeps has to have found it empty: not
    // only messages of partitions that were dropped.
    do {
      Take(rows_max, batch);
    } while (count_ > 0 && batch->empty());
    if (count_ > 0) NudgeIfDue(count_ == rows_max);
  }

  void Headers(const KafkaMessage& message,
               std::vector<KafkaMessageHeader>* headers) const override {
    headers->clear();
    rd_kafka_headers_t* list = nullptr;
    if (rd_kafka_message_headers(static_cast<const rd_kafka_message_t*>(message.native), &list) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
      return;
    }
    const char* name = nullptr;
    const void* value = nullptr;
    size_t value_bytes = 0;
    for (size_t i = 0; rd_kafka_header_get_all(list, i, &name, &value, &value_bytes) ==
                       RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i) {
      headers->push_back({name, {static_cast<const char*>(value), value_bytes}});
    }
  }

  void Assign(std::vector<KafkaAssignment> assignments, Done<Status> done) override {
    for (const KafkaAssignment& assignment : assignments) {
      tags_[assignment.partition] = assignment.tag;
    }
    ForgetTopics();
    // Until then rows may be of the assignment before.
    ++assigning_;
    Call<Status>([assignments = std::move(assignments)](
                     Client& client) { return client.Assign(assignments); },
                 [this, done = std::move(done)](Status status) {
                   --assigning_;
                   done(std::move(status));
                   wake_();
                 });
  }

  void Drop(std::vector<TopicPartition> partitions, Done<Status> done) override {
    for (const TopicPartition& partition : partitions) tags_.erase(partition);
    ForgetTopics();
    Call<Status>([partitions = std::move(partitions)](
                     Client& client) { return client.Unassign(partitions); },
                 std::move(done));
  }

  void ListTopics(std::vector<std::string> names,
                  Done<StatusOr<std::vector<KafkaTopicView>>> done) override {
    if (names.empty()) names.emplace_back();
    Call<StatusOr<std::vector<KafkaTopicView>>>(
        [names = std::move(names)](Client& client) -> StatusOr<std::vector<KafkaTopicView>> {
          std::vector<KafkaTopicView> views;
          for (const std::string& name : names) {
            WEIR_RETURN_IF_ERROR(client.List(name, &views));
          }
          return views;
        },
        std::move(done));
  }

  void ListOffsets(std::vector<TopicPartition> partitions,
                   Done<StatusOr<std::vector<KafkaOffsets>>> done) override {
    Call<StatusOr<std::vector<KafkaOffsets>>>(
        [partitions = std::move(partitions)](Client& client) { return client.Offsets(partitions); },
        std::move(done));
  }

  void FindOffsets(std::vector<TopicPartition> partitions, int64_t timestamp_ms,
                   Done<StatusOr<std::vector<std::optional<int64_t>>>> done) override {
    Call<StatusOr<Client::MaybeOffsets>>(
        [partitions = std::move(partitions), timestamp_ms](Client& client) {
          const ListPtr list = MakeList(partitions, timestamp_ms);
          const rd_kafka_resp_err_t error =
              rd_kafka_offsets_for_times(client.handle, list.get(), kQuestionMs);
          return client.Found(Concat("find offsets by time"), error, *list);
        },
        std::move(done));
  }

  void CommittedOffsets(std::vector<TopicPartition> partitions,
                        Done<StatusOr<std::vector<std::optional<int64_t>>>> done) override {
    Call<StatusOr<Client::MaybeOffsets>>(
        [partitions = std::move(partitions), group = group_](Client& client) {
          const ListPtr list = MakeList(partitions, RD_KAFKA_OFFSET_INVALID);
          const rd_kafka_resp_err_t error =
              rd_kafka_committed(client.handle, list.get(), kQuestionMs);
          return client.Found(Concat("read the offsets of group '", group, "'"), error, *list);
        },
        std::move(done));
  }

  void CommitOffsets(std::vector<std::pair<TopicPartition, int64_t>> offsets,
                     Done<Status> done) override {
    if (!ready_) {
      done(UnavailableError("the client is not ready"));
      return;
    }
    ListPtr list(rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
    for (const auto& [partition, offset] : offsets) {
      rd_kafka_topic_partition_list_add(list.get(), partition.topic.c_str(), partition.partition)
          ->offset = offset;
    }
    client_->commit_done = answers_.Expect<Status>(std::move(done));
    // The answer comes with a Poll.
    const rd_kafka_resp_err_t error = rd_kafka_commit_queue(
        client_->handle, list.get(), client_->queue, Client::OnCommit, client_.get());
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      client_->commit_done(client_->Failed("commit offsets", error));
    }
  }

 private:
  // Answers `ask`, run on the thread once there is a client; `before`: run in any case.
  template <typename T>
  void Call(std::function<T(Client&)> ask, std::function<void(T)> done,
            std::function<void(Client&)> before = nullptr) {
    thread_->Post([client = client_, ask = std::move(ask), before = std::move(before),
                   answer = answers_.Expect<T>(std::move(done))] {
      if (before) before(*client);
      answer(client->created.ok() ? ask(*client) : T(client->created));
    });
  }

  void OnReady(Status status) {
    if (status.ok()) {
      ready_ = true;
    } else {
      client_->events.push_back({.kind = KafkaEvent::Kind::kFailed, .status = std::move(status)});
    }
    wake_();
  }

  // Some messages of the queue; the batch is empty as long as they are of nobody.
  void Take(size_t rows_max, KafkaBatch* batch) {
    Release();
    Client& client = *client_;
    client.wanted.store(true, std::memory_order_relaxed);
    messages_.resize(rows_max);
    const ssize_t got =
        rd_kafka_consume_batch_queue(client.queue, 0, messages_.data(), messages_.size());
    count_ = got > 0 ? static_cast<size_t>(got) : 0;
    batch->rows.reserve(count_);
    for (size_t i = 0; i < count_; ++i) {
      const rd_kafka_message_t& message = *messages_[i];
      if (message.rkt != last_topic_ || message.partition != last_partition_) LookUp(message);
      if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        AddEvent(message, &batch->events);
      } else if (last_tag_ >= 0) {
        rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        const int64_t timestamp_ms = rd_kafka_message_timestamp(&message, &type);
        taken_bytes_ += message.len;
        batch->rows.push_back(
            {.tag = last_tag_,
             .offset = message.offset,
             .timestamp_ms = type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp_ms,
             .key = {static_cast<const char*>(message.key), message.key_len},
             .value = {static_cast<const char*>(message.payload), message.len},
             .native = &message});
      }
    }
    if (!client.events.empty()) {
      std::move(client.events.begin(), client.events.end(), std::back_inserter(batch->events));
      client.events.clear();
    }
  }

  void Release() {
    for (size_t i = 0; i < count_; ++i) rd_kafka_message_destroy(messages_[i]);
    count_ = 0;
  }

  // librdkafka may give the handle of a topic that is not read any more to another one.
  void ForgetTopics() {
    known_.clear();
    last_topic_ = nullptr;
  }

  void LookUp(const rd_kafka_message_t& message) {
    last_topic_ = message.rkt;
    last_partition_ = message.partition;
    std::vector<int32_t>& known = known_[message.rkt];
    const size_t number = message.partition < 0 ? 0 : static_cast<size_t>(message.partition);
    if (number >= known.size()) known.resize(number + 1, kNotLookedUp);
    if (known[number] == kNotLookedUp) {
      const auto tag = message.rkt == nullptr
                           ? tags_.end()
                           : tags_.find({rd_kafka_topic_name(message.rkt), message.partition});
      known[number] = tag == tags_.end() ? -1 : tag->second;
    }
    last_tag_ = known[number];
  }

  void AddEvent(const rd_kafka_message_t& message, std::vector<KafkaEvent>* events) const {
    KafkaEvent event;
    event.tag = last_tag_;
    event.offset = message.offset;
    const std::string text =
        message.payload == nullptr
            ? std::string(RdkafkaText(message.err))
            : std::string(static_cast<const char*>(message.payload), message.len);
    if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      event.kind = KafkaEvent::Kind::kPartitionEnd;
    } else if (message.err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
               message.err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
      event.kind = KafkaEvent::Kind::kOutOfRange;
    } else if (IsUnknown(message.err)) {
      event.kind = KafkaEvent::Kind::kUnknownPartition;
      event.status = NotFoundError(text);
      events->push_back(std::move(event));
      return;
    } else {
      // Whatever it is, rows may be missing behind it.
      event.kind = KafkaEvent::Kind::kFailed;
      event.status = RdkafkaStatus(
          message.err,
          Concat("cannot read ", message.rkt == nullptr ? "" : rd_kafka_topic_name(message.rkt),
                 "/", message.partition, ": ", text));
      events->push_back(std::move(event));
      return;
    }
    if (last_tag_ >= 0) events->push_back(std::move(event));
  }

  // `more`: there may be more rows. Who takes rows from a full queue makes room, now and then; who
  // comes to the end of it has made room for sure.
  void NudgeIfDue(bool more) {
    taken_rows_ += count_;
    const bool much = taken_rows_ >= kNudgeRows || taken_bytes_ >= kNudgeBytes;
    const bool due = more ? much : more_;
    more_ = more;
    if (!due || client_->nudging.exchange(true)) return;
    taken_rows_ = 0;
    taken_bytes_ = 0;
    thread_->Post([client = client_] { client->Nudge(); });
  }

  static constexpr int32_t kNotLookedUp = -2;

  Executor& owner_;
  const std::string group_;
  const std::function<void()> wake_;
  const std::shared_ptr<RdkafkaThread> thread_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  RdkafkaAnswers answers_;
  const std::shared_ptr<Client> client_;
  bool ready_ = false;
  int assigning_ = 0;
  std::map<TopicPartition, int32_t> tags_;
  // Tags by topic handle and partition.
  std::unordered_map<const rd_kafka_topic_t*, std::vector<int32_t>> known_;
  const rd_kafka_topic_t* last_topic_ = nullptr;
  int32_t last_partition_ = -1;
  int32_t last_tag_ = -1;
  std::vector<rd_kafka_message_t*> messages_;  // the first count_ are the last batch
  size_t count_ = 0;
  size_t taken_rows_ = 0;  // since the last nudge
  size_t taken_bytes_ = 0;
  bool more_ = false;  // the last Poll left some behind
};

}  // namespace

StatusOr<std::unique_ptr<KafkaConsumer>> MakeRdkafkaConsumer(RdkafkaThreads& threads,
                                                             Executor& owner,
                                                             KafkaConsumerOptions options,
                                                             std::function<void()> wake) {
  RdkafkaSettings usual = {{"queued.min.messages", Concat(kQueuedRows)},
                           {"queued.max.messages.kbytes", Concat(kQueuedKilobytes)},
                           {"socket.timeout.ms", "10000"}};
  RdkafkaSettings fixed = {{"group.id", options.group},
                           {"enable.auto.commit", "false"},
                           {"enable.auto.offset.store", "false"},
                           {"auto.offset.reset", "error"},
                           {"isolation.level", "read_committed"},
                           {"enable.partition.eof", "true"},
                           {"allow.auto.create.topics", "false"}};
  if (!options.reads_much) {
    fixed.emplace_back("queued.min.messages", "1");
    fixed.emplace_back("fetch.message.max.bytes", Concat(kFewBytes));
  }
  WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<rd_kafka_conf_t> conf,
                        MakeRdkafkaConf(options.cluster, usual, fixed));
  return std::unique_ptr<KafkaConsumer>(std::make_unique<RdkafkaConsumer>(
      threads, owner, std::move(options), std::move(conf), std::move(wake)));
}

}  // namespace weir
