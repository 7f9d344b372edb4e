// Bytes as blocks of Kafka records, and as the records of one block whatever its checksum says:
// what is read comes out the same when it is written again and read once more.
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/connectors/kafka/kafka_records.h"

namespace weir {
namespace {

// A text of all that is seen, and the records written again.
std::string Read(const KafkaBlock& block, std::string* again) {
  std::string seen;
  KafkaRecordReader records(block);
  KafkaRecordView record;
  KafkaBlockWriter writer;
  writer.Begin(block.partition, again);
  auto note = [&](const std::optional<std::string_view>& bytes) {
    seen += bytes.has_value() ? std::to_string(bytes->size()) + ' ' + std::string(*bytes) : "null";
    seen += '\n';
  };
  while (records.Next(&record)) {
    writer.Add(record);
    seen += std::to_string(record.timestamp_ms) + '\n';
    note(record.key);
    note(record.value);
    for (const KafkaHeaderView& header : record.headers) {
      note(header.name);
      note(header.value);
    }
  }
  writer.End();
  if (!records.status().ok()) again->clear();
  return seen;
}

void ReadBlocks(std::string_view bytes) {
  KafkaBlockReader blocks(bytes);
  KafkaBlock block;
  while (true) {
    StatusOr<bool> more = blocks.Next(&block);
    if (!more.ok() || !*more) break;
    std::string again;
    Read(block, &again);
  }
  WEIR_CHECK(blocks.used() <= bytes.size());
}

void ReadRecords(uint32_t rows, std::string_view bytes) {
  KafkaBlock block{.partition = 3, .rows = rows, .base_ms = 1'000, .records = bytes};
  std::string again;
  const std::string seen = Read(block, &again);
  if (again.empty()) return;
  KafkaBlockReader blocks(again);
  KafkaBlock written;
  std::string seen_again;
  while (true) {
    StatusOr<bool> more = blocks.Next(&written);
    WEIR_CHECK(more.ok());
    if (!*more) break;
    std::string unused;
    seen_again += Read(written, &unused);
  }
  WEIR_CHECK(blocks.used() == again.size());
  WEIR_CHECK(seen == seen_again);
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const uint32_t rows = input.TakeByte();
  weir::ReadRecords(rows, input.rest());
  weir::ReadBlocks(input.rest());
  return 0;
}
