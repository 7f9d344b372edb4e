#include "worker/connectors/kafka/kafka_checks.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "common/base/names.h"
#include "common/graph/config_fields.h"
#include "common/graph/kafka_configs.h"
#include "common/graph/topic_pattern.h"

namespace weir {
namespace {

constexpr int64_t kTimeoutUs = 4'000'000;
// Also of the last question, when those before it took all the time.
constexpr int64_t kQuestionTimeoutUsMin = 100'000;
constexpr int64_t kQuestionTimeoutUsMax = 3'000'000;
constexpr size_t kTopicsShownMax = 5;

// Asks the brokers what one vertex needs to know, all of it in kTimeoutUs.
class Questions {
 public:
  Questions(KafkaAdmin& admin, Executor& owner, const Clock& clock, KafkaCluster cluster)
      : admin_(admin),
        owner_(owner),
        clock_(clock),
        cluster_(std::move(cluster)),
        until_us_(clock.MonotonicMicros() + kTimeoutUs) {}

  Async<StatusOr<KafkaClusterView>> Look(std::vector<std::string> wanted) const {
    return Async<StatusOr<KafkaClusterView>>(
        [this, wanted = std::move(wanted)](std::function<void(StatusOr<KafkaClusterView>)> done) {
          admin_.Look(owner_, cluster_, wanted, Left(kTimeoutUs), std::move(done));
        });
  }
  Async<StatusOr<KafkaTopic>> Describe(std::string topic) const {
    return Async<StatusOr<KafkaTopic>>(
        [this, topic = std::move(topic)](std::function<void(StatusOr<KafkaTopic>)> done) {
          admin_.Describe(owner_, cluster_, topic, Left(kQuestionTimeoutUsMax), std::move(done));
        });
  }
  Async<Status> TryReading(std::string group, std::vector<std::string> topics) const {
    return Async<Status>([this, group = std::move(group),
                          topics = std::move(topics)](std::function<void(Status)> done) {
      admin_.TryReading(owner_, cluster_, group, topics, Left(kQuestionTimeoutUsMax),
                        std::move(done));
    });
  }
  Async<Status> TryTransaction(KafkaProducerOptions options, KafkaMarkerPlace place) const {
    return Async<Status>([this, options = std::move(options),
                          place = std::move(place)](std::function<void(Status)> done) {
      admin_.TryTransaction(owner_, options, place, Left(kQuestionTimeoutUsMax), std::move(done));
    });
  }

 private:
  int64_t Left(int64_t max_us) const {
    return std::clamp(until_us_ - clock_.MonotonicMicros(), kQuestionTimeoutUsMin, max_us);
  }

