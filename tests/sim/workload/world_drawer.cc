#include "tests/sim/workload/world_drawer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/concat.h"
#include "tests/sim/workload/json_text.h"

namespace weir::sim {
namespace {

using Kind = WorldVertex::Kind;

constexpr double kKafkaShare = 0.2;  // of all worlds

std::string Milliseconds(int64_t us) { return Concat(std::max<int64_t>(1, us / 1000), "ms"); }

// As a CSV field: quoted when it must be, or to tell the empty text from null.
void AppendCsvField(std::string_view text, std::string* out) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out->append(text);
    return;
  }
  out->push_back('"');
  for (char c : text) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

}  // namespace

const std::vector<std::string>& WorldTexts() {
  static const std::vector<std::string> kTexts = {
      "plain",
      "",
      "two words",
      "a \"quoted\" one",
      "back\\slash and /slash",
      "comma, and more",
      "line\nend",
      "tab\tand\rreturn\r\n",
      "ümläut ß é",
      "日本語 の 行",
      "🐟🌊 over a weir 👨‍👩‍👧",
      "control \x01\x1f\x7f",
      "''{}[]:,\"\"",
      "null",
      "  spaces around  ",
      std::string(180, 'x') + "ÿ" + std::string(90, '"'),
  };
  return kTexts;
}

WorldDrawer::WorldDrawer(uint64_t seed)
    : random_(seed * 0x9e3779b97f4a7c15 + 0x51ed270b),
      kafka_random_(seed * 0xbf58476d1ce4e5b9 + 0x2545f491) {
  world_.seed = seed;
  has_kafka_ = kafka_random_.Fraction() < kKafkaShare;
}

int64_t WorldDrawer::Between(int64_t low, int64_t high) {
  if (high <= low) return low;
  return low + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(high - low) + 1));
}

double WorldDrawer::Skewed(double low, double high) {
  return low * std::pow(high / low, random_.Fraction());
}

int64_t WorldDrawer::SkewedUs(int64_t low, int64_t high) {
  return static_cast<int64_t>(Skewed(static_cast<double>(low), static_cast<double>(high)));
}

World WorldDrawer::Draw() {
  world_.job_name = "sim";
  DrawGraph();
  DrawInput();
  DrawOptions();
  DrawCluster();
  DrawFaults();
  DrawOdds();
  if (has_kafka_) DrawKafka();
  return std::move(world_);
}

// ---- the graph ---------------------------------------------------------------------------------

int WorldDrawer::DrawParallelism() {
  // Most vertices have that of the job, so that chains come about.
  return Chance(0.75) ? world_.parallelism : static_cast<int>(Between(1, 4));
}

int WorldDrawer::AddVertex(WorldVertex vertex, std::string_view type, std::string config) {
  vertex.uid = Concat(vertex.uid, "-", ++names_);
  pieces_.push_back({Concat("{\"uid\": \"", vertex.uid, "\", \"type\": \"", type,
                            "\", \"parallelism\": ", vertex.parallelism, ", \"config\": {"),
                     std::move(config)});
  world_.vertices.push_back(std::move(vertex));
  return static_cast<int>(world_.vertices.size()) - 1;
}

void WorldDrawer::AddEdge(int from, int to, std::string_view partitioning, int input) {
  if (!edges_.empty()) edges_ += ",\n    ";
  edges_ += Concat("{\"from\": \"", world_.vertices[from].uid, "\", \"to\": \"",
                   world_.vertices[to].uid, "\"");
  if (!partitioning.empty()) edges_ += Concat(", \"partitioning\": \"", partitioning, "\"");
  if (partitioning == "HASH") edges_ += ", \"columns\": [\"key\"]";
  if (input > 0) edges_ += Concat(", \"input\": ", input);
  edges_ += "}";
  world_.vertices[to].inputs.push_back({from, partitioning == "BROADCAST"});
}

