// The text of a marker, which clusters keep for later versions to read.

#include "worker/connectors/kafka/kafka_marker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(KafkaMarker, IsWrittenAndReadAsDocumented) {
  const KafkaMarker marker{.job = JobId("0123456789abcdef0123456789abcdef"),
                           .generation = Generation(12),
                           .checkpoint = CheckpointId(345),
                           .part = 2,
                           .parts = 3};
  const std::string text = "weir1 0123456789abcdef0123456789abcdef 12 2 3";
  EXPECT_EQ(MarkerMetadata(marker), text);
  StatusOr<KafkaMarker> read = ParseMarker(345, text);
  ASSERT_TRUE((read.status()).ok());
  EXPECT_EQ(*read, marker);
}

TEST(KafkaMarker, ThatItsJobIsDoneWithTheIdentityIsASecondVersion) {
  const KafkaMarker marker{.job = JobId("ab"),
                           .generation = Generation(1),
                           .checkpoint = CheckpointId(7),
                           .released = true};
  const std::string text = "weir2 ab 1 0 1 released";
  EXPECT_EQ(MarkerMetadata(marker), text);
  StatusOr<KafkaMarker> read = ParseMarker(7, text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, marker);
}

TEST(KafkaMarker, OthersAreRefusedAndShown) {
  for (const char* text :
       {"", "weir1", "weir2 ab 1 0 1", "weir1 ab 1 0", "weir1 ab 1 0 1 ", "weir1 ab 1 0 1 released",
        "weir2 ab 1 0 1 held", "weir2 released", "weir1 ab 1 1 1", "weir1 ab 1 -1 1",
        "weir1 ab x 0 1", "weir1  1 0 1", "weir1 ab 1 0 1x", "weir1 ab -1 0 1"}) {
    StatusOr<KafkaMarker> read = ParseMarker(1, text);
    EXPECT_EQ(read.status().domain(), ErrorDomain::kUser) << text;
    EXPECT_THAT(read.status().message(), ::testing::HasSubstr(std::string("'") + text + "'"));
  }
  EXPECT_FALSE(ParseMarker(-1, "weir1 ab 1 0 1").ok());
}

}  // namespace
}  // namespace weir
