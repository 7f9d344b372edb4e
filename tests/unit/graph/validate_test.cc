// Goal: a good job is completed, and every kind of mistake is refused with place, value and what is
// valid. Method: one good job; each case breaks one thing and states the message by hand.
#include "common/graph/validate.h"

#include <gtest/gtest.h>

#include <functional>

namespace weir {
namespace {

JobVertex Vertex(std::string uid, std::string type, Config config = {}) {
  JobVertex vertex;
  vertex.uid = std::move(uid);
  vertex.type = std::move(type);
  vertex.config = std::move(config);
  return vertex;
}

JobEdge Edge(std::string from, std::string to, int input = 0) {
  JobEdge edge;
  edge.from = std::move(from);
  edge.to = std::move(to);
  edge.input = input;
  return edge;
}

Config SourceConfig() {
  return {{"path", "in/*.csv"},
          {"format", "csv"},
          {"schema", ConfigMembers{{"row_id", "INT64"},
                                   {"carrier", "STRING"},
                                   {"delay", "INT32"},
                                   {"ratio", "FLOAT64"},
                                   {"ok", "BOOL"},
                                   {"at", "TIMESTAMP"}}}};
}

Config AggregateConfigOf(std::string function, std::string column) {
  ConfigMembers aggregate = {{"function", function}, {"as", "x"}};
  if (!column.empty()) aggregate.emplace_back("column", column);
  return {{"keys", ConfigList{"carrier"}},
          {"keep", ConfigList{"row_id"}},
          {"aggregates", ConfigList{aggregate}}};
}

JobGraph Good() {
  JobGraph graph;
  graph.name = "good";
  graph.vertices = {Vertex("in", "files.source", SourceConfig()),
                    Vertex("agg", "aggregate", AggregateConfigOf("sum", "delay")),
                    Vertex("out", "files.sink", {{"path", "out"}, {"format", "json"}})};
  graph.edges = {Edge("in", "agg"), Edge("agg", "out")};
  return graph;
}

std::string ErrorOf(JobGraph graph) {
  StatusOr<Validated> validated = Validate(std::move(graph));
  if (validated.ok()) return "no error";
  EXPECT_EQ(validated.status().domain(), ErrorDomain::kUser);
  return validated.status().message();
}

std::string ErrorAfter(const std::function<void(JobGraph&)>& change) {
  JobGraph graph = Good();
  change(graph);
  return ErrorOf(std::move(graph));
}

std::string ErrorWith(std::string type, Config config) {
  return ErrorAfter([&](JobGraph& g) { g.vertices[1] = Vertex("agg", type, config); });
}

TEST(ValidateTest, CompletesAGoodJob) {
  StatusOr<Validated> validated = Validate(Good());
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_TRUE(validated->complete);
  const JobGraph& graph = validated->graph;
  EXPECT_EQ(graph.vertices[1].output_schema->ToString(), "(carrier STRING, row_id INT64, x INT64)");
  EXPECT_EQ(graph.vertices[2].output_schema, std::nullopt);
  EXPECT_EQ(graph.edges[0].partitioning, Partitioning::kHash);
  EXPECT_EQ(graph.edges[0].columns, std::vector<std::string>{"carrier"});
  EXPECT_EQ(graph.edges[1].partitioning, std::nullopt);
  // Doing it again changes nothing.
  EXPECT_EQ(Validate(graph)->graph, graph);
}

TEST(ValidateTest, GivesNamesToWhatHasNone) {
  JobGraph graph = Good();
  graph.name = "";
  graph.vertices[0].uid = "";
  graph.edges[0].from = "files.source-0";
  StatusOr<Validated> validated = Validate(graph);
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->graph.name, "job");
  EXPECT_EQ(validated->graph.vertices[0].uid, "files.source-0");
}

TEST(ValidateTest, ASourceWithoutSchemaLeavesTheRestOpen) {
  JobGraph graph = Good();
  graph.vertices[0].config = Config{{"path", "x"}, {"format", "csv"}};
  StatusOr<Validated> validated = Validate(graph);
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_FALSE(validated->complete);
  // A worker has looked: the schema is kept, and what follows is checked against it.
  validated->graph.vertices[0].output_schema = Schema({{"carrier", Type::kString}});
  EXPECT_EQ(ErrorOf(validated->graph).rfind("vertex 'agg' (aggregate): config field 'keep':", 0),
            0u)
      << ErrorOf(validated->graph);
}

TEST(ValidateTest, TypesOfLibrariesAreLookedUpOrLeftOpen) {
  JobGraph graph = Good();
  graph.vertices[1] = Vertex("agg", "worst_delay", {{"anything", 1}});
  graph.edges[0].partitioning = Partitioning::kHash;
  graph.edges[0].columns = {"carrier"};
  EXPECT_EQ(
      ErrorOf(graph).rfind("vertex 'agg': unknown type 'worst_delay': known are aggregate", 0), 0u);
  StatusOr<Validated> open = Validate(graph, {}, true);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_FALSE(open->complete);

  TypeDescriptor type;
  type.type = "worst_delay";
  type.any_field = true;
  type.check = [](const Config&, const std::vector<Schema>&) {
    return StatusOr<std::optional<Schema>>(std::optional<Schema>(Schema({{"w", Type::kInt64}})));
  };
  StatusOr<Validated> known =
      Validate(graph, [&](const std::string& name) { return name == type.type ? &type : nullptr; });
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_TRUE(known->complete);
  EXPECT_EQ(known->graph.vertices[1].output_schema->ToString(), "(w INT64)");
}

TEST(ValidateTest, RefusesNames) {
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) { g.name = "a/b"; }),
      "job name 'a/b' is no name: expected 1 to 64 letters, digits, '-', '_', '.', the first of "
      "them no '-' or '.'");
  // Files of such a job would be hidden, or look like options.
  EXPECT_NE(ErrorAfter([](JobGraph& g) { g.name = ".x"; }), "no error");
  EXPECT_NE(ErrorAfter([](JobGraph& g) { g.vertices[1].uid = "-x"; }), "no error");
  EXPECT_NE(ErrorAfter([](JobGraph& g) { g.name = std::string(65, 'a'); }), "no error");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.name = std::string(64, 'a'); }), "no error");
  EXPECT_NE(ErrorAfter([](JobGraph& g) { g.name = ".."; }), "no error");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[1].uid = "out"; }),
            "vertices[2]: uid 'out' is there twice: expected a name of its own");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[1].type = "agregate"; }),
            "vertex 'agg': unknown type 'agregate': did you mean 'aggregate'?");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges[0].from = "inn"; }),
            "edges[0].from: there is no vertex 'inn': did you mean 'in'?");
}

