#include "worker/connectors/kafka/rdkafka_consumer.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "worker/connectors/kafka/handover.h"
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
// Taken and given back at a time. With what librdkafka keeps of each message, all blocks fit into
// the second-level cache, and a task's batch of rows of 100 bytes is in those that are full.
constexpr size_t kBlockRows = 512;
constexpr size_t kBlocksMax = 7;
constexpr size_t kBlocksBytes = 1 << 20;

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

// Messages that were taken together.
struct Block {
  // Of one partition, one behind the other.
  struct Run {
    const rd_kafka_topic_t* topic = nullptr;
    int32_t partition = -1;
    size_t end = 0;  // behind its last row
  };

  // Gives its messages back to librdkafka, which has to be there.
  void Clear() {
    for (size_t i = 0; i < count; ++i) rd_kafka_message_destroy(messages[i]);
    count = 0;
    value_bytes = 0;
    rows.clear();
    runs.clear();
    errors.clear();
    events.clear();
  }
  bool empty() const { return count == 0 && events.empty(); }
  size_t bytes() const { return value_bytes; }

  std::vector<rd_kafka_message_t*> messages;  // the first `count`
  size_t count = 0;
  size_t value_bytes = 0;
  uint64_t assignment = 0;                        // the last one made before
  std::vector<KafkaMessage> rows;                 // without tags
  std::vector<Run> runs;                          // of the rows
  std::vector<const rd_kafka_message_t*> errors;  // behind the rows of their partitions
  std::vector<KafkaEvent> events;                 // came somewhere between
};

// The client with what its threads keep; outlives the consumer when a call hangs.
// Thread: as the members say.
struct Client : public std::enable_shared_from_this<Client> {
  std::string brokers;
  // For calls that block, and for taking messages.
  std::shared_ptr<RdkafkaThread> asking;
  std::shared_ptr<RdkafkaThread> taking;
  // From OnReady on, also of the others; client calls are thread-safe.
  rd_kafka_t* handle = nullptr;
  rd_kafka_queue_t* queue = nullptr;

  // The asking thread's.
  RdkafkaPtr<rd_kafka_conf_t> conf;  // until Create
  Status created;
  std::set<TopicPartition> assigned;
  std::map<TopicPartition, int32_t> leaders;  // as last heard
  steady_clock::time_point nudged;

  // The taking thread's, also those that callbacks of its takes fill.
  std::vector<KafkaEvent> events;
  RdkafkaTrouble trouble;
  size_t taken_rows = 0;  // since the last nudge
  size_t taken_bytes = 0;
  bool more = false;  // the last take left some behind

