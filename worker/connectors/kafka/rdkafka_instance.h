#pragma once

#include <librdkafka/rdkafka.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/kafka_records.h"
#include "worker/connectors/kafka/rdkafka_settings.h"

namespace weir {

// One producer instance of librdkafka; its calls block. Only rdkafka_*.cc include this.
// Lifetime: Destroy before it goes. Invariant: no copy of a request of an ended transaction is
// on its way to the broker, or disturbed(). Thread: confined to its client thread;
// disturbed() thread-safe.
class RdkafkaInstance {
 public:
  // `given_up`: long calls look there whether anybody still waits for them; they return kUnknown.
  RdkafkaInstance(KafkaProducerOptions options, RdkafkaPtr<rd_kafka_conf_t> conf,
                  std::function<bool()> given_up);
  ~RdkafkaInstance();
  RdkafkaInstance(const RdkafkaInstance&) = delete;

  // As in TransactionalProducer. kUnknown comes after kPatience.
  KafkaResult Initialise();
  KafkaResult Begin();
  KafkaResult Produce(const std::string& records);
  KafkaResult SendMarker(const KafkaMarkerPlace& place, const KafkaMarker& marker, int timeout_ms);
  KafkaResult Commit();
  KafkaResult Abort();
  StatusOr<std::vector<int64_t>> FindEnds();
  // Waits until the partitions of what was produced belong to the transaction, or it has failed:
  // then SendMarker tells. Whether that was within `timeout_ms`.
  bool WaitForPartitions(int timeout_ms);
  // May hang. Closes nothing on the broker: an open transaction stays open. Rows that were not sent
  // yet are dropped.
  void Destroy();

  bool disturbed() const { return disturbed_.load(std::memory_order_relaxed); }

 private:
  // A request that may do harm when a copy of it arrives late, by its number in the protocol. Of
  // each there is one at a time.
  struct Watched {
    const int16_t key;
    std::atomic<bool> waits = false;  // was sent, and has no answer
    std::atomic<bool> answered = false;
  };

  static rd_kafka_resp_err_t OnNew(rd_kafka_t* client, const rd_kafka_conf_t* conf, void* self,
                                   char* text, size_t text_bytes);
  static rd_kafka_resp_err_t OnRequestSent(rd_kafka_t* client, int socket, const char* broker,
                                           int32_t broker_id, int16_t key, int16_t version,
                                           int32_t correlation, size_t bytes, void* self);
  static rd_kafka_resp_err_t OnResponse(rd_kafka_t* client, int socket, const char* broker,
                                        int32_t broker_id, int16_t key, int16_t version,
                                        int32_t correlation, size_t bytes, int64_t round_trip_us,
                                        rd_kafka_resp_err_t error, void* self);
  static void OnDelivery(rd_kafka_t* client, const rd_kafka_message_t* message, void* self);
  static void OnError(rd_kafka_t* client, int error, const char* reason, void* self);

  bool transactional() const { return !options_.transactional_id.empty(); }
  Status Create();
  // Repeats `call` while it has no answer.
  KafkaResult Repeat(std::string_view what, const std::function<rd_kafka_error_t*()>& call);
  KafkaResult Judge(std::string_view what, RdkafkaPtr<rd_kafka_error_t> error) const;
  // What the rows that could not be delivered, or the client's end, say about `what`.
  KafkaResult JudgeProduced(std::string_view what, rd_kafka_resp_err_t code) const;
  KafkaResult ProduceBatch(int32_t partition);
  KafkaResult ProduceOne(int32_t partition, const KafkaRecordView& record);
  // For a moment; the queue was full.
  void WaitForRoom();
  // Until only rows are left that do not fill a request.
  void WaitForFullRequests();
  KafkaResult Flush();
  // Until none is on its way, or kPatience is over.
  void AwaitRowsUnderWay();
  bool SawFatal(std::string_view what, KafkaResult* result) const;
  void NoteLostAnswers();
  std::string Whom() const;

  const KafkaProducerOptions options_;
  const std::function<bool()> given_up_;
  RdkafkaPtr<rd_kafka_conf_t> conf_;  // until Create
  rd_kafka_t* client_ = nullptr;
  RdkafkaPtr<rd_kafka_topic_t> topic_;
  std::vector<rd_kafka_message_t> batch_;
  Status lost_row_;  // the first of this transaction that could not be delivered
  RdkafkaTrouble trouble_;
  // AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit. Of client_'s threads too.
  std::array<Watched, 4> watched_{Watched{.key = 24}, {.key = 25}, {.key = 26}, {.key = 28}};
  std::atomic<int> requests_of_rows_ = 0;  // under way; too few after one that was never sent
  std::atomic<bool> disturbed_ = false;
};

// The settings of a producer; user error: a property that librdkafka refuses, named.
StatusOr<RdkafkaPtr<rd_kafka_conf_t>> MakeProducerConf(const KafkaProducerOptions& options,
                                                       const RdkafkaSettings& more = {});

}  // namespace weir