int WorldDrawer::AddSource() {
  WorldVertex vertex;
  vertex.kind = Kind::kSource;
  vertex.uid = "in";
  vertex.parallelism = DrawParallelism();
  return AddVertex(std::move(vertex), "files.source", "");  // config: when the input is known
}

int WorldDrawer::AddFilter(int from) {
  WorldVertex vertex;
  vertex.kind = Kind::kFilter;
  vertex.uid = "some";
  vertex.parallelism = Chance(0.8) ? world_.vertices[from].parallelism : DrawParallelism();
  std::string expression;
  if (Chance(0.7)) {
    vertex.modulus = Between(2, 9);
    vertex.rejected = Between(0, vertex.modulus - 1);
    expression = Concat("id % ", vertex.modulus, " <> ", vertex.rejected);
  } else {
    vertex.above = Between(-500, 500);
    expression = Concat("value is null or value > ", vertex.above);
  }
  int filter =
      AddVertex(std::move(vertex), "filter", Concat("\"expression\": \"", expression, "\""));
  AddEdge(from, filter, Chance(0.15) ? "REBALANCE" : "");
  return filter;
}

int WorldDrawer::AddUnion(const std::vector<int>& inputs) {
  WorldVertex vertex;
  vertex.kind = Kind::kUnion;
  vertex.uid = "all";
  vertex.parallelism = DrawParallelism();
  int all = AddVertex(std::move(vertex), "union", "");
  for (size_t i = 0; i < inputs.size(); ++i) {
    AddEdge(inputs[i], all, Chance(0.2) ? "REBALANCE" : "", static_cast<int>(i));
  }
  return all;
}

// Two ways from one vertex to a union; rows that take both come out twice, each with its branch.
int WorldDrawer::AddDiamond(int from) {
  world_.branches = true;
  std::vector<int> ends;
  for (int branch = 0; branch < 2; ++branch) {
    int at = Chance(0.7) ? AddFilter(from) : from;
    WorldVertex vertex;
    vertex.kind = Kind::kProject;
    vertex.uid = branch == 0 ? "way-a" : "way-b";
    vertex.parallelism = Chance(0.8) ? world_.vertices[at].parallelism : DrawParallelism();
    vertex.branch = branch;
    vertex.factor = Between(1, 3);
    std::string config =
        Concat("\"columns\": [\"id\", \"key\", {\"name\": \"value\", \"expression\": \"value * ",
               vertex.factor, "\"}, \"text\", {\"name\": \"branch\", \"expression\": \"'",
               branch == 0 ? "a" : "b", "'\"}]");
    int way = AddVertex(std::move(vertex), "project", std::move(config));
    AddEdge(at, way, "");
    ends.push_back(way);
  }
  return AddUnion(ends);
}

// Every row to every subtask of a vertex: it comes out as often as that has subtasks.
int WorldDrawer::AddBroadcast(int from) {
  WorldVertex vertex;
  vertex.kind = Kind::kFilter;
  vertex.uid = "copies";
  vertex.parallelism = static_cast<int>(Between(1, std::min(3, world_.parallelism)));
  vertex.modulus = Between(2, 5);
  vertex.rejected = Between(0, vertex.modulus - 1);
  std::string config =
      Concat("\"expression\": \"id % ", vertex.modulus, " <> ", vertex.rejected, "\"");
  int copies = AddVertex(std::move(vertex), "filter", std::move(config));
  AddEdge(from, copies, "BROADCAST");
  return copies;
}

int WorldDrawer::AddRebalance(int from) {
  WorldVertex vertex;
  vertex.kind = Kind::kRebalance;
  vertex.uid = "even";
  vertex.parallelism = DrawParallelism();
  int even = AddVertex(std::move(vertex), "rebalance", "");
  AddEdge(from, even, Chance(0.5) ? "REBALANCE" : "");
  return even;
}

