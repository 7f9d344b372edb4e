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
  EXPECT_EQ(plan.edges[0].columns, std::vector<int>{1});
  EXPECT_EQ(plan.edges[0].schema->ToString(), "(key INT64)");
  EXPECT_EQ(plan.edges[0].key_columns, std::vector<int>{0});
  EXPECT_EQ(plan.tasks[0].outputs, std::vector<int>{0});
  EXPECT_EQ(plan.tasks[1].inputs, std::vector<int>{0});
  EXPECT_EQ(plan.parallelism_max, 3);
  EXPECT_EQ(DescribePlan(completed, plan),
            "job: 2 tasks, 6 subtasks, needs 3 slots\n"
            "  gen -> big  (parallelism 3)\n"
            "    gen  generator  (seq INT64, key INT64, value FLOAT64)\n"
            "    big  filter  (seq INT64, key INT64, value FLOAT64)\n"
            "  counts -> sink  (parallelism 3)\n"
            "    <- big  HASH by key  sends key\n"
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

// The columns that the one edge of generator -> `to` (parallelism 1 -> 2) sends.
std::string SentTo(JobVertex to, std::vector<std::string> hash_columns) {
  to.uid = "to";
  to.parallelism = 2;
  const bool sink = to.type == "blackhole";
  JobGraph graph;
  graph.vertices = {Vertex("gen", "generator", {{"payload_size", 10}}, 1), std::move(to)};
  graph.edges = {Edge("gen", "to")};
  if (!hash_columns.empty()) graph.edges[0].partitioning = Partitioning::kHash;
  graph.edges[0].columns = std::move(hash_columns);
  if (!sink) {
    graph.vertices.push_back(Vertex("out", "blackhole", {}, 2));
    graph.edges.push_back(Edge("to", "out"));
  }
  JobGraph completed;
  const ExecutionPlan plan = PlanOf(graph, &completed);
  EXPECT_EQ(plan.edges.size(), 1u);
  const ExecutionPlan::Edge& edge = plan.edges.at(0);
  for (size_t i = 0; i < edge.key_columns.size(); ++i) {
    EXPECT_EQ(edge.schema->field(edge.key_columns[i]).name, completed.edges[0].columns[i]);
  }
  EXPECT_EQ(edge.columns.size(), edge.columns.empty() ? 0u : edge.schema->fields().size());
  std::string sent;
  for (const Field& field : edge.schema->fields()) sent += field.name + " ";
  return sent;
}

TEST(ExecutionPlanTest, AnEdgeSendsTheColumnsThatItsReceiverReads) {
  auto members = [](const char* function, const char* column, const char* as) {
    return ConfigMembers{{"function", function}, {"column", column}, {"as", as}};
  };
  const auto aggregate = [](ConfigList keys, ConfigList keep, ConfigList aggregates) {
    return Vertex("", "aggregate",
                  {{"keys", std::move(keys)},
                   {"keep", std::move(keep)},
                   {"aggregates", std::move(aggregates)}});
  };
  EXPECT_EQ(SentTo(aggregate({"key"}, {}, {members("sum", "value", "s")}), {}), "key value ");
  EXPECT_EQ(SentTo(aggregate({"payload"}, {"seq"}, {members("max", "key", "k")}), {}),
            "seq key payload ");
  EXPECT_EQ(
      SentTo(aggregate({"payload", "key"}, {}, {members("max", "value", "v")}), {"payload", "key"}),
      "key value payload ");
  const auto project = [](ConfigList columns) {
    return Vertex("", "project", {{"columns", std::move(columns)}});
  };
  const ConfigMembers computed = {
      {"name", "p"}, {"expression", "case when seq > 3 then cast(value as STRING) else 'x' end"}};
  EXPECT_EQ(SentTo(project({computed}), {}), "seq value ");
  EXPECT_EQ(SentTo(project({"payload", computed}), {}), "seq value payload ");
  // The hash is computed by the sender, but state belongs to the columns that name the key.
  EXPECT_EQ(SentTo(project({"payload"}), {"key"}), "key payload ");
  // Rows without any column have no number.
  const ConfigMembers constant = {{"name", "one"}, {"expression", "1"}};
  EXPECT_EQ(SentTo(project({constant}), {}), "seq ");
  // Whoever passes rows on, or may look at all of them, gets them whole.
  const std::string all = "seq key value payload ";
  EXPECT_EQ(SentTo(project({"payload", "value", "key", "seq"}), {}), all);
  EXPECT_EQ(SentTo(Vertex("", "filter", {{"expression", "key = 1"}}), {}), all);
  EXPECT_EQ(SentTo(Vertex("", "rebalance"), {}), all);
  EXPECT_EQ(SentTo(Vertex("", "blackhole"), {"key"}), all);
}

TEST(ExecutionPlanTest, RowsForAChangedAggregateMayComeAsPartialRows) {
  const Config changed = {
      {"keys", ConfigList{"key"}},
      {"emit", "changed"},
      {"aggregates", ConfigList{ConfigMembers{{"function", "count"}, {"as", "n"}}}}};
  JobGraph graph;
  graph.options["parallelism"] = "2";
  graph.vertices = {Vertex("gen", "generator"), Vertex("counts", "aggregate", changed),
                    Vertex("out", "blackhole")};
  graph.edges = {Edge("gen", "counts"), Edge("counts", "out")};
  JobGraph completed;
  const ExecutionPlan plan = PlanOf(graph, &completed);
  ASSERT_EQ(plan.edges.size(), 1u);
  EXPECT_EQ(plan.edges[0].schema->ToString(), "(key INT64)");
  EXPECT_EQ(plan.edges[0].schema->rows_column(), -1);
  ASSERT_NE(plan.edges[0].partial_schema, nullptr);
  EXPECT_EQ(plan.edges[0].partial_schema->ToString(), "(key INT64, rows INT64)");
  EXPECT_EQ(plan.edges[0].partial_schema->rows_column(), 1);
  EXPECT_EQ(DescribePlan(completed, plan),
            "job: 2 tasks, 4 subtasks, needs 2 slots\n"
            "  gen  (parallelism 2)\n"
            "    gen  generator  (seq INT64, key INT64, value FLOAT64)\n"
            "  counts -> out  (parallelism 2)\n"
            "    <- gen  HASH by key  sends key or partial aggregates\n"
            "    counts  aggregate  (key INT64, n INT64)\n"
            "    out  blackhole\n");
}

TEST(ExecutionPlanTest, SumsOfFloat64AreAddedInTheOrderOfTheRows) {
  for (const auto& [function, column, partials] :
       {std::tuple("sum", "value", false), std::tuple("avg", "value", false),
        std::tuple("max", "value", true), std::tuple("sum", "seq", true),
        std::tuple("avg", "seq", true)}) {
    JobGraph graph;
    graph.vertices = {
        Vertex("gen", "generator"),
        Vertex("agg", "aggregate",
               {{"keys", ConfigList{"key"}},
                {"emit", "changed"},
                {"aggregates", ConfigList{ConfigMembers{
                                   {"function", function}, {"column", column}, {"as", "x"}}}}}),
        Vertex("out", "blackhole")};
    graph.edges = {Edge("gen", "agg"), Edge("agg", "out")};
    const ExecutionPlan plan = PlanOf(graph);
    EXPECT_EQ(plan.edges[0].partial_schema != nullptr, partials) << function << " " << column;
  }
}

TEST(ExecutionPlanTest, TypesOfJobLibrariesGetAllColumns) {
  TypeDescriptor own;
  own.type = "own";
  own.any_field = true;
  own.check = [](const Config&, const std::vector<Schema>& inputs) {
    return StatusOr<std::optional<Schema>>(inputs[0]);
  };
  JobGraph graph;
  graph.vertices = {Vertex("gen", "generator", {}, 1), Vertex("own", "own", {}, 2),
                    Vertex("out", "blackhole", {}, 2)};
  graph.edges = {Edge("gen", "own"), Edge("own", "out")};
  StatusOr<Validated> validated =
      Validate(graph, [&](const std::string& type) { return type == "own" ? &own : nullptr; });
  ASSERT_TRUE(validated.ok()) << validated.status();
  const ExecutionPlan plan = MakeExecutionPlan(validated->graph, validated->options);
  EXPECT_TRUE(plan.edges[0].columns.empty());
  EXPECT_EQ(plan.edges[0].schema->size(), 3);
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