TEST(ValidateTest, RefusesConfigFields) {
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("rat", 5); }),
            "vertex 'in' (files.source): unknown config field 'rat': did you mean 'rate'?");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("rate", "fast"); }),
            "vertex 'in' (files.source): config field 'rate' is 'fast' (a text): expected a number "
            "(rows per second of the whole source; absent: as fast as it goes)");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("rate", 0); }),
      "vertex 'in' (files.source): config field 'rate' is '0' (an integer): expected a number "
      "of rows per second above 0");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("bad_data", "letter"); }),
      "vertex 'in' (files.source): config field 'bad_data' is 'letter' (a text): expected fail, "
      "drop or dead_letter");
  // Whoever says so, the dead letters need a place; one that is not needed does no harm.
  const std::string no_place =
      "vertex 'in' (files.source): config field 'dead_letter_path' is missing: bad_data is "
      "dead_letter, which needs a directory to put such rows into";
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("bad_data", "dead_letter"); }),
            no_place);
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.options["bad_data"] = "dead_letter"; }), no_place);
  EXPECT_EQ(ErrorAfter([](JobGraph& g) {
              g.options["bad_data"] = "dead_letter";
              g.vertices[0].config.Set("bad_data", "drop");
            }),
            "no error");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) {
              g.options["bad_data"] = "dead_letter";
              g.vertices[0].config.Set("dead_letter_path", "/dead");
            }),
            "no error");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[0].config.Set("dead_letter_path", ""); }),
            "vertex 'in' (files.source): config field 'dead_letter_path' is '' (a text): expected "
            "a directory");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) { g.vertices[2].config = Config{{"format", "json"}}; }),
      "vertex 'out' (files.sink): config field 'path' is missing: expected a text (directory, "
      "made if it is not there)");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[2].config.Set("format", "xml"); }),
            "vertex 'out' (files.sink): config field 'format' is 'xml' (a text): expected csv or "
            "json");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[2].config.Set("header", true); }),
            "vertex 'out' (files.sink): config field 'header' is 'true' (a bool): expected no such "
            "field with the format json");
  EXPECT_NE(ErrorAfter([](JobGraph& g) { g.vertices[2].config.Set("part_size_max", "0"); }),
            "no error");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) {
        g.vertices[0].config.Set("schema", ConfigMembers{{"a", "INT46"}});
      }).rfind("vertex 'in' (files.source): config field 'schema'.a: unknown type 'INT46'", 0),
      0u);
}

