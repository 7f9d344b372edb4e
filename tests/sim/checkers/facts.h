#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/checkpoint/manifest_codec.h"
#include "tests/sim/checkers/checker.h"
#include "tests/sim/workload/workload.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

// A file of rows that a completed checkpoint lists.
struct ListedPart {
  int sink = 0;              // vertex
  std::string pending_path;  // hidden; staged; "": a stage without rows
  std::string final_path;    // "": goes to Kafka
  int64_t length = 0;
  Generation generation;  // that sealed it
  CheckpointId sealed_at;
  CheckpointId first_listed;  // completed checkpoint
  // Of Kafka.
  int subtask = 0;
  int index = 0;  // of the parts sealed at that checkpoint
  bool is_staged() const { return final_path.empty(); }
};

// A COMPLETED entry.
struct CompletedEntry {
  std::string path;
  uint64_t term = 0;
  uint64_t number = 0;
  CheckpointId checkpoint;
  Generation generation;
  uint64_t checksum = 0;
  std::string directory;                       // of the checkpoint
  std::optional<CheckpointManifest> manifest;  // when it was there and intact at that moment
  std::string problem;                         // else
  std::vector<size_t> listed;                  // committables, into Facts::parts()
  bool pruned = false;
};

struct StartedEntry {
  std::string path;
  uint64_t term = 0;
  uint64_t number = 0;
  LogEntry entry;
  bool pruned = false;
};

// Where a path is.
struct OutputPath {
  int sink = -1;  // vertex; -1: in no sink's directory
  std::string_view name;
  bool hidden() const { return name.starts_with('.'); }
  bool is_final() const { return sink >= 0 && !hidden(); }
  bool is_pending() const { return sink >= 0 && hidden() && name.ends_with(".pending"); }
};

// What all checkers of a world look at: the completion log as it grew, with the manifests it names,
// and output files as rows. Comes before them in the order of being told. Entries that a power loss
// took are forgotten. Thread: confined to the simulation.
class Facts : public Checker {
 public:
  explicit Facts(const CheckContext& context);

  std::string_view name() const override { return "completion log"; }
  void OnStorage(const StorageEvent& event) override;
  void OnPowerLoss() override;

  const Workload& workload() const { return workload_; }
  MemoryDisk& disk() const { return *context_.disk.disk(); }

  // "/checkpoints/<job>"; "" before the first entry.
  const std::string& job_directory() const { return job_directory_; }
  // In the order in which they came to be.
  const std::vector<CompletedEntry>& completed() const { return completed_; }
  const std::vector<StartedEntry>& started() const { return started_; }
  // The entry that the event being told has made; nullptr: none such.
  const CompletedEntry* new_completed() const { return new_completed_; }
  const StartedEntry* new_started() const { return new_started_; }
  bool new_finished() const { return new_finished_; }
  bool finished() const { return !finished_path_.empty(); }
  // Finished, or given up: CANCELED, FAILED.
  bool ended() const { return finished() || !given_up_path_.empty(); }
  // Of the highest id; nullptr: none.
  const CompletedEntry* newest_completed() const;
  const CompletedEntry* FindCompleted(CheckpointId checkpoint) const;
  // Whether a power loss leaves the entry.
  bool IsDurable(const CompletedEntry& entry) const {
    return entry.pruned || disk().IsDurable(entry.path);
  }
  // Of the highest term and number; nullptr: none.
  const StartedEntry* newest_started() const;
  bool IsSealed(uint64_t term) const { return sealed_.contains(term); }

  const std::vector<ListedPart>& parts() const { return parts_; }
  const ListedPart* FindPart(const std::string& pending_path) const;

  OutputPath Locate(std::string_view path) const;
  // Whether the marker of its identity says that it is published. REQUIRES: is_staged.
  bool IsPublished(const ListedPart& part) const;
  // The rows of a file of this content.
  const OutputFile& Read(int sink, std::string_view bytes);

 private:
  void OnEntry(const StorageEvent& event, uint64_t term, uint64_t number);
  void LoadManifest(CompletedEntry* entry);

  const CheckContext context_;
  const Workload workload_;
  std::string job_directory_;
  std::vector<CompletedEntry> completed_;
  std::vector<StartedEntry> started_;
  std::map<uint64_t, std::string> sealed_;  // path of the seal of a term
  std::string finished_path_;
  std::string given_up_path_;
  const CompletedEntry* new_completed_ = nullptr;
  const StartedEntry* new_started_ = nullptr;
  bool new_finished_ = false;
  std::vector<ListedPart> parts_;
  std::unordered_map<std::string, size_t> part_of_;  // by pending path
  std::unordered_map<uint64_t, OutputFile> files_;   // by hash of sink and content
};

}  // namespace weir::sim