  // Of several.
  Handover<Block> handover{kBlocksMax, kBlocksBytes};
  std::function<void()> wake;  // the owner; not changed any more
  std::atomic<bool> nudging{false};
  std::mutex commit_mutex;
  std::function<void(Status)> commit_done;  // guarded by commit_mutex
  // No assignment is made while messages are taken: what is taken later is of it.
  std::mutex assignment_mutex;
  uint64_t assignment = 0;  // number of the last one; guarded by assignment_mutex

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
    if (client->handover.Ask()) client->PostFill();
  }

  static void OnCommit(rd_kafka_t*, rd_kafka_resp_err_t error,
                       rd_kafka_topic_partition_list_t* list, void* self) {
    Client* client = static_cast<Client*>(self);
    for (int i = 0; list != nullptr && i < list->cnt; ++i) {
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = list->elems[i].err;
    }
    client->AnswerCommit(RdkafkaStatus(error, Concat(RdkafkaText(error))));
  }
  void AnswerCommit(Status status) {
    std::function<void(Status)> done;
    {
      std::lock_guard lock(commit_mutex);
      done.swap(commit_done);
    }
    if (done) done(std::move(status));
  }

  void PostFill() {
    taking->Post([self = shared_from_this()] { self->Fill(); });
  }

  // ---- on the taking thread
  void Fill() {
    while (!taking->ending()) {
      std::unique_ptr<Block> block = handover.TakeEmpty();
      if (block == nullptr) return;
      Take(block.get());
      // The queue tells when it is empty no longer, so one who stops has to have found it empty.
      if (block->empty()) {
        if (!handover.PutEmpty(std::move(block))) return;
        continue;
      }
      NudgeIfDue(*block);
      if (handover.PutFull(std::move(block))) wake();
    }
  }

  void Take(Block* block) {
    block->messages.resize(kBlockRows);
    {
      std::lock_guard lock(assignment_mutex);
      block->assignment = assignment;
      const ssize_t got =
          rd_kafka_consume_batch_queue(queue, 0, block->messages.data(), kBlockRows);
      block->count = got > 0 ? static_cast<size_t>(got) : 0;
    }
    block->rows.reserve(block->count);
    for (size_t i = 0; i < block->count; ++i) {
      const rd_kafka_message_t& message = *block->messages[i];
      if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        block->errors.push_back(&message);
        continue;
      }
      if (block->runs.empty() || block->runs.back().topic != message.rkt ||
          block->runs.back().partition != message.partition) {
        block->runs.push_back({.topic = message.rkt, .partition = message.partition});
      }
      rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
      const int64_t timestamp_ms = rd_kafka_message_timestamp(&message, &type);
      block->value_bytes += message.len;
      block->rows.push_back(
          {.offset = message.offset,
           .timestamp_ms = type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp_ms,
           .key = {static_cast<const char*>(message.key), message.key_len},
           .value = {static_cast<const char*>(message.payload), message.len},
           .native = &message});
      block->runs.back().end = block->rows.size();
    }
    block->events.swap(events);
  }

  // Who takes rows from a full queue makes room, now and then; who comes to the end of it has made
  // room for sure.
  void NudgeIfDue(const Block& block) {
    taken_rows += block.count;
    taken_bytes += block.value_bytes;
    const bool much = taken_rows >= kNudgeRows || taken_bytes >= kNudgeBytes;
    const bool more_now = block.count == kBlockRows;
    const bool due = more_now ? much : more;
    more = more_now;
    if (!due || nudging.exchange(true)) return;
    taken_rows = 0;
    taken_bytes = 0;
    asking->Post([self = shared_from_this()] { self->Nudge(); });
  }

  // ---- on the asking thread
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
    return RdkafkaStatus(
        code, Concat(silence, "cannot ", what, at, ": ", text.empty() ? RdkafkaText(code) : text));
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

  Status Assign(const std::vector<KafkaAssignment>& assignments, uint64_t number) {
    std::lock_guard lock(assignment_mutex);
    assignment = number;
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

  // For the next question: that a partition has no leader librdkafka believes for minutes.
  void LookForLeaders(const std::string& topic) {
    std::vector<KafkaTopicView> views;
    const Status listed = List(topic, &views);
    if (!listed.ok()) log::Debug("kafka: ", listed.message());
  }

  // Of each partition the offset that `limit` stands for: RD_KAFKA_OFFSET_BEGINNING or _END, in
  // place of a time. Not by rd_kafka_query_watermark_offsets: before librdkafka 2.3 that keeps
  // asking the leader it began with for as long as it is away, whatever the timeout.
  StatusOr<std::vector<int64_t>> Limits(const std::vector<TopicPartition>& partitions,
                                        int64_t limit) {
    const std::string what = "ask for the offsets of ";
    const ListPtr list = MakeList(partitions, limit);
    const rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(handle, list.get(), kQuestionMs);
    // Those of partitions tell more: without any leader the others are called unknown.
    for (size_t i = 0; i < partitions.size(); ++i) {
      const rd_kafka_resp_err_t own = RdkafkaErrorOf(list->elems[i]);
      if (own == RD_KAFKA_RESP_ERR_NO_ERROR) continue;
      if (own == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) LookForLeaders(partitions[i].topic);
      return Failed(Concat(what, ToString(partitions[i])), own);
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      const size_t others = partitions.size() - 1;
      return Failed(Concat(what, ToString(partitions.front()),
                           others == 0 ? "" : Concat(" and ", others, " more")),
                    error);
    }
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < partitions.size(); ++i) {
      offsets.push_back(list->elems[i].offset);
      if (offsets.back() < 0) {
        return Failed(Concat(what, ToString(partitions[i])), RD_KAFKA_RESP_ERR__BAD_MSG);
      }
    }
    return offsets;
  }

  StatusOr<std::vector<KafkaOffsets>> Offsets(const std::vector<TopicPartition>& partitions) {
    std::vector<KafkaOffsets> offsets(partitions.size());
    if (partitions.empty()) return offsets;
    // In this order: rows that are deleted meanwhile take no beginning behind its end.
    WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> lows,
                          Limits(partitions, RD_KAFKA_OFFSET_BEGINNING));
    WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, Limits(partitions, RD_KAFKA_OFFSET_END));
    for (size_t i = 0; i < partitions.size(); ++i) offsets[i] = {.low = lows[i], .end = ends[i]};
    return offsets;
  }

  using MaybeOffsets = std::vector<std::optional<int64_t>>;
  StatusOr<MaybeOffsets> Found(std::string_view what, rd_kafka_resp_err_t error,
                               const rd_kafka_topic_partition_list_t& list) const {
    MaybeOffsets offsets;
    for (int i = 0; i < list.cnt; ++i) {
      const rd_kafka_resp_err_t own = RdkafkaErrorOf(list.elems[i]);
      if (own != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed(what, own);
      offsets.emplace_back();
      if (list.elems[i].offset >= 0) offsets.back() = list.elems[i].offset;
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed(what, error);
    return offsets;
  }

  // Once enough rows are queued, librdkafka looks only once a second whether they still are: any
  // request to a broker has its thread look now.
  void Nudge() {
    std::this_thread::sleep_until(nudged + kNudgePause);
    std::set<int32_t> nudged_leaders;
    std::vector<TopicPartition> one_of_each;
    for (const TopicPartition& partition : assigned) {
      const auto leader = leaders.find(partition);
      if (nudged_leaders.insert(leader == leaders.end() ? -1 : leader->second).second) {
        one_of_each.push_back(partition);
      }
    }
    const ListPtr list = MakeList(one_of_each, RD_KAFKA_OFFSET_END);
    if (list->cnt > 0) rd_kafka_offsets_for_times(handle, list.get(), kNudgeMs);
    nudged = steady_clock::now();
    nudging = false;
  }
};

class RdkafkaConsumer : public KafkaConsumer {
 public:
  RdkafkaConsumer(RdkafkaThreads& threads, Executor& owner, KafkaConsumerOptions options,
                  RdkafkaPtr<rd_kafka_conf_t> conf, std::function<void()> wake)
      : group_(std::move(options.group)),
        wake_(std::move(wake)),
        answers_(owner),
        client_(std::make_shared<Client>()) {
    client_->brokers = std::move(options.cluster.brokers);
    client_->asking = threads.Start();
    client_->taking = threads.Start();
    client_->conf = std::move(conf);
    client_->wake = answers_.ExpectMany(wake_);
    Call<Status>([](Client& client) { return client.created; },
                 [this](Status status) { OnReady(std::move(status)); },
                 [](Client& client) { client.Create(); });
  }

  ~RdkafkaConsumer() override {
    if (block_ != nullptr) client_->handover.GiveBack(std::move(block_));
    // After that no callback of the queue runs any more.
    if (ready_) rd_kafka_queue_cb_event_enable(client_->queue, nullptr, nullptr);
    // Messages are given back before the client goes.
    client_->taking->End([client = client_, ready = ready_] {
      client->handover.Clear();
      client->asking->End([client, ready] {
        if (!ready && client->queue != nullptr) {
          rd_kafka_queue_cb_event_enable(client->queue, nullptr, nullptr);
        }
        client->Destroy();
      });
    });
  }

  void Poll(size_t rows_max, KafkaBatch* batch) override {
    batch->clear();
    batch->events.swap(events_);
    if (block_ != nullptr && AllRead()) GiveBack();
    if (!ready_ || assigning_ > 0) return;
    while (batch->empty()) {
      if (block_ != nullptr && AllRead()) GiveBack();
      if (block_ == nullptr) {
        block_ = client_->handover.TakeFull();
        if (block_ == nullptr) return;
      }
      Read(rows_max, batch);
    }
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
    const uint64_t number = ++assignments_;
    for (const KafkaAssignment& assignment : assignments) {
      reading_[assignment.partition] = {.tag = assignment.tag, .assignment = number};
    }
    ForgetTopics();
    // Until then rows may be of the assignment before.
    ++assigning_;
    Call<Status>([assignments = std::move(assignments),
                  number](Client& client) { return client.Assign(assignments, number); },
                 [this, done = std::move(done)](Status status) {
                   --assigning_;
                   done(std::move(status));
                   wake_();
                 });
  }

  void Drop(std::vector<TopicPartition> partitions, Done<Status> done) override {
    for (const TopicPartition& partition : partitions) reading_.erase(partition);
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
    {
      std::lock_guard lock(client_->commit_mutex);
      client_->commit_done = answers_.Expect<Status>(std::move(done));
    }
    const rd_kafka_resp_err_t error = rd_kafka_commit_queue(
        client_->handle, list.get(), client_->queue, Client::OnCommit, client_.get());
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      client_->AnswerCommit(client_->Failed("commit offsets", error));
    }
  }

 private:
  // Where the rows of a partition belong.
  struct Reading {
    int32_t tag = -1;         // -1: it is not read
    uint64_t assignment = 0;  // the rows of earlier ones are nobody's
  };

  // Answers `ask`, run on the asking thread once there is a client; `before`: run in any case.
  template <typename T>
  void Call(std::function<T(Client&)> ask, std::function<void(T)> done,
            std::function<void(Client&)> before = nullptr) {
    client_->asking->Post([client = client_, ask = std::move(ask), before = std::move(before),
                           answer = answers_.Expect<T>(std::move(done))] {
      if (before) before(*client);
      answer(client->created.ok() ? ask(*client) : T(client->created));
    });
  }

  void OnReady(Status status) {
    if (status.ok()) {
      ready_ = true;
      // What has come already told nobody.
      if (client_->handover.Ask()) client_->PostFill();
    } else {
      events_.push_back({.kind = KafkaEvent::Kind::kFailed, .status = std::move(status)});
    }
    wake_();
  }

  void GiveBack() {
    next_row_ = 0;
    next_run_ = 0;
    if (client_->handover.GiveBack(std::move(block_))) client_->PostFill();
  }

  bool AllRead() const { return next_row_ == block_->rows.size() && block_->errors.empty(); }

  // Up to `rows_max` rows of the block; the batch is empty as long as they are of nobody.
  void Read(size_t rows_max, KafkaBatch* batch) {
    Block& block = *block_;
    // Rows behind them may have to be read again: not behind any.
    std::move(block.events.begin(), block.events.end(), std::back_inserter(batch->events));
    block.events.clear();
    while (next_row_ < block.rows.size() && batch->rows.size() < rows_max) {
      const Block::Run& run = block.runs[next_run_];
      const size_t end = std::min(run.end, next_row_ + rows_max - batch->rows.size());
      const Reading reading = LookUp(run.topic, run.partition);
      if (reading.tag >= 0 && reading.assignment <= block.assignment) {
        const size_t before = batch->rows.size();
        batch->rows.insert(batch->rows.end(),
                           block.rows.begin() + static_cast<ptrdiff_t>(next_row_),
                           block.rows.begin() + static_cast<ptrdiff_t>(end));
        for (size_t i = before; i < batch->rows.size(); ++i) batch->rows[i].tag = reading.tag;
      }
      next_row_ = end;
      if (end == run.end) ++next_run_;
    }
    if (next_row_ < block.rows.size()) return;
    for (const rd_kafka_message_t* message : block.errors) {
      const Reading reading = LookUp(message->rkt, message->partition);
      if (reading.assignment <= block.assignment) AddEvent(*message, reading.tag, &batch->events);
    }
    block.errors.clear();
  }

  // librdkafka may give the handle of a topic that is not read any more to another one.
  void ForgetTopics() {
    known_.clear();
    last_topic_ = nullptr;
    last_ = Reading();
  }

  Reading LookUp(const rd_kafka_topic_t* topic, int32_t partition) {
    if (topic == last_topic_ && partition == last_partition_) return last_;
    last_topic_ = topic;
    last_partition_ = partition;
    std::vector<std::optional<Reading>>& known = known_[topic];
    const size_t number = partition < 0 ? 0 : static_cast<size_t>(partition);
    if (number >= known.size()) known.resize(number + 1);
    if (!known[number].has_value()) {
      const auto reading = topic == nullptr
                               ? reading_.end()
                               : reading_.find({rd_kafka_topic_name(topic), partition});
      known[number] = reading == reading_.end() ? Reading() : reading->second;
    }
    last_ = *known[number];
    return last_;
  }

  void AddEvent(const rd_kafka_message_t& message, int32_t tag,
                std::vector<KafkaEvent>* events) const {
    KafkaEvent event;
    event.tag = tag;
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
    } else if (message.err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) {
      event.kind = KafkaEvent::Kind::kFailed;
      event.status =
          client_->Failed(Concat("use group '", group_, "'"), message.err,
                          Concat(RdkafkaText(message.err), " (needed: READ on the group)"));
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
    if (tag >= 0) events->push_back(std::move(event));
  }

  const std::string group_;
  const std::function<void()> wake_;
  RdkafkaAnswers answers_;
  const std::shared_ptr<Client> client_;
  bool ready_ = false;
  std::vector<KafkaEvent> events_;  // for the next Poll
  int assigning_ = 0;
  uint64_t assignments_ = 0;  // so many were begun
  std::map<TopicPartition, Reading> reading_;
  // By topic handle and partition.
  std::unordered_map<const rd_kafka_topic_t*, std::vector<std::optional<Reading>>> known_;
  const rd_kafka_topic_t* last_topic_ = nullptr;
  int32_t last_partition_ = -1;
  Reading last_;
  std::unique_ptr<Block> block_;  // being read
  size_t next_row_ = 0;           // of block_
  size_t next_run_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<KafkaConsumer>> MakeRdkafkaConsumer(RdkafkaThreads& threads,
                                                             Executor& owner,
                                                             KafkaConsumerOptions options,
                                                             std::function<void()> wake) {
  RdkafkaSettings usual = {{"queued.min.messages", Concat(kQueuedRows)},
                           {"queued.max.messages.kbytes", Concat(kQueuedKilobytes)},
                           {"socket.timeout.ms", "10000"}};
  RdkafkaSettings fixed = {{"group.id", options.group},           {"enable.auto.commit", "false"},
                           {"enable.auto.offset.store", "false"}, {"auto.offset.reset", "error"},
                           {"isolation.level", "read_committed"}, {"enable.partition.eof", "true"},
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
