// Bytes as a checkpoint manifest, job record or entry of the completion log: an error, or what
// encodes to something that reads as the same. Mostly behind a checksum that holds, which no fuzzer
// would find.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string>

#include "common/base/check.h"
#include "common/checkpoint/manifest_codec.h"
#include "tests/fuzz/fuzz_input.h"

namespace weir {
namespace {

// The envelope of manifest_codec.cc around the proto.
std::string Seal(std::string_view magic, std::string_view proto) {
  std::string bytes(magic);
  bytes += std::string_view("\1\0\0\0", 4);
  bytes += proto;
  uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(checksum >> (8 * i)));
  return bytes;
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  fuzz::Input input(data, size);
  const uint8_t kind = input.TakeByte();
  const bool raw = kind % 8 == 7;
  switch (kind % 3) {
    case 0: {
      const std::string bytes = raw ? std::string(input.rest()) : Seal("weirCHKP", input.rest());
      StatusOr<CheckpointManifest> manifest = DecodeManifest(bytes);
      if (manifest.ok()) {
        const std::string encoded = EncodeManifest(*manifest);
        StatusOr<CheckpointManifest> again = DecodeManifest(encoded);
        WEIR_CHECK(again.ok() && EncodeManifest(*again) == encoded);
      }
      break;
    }
    case 1: {
      const std::string bytes = raw ? std::string(input.rest()) : Seal("weirJOBR", input.rest());
      StatusOr<JobRecord> record = DecodeJobRecord(bytes);
      if (record.ok()) {
        const std::string encoded = EncodeJobRecord(*record);
        StatusOr<JobRecord> again = DecodeJobRecord(encoded);
        WEIR_CHECK(again.ok() && EncodeJobRecord(*again) == encoded);
      }
      break;
    }
    default: {
      const std::string bytes = raw ? std::string(input.rest()) : Seal("weirCLOG", input.rest());
      StatusOr<LogEntry> entry = DecodeLogEntry(bytes);
      if (entry.ok()) {
        StatusOr<LogEntry> again = DecodeLogEntry(EncodeLogEntry(*entry));
        WEIR_CHECK(again.ok() && *again == *entry);
      }
    }
  }
  return 0;
}
