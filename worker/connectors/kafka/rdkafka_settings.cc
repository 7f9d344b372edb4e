#include "worker/connectors/kafka/rdkafka_settings.h"

#include <string.h>

#include "common/base/concat.h"
#include "common/base/log.h"

namespace weir {
namespace {

constexpr int kSyslogError = 3;
constexpr int kSyslogWarning = 4;
constexpr size_t kTextBytesMax = 512;

void Log(const rd_kafka_t*, int level, const char* facility, const char* text) {
  // Producers have it for the markers that they read, and rd_kafka_committed heeds it.
  if (std::string_view(text).find("isolation.level is a consumer property") !=
      std::string_view::npos) {
    log::Debug("kafka: ", facility, ": ", text);
    return;
  }
  // A broker that is away is no error of ours: what waits for it says so in the status.
  if (level <= kSyslogError) {
    log::Warning("kafka: ", facility, ": ", text);
  } else if (level == kSyslogWarning) {
    log::Info("kafka: ", facility, ": ", text);
  } else {
    log::Debug("kafka: ", facility, ": ", text);
  }
}

Status Set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  char text[kTextBytesMax] = "";
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text, sizeof(text)) ==
      RD_KAFKA_CONF_OK) {
    return {};
  }
  return InvalidArgumentError(Concat("Kafka property '", name, "': ", text));
}

}  // namespace

StatusOr<RdkafkaPtr<rd_kafka_conf_t>> MakeRdkafkaConf(const KafkaCluster& cluster,
                                                      const RdkafkaSettings& usual,
                                                      const RdkafkaSettings& fixed) {
  RdkafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  rd_kafka_conf_set_log_cb(conf.get(), Log);
  WEIR_RETURN_IF_ERROR(Set(conf.get(), "bootstrap.servers", cluster.brokers));
  // A long one crashes librdkafka 2.0.2.
  WEIR_RETURN_IF_ERROR(Set(conf.get(), "client.id", "weir"));
  // Back soon after a broker instead of after up to ten seconds.
  WEIR_RETURN_IF_ERROR(Set(conf.get(), "reconnect.backoff.max.ms", "500"));
  for (const auto& [name, value] : usual) WEIR_RETURN_IF_ERROR(Set(conf.get(), name, value));
  for (const auto& [name, value] : cluster.properties) {
    WEIR_RETURN_IF_ERROR(Set(conf.get(), name, value));
  }
  for (const auto& [name, value] : fixed) WEIR_RETURN_IF_ERROR(Set(conf.get(), name, value));
  return conf;
}

Status RdkafkaStatus(rd_kafka_resp_err_t code, std::string message) {
  switch (code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      return {};
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return NotFoundError(std::move(message));
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
      return FailedPreconditionError(std::move(message));
    // Of rows, which the topic does not take whenever they come.
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
      return OutOfRangeError(std::move(message));
    default:
      return UnavailableError(std::move(message));
  }
}

std::string_view RdkafkaText(rd_kafka_resp_err_t code) { return rd_kafka_err2str(code); }

rd_kafka_resp_err_t RdkafkaErrorOf(const rd_kafka_topic_partition_t& partition) {
  const bool unanswered = partition.err == RD_KAFKA_RESP_ERR__IN_PROGRESS;
  return unanswered ? RD_KAFKA_RESP_ERR_NO_ERROR : partition.err;
}

std::string RdkafkaSilence(rd_kafka_resp_err_t code, std::string_view brokers) {
  switch (code) {
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
      return Concat("Kafka brokers ", brokers, " do not answer: ");
    default:
      return "";
  }
}

void RdkafkaTrouble::Note(rd_kafka_resp_err_t code, const char* reason) {
  // "All brokers are down" follows what says why.
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && of_one_broker_) return;
  of_one_broker_ = code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
  text_ = reason;
}

}  // namespace weir