TEST(ValidateTest, RefusesShapes) {
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges.pop_back(); }),
            "vertex 'agg' (aggregate) has no edge out of it: its rows need a sink, for example "
            "blackhole");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges.erase(g.edges.begin()); }),
            "vertex 'in' (files.source) has no edge out of it: its rows need a sink, for example "
            "blackhole");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges.push_back(Edge("out", "agg")); }),
            "edge 'out' -> 'agg': 'out' is a sink (files.sink): nothing can follow it");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges.push_back(Edge("agg", "in")); }),
            "edge 'agg' -> 'in': 'in' is a source (files.source): it takes no input");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) { g.edges.push_back(Edge("in", "out")); }),
      "vertex 'out' (files.sink) has 2 edges into it: expected 1; a union makes one stream of "
      "several");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges[1].input = 1; }),
            "edge 'agg' -> 'out': input is 1: the edges into 'out' need the inputs 0 ... 0, each "
            "once");
  EXPECT_EQ(ErrorOf(JobGraph()), "the job has no vertices: expected a source and a sink at least");
}

TEST(ValidateTest, NamesTheCycle) {
  JobGraph graph = Good();
  graph.vertices.push_back(Vertex("u", "union"));
  graph.vertices.push_back(Vertex("f", "filter", {{"expression", "true"}}));
  graph.vertices.push_back(Vertex("g", "filter", {{"expression", "true"}}));
  graph.edges = {Edge("in", "u", 0), Edge("u", "f"),   Edge("f", "g"),
                 Edge("g", "u", 1),  Edge("g", "agg"), Edge("agg", "out")};
  EXPECT_EQ(
      ErrorOf(graph),
      "the job has the cycle u -> f -> g -> u: rows must flow one way, from sources to sinks");
}

TEST(ValidateTest, RefusesPartitionings) {
  auto with = [](Partitioning partitioning, std::vector<std::string> columns) {
    return ErrorAfter([&](JobGraph& g) {
      g.edges[0].partitioning = partitioning;
      g.edges[0].columns = columns;
    });
  };
  EXPECT_EQ(with(Partitioning::kForward, {}),
            "edge 'in' -> 'agg': partitioning is FORWARD: 'agg' keeps state by carrier and needs "
            "HASH by exactly these");
  EXPECT_EQ(with(Partitioning::kHash, {"carrier", "row_id"}),
            "edge 'in' -> 'agg': partitioning is HASH by carrier, row_id: 'agg' keeps state by "
            "carrier and needs HASH by exactly these");
  EXPECT_EQ(with(Partitioning::kRebalance, {"carrier"}),
            "edge 'in' -> 'agg': columns are carrier with REBALANCE: only HASH takes columns");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges[0].columns = {"carrier"}; }),
            "edge 'in' -> 'agg': columns are carrier without a partitioning: expected HASH with "
            "them");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.edges[1].partitioning = Partitioning::kHash; }),
            "edge 'agg' -> 'out': partitioning is HASH without columns: expected the key columns");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) {
              g.edges[1].partitioning = Partitioning::kHash;
              g.edges[1].columns = {"carier"};
            }).rfind("edge 'agg' -> 'out': columns[0]: ", 0),
            0u);
  EXPECT_EQ(ErrorAfter([](JobGraph& g) {
              g.edges[1].partitioning = Partitioning::kForward;
              g.vertices[2].parallelism = 2;
            }),
            "edge 'agg' -> 'out': partitioning is FORWARD from parallelism 1 to 2: FORWARD needs "
            "equal ones, else REBALANCE");
  // Any order of the keys is the same set, and becomes that of the vertex.
  JobGraph graph = Good();
  graph.vertices[1].config.Set("keys", ConfigList{"carrier", "delay"});
  graph.edges[0].partitioning = Partitioning::kHash;
  graph.edges[0].columns = {"delay", "carrier"};
  StatusOr<Validated> validated = Validate(graph);
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->graph.edges[0].columns, (std::vector<std::string>{"carrier", "delay"}));
}

