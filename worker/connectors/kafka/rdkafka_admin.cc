#include "worker/connectors/kafka/rdkafka_admin.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/concat.h"
#include "common/base/consume_text.h"
#include "common/base/log.h"
#include "worker/connectors/kafka/kafka_marker.h"
#include "worker/connectors/kafka/rdkafka_settings.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kTextBytesMax = 512;
constexpr int kMarkerSliceMs = 1000;
constexpr int kGroupFirstSliceMs = 100;
constexpr int kMetadataFirstSliceMs = 500;

using RdkafkaConfig = std::map<std::string, std::string, std::less<>>;

std::string_view Text(const RdkafkaConfig& config, std::string_view name) {
  const auto found = config.find(name);
  return found == config.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<int64_t> Number(const RdkafkaConfig& config, std::string_view name) {
  std::string_view digits = Text(config, name);
  int64_t number = 0;
  if (!ConsumeNumber(&digits, &number, INT64_MIN) || !digits.empty()) return std::nullopt;
  return number;
}

// A client that makes no topic by asking for it. Thread: confined to its owner.
class Questioner {
 public:
  // `more`: properties of ours.
  static StatusOr<std::unique_ptr<Questioner>> Make(const KafkaCluster& cluster, int timeout_ms,
                                                    RdkafkaSettings more = {}) {
    auto made = std::make_unique<Questioner>(cluster, timeout_ms);
    more.emplace_back("allow.auto.create.topics", "false");
    more.emplace_back("enable.auto.commit", "false");
    WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<rd_kafka_conf_t> conf,
                          MakeRdkafkaConf(cluster, {{"socket.timeout.ms", "3000"}}, more));
    rd_kafka_conf_set_opaque(conf.get(), made.get());
    rd_kafka_conf_set_error_cb(conf.get(), OnError);
    char text[kTextBytesMax] = "";
    made->client_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), text, sizeof(text));
    if (made->client_ == nullptr) {
      return InvalidArgumentError(
          Concat("cannot make a Kafka client for ", cluster.brokers, ": ", text));
    }
    conf.release();  // NOLINT(bugprone-unused-return-value): the client's now
    return made;
  }
  Questioner(const KafkaCluster& cluster, int timeout_ms)
      : brokers_(cluster.brokers), until_(steady_clock::now() + milliseconds(timeout_ms)) {}
  Questioner(const Questioner&) = delete;
  ~Questioner() {
    if (client_ != nullptr) rd_kafka_destroy(client_);
  }

  rd_kafka_t* client() const { return client_; }
  int left_ms() const {
    auto left = std::chrono::duration_cast<milliseconds>(until_ - steady_clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 1));
  }
  bool late() const { return steady_clock::now() >= until_; }

  // The error of a call.
  Status Failed(std::string_view what, rd_kafka_resp_err_t code, std::string_view text = "") {
    rd_kafka_poll(client_, 0);
    const std::string silence = RdkafkaSilence(code, brokers_);
    const std::string at = silence.empty() ? Concat(" at ", brokers_) : "";
    return RdkafkaStatus(code, Concat(silence, "cannot ", what, at, ": ",
                                      text.empty() ? RdkafkaText(code) : text, trouble_.Shown()));
  }

  // All topics, or one.
  StatusOr<RdkafkaPtr<const rd_kafka_metadata_t>> Metadata(rd_kafka_topic_t* topic) {
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto ask = [&](int timeout_ms) {
      return rd_kafka_metadata(client_, topic == nullptr ? 1 : 0, topic, &metadata, timeout_ms);
    };
    // Whoever is not let in hears of it soon, by a poll; the question itself would only wait.
    rd_kafka_resp_err_t error = ask(std::min(left_ms(), kMetadataFirstSliceMs));
    rd_kafka_poll(client_, 0);
    const bool passing =
        error == RD_KAFKA_RESP_ERR__TIMED_OUT || error == RD_KAFKA_RESP_ERR__TRANSPORT;
    if (passing && !not_let_in_) error = ask(left_ms());
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed("list topics", error);
    return RdkafkaPtr<const rd_kafka_metadata_t>(metadata);
  }

  // What the cluster says of one topic.
  StatusOr<rd_kafka_resp_err_t> ErrorOf(const std::string& name) {
    RdkafkaPtr<rd_kafka_topic_t> topic(rd_kafka_topic_new(client_, name.c_str(), nullptr));
    if (topic == nullptr)
      return Failed(Concat("ask for topic '", name, "'"), rd_kafka_last_error());
    WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<const rd_kafka_metadata_t> metadata, Metadata(topic.get()));
    return metadata->topic_cnt == 1 ? metadata->topics[0].err
                                    : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
  }

  // The config of a topic or a broker; empty where it may not be read.
  StatusOr<RdkafkaConfig> ConfigOf(rd_kafka_ResourceType_t type, const std::string& resource) {
    const std::string whose =
        Concat(type == RD_KAFKA_RESOURCE_BROKER ? "broker " : "topic ", resource);
    const std::string what = Concat("describe the config of ", whose);
    RdkafkaPtr<rd_kafka_queue_t> queue(rd_kafka_queue_new(client_));
    rd_kafka_ConfigResource_t* asked = rd_kafka_ConfigResource_new(type, resource.c_str());
    rd_kafka_AdminOptions_t* options =
        rd_kafka_AdminOptions_new(client_, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    char text[kTextBytesMax] = "";
    rd_kafka_AdminOptions_set_request_timeout(options, left_ms(), text, sizeof(text));
    rd_kafka_DescribeConfigs(client_, &asked, 1, options, queue.get());
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(asked);
    RdkafkaPtr<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), left_ms()));
    if (event == nullptr) return Failed(what, RD_KAFKA_RESP_ERR__TIMED_OUT);
    rd_kafka_resp_err_t error = rd_kafka_event_error(event.get());
    const char* error_text = rd_kafka_event_error_string(event.get());
    size_t resources_count = 0;
    const rd_kafka_ConfigResource_t** resources = nullptr;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
      resources = rd_kafka_DescribeConfigs_result_resources(
          rd_kafka_event_DescribeConfigs_result(event.get()), &resources_count);
      if (resources_count == 1) {
        error = rd_kafka_ConfigResource_error(resources[0]);
        error_text = rd_kafka_ConfigResource_error_string(resources[0]);
      }
    }
    if (error == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
        error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
      log::Info("kafka: the config of ", whose, " may not be read at ", brokers_);
      return RdkafkaConfig();
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return Failed(what, error, error_text == nullptr ? "" : error_text);
    }
    size_t entries_count = 0;
    const rd_kafka_ConfigEntry_t** entries =
        resources_count == 1 ? rd_kafka_ConfigResource_configs(resources[0], &entries_count)
                             : nullptr;
    RdkafkaConfig config;
    for (size_t i = 0; i < entries_count; ++i) {
      const char* value = rd_kafka_ConfigEntry_value(entries[i]);
      if (value != nullptr) config[rd_kafka_ConfigEntry_name(entries[i])] = value;
    }
    return config;
  }

  // Whether the cluster said that the client may not see its group. It comes as a message.
  bool SawGroupRefused() {
    bool refused = false;
    while (rd_kafka_message_t* message = rd_kafka_consumer_poll(client_, 0)) {
      refused = refused || message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
      rd_kafka_message_destroy(message);
    }
    return refused;
  }

 private:
  static void OnError(rd_kafka_t*, int error, const char* reason, void* self) {
    auto* questioner = static_cast<Questioner*>(self);
    questioner->trouble_.Note(static_cast<rd_kafka_resp_err_t>(error), reason);
    questioner->not_let_in_ |= error == RD_KAFKA_RESP_ERR__AUTHENTICATION;
  }

  const std::string brokers_;
  const steady_clock::time_point until_;
  rd_kafka_t* client_ = nullptr;
  RdkafkaTrouble trouble_;
  bool not_let_in_ = false;
};

}  // namespace

