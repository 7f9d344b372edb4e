#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_admin.h"

// What only a cluster can say of kafka.source and kafka.sink when a job is submitted; each answer
// comes within five seconds. Errors are the user's, brokers that do not answer included, and name
// what the job asks for and what the cluster has; the caller puts the vertex in front of them.
// REQUIRES: Validate has accepted the configs. Thread: confined to `owner`, which outlives the
// checks.
namespace weir {

// The brokers answer, every topic that is named exists, and its rows may be read and positions
// shown as offsets of the group. A pattern need not match yet, and nothing more is asked of it.
Co<Status> CheckKafkaSource(KafkaAdmin& admin, Executor& owner, const Clock& clock, Config config,
                            std::string job_name, std::string uid);

// The brokers answer, the topic exists, it is not compacted where the sink gives no keys, and
// exactly-once: the transaction timeout is one that the brokers allow, and a transaction of the
// sink's first identity may be made. That fences whoever has the identity: no live job may have it.
Co<Status> CheckKafkaSink(KafkaAdmin& admin, Executor& owner, const Clock& clock, Config config,
                          JobId job, std::string uid);

}  // namespace weir
