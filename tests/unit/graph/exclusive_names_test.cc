// Goal: two live jobs never publish under the same transactional id, however prefix and uid are put
// together. Expected: the ids as docs and kafka's logs show them, <prefix>-<uid>-<subtask>.
#include <gtest/gtest.h>

#include "common/graph/kafka_types.h"
#include "common/graph/validate.h"

namespace weir {
namespace {

const JobId kJob(std::string(32, '1'));
const JobId kOther(std::string(32, '2'));

std::vector<ExclusiveName> Names(const std::string& prefix, const std::string& uid,
                                 const JobId& job = kJob, const std::string& delivery = "") {
  Config config;
  if (!prefix.empty()) config.Set("transactional_id_prefix", prefix);
  if (!delivery.empty()) config.Set("delivery", delivery);
  return TransactionalNames(config, job, uid);
}

TEST(ExclusiveNamesTest, PrefixesAndWholeIdsAreHeldByOneJob) {
  EXPECT_EQ(FindHeld(Names("", "out"), Names("", "out", kOther)), nullptr);
  const std::vector<ExclusiveName> billing = Names("billing", "out");
  const std::vector<ExclusiveName> also = Names("billing", "other", kOther);
  ASSERT_NE(FindHeld(billing, also), nullptr);
  EXPECT_EQ(FindHeld(billing, also)->name, "transactional_id_prefix 'billing'");
  // The default of one is what another one chose.
  EXPECT_NE(FindHeld(Names("", "out"), Names(kJob.value(), "x", kOther)), nullptr);
  // a-b-c-0 both.
  const std::vector<ExclusiveName> long_prefix = Names("a-b", "c");
  const std::vector<ExclusiveName> long_uid = Names("a", "b-c", kOther);
  ASSERT_NE(FindHeld(long_prefix, long_uid), nullptr);
  EXPECT_EQ(FindHeld(long_prefix, long_uid)->name, "transactional ids 'a-b-c-…'");
  EXPECT_EQ(FindHeld(Names("a-b", "c"), Names("a", "b", kOther)), nullptr);  // a-b-c-0, a-b-0
  EXPECT_EQ(FindHeld(Names("a", "b-1"), Names("a-b", "2", kOther)), nullptr);
  EXPECT_TRUE(Names("billing", "out", kJob, "at_least_once").empty());
}

TEST(ExclusiveNamesTest, SinksOfOneJobShareAPrefixAndNoIds) {
  JobGraph graph;
  auto add = [&](const std::string& uid, const std::string& prefix) {
    JobVertex vertex;
    vertex.uid = uid;
    vertex.type = "kafka.sink";
    vertex.config.Set("transactional_id_prefix", prefix);
    graph.vertices.push_back(vertex);
  };
  add("b-c", "a");
  add("d", "a");
  StatusOr<std::vector<ExclusiveName>> names = ExclusiveNamesOf(graph, kJob);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 3u);  // one prefix, two kinds of ids
  add("c", "a-b");
  names = ExclusiveNamesOf(graph, kJob);
  EXPECT_EQ(names.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(names.status().message(),
            "vertex 'c': another vertex of the job has the transactional ids 'a-b-c-…' as well: "
            "give one of them another uid or prefix");
}

}  // namespace
}  // namespace weir
