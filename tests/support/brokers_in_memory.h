#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <string>

namespace weir {

// librdkafka's own: brokers 1 to `brokers` that exist in this process, and topic "t" of one
// partition.
class BrokersInMemory {
 public:
  explicit BrokersInMemory(int brokers) {
    char text[512] = "";
    client_ = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    EXPECT_NE(client_, nullptr) << text;
    cluster_ = rd_kafka_mock_cluster_new(client_, brokers);
    EXPECT_EQ(rd_kafka_mock_topic_create(cluster_, "t", 1, brokers), RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  BrokersInMemory(const BrokersInMemory&) = delete;
  ~BrokersInMemory() {
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(client_);
  }
  std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
  void SetLeader(int broker) {  // -1: none
    EXPECT_EQ(rd_kafka_mock_partition_set_leader(cluster_, "t", 0, broker),
              RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  void SetDown(int broker) {
    EXPECT_EQ(rd_kafka_mock_broker_set_down(cluster_, broker), RD_KAFKA_RESP_ERR_NO_ERROR);
  }

  // The next so many questions who coordinates a group are answered so.
  void RefuseGroups(int times) {
    constexpr int16_t kFindCoordinator = 10;
    for (int i = 0; i < times; ++i) {
      rd_kafka_mock_push_request_errors(cluster_, kFindCoordinator, 1,
                                        RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    }
  }

 private:
  rd_kafka_t* client_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
};

}  // namespace weir
