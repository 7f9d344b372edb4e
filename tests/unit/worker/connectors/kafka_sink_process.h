#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/concat.h"
#include "common/record/batch_builder.h"
#include "tests/support/fake_kafka.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/sink_process.h"
#include "worker/connectors/kafka/sink/kafka_committer.h"
#include "worker/connectors/kafka/sink/kafka_sink.h"

// kafka.sink and its committer in a process of their own, for tests with a cluster in memory.
namespace weir {

inline const std::string kJob = "0123456789abcdef0123456789abcdef";
inline const std::string kIdentity = kJob + "-out-0";

inline Schema IdSchema() { return Schema({{"value", Type::kString}}); }

inline RecordBatch Rows(int64_t begin, int64_t end) {
  BatchBuilder builder(std::make_shared<Schema>(IdSchema()));
  for (int64_t id = begin; id < end; ++id) builder.column(0).AppendText(Concat(id));
  return builder.Finish();
}

inline Config SinkConfig() {
  return Config{{"brokers", "b:1"}, {"topic", "out"}, {"format", "raw"}};
}

inline std::vector<int64_t> Ids(const FakeKafka& kafka) {
  std::vector<int64_t> ids;
  for (const auto& partition : kafka.Visible()) {
    for (const FakeKafka::Row& row : partition) ids.push_back(std::stoll(*row.value));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

struct KafkaOfProcess {
  FakeKafkaClients clients;
};

// kafka.sink and its committer; `clients` are its border to the cluster.
class Process : public KafkaOfProcess, public SinkProcess {
 public:
  Process(FakeKafka& kafka, uint64_t generation,
          std::shared_ptr<MemoryFileSystem::Disk> disk = nullptr,
          const Config& config = SinkConfig())
      : KafkaOfProcess{FakeKafkaClients(kafka)},
        SinkProcess(std::make_unique<KafkaSink>(clients), std::make_unique<KafkaCommitter>(clients),
                    config, IdSchema(), generation, std::move(disk)) {
    answers = false;
  }
};

}  // namespace weir