StatusOr<std::optional<KafkaMarker>> ReadRdkafkaMarker(const KafkaCluster& cluster,
                                                       const KafkaMarkerPlace& place,
                                                       int timeout_ms) {
  WEIR_ASSIGN_OR_RETURN(
      std::unique_ptr<Questioner> questioner,
      Questioner::Make(cluster, timeout_ms,
                       {{"group.id", place.group}, {"isolation.level", "read_committed"}}));
  const std::string what = Concat("read the marker of group '", place.group, "'");
  RdkafkaPtr<rd_kafka_topic_partition_list_t> offsets(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* offset =
      rd_kafka_topic_partition_list_add(offsets.get(), place.topic.c_str(), place.partition);
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
  while (error == RD_KAFKA_RESP_ERR__TIMED_OUT && !questioner->late()) {
    error = rd_kafka_committed(questioner->client(), offsets.get(),
                               std::min(questioner->left_ms(), kMarkerSliceMs));
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = offset->err;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return questioner->Failed(what, error);
  if (offset->offset == RD_KAFKA_OFFSET_INVALID) return std::optional<KafkaMarker>();
  StatusOr<KafkaMarker> marker = ParseMarker(
      offset->offset,
      std::string_view(static_cast<const char*>(offset->metadata), offset->metadata_size));
  if (!marker.ok()) {
    return marker.status().WithContext(Concat("group '", place.group, "' at ", cluster.brokers));
  }
  return std::optional(std::move(*marker));
}

StatusOr<KafkaTopic> DescribeRdkafkaTopic(const KafkaCluster& cluster, const std::string& topic,
                                          int timeout_ms) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Questioner> questioner,
                        Questioner::Make(cluster, timeout_ms));
  const std::string what = Concat("describe topic '", topic, "'");
  RdkafkaPtr<rd_kafka_topic_t> handle(
      rd_kafka_topic_new(questioner->client(), topic.c_str(), nullptr));
  if (handle == nullptr) return questioner->Failed(what, rd_kafka_last_error());
  WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<const rd_kafka_metadata_t> metadata,
                        questioner->Metadata(handle.get()));
  if (metadata->topic_cnt != 1) {
    return questioner->Failed(what, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  }
  if (rd_kafka_resp_err_t error = metadata->topics[0].err; error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return questioner->Failed(what, error);
  }
  KafkaTopic described;
  described.partitions = metadata->topics[0].partition_cnt;
  described.message_bytes_max = KafkaProducerOptions().message_bytes_max;
  WEIR_ASSIGN_OR_RETURN(RdkafkaConfig config, questioner->ConfigOf(RD_KAFKA_RESOURCE_TOPIC, topic));
  described.message_bytes_max =
      Number(config, "max.message.bytes").value_or(described.message_bytes_max);
  if (Text(config, "message.timestamp.type") != "LogAppendTime") {
    // Brokers before 3.6 have one limit for both.
    const int64_t both_ms =
        Number(config, "message.timestamp.difference.max.ms").value_or(INT64_MAX);
    described.timestamp_ahead_ms_max =
        Number(config, "message.timestamp.after.max.ms").value_or(both_ms);
    described.timestamp_behind_ms_max =
        Number(config, "message.timestamp.before.max.ms").value_or(both_ms);
  }
  // "compact", or "compact,delete".
  described.compacted = Text(config, "cleanup.policy").find("compact") != std::string_view::npos;
  return described;
}

