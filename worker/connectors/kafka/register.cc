#include "worker/connectors/kafka/register.h"

#include <memory>
#include <string>
#include <utility>

#include "common/graph/kafka_configs.h"
#include "worker/connectors/files/files_committer.h"
#include "worker/connectors/kafka/sink/kafka_committer.h"
#include "worker/connectors/kafka/sink/kafka_sink.h"
#include "worker/connectors/kafka/source/kafka_source.h"

namespace weir {
namespace {

StatusOr<std::string> DeadLetterDirectory(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(KafkaSourceConfig parsed, ParseKafkaSourceConfig(config));
  return std::move(parsed.dead_letter_path);
}

}  // namespace

void RegisterKafkaConnector(Registry& registry, KafkaConsumers& consumers, KafkaClients& clients) {
  registry.AddSource(
      "kafka.source", [&consumers] { return std::make_unique<KafkaSource>(consumers); },
      [] { return std::make_unique<FilesCommitter>("kafka.source", DeadLetterDirectory); });
  registry.AddSink("kafka.sink",
                   {.sink = [&clients] { return std::make_unique<KafkaSink>(clients); },
                    .committer = [&clients] { return std::make_unique<KafkaCommitter>(clients); }});
}

}  // namespace weir
