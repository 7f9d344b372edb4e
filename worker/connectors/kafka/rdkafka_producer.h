#pragma once

#include <functional>
#include <memory>

#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/rdkafka_thread.h"

namespace weir {

// A producer with a client of librdkafka on a thread of its own, where it is also destroyed. User
// error: a property that librdkafka refuses, named.
StatusOr<std::unique_ptr<TransactionalProducer>> MakeRdkafkaProducer(RdkafkaThreads& threads,
                                                                     Executor& owner,
                                                                     KafkaProducerOptions options);

// Tries what a sink's transactions need, in one that is aborted. Answers once, after `timeout_us`
// and a little more at the latest, and returns when the client has been destroyed.
void TryRdkafkaTransaction(KafkaProducerOptions options, const KafkaMarkerPlace& place,
                           int64_t timeout_us, const std::function<void(Status)>& answer);

}  // namespace weir