int WorldDrawer::AddAggregate(int from) {
  WorldVertex vertex;
  vertex.kind = Kind::kAggregate;
  vertex.uid = "per-key";
  vertex.parallelism = DrawParallelism();
  std::string config =
      Concat("\"keys\": [\"key\"], \"emit\": \"every_row\", \"keep\": [\"id\", \"value\"",
             keep_text_ ? ", \"text\"" : "", world_.branches ? ", \"branch\"" : "",
             "], \"aggregates\": [{\"function\": \"count\", \"as\": \"n\"}, "
             "{\"function\": \"sum\", \"column\": \"value\", \"as\": \"total\"}]");
  int aggregate = AddVertex(std::move(vertex), "aggregate", std::move(config));
  AddEdge(from, aggregate, "HASH");
  return aggregate;
}

void WorldDrawer::AddSink(int from, bool aggregated) {
  WorldVertex vertex;
  vertex.kind = Kind::kSink;
  vertex.uid = "out";
  vertex.parallelism = Chance(0.7) ? world_.vertices[from].parallelism : DrawParallelism();
  vertex.csv = Chance(0.4);
  vertex.header = Chance(0.7);
  bool csv = vertex.csv, header = vertex.header;
  int sink = AddVertex(std::move(vertex), "files.sink", "");
  WorldVertex& added = world_.vertices[sink];
  added.directory = Concat("/out/", added.uid);
  if (aggregated) {
    added.columns = {"key", "id", "value"};
    if (keep_text_) added.columns.push_back("text");
  } else {
    added.columns = {"id", "key", "value", "text"};
  }
  if (world_.branches) added.columns.push_back("branch");
  if (aggregated) added.columns.insert(added.columns.end(), {"n", "total"});
  pieces_[sink].config =
      Concat("\"path\": \"", added.directory, "\", \"format\": \"", csv ? "csv" : "json", "\"");
  if (csv && !header) pieces_[sink].config += ", \"header\": false";
  if (Chance(0.15)) {
    pieces_[sink].config += Concat(", \"part_size_max\": \"", Between(1, 16), "KiB\"");
  }
  AddEdge(from, sink, aggregated || Chance(0.7) ? "" : "REBALANCE");
  if (has_kafka_) {
    added.directory.clear();
    added.topic = added.uid;
    added.csv = false;
    pieces_[sink].vertex = Concat(
        "{\"uid\": \"", added.uid,
        "\", \"type\": \"kafka.sink\", \"parallelism\": ", added.parallelism, ", \"config\": {");
    pieces_[sink].config = Concat("\"brokers\": \"broker:9092\", \"topic\": \"", added.topic,
                                  "\", \"format\": \"json\"");
    if (kafka_random_.Fraction() < 0.5) pieces_[sink].config += ", \"key\": [\"id\"]";
    if (kafka_random_.Fraction() < 0.3) {
      pieces_[sink].config +=
          Concat(", \"transaction_timeout\": \"", 4 + kafka_random_.Below(20), "s\"");
    }
    return;
  }
  world_.outputs.push_back(added.directory);
}

