#pragma once

#include <functional>
#include <memory>

#include "worker/connectors/kafka/rdkafka_thread.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// A consumer on librdkafka, with a client and a thread for blocking calls of its own. Poll never
// waits. User error: a property that librdkafka refuses, named.
StatusOr<std::unique_ptr<KafkaConsumer>> MakeRdkafkaConsumer(RdkafkaThreads& threads,
                                                             Executor& owner,
                                                             KafkaConsumerOptions options,
                                                             std::function<void()> wake);

}  // namespace weir