TEST(ValidateTest, RefusesParallelism) {
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.vertices[1].parallelism = 129; }),
            "vertex 'agg': parallelism is 129: expected 1 ... max_parallelism, which is 128");
  EXPECT_EQ(
      ErrorAfter([](JobGraph& g) {
        g.options["parallelism"] = "4";
        g.vertices[1].max_parallelism = 2;
      }),
      "vertex 'agg': parallelism is 4 (the job's): expected 1 ... max_parallelism, which is 2");
  EXPECT_EQ(ErrorAfter([](JobGraph& g) { g.options["paralellism"] = "4"; }),
            "unknown option 'paralellism' (value '4'): did you mean 'parallelism'?");
}

TEST(ValidateTest, AggregateTypes) {
  auto type_of = [](std::string function, std::string column) -> std::string {
    JobGraph graph = Good();
    graph.vertices[1].config = AggregateConfigOf(function, column);
    StatusOr<Validated> validated = Validate(graph);
    if (!validated.ok()) return validated.status().message();
    return std::string(ToString(validated->graph.vertices[1].output_schema->field(2).type));
  };
  EXPECT_EQ(type_of("count", ""), "INT64");
  EXPECT_EQ(type_of("count", "ok"), "INT64");
  EXPECT_EQ(type_of("sum", "delay"), "INT64");
  EXPECT_EQ(type_of("sum", "ratio"), "FLOAT64");
  EXPECT_EQ(type_of("avg", "delay"), "FLOAT64");
  EXPECT_EQ(type_of("min", "delay"), "INT32");
  EXPECT_EQ(type_of("max", "carrier"), "STRING");
  EXPECT_EQ(type_of("max", "at"), "TIMESTAMP");
  EXPECT_EQ(
      type_of("min", "ok"),
      "vertex 'agg' (aggregate): config field 'aggregates[0].column' is 'ok' (BOOL): min takes "
      "INT32, INT64, FLOAT64, STRING or TIMESTAMP");
  EXPECT_EQ(type_of("sum", "carrier"),
            "vertex 'agg' (aggregate): config field 'aggregates[0].column' is 'carrier' (STRING): "
            "sum takes INT32, INT64 or FLOAT64");
  EXPECT_EQ(type_of("sums", "delay"),
            "vertex 'agg' (aggregate): config field 'aggregates[0].function' is 'sums': expected "
            "count, sum, min, max or avg; did you mean 'sum'?");
  EXPECT_EQ(type_of("sum", ""),
            "vertex 'agg' (aggregate): config field 'aggregates[0].column' is missing: expected a "
            "text");
}