StatusOr<KafkaClusterView> LookAtRdkafkaCluster(const KafkaCluster& cluster,
                                                const std::vector<std::string>& wanted,
                                                int timeout_ms) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Questioner> questioner,
                        Questioner::Make(cluster, timeout_ms));
  WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<const rd_kafka_metadata_t> metadata,
                        questioner->Metadata(nullptr));
  KafkaClusterView view;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const rd_kafka_metadata_topic_t& topic = metadata->topics[i];
    if (topic.err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) continue;
    view.topics.push_back({.name = topic.topic, .partitions = topic.partition_cnt});
  }
  // The list leaves out what may not be seen; asked for by name, the cluster says so.
  for (const std::string& name : wanted) {
    const bool listed =
        std::any_of(view.topics.begin(), view.topics.end(),
                    [&](const KafkaListedTopic& topic) { return topic.name == name; });
    if (listed) continue;
    WEIR_ASSIGN_OR_RETURN(rd_kafka_resp_err_t error, questioner->ErrorOf(name));
    if (error != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) continue;
    view.topics.push_back({.name = name, .permitted = false});
  }
  std::sort(view.topics.begin(), view.topics.end(),
            [](const KafkaListedTopic& a, const KafkaListedTopic& b) { return a.name < b.name; });
  if (metadata->broker_cnt == 0) return view;
  WEIR_ASSIGN_OR_RETURN(
      RdkafkaConfig config,
      questioner->ConfigOf(RD_KAFKA_RESOURCE_BROKER, Concat(metadata->brokers[0].id)));
  if (const std::optional<int64_t> timeout_ms_max = Number(config, "transaction.max.timeout.ms")) {
    view.transaction_timeout_us_max = *timeout_ms_max * 1000;
  }
  return view;
}

