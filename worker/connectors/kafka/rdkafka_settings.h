#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/connectors/kafka/kafka_client.h"

// What all clients of librdkafka share. Only rdkafka_*.cc include this.
namespace weir {

struct RdkafkaDeleter {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
  void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
  void operator()(rd_kafka_consumer_group_metadata_t* group) const {
    rd_kafka_consumer_group_metadata_destroy(group);
  }
  void operator()(const rd_kafka_metadata_t* metadata) const {
    rd_kafka_metadata_destroy(metadata);
  }
};
template <typename T>
using RdkafkaPtr = std::unique_ptr<T, RdkafkaDeleter>;

using RdkafkaSettings = std::vector<std::pair<std::string, std::string>>;

// The brokers, `usual`, over that the user's properties, over that `fixed`; the log goes to ours.
// User error: a property that librdkafka refuses, named.
StatusOr<RdkafkaPtr<rd_kafka_conf_t>> MakeRdkafkaConf(const KafkaCluster& cluster,
                                                      const RdkafkaSettings& usual,
                                                      const RdkafkaSettings& fixed);

// Of the user's domain where a repetition does not help, else kUnavailable.
Status RdkafkaStatus(rd_kafka_resp_err_t code, std::string message);

// "Broker: Unknown topic or partition".
std::string_view RdkafkaText(rd_kafka_resp_err_t code);

// What is wrong with one partition of a question about several. It tells more than the error of the
// question: where no partition has a leader that is "unknown". One that was not asked has none.
rd_kafka_resp_err_t RdkafkaErrorOf(const rd_kafka_topic_partition_t& partition);

// Begins a message about a call: that the brokers do not answer where the code says so, else "".
std::string RdkafkaSilence(rd_kafka_resp_err_t code, std::string_view brokers);

// Remembers what librdkafka last said about its connections, for messages: it keeps trying and the
// calls themselves only say that time has passed. Set as error_cb with this as the opaque's first
// member. Thread: confined to the one that polls.
class RdkafkaTrouble {
 public:
  void Note(rd_kafka_resp_err_t code, const char* reason);
  void Clear() { text_.clear(); }
  // "" or " (127.0.0.1:1/bootstrap: Connect to … failed: Connection refused)".
  std::string Shown() const { return text_.empty() ? "" : " (" + text_ + ")"; }

 private:
  std::string text_;
  bool of_one_broker_ = false;
};

}  // namespace weir
