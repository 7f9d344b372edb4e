#include "tests/sim/checkers/hand_made_job.h"

#include <xxhash.h>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "worker/checkpoint/snapshot_files.h"
#include "worker/connectors/files/file_names.h"
#include "worker/state/state_format.h"

namespace weir::sim {
namespace {

constexpr std::string_view kJobId = "0123456789abcdef0123456789abcdef";

// "" and null would look alike: a count, a sum, and whether there is one.
std::string StateValue(int64_t count, int64_t total, bool has_total) {
  std::string value(24, '\0');
  value[0] = has_total ? 1 : 0;
  for (int i = 0; i < 8; ++i) {
    value[8 + i] = static_cast<char>(static_cast<uint64_t>(count) >> (8 * i));
    value[16 + i] = static_cast<char>(static_cast<uint64_t>(total) >> (8 * i));
  }
  return value;
}

}  // namespace

const std::string HandMadeJob::kOut = "/out/out/";
const std::string HandMadeJob::kJob = Concat("/checkpoints/", kJobId);
const std::string HandMadeJob::kRow0 =
    "{\"key\":\"a\",\"id\":1000000,\"value\":5,\"n\":1,\"total\":5}\n";
const std::string HandMadeJob::kRow1 =
    "{\"key\":\"b\",\"id\":1000001,\"value\":7,\"n\":1,\"total\":7}\n";
const std::string HandMadeJob::kRow2 =
    "{\"key\":\"a\",\"id\":2000000,\"value\":null,\"n\":2,\"total\":5}\n";

HandMadeJob::HandMadeJob() {
  using Kind = WorldVertex::Kind;
  world.job_name = "job";
  WorldVertex source, aggregate, sink;
  source.kind = Kind::kSource;
  source.uid = "in";
  aggregate.kind = Kind::kAggregate;
  aggregate.uid = "agg";
  aggregate.inputs = {{0, false}};
  sink.kind = Kind::kSink;
  sink.uid = "out";
  sink.inputs = {{1, false}};
  sink.columns = {"key", "id", "value", "n", "total"};
  sink.directory = "/out/out";
  world.vertices = {source, aggregate, sink};
  world.outputs = {"/out/out"};
  world.keys = {"a", "b"};
  world.files = {{"/in/in/part-0.jsonl", 0, 0, 0, {40, 80}},
                 {"/in/in/part-1.jsonl", 0, 2, 0, {30}}};
  world.table = {
      {1000000, 0, 0, 0, true, 5}, {1000001, 0, 1, 0, true, 7}, {2000000, 1, 0, 0, false, 0}};
  world.rows = 3;
  for (const char* directory : {"/out/out", "/checkpoints"}) disk().PutDirectory(directory);
  disk().PutDirectory(kJob);
  disk().PutFile(kOut + ".weir-sink", "mark");
  checkers_ =
      MakeCheckers({world, view_, probes_,
                    [this](std::string text) { said_[speaking_].push_back(std::move(text)); },
                    [](std::string_view process) { return process == "worker-1.1"; }});
}

void HandMadeJob::Do(std::string_view operation, const std::string& path, const std::string& to,
                     const std::string& bytes) {
  Status status;
  if (operation == "create") status = disk().Create(path, bytes);
  if (operation == "write") status = disk().WriteAt(path, 0, bytes);
  if (operation == "sync") status = disk().Sync(path);
  if (operation == "sync_directory") status = disk().SyncDirectory(path);
  if (operation == "link") status = disk().Link(path, to);
  if (operation == "rename") status = disk().Rename(path, to);
  if (operation == "remove") status = disk().Remove(path);
  if (operation == "remove_directory") status = disk().RemoveDirectory(path);
  WEIR_CHECK_MESSAGE(status.ok(), status.message());
  StorageEvent event{0, actor, operation, path, to};
  for (auto& checker : checkers_) {
    speaking_ = checker->name();
    checker->OnStorage(event);
  }
}

void HandMadeJob::PowerLoss() {
  disk().Crash();
  for (auto& checker : checkers_) {
    speaking_ = checker->name();
    checker->OnPowerLoss();
  }
}

void HandMadeJob::Entry(uint64_t term, uint64_t number, LogEntry::Kind kind) {
  LogEntry entry;
  entry.kind = kind;
  Entry(term, number, std::move(entry));
}

void HandMadeJob::Entry(uint64_t term, uint64_t number, LogEntry entry) {
  entry.token = Concat(term, "-", number);
  auto digits = [](uint64_t value, size_t count) {
    std::string text = std::to_string(value);
    return std::string(count - text.size(), '0') + text;
  };
  std::string directory = Concat(kJob, "/log/", digits(term, 6));
  disk().PutDirectory(directory);
  std::string path = Concat(directory, "/", digits(number, 10));
  disk().PutFile(path + ".tmp-1", EncodeLogEntry(entry));
  Do("link", path + ".tmp-1", path);
}

void HandMadeJob::Started(uint64_t term, uint64_t number, uint64_t generation,
                          uint64_t checkpoint) {
  LogEntry entry;
  entry.kind = LogEntry::Kind::kStarted;
  entry.generation = Generation(generation);
  entry.checkpoint = CheckpointId(checkpoint);
  Entry(term, number, std::move(entry));
  Do("sync_directory", Concat(kJob, "/log/00000", term));
}

void HandMadeJob::Completed(uint64_t term, uint64_t number, const Parts& parts) {
  std::string bytes = EncodeManifest(parts.manifest);
  LogEntry entry;
  entry.kind = LogEntry::Kind::kCompleted;
  entry.generation = parts.manifest.generation;
  entry.checkpoint = parts.manifest.checkpoint;
  entry.manifest_checksum = XXH3_64bits(bytes.data(), bytes.size());
  Entry(term, number, std::move(entry));
}

void HandMadeJob::OrderStart(uint64_t generation, const CheckpointManifest& restore) {
  StartTasksRequest request;
  request.job = JobId(std::string(kJobId));
  request.generation = Generation(generation);
  request.restore = restore;
  for (auto& checker : checkers_) {
    speaking_ = checker->name();
    checker->OnStartOrdered(request);
  }
}

HandMadeJob::Parts HandMadeJob::Checkpoint(uint64_t checkpoint, uint64_t generation, int rows_0,
                                           int rows_1, const std::vector<std::string>& sealed) {
  Parts parts;
  CheckpointManifest& manifest = parts.manifest;
  manifest.job = JobId(std::string(kJobId));
  manifest.checkpoint = CheckpointId(checkpoint);
  manifest.generation = Generation(generation);
  for (const char* uid : {"in", "agg", "out"}) manifest.operators.push_back({uid, 1, 1});
  const std::string directory = CheckpointDirectoryName(manifest.checkpoint, manifest.generation);
  auto add_file = [&](OperatorSnapshot& snapshot, StateKind kind, std::string_view suffix,
                      std::string bytes) {
    StateHandle handle;
    handle.kind = kind;
    handle.path = Concat(directory, "/", snapshot.uid, "-0-x-", suffix);
    handle.length = static_cast<int64_t>(bytes.size());
    handle.checksum = XXH3_64bits(bytes.data(), bytes.size());
    if (kind == StateKind::kKeyed) handle.slices = {{0, 0, handle.length}};
    parts.state_files[handle.path] = std::move(bytes);
    snapshot.handles.push_back(std::move(handle));
  };
  const int64_t rows = rows_0 + rows_1;
  auto snapshot_of = [](const char* uid, int64_t rows_in, int64_t rows_out) {
    OperatorSnapshot snapshot;
    snapshot.uid = uid;
    snapshot.records_in = rows_in;
    snapshot.records_out = rows_out;
    return snapshot;
  };
  OperatorSnapshot in = snapshot_of("in", 0, rows);
  add_file(in, StateKind::kPositions, "positions",
           EncodePositions({{"/in/in/part-0.jsonl", Concat(rows_0 * 40, " ", rows_0 + 1)},
                            {"/in/in/part-1.jsonl", Concat(rows_1 * 30, " ", rows_1 + 1)}}));
  OperatorSnapshot agg = snapshot_of("agg", rows, rows);
  std::map<std::string, std::string> entries;  // by key
  if (rows_0 > 0) entries[std::string("\1\1\0\0\0a", 6)] = StateValue(1 + rows_1, 5, true);
  if (rows_0 == 0 && rows_1 > 0) entries[std::string("\1\1\0\0\0a", 6)] = StateValue(1, 0, false);
  if (rows_0 > 1) entries[std::string("\1\1\0\0\0b", 6)] = StateValue(1, 7, true);
  if (!entries.empty()) {
    StateChunkWriter chunk(0, 1, {"aggregates", StateTableKind::kFixed, 24, ""}, StateKeyForm::kAny,
                           entries.size());
    for (const auto& [key, value] : entries) chunk.Add(key, value);
    add_file(agg, StateKind::kKeyed, "keyed", chunk.Finish());
  }
  OperatorSnapshot out = snapshot_of("out", rows, 0);
  if (!sealed.empty()) {
    std::string bytes;
    for (const std::string& row : sealed) bytes += row;
    FilePart part;
    part.pending_name = PendingName(
        {manifest.job, manifest.generation, 0, static_cast<int64_t>(checkpoint), "out"});
    part.final_name = FinalName("job", "out", 0, manifest.checkpoint, 0, FileFormat::kJson);
    part.length = static_cast<int64_t>(bytes.size());
    parts.pending[part.pending_name] = bytes;
    Committable committable;
    committable.uid = "out";
    committable.generation = manifest.generation;
    committable.checkpoint = manifest.checkpoint;
    part.mark_maker = "-g1-0-0-out";
    committable.payload = EncodeFilePart(part);
    out.committables.push_back(std::move(committable));
  }
  manifest.snapshots = {in, agg, out};
  return parts;
}

std::string HandMadeJob::FinalPath(const Parts& parts) const {
  return Concat(kOut, "job-out-0-", parts.manifest.checkpoint, "-0.jsonl");
}

std::string HandMadeJob::ManifestPath(const Parts& parts) const {
  return Concat(kJob, "/",
                CheckpointDirectoryName(parts.manifest.checkpoint, parts.manifest.generation),
                "/_metadata");
}

void HandMadeJob::Write(const Parts& parts) {
  for (const auto& [name, bytes] : parts.pending) {
    Do("create", kOut + name, "", bytes);
    Do("sync", kOut + name);
    Do("sync_directory", "/out/out");
  }
  for (const auto& [path, bytes] : parts.state_files) {
    disk().PutFile(Concat(kJob, "/", path), bytes);
  }
  const std::string path = ManifestPath(parts);
  Do("create", path, "", EncodeManifest(parts.manifest));
  Do("sync", path);
  Do("sync_directory", ParentPath(path));
}

void HandMadeJob::Publish(const Parts& parts) {
  if (!parts.pending.empty()) Do("rename", PendingPath(parts), FinalPath(parts));
  Do("sync_directory", "/out/out");
}

void HandMadeJob::AtEnd() {
  for (auto& checker : checkers_) {
    speaking_ = checker->name();
    checker->AtEnd();
  }
}

std::string HandMadeJob::violations() const {
  std::string all;
  for (const auto& [name, texts] : said_) {
    for (const std::string& text : texts) all += Concat(name, ": ", text, "\n");
  }
  return all;
}

testing::AssertionResult HandMadeJob::Says(const std::string& checker,
                                           const std::string& words) const {
  auto it = said_.find(checker);
  if (it != said_.end() && it->second.front().find(words) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "expected of " << checker << ": " << words << "\nsaid:\n"
                                     << violations();
}

}  // namespace weir::sim
