// A checker that never finds anything proves nothing. Each test plants one bug in the running code,
// at the place that PlantedBug marks, and requires that some seed of the first 2,000 fails by it.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/sim/simulation.h"

namespace weir::sim {
namespace {

constexpr uint64_t kSeedsMax = 2'000;

// The first seed that fails, and how; 0: none.
uint64_t FirstCaught(const std::string& bug, std::string* violation) {
  Simulation::Plant(bug);
  uint64_t caught = 0;
  for (uint64_t seed = 1; seed <= kSeedsMax && caught == 0; ++seed) {
    Simulation simulation(DrawWorld(seed));
    Outcome outcome = simulation.Run();
    if (outcome.ok()) continue;
    caught = seed;
    *violation = outcome.violation;
  }
  Simulation::Plant("");
  return caught;
}

class CanaryTest : public testing::TestWithParam<const char*> {};

TEST_P(CanaryTest, IsCaught) {
  std::string violation;
  const uint64_t seed = FirstCaught(GetParam(), &violation);
  EXPECT_GT(seed, 0u) << GetParam() << " survived " << kSeedsMax << " seeds";
  std::printf("%s: seed %llu: %s\n", GetParam(), static_cast<unsigned long long>(seed),
              violation.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    , CanaryTest,
    testing::Values("no_seal",            // a leader does not seal its predecessor's term
                    "early_manifest",     // a manifest is written before the last ack
                    "early_rename",       // a sink publishes before the checkpoint completed
                    "unblocked_channel",  // rows behind a barrier pass a blocked channel
                    "lost_offset",        // a source forgets where one of its files was read up to
                    "forgotten_commit",   // settling leaves out one listed file
                    "undurable_seal",     // a sink acknowledges rows that are not durable
                    // an instance goes on after an answer was lost, and a late EndTxn finds it
                    "no_new_instance_after_disturbed"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weir::sim
