#include "common/checkpoint/manifest_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <xxhash.h>

#include <cstdint>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/rpc/proto_convert.h"

// The envelope of every proto on disk:
//   8 bytes   magic, says what the file is
//   4 bytes   version of the envelope, little endian
//   n bytes   the proto
//   8 bytes   XXH3, 64 bits, seed 0, of all bytes before, little endian
namespace weir {
namespace {

constexpr std::string_view kManifestMagic = "weirCHKP";
constexpr std::string_view kJobMagic = "weirJOBR";
constexpr std::string_view kLogMagic = "weirCLOG";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kChecksumBytes = 8;

template <typename T>
void AppendLittleEndian(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) *out += static_cast<char>(value >> (8 * i));
}

template <typename T>
T ReadLittleEndian(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

template <typename Proto, typename Domain>
std::string Encode(std::string_view magic, const Domain& domain) {
  Proto proto;
  ToProto(domain, &proto);
  std::string out(magic);
  AppendLittleEndian(kVersion, &out);
  {
    // Deterministic: writing the same value again gives the same bytes, whatever the process.
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    WEIR_CHECK(proto.SerializeToCodedStream(&coded));
  }
  AppendLittleEndian<uint64_t>(XXH3_64bits(out.data(), out.size()), &out);
  return out;
}

template <typename Proto, typename Domain>
StatusOr<Domain> Decode(std::string_view magic, std::string_view what, std::string_view bytes) {
  auto damaged = [&](std::string_view why) {
    return DataLossError(Concat(what, " is damaged: ", why)).WithRetry(false);
  };
  if (bytes.size() < kHeaderBytes + kChecksumBytes || bytes.size() > INT32_MAX) {
    return damaged(Concat("it has ", bytes.size(), " bytes"));
  }
  if (!bytes.starts_with(magic)) return damaged(Concat("does not begin with ", magic));
  size_t covered = bytes.size() - kChecksumBytes;
  uint64_t written = ReadLittleEndian<uint64_t>(bytes.substr(covered));
  if (uint64_t found = XXH3_64bits(bytes.data(), covered); found != written) {
    return damaged(Concat("its checksum does not hold: the ", bytes.size(), " bytes end with ",
                          written, ", their checksum is ", found));
  }
  uint32_t version = ReadLittleEndian<uint32_t>(bytes.substr(magic.size()));
  if (version != kVersion) {
    return damaged(Concat("version ", version, " is not known, only ", kVersion));
  }
  google::protobuf::LogSilencer silencer;  // the error says it all
  Proto proto;
  if (!proto.ParseFromArray(bytes.data() + kHeaderBytes,
                            static_cast<int>(covered - kHeaderBytes))) {
    return damaged("no valid protobuf");
  }
  Domain domain;
  if (Status status = FromProto(proto, &domain); !status.ok()) return damaged(status.message());
  return domain;
}

}  // namespace

std::string EncodeManifest(const CheckpointManifest& manifest) {
  return Encode<v1::CheckpointManifest>(kManifestMagic, manifest);
}

StatusOr<CheckpointManifest> DecodeManifest(std::string_view bytes) {
  return Decode<v1::CheckpointManifest, CheckpointManifest>(kManifestMagic, "checkpoint manifest",
                                                            bytes);
}

std::string EncodeJobRecord(const JobRecord& record) {
  return Encode<v1::JobRecord>(kJobMagic, record);
}

StatusOr<JobRecord> DecodeJobRecord(std::string_view bytes) {
  return Decode<v1::JobRecord, JobRecord>(kJobMagic, "job record", bytes);
}

std::string EncodeLogEntry(const LogEntry& entry) { return Encode<v1::LogEntry>(kLogMagic, entry); }

StatusOr<LogEntry> DecodeLogEntry(std::string_view bytes) {
  return Decode<v1::LogEntry, LogEntry>(kLogMagic, "completion log entry", bytes);
}

}  // namespace weir