  KafkaAdmin& admin_;
  Executor& owner_;
  const Clock& clock_;
  const KafkaCluster cluster_;
  const int64_t until_us_;
};

// What the checks need of a sink's config.
struct CheckedSink {
  KafkaCluster cluster;
  std::string topic;
  bool has_key = false;
  bool exactly_once = true;
  std::string id_prefix;  // "": the job's id
  int64_t transaction_timeout_us = 0;
};
StatusOr<CheckedSink> ParseCheckedSink(const Config& config) {
  CheckedSink sink;
  WEIR_ASSIGN_OR_RETURN(sink.cluster.brokers, KafkaBrokersField(config));
  WEIR_ASSIGN_OR_RETURN(sink.cluster.properties,
                        KafkaPropertiesField(config, KafkaRole::kProducer));
  WEIR_ASSIGN_OR_RETURN(sink.topic, config.Text("topic"));
  sink.has_key = Given(config, "key");
  WEIR_ASSIGN_OR_RETURN(std::string delivery, config.Text("delivery", "exactly_once"));
  sink.exactly_once = delivery == "exactly_once";
  WEIR_ASSIGN_OR_RETURN(sink.id_prefix, config.Text("transactional_id_prefix", ""));
  WEIR_ASSIGN_OR_RETURN(
      sink.transaction_timeout_us,
      DurationField(config, "transaction_timeout", KafkaProducerOptions().transaction_timeout_us,
                    1'000'000, "a duration of at least 1s, like \"60s\""));
  return sink;
}

// The submission is refused now, whoever might reach the brokers later: an answer that promises
// more would be waited for.
Status Refused(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  return FailedPreconditionError(status.message());
}

// What a user may have meant by a topic, or a pattern, that is not there.
std::string ThereAre(const KafkaClusterView& view, const std::string& topic) {
  std::vector<std::string> names;
  for (const KafkaListedTopic& listed : view.topics) {
    if (!listed.name.starts_with("__")) names.push_back(listed.name);
  }
  if (std::string nearest = NearestName(topic, names); !nearest.empty()) {
    return Concat("did you mean '", nearest, "'?");
  }
  if (names.empty()) return "there are no topics that may be seen";
  std::string there = "there are ";
  for (size_t i = 0; i < std::min(names.size(), kTopicsShownMax); ++i) {
    there += Concat(i == 0 ? "" : ", ", "'", names[i], "'");
  }
  if (names.size() > kTopicsShownMax) {
    there += Concat(" and ", names.size() - kTopicsShownMax, " others");
  }
  return there;
}

Status CheckTopic(const KafkaClusterView& view, const std::string& topic,
                  const std::string& brokers) {
  for (const KafkaListedTopic& listed : view.topics) {
    if (listed.name != topic) continue;
    if (listed.permitted) return {};
    return FailedPreconditionError(Concat("topic '", topic, "' may not be seen at ", brokers,
                                          " (needed: DESCRIBE on the topic, which READ and WRITE "
                                          "contain)"));
  }
  return NotFoundError(
      Concat("topic '", topic, "' does not exist at ", brokers, ": ", ThereAre(view, topic)));
}

// A source with an end reads what is there when it starts; without, it waits for topics.
Status CheckPattern(const KafkaClusterView& view, const KafkaSourceConfig& config) {
  if (config.topic_pattern.empty() || !config.bounded) return {};
  WEIR_ASSIGN_OR_RETURN(TopicPattern pattern, TopicPattern::Parse(config.topic_pattern));
  for (const KafkaListedTopic& listed : view.topics) {
    if (pattern.Matches(listed.name)) return {};
  }
  return NotFoundError(Concat("topic_pattern '", config.topic_pattern, "' matches no topic at ",
                              config.brokers, ", and a source with an end reads none that come ",
                              "later: ", ThereAre(view, config.topic_pattern)));
}

// Of offsets for single partitions of topics that the config names.
Status CheckPartitions(const KafkaClusterView& view, std::string_view field,
                       const std::map<TopicPartition, int64_t>& offsets,
                       const std::string& brokers) {
  for (const auto& [partition, offset] : offsets) {
    for (const KafkaListedTopic& listed : view.topics) {
      if (listed.name != partition.topic || partition.partition < listed.partitions) continue;
      return InvalidArgumentError(Concat("config field '", field, "' has partition ",
                                         partition.partition, " of topic '", listed.name,
                                         "', which has ", listed.partitions, " at ", brokers));
    }
  }
  return {};
}

}  // namespace

Co<Status> CheckKafkaSource(KafkaAdmin& admin, Executor& owner, const Clock& clock, Config config,
                            std::string job_name, std::string uid) {
  StatusOr<KafkaSourceConfig> parsed = ParseKafkaSourceConfig(config);
  if (!parsed.ok()) co_return parsed.status();
  const Questions questions(admin, owner, clock,
                            {.brokers = parsed->brokers, .properties = parsed->properties});
  StatusOr<KafkaClusterView> view = co_await questions.Look(parsed->topics);
  if (!view.ok()) co_return Refused(view.status());
  for (const std::string& topic : parsed->topics) {
    if (Status status = CheckTopic(*view, topic, parsed->brokers); !status.ok()) co_return status;
  }
  if (Status status = CheckPattern(*view, *parsed); !status.ok()) co_return status;
  Status starts = CheckPartitions(*view, "start_offsets", parsed->start_offsets, parsed->brokers);
  if (!starts.ok()) co_return starts;
  Status ends = CheckPartitions(*view, "end_offsets", parsed->end_offsets, parsed->brokers);
  if (!ends.ok() || parsed->topics.empty()) co_return ends;
  co_return Refused(
      co_await questions.TryReading(KafkaGroupOf(*parsed, job_name, uid), parsed->topics));
}

Co<Status> CheckKafkaSink(KafkaAdmin& admin, Executor& owner, const Clock& clock, Config config,
                          JobId job, std::string uid) {
  StatusOr<CheckedSink> sink = ParseCheckedSink(config);
  if (!sink.ok()) co_return sink.status();
  const std::string& brokers = sink->cluster.brokers;
  const std::vector<std::string> wanted(1, sink->topic);
  const Questions questions(admin, owner, clock, sink->cluster);
  StatusOr<KafkaClusterView> view = co_await questions.Look(wanted);
  if (!view.ok()) co_return Refused(view.status());
  if (Status status = CheckTopic(*view, sink->topic, brokers); !status.ok()) co_return status;
  if (!sink->has_key) {
    StatusOr<KafkaTopic> topic = co_await questions.Describe(sink->topic);
    if (!topic.ok()) co_return Refused(topic.status());
    if (topic->compacted) {
      co_return FailedPreconditionError(
          Concat("topic '", sink->topic, "' at ", brokers,
                 " takes no row without key, as its cleanup.policy contains compact: set 'key' to "
                 "the columns that make the key"));
    }
  }
  if (!sink->exactly_once) co_return Status();
  const std::optional<int64_t> timeout_us_max = view->transaction_timeout_us_max;
  if (timeout_us_max.has_value() && sink->transaction_timeout_us > *timeout_us_max) {
    co_return FailedPreconditionError(Concat(
        "transaction_timeout is ", sink->transaction_timeout_us / 1000, " ms, and the brokers at ",
        brokers, " allow at most ", *timeout_us_max / 1000, " ms (transaction.max.timeout.ms)"));
  }
  const std::string identity =
      Concat(sink->id_prefix.empty() ? job.value() : sink->id_prefix, '-', uid, "-0");
  KafkaProducerOptions options;
  options.cluster = sink->cluster;
  options.topic = sink->topic;
  options.transactional_id = identity;
  options.transaction_timeout_us = sink->transaction_timeout_us;
  const KafkaMarkerPlace place{.group = identity, .topic = sink->topic, .partition = 0};
  Status tried = co_await questions.TryTransaction(options, place);
  co_return Refused(tried).WithContext(Concat("a trial transaction on topic '", sink->topic, "'"));
}

}  // namespace weir
