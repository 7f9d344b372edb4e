#include "tests/sim/scenarios/scenario.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir::sim {
namespace {

std::function<void(const std::string&)> Tracer() {
  if (std::getenv("WEIR_SIM_TRACE") == nullptr) return nullptr;
  return [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
}

uint64_t SeedOffset() {
  const char* text = std::getenv("WEIR_SIM_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::string FileName(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// Builds the parts of a world one after the other.
class WorldMaker {
 public:
  explicit WorldMaker(const ScenarioOptions& options) : options_(options) {}

  World Make() {
    world_.seed = options_.seed + SeedOffset();
    world_.shape = "scenario";
    world_.job_name = "sim";
    for (int64_t i = 0; i < options_.keys; ++i) world_.keys.push_back(Concat("key ", i));
    int at = -1;
    std::vector<int> sources;
    for (int i = 0; i < options_.sources; ++i) sources.push_back(AddSource(i));
    at = sources.front();
    if (sources.size() > 1) at = AddUnion(sources);
    at = AddAggregate(at);
    AddSink(at);
    world_.graph_json =
        Concat("{\"name\": \"sim\",\n  \"options\": {", Options(), "},\n  \"vertices\": [\n    ",
               vertices_, "],\n  \"edges\": [\n    ", edges_, "]}");
    world_.parallelism = std::max(options_.parallelism, options_.source_parallelism);
    world_.coordinators = options_.coordinators;
    world_.workers = options_.workers;
    world_.slots = options_.slots;
    world_.channel_window_bytes = options_.channel_window_bytes;
    world_.heartbeat_interval_us = options_.heartbeat_interval_us;
    world_.heartbeat_timeout_us = options_.heartbeat_timeout_us;
    world_.lease_timeout_us = options_.lease_timeout_us;
    world_.rpc_us_max = options_.rpc_us_max;
    world_.storage_us_max = options_.storage_us_max;
    world_.channel_us_max = options_.channel_us_max;
    world_.step_us_max = options_.step_us_max;
    return std::move(world_);
  }

 private:
  using Kind = WorldVertex::Kind;

  std::string Options() {
    std::map<std::string, std::string> options = {
        {"max_parallelism", "16"},        {"checkpoint.interval", options_.interval},
        {"checkpoint.retained", "1"},     {"restart.backoff_initial", "10ms"},
        {"restart.backoff_max", "100ms"}, {"batch.rows_max", "16"},
        {"batch.delay_max", "2ms"},
    };
    for (const auto& [name, value] : options_.options) options[name] = value;
    world_.retained = std::atoi(options.at("checkpoint.retained").c_str());
    std::string text;
    for (const auto& [name, value] : options) {
      text += Concat(text.empty() ? "" : ", ", "\"", name, "\": \"", value, "\"");
    }
    return text;
  }

  int AddVertex(WorldVertex vertex, std::string_view type, std::string_view config) {
    vertices_ +=
        Concat(vertices_.empty() ? "" : ",\n    ", "{\"uid\": \"", vertex.uid, "\", \"type\": \"",
               type, "\", \"parallelism\": ", vertex.parallelism, ", \"config\": {", config, "}}");
    world_.vertices.push_back(std::move(vertex));
    return static_cast<int>(world_.vertices.size()) - 1;
  }

  void AddEdge(int from, int to, std::string_view more) {
    edges_ += Concat(edges_.empty() ? "" : ",\n    ", "{\"from\": \"", world_.vertices[from].uid,
                     "\", \"to\": \"", world_.vertices[to].uid, "\"", more, "}");
    world_.vertices[to].inputs.push_back({from, false});
  }

  int AddSource(int number) {
    WorldVertex vertex;
    vertex.kind = Kind::kSource;
    vertex.uid = Concat("in-", number);
    vertex.parallelism = options_.source_parallelism;
    const std::string uid = vertex.uid;
    int source = AddVertex(
        std::move(vertex), "files.source",
        Concat("\"path\": \"/in/", uid,
               "/part-*.jsonl\", \"format\": \"json\", \"schema\": {\"id\": \"INT64\", \"key\": "
               "\"STRING\", \"value\": \"INT64\", \"text\": \"STRING\"}, \"rate\": ",
               options_.rate));
    const int64_t rows = options_.rows_of.empty() ? options_.rows : options_.rows_of.at(number);
    for (int file = 0; file < options_.files; ++file) {
      AddFile(source, Concat("/in/", uid, "/part-", file, ".jsonl"),
              rows / options_.files + (file == 0 ? rows % options_.files : 0));
    }
    return source;
  }

  void AddFile(int source, std::string path, int64_t rows) {
    WorldFile file;
    file.source = source;
    file.path = std::move(path);
    file.first_row = static_cast<int32_t>(world_.table.size());
    const auto index = static_cast<int32_t>(world_.files.size());
    std::string bytes;
    for (int64_t i = 0; i < rows; ++i) {
      WorldRow row;
      row.id = int64_t{index + 1} * 1'000'000 + i;
      row.file = index;
      row.key = static_cast<int32_t>((options_.key_of ? options_.key_of(i) : i) % options_.keys);
      row.has_value = true;
      row.value = i % 7 - 3;
      bytes += Concat("{\"id\": ", row.id, ", \"key\": \"", world_.keys[row.key],
                      "\", \"value\": ", row.value, ", \"text\": \"", WorldTexts()[0], "\"}\n");
      file.ends.push_back(static_cast<int64_t>(bytes.size()));
      world_.table.push_back(row);
    }
    world_.rows += rows;
    world_.inputs[file.path] = std::move(bytes);
    world_.files.push_back(std::move(file));
  }

  int AddUnion(const std::vector<int>& inputs) {
    WorldVertex vertex;
    vertex.kind = Kind::kUnion;
    vertex.uid = "all";
    vertex.parallelism = options_.parallelism;
    int all = AddVertex(std::move(vertex), "union", "");
    for (size_t i = 0; i < inputs.size(); ++i) {
      AddEdge(inputs[i], all,
              Concat(", \"partitioning\": \"REBALANCE\"", i > 0 ? Concat(", \"input\": ", i) : ""));
    }
    return all;
  }

  int AddAggregate(int from) {
    WorldVertex vertex;
    vertex.kind = Kind::kAggregate;
    vertex.uid = "per-key";
    vertex.parallelism = options_.parallelism;
    int aggregate = AddVertex(
        std::move(vertex), "aggregate",
        "\"keys\": [\"key\"], \"emit\": \"every_row\", \"keep\": [\"id\", \"value\"], "
        "\"aggregates\": [{\"function\": \"count\", \"as\": \"n\"}, {\"function\": \"sum\", "
        "\"column\": \"value\", \"as\": \"total\"}]");
    AddEdge(from, aggregate, ", \"partitioning\": \"HASH\", \"columns\": [\"key\"]");
    return aggregate;
  }

  void AddSink(int from) {
    WorldVertex vertex;
    vertex.kind = Kind::kSink;
    vertex.uid = "out";
    vertex.parallelism = options_.parallelism;
    vertex.directory = "/out/out";
    vertex.columns = {"key", "id", "value", "n", "total"};
    std::string config = "\"path\": \"/out/out\", \"format\": \"json\"";
    if (!options_.part_size_max.empty()) {
      config += Concat(", \"part_size_max\": \"", options_.part_size_max, "\"");
    }
    if (options_.kafka_partitions > 0) {
      vertex.directory.clear();
      vertex.topic = vertex.uid;
      world_.kafka.partitions = options_.kafka_partitions;
      int sink = AddVertex(std::move(vertex), "kafka.sink",
                           Concat("\"brokers\": \"broker:9092\", \"topic\": \"out\", \"format\": "
                                  "\"json\"",
                                  options_.kafka_config));
      AddEdge(from, sink, "");
      return;
    }
    world_.outputs.push_back(vertex.directory);
    int sink = AddVertex(std::move(vertex), "files.sink", config);
    AddEdge(from, sink, "");
  }

  const ScenarioOptions& options_;
  World world_;
  std::string vertices_;
  std::string edges_;
};

}  // namespace

World MakeScenarioWorld(const ScenarioOptions& options) { return WorldMaker(options).Make(); }

Scenario::Scenario(const ScenarioOptions& options)
    : sim_(std::make_unique<Simulation>(MakeScenarioWorld(options), Tracer())) {
  sim_->network().set_hook([this](const Network::Message& message) { return OnCall(message); });
}

Network::Fate Scenario::OnCall(const Network::Message& message) {
  calls_.push_back({sim_->scheduler().now_us(), message.from.name(), std::string(message.to),
                    std::string(message.method), message.generation, message.checkpoint});
  return fate_ ? fate_(message) : Network::Fate();
}

int64_t Scenario::Calls(std::string_view method) const {
  return std::count_if(calls_.begin(), calls_.end(),
                       [&](const Call& call) { return call.method == method; });
}

int64_t Scenario::Calls(std::string_view method, CheckpointId checkpoint) const {
  return std::count_if(calls_.begin(), calls_.end(), [&](const Call& call) {
    return call.method == method && call.checkpoint == checkpoint;
  });
}

bool Scenario::StartUntilCompleted(int64_t checkpoints) {
  sim_->Start();
  return WaitForCompleted(checkpoints);
}

bool Scenario::WaitForCompleted(int64_t checkpoints, int64_t us_max) {
  return sim_->Until([&] { return sim_->Count(LogEntry::Kind::kCompleted) >= checkpoints; },
                     us_max);
}

bool Scenario::WaitForCompletedAbove(CheckpointId checkpoint, int64_t us_max) {
  return sim_->Until([&] { return sim_->newest_completed() > checkpoint; }, us_max);
}

bool Scenario::WaitForRunningAbove(Generation generation, int64_t us_max) {
  return sim_->Until(
      [&] {
        std::optional<JobStatus> status = sim_->Status();
        return status && status->state == JobState::kRunning && status->generation > generation;
      },
      us_max);
}

bool Scenario::WaitForLeader(const std::string& name, int64_t us_max) {
  return sim_->Until([&] { return sim_->leader_name() == name; }, us_max);
}

std::vector<std::string> Scenario::Machines() const {
  std::vector<std::string> names;
  for (int i = 0; i < sim_->world().coordinators; ++i) names.push_back(Concat("coordinator-", i));
  for (int i = 0; i < sim_->world().workers; ++i) names.push_back(Concat("worker-", i));
  return names;
}

void Scenario::KillAll() {
  for (const std::string& name : Machines()) sim_->Kill(name);
}

void Scenario::StartAll() {
  for (const std::string& name : Machines()) sim_->StartMachine(name);
}

std::vector<uint64_t> Scenario::Completed() const {
  std::vector<uint64_t> completed;
  for (const Simulation::Entry& entry : sim_->entries()) {
    if (entry.entry.kind == LogEntry::Kind::kCompleted) {
      completed.push_back(entry.entry.checkpoint.value());
    }
  }
  return completed;
}

bool Scenario::IsCompleted(CheckpointId checkpoint) const {
  const std::vector<uint64_t> completed = Completed();
  return std::find(completed.begin(), completed.end(), checkpoint.value()) != completed.end();
}

std::vector<std::pair<uint64_t, uint64_t>> Scenario::Started() const {
  std::vector<std::pair<uint64_t, uint64_t>> started;
  for (const Simulation::Entry& entry : sim_->entries()) {
    if (entry.entry.kind == LogEntry::Kind::kStarted) {
      started.emplace_back(entry.entry.generation.value(), entry.entry.checkpoint.value());
    }
  }
  return started;
}

std::pair<uint64_t, uint64_t> Scenario::LastStarted() const {
  const auto started = Started();
  return started.empty() ? std::pair<uint64_t, uint64_t>() : started.back();
}

std::map<std::string, std::string> Scenario::VisibleFiles() const {
  std::map<std::string, std::string> files;
  MemoryFileSystem& disk = sim_->storage().view();
  for (const std::string& directory : sim_->world().outputs) {
    if (!disk.Exists(directory)) continue;
    for (const std::string& path : disk.Files(directory)) {
      if (FileName(path)[0] != '.') files[path] = disk.Bytes(path);
    }
  }
  return files;
}

std::vector<std::string> Scenario::PendingFiles() const {
  std::vector<std::string> names;
  MemoryFileSystem& disk = sim_->storage().view();
  for (const std::string& directory : sim_->world().outputs) {
    if (!disk.Exists(directory)) continue;
    for (const std::string& path : disk.Files(directory)) {
      if (path.ends_with(".pending")) names.push_back(FileName(path));
    }
  }
  return names;
}

std::vector<int64_t> Scenario::VisibleIds() const {
  static constexpr std::string_view kField = "\"id\":";
  std::vector<int64_t> ids;
  std::map<std::string, std::string> output = VisibleFiles();
  KafkaBroker& broker = sim_->kafka().broker();
  for (const std::string& topic : broker.topics()) {
    for (int32_t partition = 0; partition < broker.partitions(topic); ++partition) {
      for (const KafkaModelRecord* record : broker.ReadCommitted(topic, partition)) {
        output[topic] += record->value.value_or("");
      }
    }
  }
  for (const auto& [path, bytes] : output) {
    for (size_t at = bytes.find(kField); at != std::string::npos; at = bytes.find(kField, at)) {
      at = bytes.find_first_not_of(' ', at + kField.size());
      int64_t id = 0;
      std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), id);
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

CheckpointId Scenario::CheckpointOf(const std::string& path) {
  // <job>-<uid>-<subtask>-<checkpoint>-<part>.jsonl
  const size_t part = path.rfind('-');
  const size_t number = path.rfind('-', part - 1);
  return CheckpointId(std::strtoull(path.c_str() + number + 1, nullptr, 10));
}

CheckpointId Scenario::HighestVisible() const {
  CheckpointId highest;
  for (const auto& [path, bytes] : VisibleFiles()) highest = std::max(highest, CheckpointOf(path));
  return highest;
}

std::vector<std::string> Scenario::CheckpointDirectories() const {
  std::vector<std::string> names;
  for (const std::string& name : sim_->storage().view().disk()->Names(sim_->job_directory())) {
    if (name.starts_with("chk-")) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Scenario::CheckpointFiles(CheckpointId checkpoint,
                                                   Generation generation) const {
  return sim_->storage().view().disk()->Names(
      Concat(sim_->job_directory(), "/", CheckpointDirectoryName(checkpoint, generation)));
}

bool Scenario::HasManifest(CheckpointId checkpoint, Generation generation) const {
  return sim_->storage().view().Exists(Concat(
      sim_->job_directory(), "/", CheckpointDirectoryName(checkpoint, generation), "/_metadata"));
}

std::string Scenario::WorkerOf(std::string_view uid, int subtask) const {
  std::optional<JobStatus> status = sim_->Status();
  if (!status) return "";
  for (const VertexStatus& vertex : status->vertices) {
    if (vertex.uid != uid) continue;
    for (const SubtaskStatus& one : vertex.subtasks) {
      if (one.subtask == subtask) return one.worker;
    }
  }
  return "";
}

CheckpointSummary Scenario::Summary(CheckpointId checkpoint) const {
  for (CheckpointSummary& summary : sim_->Checkpoints()) {
    if (summary.id == checkpoint) return std::move(summary);
  }
  return CheckpointSummary();
}

std::vector<int64_t> Scenario::AllIds() const {
  std::vector<int64_t> ids;
  for (const WorldRow& row : sim_->world().table) ids.push_back(row.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool IsSubset(const std::map<std::string, std::string>& part,
              const std::map<std::string, std::string>& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

}  // namespace weir::sim
