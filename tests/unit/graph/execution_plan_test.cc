// Goal: chains form exactly where both ends have no other edge and equal parallelism; order and
// indices are those of the contract. Method: small graphs whose plan is worked out by hand.
#include "common/graph/execution_plan.h"

#include <gtest/gtest.h>

#include "common/graph/validate.h"

namespace weir {
namespace {

JobVertex Vertex(std::string uid, std::string type, Config config = {}, int parallelism = 0) {
  JobVertex vertex;
  vertex.uid = std::move(uid);
  vertex.type = std::move(type);
  vertex.config = std::move(config);
  vertex.parallelism = parallelism;
  return vertex;
}

JobEdge Edge(std::string from, std::string to, int input = 0) {
  JobEdge edge;
  edge.from = std::move(from);
  edge.to = std::move(to);
  edge.input = input;
  return edge;
}

Config Aggregates() {
  return {{"keys", ConfigList{"key"}},
          {"aggregates", ConfigList{ConfigMembers{{"function", "count"}, {"as", "n"}}}}};
}

ExecutionPlan PlanOf(JobGraph graph, JobGraph* completed = nullptr) {
  StatusOr<Validated> validated = Validate(std::move(graph));
  EXPECT_TRUE(validated.ok()) << validated.status();
  if (!validated.ok()) return {};
  EXPECT_TRUE(validated->complete);
  if (completed != nullptr) *completed = validated->graph;
  return MakeExecutionPlan(validated->graph, validated->options);
}

TEST(ExecutionPlanTest, ChainsForwardAndCutsAtHash) {
  JobGraph graph;
  graph.options["parallelism"] = "3";
  // Written against the direction of the rows: the order of tasks is topological all the same.
  graph.vertices = {Vertex("sink", "blackhole"), Vertex("counts", "aggregate", Aggregates()),
                    Vertex("big", "filter", {{"expression", "value > 0.5"}}),
                    Vertex("gen", "generator")};
  graph.edges = {Edge("counts", "sink"), Edge("big", "counts"), Edge("gen", "big")};
  JobGraph completed;
  const ExecutionPlan plan = PlanOf(graph, &completed);

  ASSERT_EQ(plan.tasks.size(), 2u);
  EXPECT_EQ(plan.tasks[0].chain, (std::vector<int>{3, 2}));
  EXPECT_EQ(plan.tasks[0].name, "gen -> big");
  EXPECT_EQ(plan.tasks[1].chain, (std::vector<int>{1, 0}));
  EXPECT_EQ(plan.tasks[1].parallelism, 3);
  EXPECT_EQ(plan.tasks[1].max_parallelism, 128);
  ASSERT_EQ(plan.edges.size(), 1u);
  EXPECT_EQ(plan.edges[0].from_task, 0);
  EXPECT_EQ(plan.edges[0].to_task, 1);
  EXPECT_EQ(plan.edges[0].partitioning, Partitioning::kHash);
  EXPECT_EQ(plan.edges[0].key_columns, std::vector<int>{1});
  EXPECT_EQ(plan.tasks[0].outputs, std::vector<int>{0});
  EXPECT_EQ(plan.tasks[1].inputs, std::vector<int>{0});
  EXPECT_EQ(plan.parallelism_max, 3);
  EXPECT_EQ(DescribePlan(completed, plan),
            "job: 2 tasks, 6 subtasks, needs 3 slots\n"
            "  gen -> big  (parallelism 3)\n"
            "    gen  generator  (seq INT64, key INT64, value FLOAT64)\n"
            "    big  filter  (seq INT64, key INT64, value FLOAT64)\n"
            "  counts -> sink  (parallelism 3)\n"
            "    <- big  HASH by key\n"
            "    counts  aggregate  (key INT64, n INT64)\n"
            "    sink  blackhole\n");
}

TEST(ExecutionPlanTest, AnotherParallelismOrASecondEdgeEndsTheChain) {
  JobGraph graph;
  graph.vertices = {Vertex("gen", "generator", {}, 2),
                    Vertex("narrow", "filter", {{"expression", "true"}}, 1),
                    Vertex("a", "blackhole", {}, 1), Vertex("b", "blackhole", {}, 1)};
  graph.edges = {Edge("gen", "narrow"), Edge("narrow", "a"), Edge("narrow", "b")};
  const ExecutionPlan plan = PlanOf(graph);
  ASSERT_EQ(plan.tasks.size(), 4u);
  EXPECT_EQ(plan.edges[0].partitioning, Partitioning::kRebalance);
  EXPECT_EQ(plan.edges[1].partitioning, Partitioning::kForward);
  EXPECT_EQ(plan.edges[2].partitioning, Partitioning::kForward);
  EXPECT_EQ(plan.tasks[1].outputs, (std::vector<int>{1, 2}));
  EXPECT_EQ(plan.parallelism_max, 2);
}

TEST(ExecutionPlanTest, OrdersInputsByTheirNumber) {
  JobGraph graph;
  graph.vertices = {Vertex("a", "generator"), Vertex("b", "generator"), Vertex("both", "union"),
                    Vertex("spread", "rebalance"), Vertex("out", "blackhole")};
  graph.edges = {Edge("a", "both", 1), Edge("b", "both", 0), Edge("both", "spread"),
                 Edge("spread", "out")};
  const ExecutionPlan plan = PlanOf(graph);
  ASSERT_EQ(plan.tasks.size(), 4u);
  EXPECT_EQ(plan.tasks[2].inputs, (std::vector<int>{1, 0}));
  EXPECT_EQ(plan.edges[0].input, 1);
  EXPECT_EQ(plan.tasks[3].name, "spread -> out");
  EXPECT_EQ(plan.edges[2].partitioning, Partitioning::kRebalance);
}

}  // namespace
}  // namespace weir