void WorldDrawer::DrawGraph() {
  world_.parallelism = static_cast<int>(OneOf({1, 2, 2, 3, 4}));
  json_input_ = Chance(0.6);
  csv_header_ = Chance(0.7);
  wide_values_ = Chance(0.5);
  keep_text_ = Chance(0.4);
  auto note = [&](std::string_view part) {
    world_.shape += Concat(world_.shape.empty() ? "" : ", ", part);
  };
  int sources = Chance(0.3) ? static_cast<int>(Between(2, 3)) : 1;
  std::vector<int> ends;
  for (int i = 0; i < sources; ++i) {
    int at = AddSource();
    if (Chance(0.25)) at = AddFilter(at);
    ends.push_back(at);
  }
  if (sources > 1) note(Concat("union of ", sources));
  int at = sources > 1 ? AddUnion(ends) : ends[0];
  if (Chance(0.2)) {
    note("filter");
    at = AddFilter(at);
  }
  if (Chance(0.25)) {
    note("diamond");
    at = AddDiamond(at);
  } else if (world_.parallelism > 1 && Chance(0.2)) {
    note("broadcast");
    at = AddBroadcast(at);
  }
  if (Chance(0.2)) {
    note("rebalance");
    at = AddRebalance(at);
  }
  bool two_sinks = Chance(0.2);
  if (two_sinks) {
    note("sink");
    AddSink(at, false);
  }
  if (two_sinks || Chance(0.7)) {
    note("aggregate");
    at = AddAggregate(at);
    AddSink(at, true);
  } else {
    AddSink(at, false);
  }
  if (world_.shape.empty()) note("chain");
  world_.parallelism = 1;
  for (const WorldVertex& vertex : world_.vertices) {
    world_.parallelism = std::max(world_.parallelism, vertex.parallelism);
  }
}

// ---- the input ---------------------------------------------------------------------------------

