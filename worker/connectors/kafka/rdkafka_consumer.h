#pragma once

#include <functional>
#include <memory>

#include "worker/connectors/kafka/rdkafka_thread.h"
#include "worker/connectors/kafka/source/kafka_consumer.h"

namespace weir {

// A consumer on librdkafka, with a client and two threads of its own: one for calls that block, and
// one that takes messages ahead, a few blocks, and gives them back, which costs a fifth of what a
// cheap operator does with them. The owner reads messages where they lie. Poll never waits. User
// error: a property that librdkafka refuses, named.
StatusOr<std::unique_ptr<KafkaConsumer>> MakeRdkafkaConsumer(RdkafkaThreads& threads,
                                                             Executor& owner,
                                                             KafkaConsumerOptions options,
                                                             std::function<void()> wake);

}  // namespace weir
