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

constexpr int64_t kLookTimeoutUs = 4'000'000;
constexpr int64_t kTrialTimeoutUs = 3'000'000;
constexpr size_t kTopicsShownMax = 5;

Async<StatusOr<KafkaClusterView>> Look(KafkaAdmin& admin, Executor& owner,
                                       const KafkaCluster& cluster,
                                       const std::vector<std::string>& wanted) {
  return Async<StatusOr<KafkaClusterView>>(
      [&admin, &owner, cluster, wanted](std::function<void(StatusOr<KafkaClusterView>)> done) {
        admin.Look(owner, cluster, wanted, kLookTimeoutUs, std::move(done));
      });
}

Async<StatusOr<KafkaTopic>> Describe(KafkaAdmin& admin, Executor& owner,
                                     const KafkaCluster& cluster, const std::string& topic) {
  return Async<StatusOr<KafkaTopic>>(
      [&admin, &owner, cluster, topic](std::function<void(StatusOr<KafkaTopic>)> done) {
        admin.Describe(owner, cluster, topic, kTrialTimeoutUs, std::move(done));
      });
}

Async<Status> TryReading(KafkaAdmin& admin, Executor& owner, const KafkaCluster& cluster,
                         const std::string& group, const std::vector<std::string>& topics) {
  return Async<Status>([&admin, &owner, cluster, group, topics](std::function<void(Status)> done) {
    admin.TryReading(owner, cluster, group, topics, kTrialTimeoutUs, std::move(done));
  });
}

Async<Status> TryTransaction(KafkaAdmin& admin, Executor& owner,
                             const KafkaProducerOptions& options, const KafkaMarkerPlace& place) {
  return Async<Status>([&admin, &owner, options, place](std::function<void(Status)> done) {
    admin.TryTransaction(owner, options, place, kTrialTimeoutUs, std::move(done));
  });
}

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

Co<Status> CheckKafkaSource(KafkaAdmin& admin, Executor& owner, Config config, std::string job_name,
                            std::string uid) {
  StatusOr<KafkaSourceConfig> parsed = ParseKafkaSourceConfig(config);
  if (!parsed.ok()) co_return parsed.status();
  const KafkaCluster cluster{.brokers = parsed->brokers, .properties = parsed->properties};
  StatusOr<KafkaClusterView> view = co_await Look(admin, owner, cluster, parsed->topics);
  if (!view.ok()) co_return Refused(view.status());
  for (const std::string& topic : parsed->topics) {
    if (Status status = CheckTopic(*view, topic, parsed->brokers); !status.ok()) co_return status;
  }
  if (Status status = CheckPattern(*view, *parsed); !status.ok()) co_return status;
  Status starts = CheckPartitions(*view, "start_offsets", parsed->start_offsets, parsed->brokers);
  if (!starts.ok()) co_return starts;
  Status ends = CheckPartitions(*view, "end_offsets", parsed->end_offsets, parsed->brokers);
  if (!ends.ok() || parsed->topics.empty()) co_return ends;
  co_return Refused(co_await TryReading(admin, owner, cluster, KafkaGroupOf(*parsed, job_name, uid),
                                        parsed->topics));
}

Co<Status> CheckKafkaSink(KafkaAdmin& admin, Executor& owner, Config config, JobId job,
                          std::string uid) {
  StatusOr<CheckedSink> sink = ParseCheckedSink(config);
  if (!sink.ok()) co_return sink.status();
  const std::string& brokers = sink->cluster.brokers;
  const std::vector<std::string> wanted(1, sink->topic);
  StatusOr<KafkaClusterView> view = co_await Look(admin, owner, sink->cluster, wanted);
  if (!view.ok()) co_return Refused(view.status());
  if (Status status = CheckTopic(*view, sink->topic, brokers); !status.ok()) co_return status;
  if (!sink->has_key) {
    StatusOr<KafkaTopic> topic = co_await Describe(admin, owner, sink->cluster, sink->topic);
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
  Status tried = co_await TryTransaction(admin, owner, options, place);
  co_return Refused(tried).WithContext(Concat("a trial transaction on topic '", sink->topic, "'"));
}

}  // namespace weir
