// The plain fold against numbers worked out by hand, and the reader of output files against bytes
// written by hand.
#include "tests/sim/workload/workload.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

using Kind = WorldVertex::Kind;

WorldVertex Vertex(Kind kind, std::string uid, int parallelism,
                   std::vector<WorldVertex::Input> inputs) {
  WorldVertex vertex;
  vertex.kind = kind;
  vertex.uid = std::move(uid);
  vertex.parallelism = parallelism;
  vertex.inputs = std::move(inputs);
  return vertex;
}

// Rows 0…3 with values 1, 2, none, 4 and keys a, a, null, b. A source, copies of rows with an odd
// id to both subtasks of a filter, then two ways: all rows with their value, and those above 1 with
// three times it; an aggregate and a sink.
World Diamond() {
  World world;
  world.branches = true;
  world.keys = {"a", "b"};
  world.files = {{"/in/in/part-0.csv", 0, 0, 10, {20, 30, 40, 50}}};
  world.table = {{1000000, 0, 0, 0, true, 1},
                 {1000001, 0, 0, 1, true, 2},
                 {1000002, 0, -1, 2, false, 0},
                 {1000003, 0, 1, 3, true, 4}};
  world.vertices.push_back(Vertex(Kind::kSource, "in", 1, {}));
  world.vertices.push_back(Vertex(Kind::kFilter, "copies", 2, {{0, true}}));
  world.vertices.back().modulus = 2;
  world.vertices.back().rejected = 0;
  world.vertices.push_back(Vertex(Kind::kUnion, "both", 1, {{0, false}, {1, false}}));
  world.vertices.push_back(Vertex(Kind::kFilter, "some", 1, {{2, false}}));
  world.vertices.back().above = 1;
  world.vertices.push_back(Vertex(Kind::kProject, "way-a", 1, {{2, false}}));
  world.vertices.back().branch = 0;
  world.vertices.push_back(Vertex(Kind::kProject, "way-b", 1, {{3, false}}));
  world.vertices.back().branch = 1;
  world.vertices.back().factor = 3;
  world.vertices.push_back(Vertex(Kind::kUnion, "all", 1, {{4, false}, {5, false}}));
  world.vertices.push_back(Vertex(Kind::kAggregate, "agg", 1, {{6, false}}));
  world.vertices.push_back(Vertex(Kind::kSink, "out", 1, {{7, false}}));
  world.vertices.back().columns = {"key", "id", "value", "text", "branch", "n", "total"};
  return world;
}

TEST(WorkloadTest, CountsHowOftenARowComesOut) {
  World world = Diamond();
  Workload workload(world);
  // Rows with an odd id three times into the union: once from the source, once from each copy.
  const int both = workload.VertexOf("both");
  const int out = workload.VertexOf("out");
  const std::vector<int> times = {1, 3, 1, 3};
  const std::vector<int> way_b = {0, 3, 1, 3};  // no value, or above 1
  for (int row = 0; row < 4; ++row) {
    EXPECT_EQ(workload.in(both, row), times[row]) << row;
    EXPECT_EQ(workload.out(out, row, 0), times[row]) << row;
    EXPECT_EQ(workload.out(out, row, 1), way_b[row]) << row;
  }
  EXPECT_EQ(workload.value(out, 3, 0), 4);
  EXPECT_EQ(workload.value(out, 3, 1), 12);
  EXPECT_EQ(workload.RowOf(1000003), 3);
  EXPECT_EQ(workload.RowOf(1000004), -1);
  EXPECT_EQ(workload.RowOf(2000000), -1);
  EXPECT_EQ(workload.RowOf(-1), -1);
}

TEST(WorkloadTest, FoldsAPartOfTheInput) {
  World world = Diamond();
  Workload workload(world);
  Fold fold(workload);
  const int agg = workload.VertexOf("agg");
  fold.Advance(0, 2);
  EXPECT_TRUE(fold.Contains(1));
  EXPECT_FALSE(fold.Contains(2));
  // a: 1 once; 2 three times as it is and three times as 6.
  EXPECT_EQ(fold.key(agg, 0), (Fold::KeyState{7, 1 + 3 * 2 + 3 * 6, true}));
  EXPECT_EQ(fold.key(agg, 1), (Fold::KeyState{}));
  EXPECT_EQ(fold.in(workload.VertexOf("copies")), 4);   // each row to both subtasks
  EXPECT_EQ(fold.out(workload.VertexOf("copies")), 2);  // the second row
  EXPECT_EQ(fold.out(workload.VertexOf("in")), 2);
  fold.Advance(0, 4);
  EXPECT_EQ(fold.key(agg, -1), (Fold::KeyState{2, 0, false}));
  EXPECT_EQ(fold.key(agg, 1), (Fold::KeyState{6, 3 * 4 + 3 * 12, true}));
  EXPECT_EQ(fold.in(agg), 8 + 7);
}

TEST(OutputFileTest, ReadsWhatSinksMayWrite) {
  World world = Diamond();
  {
    Workload workload(world);
    OutputFile file = ReadOutputFile(
        workload, 8,
        "{\"key\":\"b\",\"id\":1000003,\"value\":12,\"text\":\"a \\\"quoted\\\" one\","
        "\"branch\":\"b\",\"n\":2,\"total\":24}\n"
        "{\"id\":1000002,\"text\":\"two words\",\"branch\":\"a\",\"n\":1,\"total\":null}\n");
    EXPECT_EQ(file.problem, "");
    ASSERT_EQ(file.rows.size(), 2u);
    EXPECT_EQ(file.rows[0].row, 3);
    EXPECT_EQ(file.rows[0].branch, 1);
    EXPECT_EQ(file.rows[0].count, 2);
    EXPECT_EQ(file.rows[0].total, 24);
    EXPECT_FALSE(file.rows[1].has_total);
  }
  world.vertices.back().csv = true;
  Workload workload(world);
  const std::string header = "key,id,value,text,branch,n,total\n";
  OutputFile file = ReadOutputFile(
      workload, 8,
      header + "b,1000003,12,\"a \"\"quoted\"\" one\",b,2,24\n,1000002,,two words,a,1,\n");
  EXPECT_EQ(file.problem, "");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[1].row, 2);

  const std::map<std::string, std::string> wrong = {
      {"b,1000003,12,two words,b,2,24\n", "wrong text"},
      {"b,1000003,4,\"a \"\"quoted\"\" one\",b,2,24\n", "wrong value"},
      {"b,1000003,12,\"a \"\"quoted\"\" one\",c,2,24\n", "wrong branch"},
      {"\"\",1000002,,two words,a,1,\n", "wrong key"},  // the empty text is not null
      {"a,1000000,3,plain,b,1,3\n", "wrong a row that is filtered out"},
      {"b,1000003,12,\"a \"\"quoted\"\" one\",b,2\n", "not a row"},
      {"b,1000003,12,\"a \"\"quoted\"\" one\",b,2,24", "not a row"},
  };
  for (const auto& [row, problem] : wrong) {
    EXPECT_TRUE(ReadOutputFile(workload, 8, header + row).problem.starts_with(problem))
        << row << ReadOutputFile(workload, 8, header + row).problem;
  }
  EXPECT_TRUE(ReadOutputFile(workload, 8, "b,1\n").problem.starts_with("it does not begin with"));
}

}  // namespace
}  // namespace weir::sim
