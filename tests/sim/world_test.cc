#include "tests/sim/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "common/graph/job_graph.h"
#include "common/graph/validate.h"
#include "tests/sim/workload/json_text.h"

namespace weir::sim {
namespace {

template <typename T>
T Median(std::vector<T> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

TEST(WorldTest, EveryWorldIsAJobThatWeirAccepts) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    World world = DrawWorld(seed);
    SCOPED_TRACE(world.ToString());
    StatusOr<JobGraph> graph = ParseJobGraph(world.graph_json);
    ASSERT_TRUE(graph.ok()) << graph.status();
    StatusOr<Validated> validated = Validate(*graph);
    ASSERT_TRUE(validated.ok()) << validated.status();
    EXPECT_TRUE(validated->complete);
    EXPECT_EQ(validated->options.checkpoint_retained, world.retained);
    ASSERT_EQ(graph->vertices.size(), world.vertices.size());
    int parallelism = 1;
    for (size_t i = 0; i < world.vertices.size(); ++i) {
      const WorldVertex& vertex = world.vertices[i];
      EXPECT_EQ(graph->vertices[i].uid, vertex.uid);
      EXPECT_EQ(graph->vertices[i].parallelism, vertex.parallelism);
      parallelism = std::max(parallelism, vertex.parallelism);
      if (vertex.kind != WorldVertex::Kind::kSink) continue;
      // The columns that its rows are to have are those that it gets.
      const JobVertex* from =
          validated->graph.FindVertex(world.vertices[vertex.inputs[0].from].uid);
      std::vector<std::string> columns;
      for (int c = 0; c < from->output_schema->size(); ++c) {
        columns.push_back(from->output_schema->field(c).name);
      }
      EXPECT_EQ(columns, vertex.columns);
    }
    EXPECT_EQ(parallelism, world.parallelism);
    EXPECT_GE(world.workers * world.slots, world.parallelism);
  }
}

TEST(WorldTest, FilesHoldTheRowsOfTheTable) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    World world = DrawWorld(seed);
    std::set<int64_t> ids;
    size_t rows = 0;
    ASSERT_EQ(world.inputs.size(), world.files.size());
    for (const WorldFile& file : world.files) {
      const std::string& bytes = world.inputs.at(file.path);
      int64_t at = file.head_bytes;
      for (size_t i = 0; i < file.ends.size(); ++i) {
        const WorldRow& row = world.table[file.first_row + i];
        std::string line = bytes.substr(at, file.ends[i] - at);
        at = file.ends[i];
        ids.insert(row.id);
        EXPECT_EQ(row.file, &file - world.files.data());
        if (line.starts_with("{\"id\": ")) line.erase(0, 7);
        EXPECT_EQ(std::stoll(line), row.id) << line;
        ++rows;
      }
      EXPECT_EQ(at, static_cast<int64_t>(bytes.size())) << file.path;
    }
    EXPECT_EQ(ids.size(), rows);
    EXPECT_EQ(static_cast<int64_t>(rows), world.rows);
    EXPECT_EQ(world.table.size(), rows);
  }
}

TEST(WorldTest, WorldsAreWorthTheName) {
  std::vector<int64_t> rows;
  std::set<std::string> shapes;
  std::set<FaultKind> kinds;
  int calm = 0, one_kind = 0, kill_points = 0, broadcast = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    World world = DrawWorld(seed);
    rows.push_back(world.rows);
    shapes.insert(world.shape);
    for (const FaultPlan& plan : world.faults) kinds.insert(plan.kind);
    calm += world.faults.empty();
    one_kind += world.faults.size() == 1;
    kill_points += !world.kill_points.empty();
    for (const WorldVertex& vertex : world.vertices) {
      for (const WorldVertex::Input& input : vertex.inputs) broadcast += input.broadcast;
    }
  }
  EXPECT_GE(Median(rows), 2000);
  EXPECT_GE(shapes.size(), 15u);
  EXPECT_EQ(kinds.size(), static_cast<size_t>(FaultKind::kCount));
  EXPECT_GE(calm, 10);
  EXPECT_GE(one_kind, 30);
  EXPECT_GE(kill_points, 50);
  EXPECT_GE(broadcast, 10);
}

TEST(WorldTest, TheSeedDecidesAllOfIt) {
  EXPECT_EQ(DrawWorld(7).ToString(), DrawWorld(7).ToString());
  EXPECT_EQ(DrawWorld(7).inputs, DrawWorld(7).inputs);
  EXPECT_NE(DrawWorld(7).inputs, DrawWorld(8).inputs);
}

TEST(WorldTest, KnowsEveryKillPoint) {
  // Against the source: a point that nobody draws is one that is not tested.
  const char* source = std::getenv("WEIR_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::set<std::string> found;
  for (const char* folder : {"coordinator", "worker"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(source) / folder)) {
      if (entry.path().extension() != ".cc") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string code = text.str();
      const std::regex name("\"((coordinator|task|snapshot|sink|kafka)\\.[a-z_]+)\"");
      for (std::sregex_iterator it(code.begin(), code.end(), name), end; it != end; ++it) {
        size_t line = code.rfind('\n', it->position());
        if (code.find("KillPoint(", line) < static_cast<size_t>(it->position())) {
          found.insert((*it)[1]);
        }
      }
    }
  }
  std::set<std::string> known(AllKillPoints().begin(), AllKillPoints().end());
  known.insert(KafkaKillPoints().begin(), KafkaKillPoints().end());
  EXPECT_EQ(found, known);
}

TEST(JsonTextTest, ReadsBackWhatItWrites) {
  for (const std::string& text : WorldTexts()) {
    for (bool escaped : {false, true}) {
      std::string json;
      AppendJsonText(text, escaped, &json);
      std::string_view rest = json;
      std::string back;
      ASSERT_TRUE(TakeJsonText(&rest, &back)) << json;
      EXPECT_EQ(back, text);
      EXPECT_TRUE(rest.empty());
    }
  }
  std::string json, fish;
  AppendJsonText("🐟", true, &json);
  EXPECT_EQ(json, "\"\\ud83d\\udc1f\"");
  std::string_view lone = "\"\\udc1f\"";
  EXPECT_FALSE(TakeJsonText(&lone, &fish));
}

}  // namespace
}  // namespace weir::sim
