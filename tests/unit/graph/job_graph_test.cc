// Goal: the JSON form of a job reads and writes without loss; what is wrong is named with its
// place. Method: the example of the manual, and one wrong document per rule.
#include "common/graph/job_graph.h"

#include <gtest/gtest.h>

#include <random>

namespace weir {
namespace {

constexpr std::string_view kFlights = R"({
  "name": "flights",
  "options": {"parallelism": "2", "checkpoint.interval": "1s"},
  "vertices": [
    {"uid": "flights", "type": "files.source",
     "config": {"path": "examples/flights/data/part-*.csv", "format": "csv", "rate": 2000,
                "schema": {"row_id": "INT64", "carrier": "STRING", "dep_delay": "INT32"}}},
    {"uid": "per-carrier", "type": "aggregate",
     "config": {"keys": ["carrier"], "emit": "every_row", "keep": ["row_id"],
                "aggregates": [{"function": "count", "as": "flights"},
                               {"function": "sum", "column": "dep_delay", "as": "delay"}]}},
    {"uid": "out", "type": "files.sink", "config": {"path": "out/flights", "format": "json"}}
  ],
  "edges": [
    {"from": "flights", "to": "per-carrier", "partitioning": "HASH", "columns": ["carrier"]},
    {"from": "per-carrier", "to": "out"}
  ]
})";

std::string ErrorOf(std::string_view json) {
  StatusOr<JobGraph> graph = ParseJobGraph(json);
  return graph.ok() ? "no error" : graph.status().message();
}

TEST(JobGraphTest, ReadsTheExample) {
  StatusOr<JobGraph> graph = ParseJobGraph(kFlights);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->name, "flights");
  EXPECT_EQ(graph->options, (std::map<std::string, std::string>{{"parallelism", "2"},
                                                                {"checkpoint.interval", "1s"}}));
  ASSERT_EQ(graph->vertices.size(), 3u);
  EXPECT_EQ(graph->vertices[1].type, "aggregate");
  EXPECT_EQ(graph->FindVertex("flights")->config.Integer("rate").value(), 2000);
  ASSERT_EQ(graph->edges.size(), 2u);
  EXPECT_EQ(graph->edges[0].partitioning, Partitioning::kHash);
  EXPECT_EQ(graph->edges[0].columns, std::vector<std::string>{"carrier"});
  EXPECT_EQ(graph->edges[1].partitioning, std::nullopt);
  EXPECT_EQ(graph->FindVertex("nobody"), nullptr);
}

TEST(JobGraphTest, SurvivesARoundTrip) {
  JobGraph graph = ParseJobGraph(kFlights).value();
  graph.library_sha256 = "abc";
  graph.vertices[0].parallelism = 3;
  graph.vertices[0].max_parallelism = 64;
  graph.vertices[0].output_schema = Schema({{"z", Type::kInt64}, {"a", Type::kBytes}});
  graph.edges[1].input = 2;
  graph.edges[1].partitioning = Partitioning::kBroadcast;
  StatusOr<JobGraph> again = ParseJobGraph(ToJson(graph));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, graph);
  EXPECT_EQ(ParseJobGraph(ToJson(JobGraph())).value(), JobGraph());
}

TEST(JobGraphTest, OptionsMayBeWrittenAsJsonValues) {
  JobGraph graph = ParseJobGraph(R"({"vertices": [], "options": {"parallelism": 2}})").value();
  EXPECT_EQ(graph.options.at("parallelism"), "2");
}

TEST(JobGraphTest, ErrorsNameThePlace) {
  EXPECT_EQ(ErrorOf(R"({"vertices": [{"type": "a"}, {"type": "b", "confg": {}}]})"),
            "unknown field vertices[1].confg: did you mean 'config'?");
  EXPECT_EQ(ErrorOf(R"({"vertexes": []})"), "unknown field vertexes: did you mean 'vertices'?");
  EXPECT_EQ(ErrorOf(R"({"vertices": [], "edges": [{"from": "a", "too": "b"}]})"),
            "unknown field edges[0].too: did you mean 'to'?");
  EXPECT_EQ(ErrorOf(R"({"vertices": [{"uid": "a"}]})"),
            "vertices[0].type is missing: expected a text");
  EXPECT_EQ(ErrorOf(R"({"vertices": [{"type": "a", "parallelism": "2"}]})"),
            "vertices[0].parallelism is '2' (a text): expected an integer from 1 to 32768");
  EXPECT_EQ(
      ErrorOf(R"({"vertices": [], "edges": [{"from": "a", "to": "b", "partitioning": "hash"}]})"),
      "edges[0].partitioning is 'hash' (a text): expected FORWARD, HASH, REBALANCE or "
      "BROADCAST");
  EXPECT_EQ(ErrorOf(R"({"vertices": 5})"), "vertices is '5' (an integer): expected a list");
  EXPECT_EQ(ErrorOf(R"({})"), "vertices is missing: expected a list");
  EXPECT_EQ(ErrorOf(R"([])"), "the job is '[]' (a list): expected an object");
  EXPECT_EQ(ErrorOf(R"({"vertices": [], "options": {"a": []}})"),
            "options.a is '[]' (a list): expected a text");
  EXPECT_EQ(ErrorOf(R"({"vertices": [{"type": "a", "output_schema": {"x": "INT"}}]})")
                .rfind("vertices[0].output_schema.x: unknown type 'INT'", 0),
            0u);
  EXPECT_EQ(ErrorOf("{\n\"name\": }"), "invalid JSON at line 2, column 9: expected a value");
}

TEST(JobGraphTest, SurvivesHostileDocuments) {
  std::mt19937 random(7);
  constexpr std::string_view kBytes = "{}[]\",:0aT-. \x80";
  for (int i = 0; i < 20'000; ++i) {
    std::string document(kFlights);
    for (int k = 0; k < 4; ++k) {
      const size_t at = random() % document.size();
      if (random() % 2 == 0) {
        document[at] = kBytes[random() % kBytes.size()];
      } else {
        document.erase(at, random() % 20 + 1);
        if (document.empty()) document = "{";
      }
    }
    StatusOr<JobGraph> graph = ParseJobGraph(document);
    if (graph.ok()) {
      EXPECT_EQ(ParseJobGraph(ToJson(*graph)).value(), *graph);
    }
  }
}

}  // namespace
}  // namespace weir