TEST(ValidateTest, RefusesAggregateConfigs) {
  auto error_with = [](std::string field, ConfigValue value) {
    return ErrorAfter([&](JobGraph& g) { g.vertices[1].config.Set(field, value); });
  };
  EXPECT_EQ(error_with("emit", "changed"),
            "vertex 'agg' (aggregate): config field 'keep' is '[\"row_id\"]' (a list): expected no "
            "such field with \"emit\": \"changed\"");
  EXPECT_NE(error_with("emit", "never"), "no error");
  EXPECT_NE(error_with("keys", ConfigList{}), "no error");
  EXPECT_NE(error_with("keys", ConfigList{"carrier", "carrier"}), "no error");
  EXPECT_NE(error_with("keep", ConfigList{"carrier"}), "no error");  // the name twice
  EXPECT_NE(error_with("aggregates", ConfigList{}), "no error");
  EXPECT_EQ(error_with("aggregates", ConfigList{ConfigMembers{{"function", "count"}, {"az", "n"}}}),
            "vertex 'agg' (aggregate): config field 'aggregates[0]' has an unknown field 'az': did "
            "you mean 'as'?");
}

TEST(ValidateTest, ChecksFilterAndProject) {
  EXPECT_EQ(ErrorWith("filter", {{"expression", "delay > 5"}}), "no error");
  EXPECT_EQ(
      ErrorWith("filter", {{"expression", "delay + 5"}}),
      "vertex 'agg' (filter): config field 'expression' is 'delay + 5' of type INT64: expected "
      "BOOL");
  EXPECT_EQ(ErrorWith("filter", {{"expression", "dely > 5"}})
                .rfind("vertex 'agg' (filter): config field 'expression': expression 'dely > 5' at "
                       "column 1: ",
                       0),
            0u);
  EXPECT_EQ(
      ErrorWith("project",
                {{"columns", ConfigList{"carrier", ConfigMembers{{"name", "late"},
                                                                 {"expression", "delay > 0"}}}}}),
      "no error");
  EXPECT_NE(ErrorWith("project", {{"columns", ConfigList{"carrier", "carrier"}}}), "no error");
  EXPECT_NE(ErrorWith("project", {{"columns", ConfigList{5}}}), "no error");
  EXPECT_NE(ErrorWith("project", {{"columns", ConfigList{}}}), "no error");
}

TEST(ValidateTest, ChecksUnionAndGenerator) {
  JobGraph graph;
  graph.vertices = {Vertex("a", "generator"), Vertex("b", "generator", {{"payload_size", 10}}),
                    Vertex("u", "union"), Vertex("out", "blackhole")};
  graph.edges = {Edge("a", "u", 0), Edge("b", "u", 1), Edge("u", "out")};
  EXPECT_EQ(ErrorOf(graph),
            "vertex 'u' (union): input 1 has the columns (seq INT64, key INT64, value FLOAT64, "
            "payload STRING): expected those of input 0, (seq INT64, key INT64, value FLOAT64)");
  graph.vertices[1].config = Config{{"distribution", "zip"}};
  EXPECT_EQ(
      ErrorOf(graph),
      "vertex 'b' (generator): config field 'distribution' is 'zip' (a text): expected uniform, "
      "zipf or hot");
  for (auto [field, value] : std::vector<std::pair<std::string, ConfigValue>>{{"splits", 0},
                                                                              {"keys", 0},
                                                                              {"rows", -1},
                                                                              {"hot_fraction", 1.5},
                                                                              {"zipf_exponent", 0},
                                                                              {"payload_size", -1},
                                                                              {"rate", -2.0}}) {
    graph.vertices[1].config = Config{{field, value}};
    EXPECT_NE(ErrorOf(graph), "no error") << field;
  }
  graph.vertices[1].config = Config{{"due_time", true}};
  EXPECT_EQ(ErrorOf(graph),
            "vertex 'b' (generator): config field 'due_time' is 'true' (a bool): expected a 'rate' "
            "beside it, which says when a row is due");
}

TEST(ValidateTest, DescriptorsHaveHelp) {
  for (const auto& [name, type] : BuiltinTypes()) {
    EXPECT_EQ(name, type.type);
    EXPECT_FALSE(type.help.empty());
    EXPECT_TRUE(type.check != nullptr) << name;
    for (const ConfigField& field : type.fields) EXPECT_FALSE(field.help.empty()) << field.name;
  }
}

}  // namespace
}  // namespace weir
