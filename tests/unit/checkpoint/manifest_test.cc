// Goal: a directory of a checkpoint has exactly one name, and no other name is taken for one: what
// is taken for one may be deleted. Method: design.md's example and names that are nearly one.

#include "common/checkpoint/manifest.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(ManifestTest, DirectoryNameSaysCheckpointAndGeneration) {
  EXPECT_EQ(CheckpointDirectoryName(CheckpointId(17), Generation(6)), "chk-17.6");
  CheckpointId checkpoint;
  Generation generation;
  ASSERT_TRUE(ParseCheckpointDirectoryName("chk-17.6", &checkpoint, &generation));
  EXPECT_EQ(checkpoint, CheckpointId(17));
  EXPECT_EQ(generation, Generation(6));
  ASSERT_TRUE(ParseCheckpointDirectoryName("chk-18446744073709551615.1", &checkpoint, &generation));
  EXPECT_EQ(checkpoint.value(), UINT64_MAX);
}

TEST(ManifestTest, NoOtherNameIsADirectoryOfACheckpoint) {
  for (const char* name : {"",           "chk-",      "chk-17",
                           "chk-17.",    "chk-.6",    "chk-17.6.",
                           "chk-17.6.1", "chk-017.6", "chk-0.6",
                           "chk-17.06",  "chk-17.0",  "chk-17.-6",
                           "chk-+17.6",  "chk-17.6 ", " chk-17.6",
                           "chk-17,6",   "CHK-17.6",  "chk-18446744073709551616.1",
                           "chk-17.6/x", "chk-17.6x", "savepoint-17.6"}) {
    CheckpointId checkpoint(1);
    Generation generation(2);
    EXPECT_FALSE(ParseCheckpointDirectoryName(name, &checkpoint, &generation)) << name;
    EXPECT_EQ(checkpoint, CheckpointId(1)) << name;
    EXPECT_EQ(generation, Generation(2)) << name;
  }
}

TEST(ManifestTest, StateBytesAreThoseOfAllHandles) {
  CheckpointManifest manifest;
  EXPECT_EQ(manifest.StateBytes(), 0);
  manifest.snapshots = {
      {"in", 0, {{StateKind::kPositions, "a", 40, 1, {}}}, {}},
      {"count",
       0,
       {{StateKind::kKeyed, "b", 100, 2, {}}, {StateKind::kKeyed, "c", 1'000, 3, {}}},
       {}}};
  EXPECT_EQ(manifest.StateBytes(), 1'140);
}

}  // namespace
}  // namespace weir