void WorldDrawer::DrawInput() {
  int64_t rows = Chance(0.2) ? Between(50, 1500) : Between(2000, 3600);
  int64_t keys = OneOf({1, 5, 20, 100, 400});
  for (int64_t i = 0; i < keys; ++i) {
    std::string key = Concat("key ", i);
    if (i == 1) key = "";
    if (i == 2) key = "Schlüssel \"2\", ключ";
    if (i == 3) key = std::string(40, 'k');
    world_.keys.push_back(std::move(key));
  }
  std::vector<int> sources;
  for (size_t i = 0; i < world_.vertices.size(); ++i) {
    if (world_.vertices[i].kind == Kind::kSource) sources.push_back(static_cast<int>(i));
  }
  input_us_ = SkewedUs(900'000, 4'000'000);
  int64_t left = rows;
  for (size_t i = 0; i < sources.size(); ++i) {
    const int source = sources[i];
    int64_t share = i + 1 == sources.size() ? left : Between(0, left);
    left -= share;
    int64_t files = Between(1, 2 * world_.vertices[source].parallelism + 1);
    int64_t in_source = share;
    for (int64_t number = 0; number < files; ++number) {
      // Uneven; now and then one is empty.
      int64_t of_file = share;
      if (number + 1 < files) of_file = Chance(0.1) ? 0 : Between(0, 2 * share / (files - number));
      of_file = std::min(of_file, share);
      share -= of_file;
      DrawFile(source, static_cast<int>(number), of_file);
    }
    std::string& config = pieces_[source].config;
    const std::string& uid = world_.vertices[source].uid;
    config = Concat("\"path\": \"/in/", uid, "/part-*.", json_input_ ? "jsonl" : "csv",
                    "\", \"format\": \"", json_input_ ? "json" : "csv", "\"");
    if (!json_input_ && !csv_header_) config += ", \"header\": false";
    config += Concat(", \"schema\": {\"id\": \"INT64\", \"key\": \"STRING\", \"value\": \"",
                     wide_values_ ? "INT64" : "INT32", "\", \"text\": \"STRING\"}");
    double rate = static_cast<double>(std::max<int64_t>(in_source, 20)) * 1e6 /
                  static_cast<double>(input_us_);
    config += Concat(", \"rate\": ", static_cast<int64_t>(std::ceil(rate)));
  }
  world_.rows = rows;
}

void WorldDrawer::DrawFile(int source, int number, int64_t rows) {
  WorldFile file;
  file.source = source;
  file.path = Concat("/in/", world_.vertices[source].uid, "/part-", number,
                     json_input_ ? ".jsonl" : ".csv");
  file.first_row = static_cast<int32_t>(world_.table.size());
  const int32_t index = static_cast<int32_t>(world_.files.size());
  const std::string_view line_end = Chance(0.1) ? "\r\n" : "\n";
  const bool nulls = Chance(0.7);
  const uint64_t texts = Chance(0.5) ? 2 : WorldTexts().size();
  std::string bytes;
  // A file of no byte at all has no header either.
  if (!json_input_ && csv_header_ && (rows > 0 || Chance(0.5))) {
    bytes = Concat("id,key,value,text", line_end);
  }
  file.head_bytes = static_cast<int64_t>(bytes.size());
  for (int64_t i = 0; i < rows; ++i) {
    WorldRow row;
    row.id = int64_t{index + 1} * 1'000'000 + i;
    row.file = index;
    row.key = static_cast<int32_t>(random_.Below(world_.keys.size()));
    if (nulls && Chance(0.05)) row.key = -1;
    row.has_value = !nulls || Chance(0.9);
    if (row.has_value) {
      row.value = wide_values_ && Chance(0.2) ? Between(-900'000'000'000, 900'000'000'000)
                                              : Between(-1'000, 1'000);
    }
    row.text = static_cast<int32_t>(random_.Below(texts));
    const bool last = i + 1 == rows;
    AppendRow(row, !json_input_, last && Chance(0.4) ? std::string_view() : line_end, &bytes);
    file.ends.push_back(static_cast<int64_t>(bytes.size()));
    world_.table.push_back(row);
  }
  world_.inputs[file.path] = std::move(bytes);
  world_.files.push_back(std::move(file));
}

void WorldDrawer::AppendRow(const WorldRow& row, bool csv, std::string_view line_end,
                            std::string* out) {
  const std::string& text = WorldTexts()[static_cast<size_t>(row.text)];
  const std::string id = std::to_string(row.id);
  if (csv) {
    out->append(id).push_back(',');
    if (row.key >= 0) AppendCsvField(world_.keys[static_cast<size_t>(row.key)], out);
    out->push_back(',');
    if (row.has_value) out->append(std::to_string(row.value));
    out->push_back(',');
    AppendCsvField(text, out);
    out->append(line_end);
    return;
  }
  out->append("{\"id\": ").append(id);
  if (row.key >= 0) {
    out->append(", \"key\": ");
    AppendJsonText(world_.keys[static_cast<size_t>(row.key)], row.id % 2 == 0, out);
  } else if (row.id % 2 == 0) {
    out->append(", \"key\": null");
  }
  if (row.has_value) {
    out->append(", \"value\": ").append(std::to_string(row.value));
  } else if (row.id % 3 == 0) {
    out->append(", \"value\": null");
  }
  out->append(", \"text\": ");
  AppendJsonText(text, row.id % 5 == 0, out);
  out->push_back('}');
  out->append(line_end);
}

// ---- options, cluster, faults ------------------------------------------------------------------

void WorldDrawer::DrawOptions() {
  std::string options;
  auto set = [&](std::string_view name, std::string_view value) {
    options += Concat(options.empty() ? "" : ", ", "\"", name, "\": \"", value, "\"");
  };
  set("max_parallelism", Concat(OneOf({4, 7, 8, 16, 32})));
  // About five to fifteen checkpoints while the input lasts.
  interval_us_ = std::clamp<int64_t>(input_us_ / Between(5, 15), 20'000, 1'000'000);
  set("checkpoint.interval", Milliseconds(interval_us_));
  if (Chance(0.3)) set("checkpoint.timeout", Milliseconds(SkewedUs(50'000, 5'000'000)));
  if (Chance(0.3)) set("checkpoint.min_pause", Milliseconds(SkewedUs(1'000, interval_us_)));
  set("checkpoint.max_concurrent", Concat(OneOf({1, 1, 2, 3})));
  world_.retained = static_cast<int>(OneOf({1, 1, 2, 3}));
  set("checkpoint.retained", Concat(world_.retained));
  if (Chance(0.2)) set("checkpoint.tolerable_failures", Concat(Between(0, 3)));
  set("restart.backoff_initial", Milliseconds(SkewedUs(1'000, 100'000)));
  set("restart.backoff_max", Milliseconds(SkewedUs(200'000, 1'000'000)));
  // Few worlds move single rows: those cost most, and have fewer of them.
  int64_t rows_max = Chance(0.7) ? Between(32, 512) : Between(4, 64);
  if (world_.rows < 1000) rows_max = Chance(0.5) ? 1 : Between(1, 64);
  set("batch.rows_max", Concat(rows_max));
  set("batch.bytes_max", Chance(0.8) ? "256KiB" : "1KiB");
  set("batch.delay_max", Milliseconds(SkewedUs(1'000, 30'000)));
  std::string vertices;
  for (const Piece& piece : pieces_) {
    vertices += Concat(vertices.empty() ? "" : ",\n    ", piece.vertex, piece.config, "}}");
  }
  world_.graph_json =
      Concat("{\"name\": \"", world_.job_name, "\",\n  \"options\": {", options,
             "},\n  \"vertices\": [\n    ", vertices, "],\n  \"edges\": [\n    ", edges_, "]}");
}

void WorldDrawer::DrawCluster() {
  world_.coordinators = static_cast<int>(OneOf({1, 2, 2, 2, 3}));
  world_.workers = static_cast<int>(Between(1, 3));
  world_.slots = (world_.parallelism + world_.workers - 1) / world_.workers;
  // Often enough that one worker may be missing.
  if (Chance(0.5)) {
    world_.slots = std::max(world_.slots, world_.parallelism / std::max(1, world_.workers - 1));
  }
  world_.fresh_worker_names = Chance(0.4);
  // Down to a window that one record overdraws.
  if (Chance(0.5)) world_.channel_window_bytes = SkewedUs(1, 65'536);
  world_.heartbeat_interval_us = SkewedUs(100'000, 1'000'000);
  world_.heartbeat_timeout_us = world_.heartbeat_interval_us * Between(3, 6);
  world_.lease_timeout_us = SkewedUs(1'500'000, 5'000'000);
  world_.rpc_us_max = SkewedUs(200, 10'000);
  world_.storage_us_max = SkewedUs(50, 3'000);
  world_.channel_us_max = SkewedUs(50, 3'000);
  world_.step_us_max = SkewedUs(5, 200);
}

void WorldDrawer::DrawFaults() {
  world_.faults_us = SkewedUs(5'000'000, 20'000'000);
  const double mood = random_.Fraction();
  if (mood < 0.08) return;
  std::vector<FaultKind> on;
  for (int i = 0; i < kFaultKindsWithoutKafka; ++i) {
    if (Chance(0.4)) on.push_back(static_cast<FaultKind>(i));
  }
  if (world_.coordinators > 1 && Chance(0.2) &&
      std::find(on.begin(), on.end(), FaultKind::kPauseCoordinator) == on.end()) {
    on.push_back(FaultKind::kPauseCoordinator);
  }
  if (mood < 0.25 || on.empty()) {
    on = {static_cast<FaultKind>(random_.Below(static_cast<uint64_t>(kFaultKindsWithoutKafka)))};
  }
  // Of all kinds together.
  const double every_us = Skewed(250'000, 1'000'000);
  for (FaultKind kind : on) {
    FaultPlan plan;
    plan.kind = kind;
    plan.every_us = static_cast<int64_t>(every_us * static_cast<double>(on.size()) *
                                         (0.5 + random_.Fraction()));
    plan.dwell_us_max = SkewedUs(50'000, 1'500'000);
    switch (kind) {
      case FaultKind::kKillAll:
      case FaultKind::kPowerLoss:
        plan.every_us *= 2;
        break;
      case FaultKind::kPauseWorker:
      case FaultKind::kPartition:
        // Some beyond the time after which it is given up: then it goes on as a zombie.
        if (Chance(0.6)) {
          plan.dwell_us_max =
              SkewedUs(world_.heartbeat_timeout_us, 4 * world_.heartbeat_timeout_us);
        }
        break;
      case FaultKind::kPauseCoordinator:
        if (Chance(0.6)) {
          plan.dwell_us_max = SkewedUs(world_.lease_timeout_us, 4 * world_.lease_timeout_us);
        }
        break;
      default:
        break;
    }
    world_.faults.push_back(plan);
  }
}

void WorldDrawer::DrawOdds() {
  EffectOdds& odds = world_.odds;
  if (world_.faults.empty()) return;
  auto draw = [&](double on, double low, double high) {
    return Chance(on) ? Skewed(low, high) : 0.0;
  };
  odds.rpc_lost_request = draw(0.3, 0.002, 0.1);
  odds.rpc_lost_reply = draw(0.3, 0.002, 0.1);
  odds.rpc_duplicate = draw(0.3, 0.01, 0.3);
  odds.rpc_slow = draw(0.3, 0.005, 0.2);
  odds.rpc_slow_us = SkewedUs(20'000, 3'000'000);
  odds.storage_error_before = draw(0.25, 0.0002, 0.01);
  odds.storage_error_after = draw(0.25, 0.0002, 0.01);
  odds.storage_slow = draw(0.3, 0.002, 0.05);
  odds.storage_slow_us = SkewedUs(10'000, 3'000'000);
  odds.claim_slow = draw(0.25, 0.02, 0.4);
  odds.claim_error_after = draw(0.25, 0.02, 0.4);
  if (!Chance(0.45)) return;
  odds.kill_point = Skewed(0.01, 0.2);
  // The narrow gaps around a claim are met by those worlds that aim at them alone.
  const bool aimed = world_.coordinators > 1 && Chance(0.4);
  for (const std::string& point : AllKillPoints()) {
    const bool of_coordinator = point.starts_with("coordinator.");
    if (Chance(!aimed ? 0.2 : of_coordinator ? 0.6 : 0)) world_.kill_points.push_back(point);
  }
}

// ---- Kafka -------------------------------------------------------------------------------------

void WorldDrawer::DrawKafka() {
  WorldKafka& kafka = world_.kafka;
  auto chance = [this](double odds) { return kafka_random_.Fraction() < odds; };
  auto skewed = [this](double low, double high) {
    return low * std::pow(high / low, kafka_random_.Fraction());
  };
  kafka.partitions = static_cast<int>(1 + kafka_random_.Below(4));
  kafka.us_max = static_cast<int64_t>(skewed(200, 20'000));
  kafka.end_marker_us = static_cast<int64_t>(skewed(500, 500'000));
  if (world_.faults.empty()) return;
  if (chance(0.3)) kafka.lost_request = skewed(0.002, 0.05);
  if (chance(0.3)) kafka.lost_answer = skewed(0.002, 0.05);
  if (chance(0.4)) kafka.cut = skewed(0.002, 0.1);
  if (chance(0.5)) kafka.late = skewed(0.01, 0.1);
  kafka.late_us = static_cast<int64_t>(skewed(3'000'000, 15'000'000));
  for (FaultKind kind : {FaultKind::kKafkaDown, FaultKind::kKafkaPartition}) {
    if (!chance(0.3)) continue;
    FaultPlan plan;
    plan.kind = kind;
    plan.every_us = static_cast<int64_t>(skewed(1'000'000, 5'000'000));
    plan.dwell_us_max = static_cast<int64_t>(skewed(100'000, chance(0.2) ? 20'000'000 : 2'000'000));
    world_.faults.push_back(plan);
  }
  if (!chance(0.4)) return;
  if (world_.odds.kill_point == 0) world_.odds.kill_point = skewed(0.01, 0.1);
  for (const std::string& point : KafkaKillPoints()) {
    if (chance(0.4)) world_.kill_points.push_back(point);
  }
}

}  // namespace weir::sim