namespace {

Status TryReading(Questioner& questioner, const std::string& group,
                  const std::vector<std::string>& topics) {
  const std::string what = Concat("use group '", group, "'");
  const auto no_group = [&] {
    const rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    return questioner.Failed(what, error,
                             Concat(RdkafkaText(error), " (needed: READ on the group)"));
  };
  // Read first: a commit to a group that may not even be seen, and so has no coordinator, is never
  // given up, and its client cannot be destroyed.
  RdkafkaPtr<rd_kafka_topic_partition_list_t> offsets(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(offsets.get(), topics.front().c_str(), 0);
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
  int slice_ms = kGroupFirstSliceMs;
  while (error == RD_KAFKA_RESP_ERR__TIMED_OUT && !questioner.late()) {
    error = rd_kafka_committed(questioner.client(), offsets.get(),
                               std::min(questioner.left_ms(), slice_ms));
    if (questioner.SawGroupRefused()) return no_group();
    slice_ms *= 2;
  }
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return questioner.Failed(what, error);

  offsets.reset(rd_kafka_topic_partition_list_new(static_cast<int>(topics.size())));
  for (const std::string& topic : topics) {
    rd_kafka_topic_partition_list_add(offsets.get(), topic.c_str(), INT32_MAX)->offset = 0;
  }
  RdkafkaPtr<rd_kafka_queue_t> queue(rd_kafka_queue_new(questioner.client()));
  error = rd_kafka_commit_queue(questioner.client(), offsets.get(), queue.get(), nullptr, nullptr);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return questioner.Failed(what, error);
  RdkafkaPtr<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), questioner.left_ms()));
  if (event == nullptr) return questioner.Failed(what, RD_KAFKA_RESP_ERR__TIMED_OUT);
  error = rd_kafka_event_error(event.get());
  const rd_kafka_topic_partition_list_t* answers = rd_kafka_event_topic_partition_list(event.get());
  for (int i = 0; answers != nullptr && i < answers->cnt; ++i) {
    const rd_kafka_topic_partition_t& answer = answers->elems[i];
    if (answer.err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) error = answer.err;
    if (answer.err != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) continue;
    return questioner.Failed(Concat("read topic '", answer.topic, "'"), answer.err,
                             Concat(RdkafkaText(answer.err), " (needed: READ on the topic)"));
  }
  if (error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) return no_group();
  // The answer to who may do it: there is no such partition.
  if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) return {};
  return questioner.Failed(what, error);
}

}  // namespace

void TryRdkafkaReading(const KafkaCluster& cluster, const std::string& group,
                       const std::vector<std::string>& topics, int timeout_ms,
                       const std::function<void(Status)>& answer) {
  StatusOr<std::unique_ptr<Questioner>> questioner =
      Questioner::Make(cluster, timeout_ms, {{"group.id", group}});
  answer(questioner.ok() ? TryReading(**questioner, group, topics) : questioner.status());
}

}  // namespace weir
