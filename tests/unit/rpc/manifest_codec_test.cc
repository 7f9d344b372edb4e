// Goal: what was written to disk is read back exactly or refused, whatever became of its bytes.
// Method: round trips, one vector made by an independent script from the description of the format,
// and damage of every kind: each byte flipped, cut off, random bytes, random protos in a valid
// envelope. Seeds are fixed.

#include "common/checkpoint/manifest_codec.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>

#include "common/base/random.h"

namespace weir {
namespace {

CheckpointManifest MakeManifest() {
  CheckpointManifest manifest;
  manifest.job = JobId("3f2a9c01d4e5f60718293a4b5c6d7e8f");
  manifest.checkpoint = CheckpointId(17);
  manifest.generation = Generation(6);
  manifest.trigger_wall_us = 1'700'000'000'123'456;
  manifest.complete_wall_us = 1'700'000'000'164'456;
  manifest.operators = {{"flights", 2, 128}, {"per-carrier", 2, 128}};
  StateHandle positions{StateKind::kPositions, "chk-17.6/flights-0-1f", 40, 0xfedcba9876543210, {}};
  StateHandle keyed{
      StateKind::kKeyed, "chk-17.6/per-carrier-1-2e", 96, 7, {{64, 0, 32}, {65, 32, 64}}};
  Committable committable{
      "out", 1, Generation(6), CheckpointId(17), 3, std::string("\0\xff payload", 10)};
  manifest.snapshots = {{"flights", 0, {positions}, {}},
                        {"per-carrier", 1, {keyed}, {}},
                        {"out", 1, {}, {committable}}};
  return manifest;
}

JobRecord MakeJob() {
  JobRecord record;
  record.id = JobId("3f2a9c01d4e5f60718293a4b5c6d7e8f");
  record.graph.name = "flights";
  for (int i = 0; i < 20; ++i) record.graph.options["option-" + std::to_string(i)] = "value";
  record.graph.vertices.push_back({"in", "generator", Config({{"rows", int64_t{1} << 60}}), 2, 64,
                                   Schema({{"key", Type::kInt64}, {"text", Type::kString}})});
  record.graph.edges.push_back({"in", "out", Partitioning::kHash, {"key"}, 0});
  record.graph.library_sha256 = "ab12";
  record.restore_from = "/data/\xff/chk-3.1";
  record.submit_wall_us = 1'700'000'000'000'000;
  record.submit_digest = "cd34";
  return record;
}

LogEntry MakeEntry() {
  LogEntry entry;
  entry.kind = LogEntry::Kind::kCompleted;
  entry.token = "tok";
  entry.generation = Generation(6);
  entry.checkpoint = CheckpointId(17);
  entry.manifest_checksum = 0x0102030405060708;
  entry.wall_us = 1'000'000;
  return entry;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST(ManifestCodecTest, ManifestComesBackAsItWent) {
  StatusOr<CheckpointManifest> back = DecodeManifest(EncodeManifest(MakeManifest()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, MakeManifest());
}

TEST(ManifestCodecTest, JobRecordComesBackAsItWent) {
  StatusOr<JobRecord> back = DecodeJobRecord(EncodeJobRecord(MakeJob()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, MakeJob().id);
  EXPECT_EQ(ToJson(back->graph), ToJson(MakeJob().graph));
  EXPECT_EQ(back->graph.vertices[0].output_schema, MakeJob().graph.vertices[0].output_schema);
  EXPECT_EQ(back->graph.library_sha256, "ab12");
  EXPECT_EQ(back->restore_from, MakeJob().restore_from);
  EXPECT_EQ(back->submit_wall_us, MakeJob().submit_wall_us);
  EXPECT_EQ(back->submit_digest, "cd34");
}

TEST(ManifestCodecTest, EveryKindOfLogEntryComesBackAsItWent) {
  for (int kind = 0; kind <= static_cast<int>(LogEntry::Kind::kFinished); ++kind) {
    LogEntry entry = MakeEntry();
    entry.kind = static_cast<LogEntry::Kind>(kind);
    entry.checkpoint_generation = Generation(5);
    entry.reason = "operator 'out': disk full";
    StatusOr<LogEntry> back = DecodeLogEntry(EncodeLogEntry(entry));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, entry);
  }
}

// The vector: Python's struct, varints by hand and libxxhash, from the description in the source.
TEST(ManifestCodecTest, BytesOnDiskAreTheContract) {
  std::string expected = FromHex(
      "77656972434c4f470100000008031203746f6b18062011310807060504030201"
      "40c0843d3c3ebd07242e0477");
  EXPECT_EQ(EncodeLogEntry(MakeEntry()), expected);
  StatusOr<LogEntry> entry = DecodeLogEntry(expected);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(*entry, MakeEntry());
}

TEST(ManifestCodecTest, TheSameValueGivesTheSameBytes) {
  EXPECT_EQ(EncodeJobRecord(MakeJob()), EncodeJobRecord(MakeJob()));
}

TEST(ManifestCodecTest, EveryFlippedByteIsNoticed) {
  std::string bytes = EncodeManifest(MakeManifest());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x10;
    EXPECT_EQ(DecodeManifest(damaged).status().code(), StatusCode::kDataLoss) << "byte " << i;
  }
}

TEST(ManifestCodecTest, EveryTruncationAndExtensionIsNoticed) {
  std::string bytes = EncodeManifest(MakeManifest());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeManifest(bytes.substr(0, length)).status().code(), StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeManifest(bytes + '\0').status().code(), StatusCode::kDataLoss);
}

TEST(ManifestCodecTest, OneKindOfFileIsNotTakenForAnother) {
  EXPECT_FALSE(DecodeManifest(EncodeLogEntry(MakeEntry())).ok());
  EXPECT_FALSE(DecodeLogEntry(EncodeJobRecord(MakeJob())).ok());
  EXPECT_FALSE(DecodeJobRecord(EncodeManifest(MakeManifest())).ok());
}

// `payload` in an envelope whose magic, version and checksum hold.
std::string InEnvelope(std::string_view like, std::string_view payload, char version = 1) {
  std::string bytes(like.substr(0, 8));
  bytes += std::string{version, 0, 0, 0};
  bytes += payload;
  uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(checksum >> (8 * i));
  return bytes;
}

TEST(ManifestCodecTest, AnotherVersionIsNamed) {
  std::string like = EncodeManifest(MakeManifest());
  Status status = DecodeManifest(InEnvelope(like, "", /*version=*/2)).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("version 2"), std::string::npos) << status;
}

TEST(ManifestCodecTest, HostileBytesAreRefusedOrHarmless) {
  const std::string manifest = EncodeManifest(MakeManifest());
  const std::string job = EncodeJobRecord(MakeJob());
  const std::string entry = EncodeLogEntry(MakeEntry());
  Random random(20231115);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    // Half of them noise, half a valid proto with a few bytes changed; all with a valid checksum.
    for (const std::string& like : {manifest, job, entry}) {
      std::string payload = like.substr(12, like.size() - 20);
      if (round % 2 == 0) {
        for (char& c : payload) c = static_cast<char>(random.Next64());
        payload.resize(random.Below(payload.size() + 1));
      } else {
        for (int i = 0; i < 3; ++i) {
          payload[random.Below(payload.size())] = static_cast<char>(random.Next64());
        }
      }
      std::string bytes = InEnvelope(like, payload);
      Status status = like == manifest ? DecodeManifest(bytes).status()
                      : like == job    ? DecodeJobRecord(bytes).status()
                                       : DecodeLogEntry(bytes).status();
      if (status.ok()) continue;  // still a valid value: only the checksum could have told
      ++refused;
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace weir
