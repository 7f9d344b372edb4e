#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/manifest_codec.h"
#include "tests/sim/checkers/checker.h"
#include "tests/sim/process.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_disk.h"

namespace weir::sim {

// A small job written down by hand, for the tests of the checkers: a source of two files, an
// aggregate per key, a sink. Its disk is changed by Do, primitive by primitive, and every checker
// is told, as by a simulation. Each step of its life is a function, and what a test wants to go
// wrong is changed in between.
//
//   /in/in/part-0.jsonl: rows 1000000 (key a, value 5), 1000001 (key b, value 7)
//   /in/in/part-1.jsonl: row 2000000 (key a, no value)
//
// Thread: confined to its owner.
class HandMadeJob {
 public:
  // What a checkpoint says; Checkpoint() makes one that is right.
  struct Parts {
    CheckpointManifest manifest;
    // Contents of the files it names, by path relative to the job's directory.
    std::map<std::string, std::string> state_files;
    // Hidden files of rows, by name, and their bytes.
    std::map<std::string, std::string> pending;
  };

  HandMadeJob();

  // Carries it out and tells the checkers.
  void Do(std::string_view operation, const std::string& path, const std::string& to = "",
          const std::string& bytes = "");
  void PowerLoss();  // all that is not synced is gone

  // The log, as `process` writes it.
  void Entry(uint64_t term, uint64_t number, LogEntry::Kind kind);
  void Started(uint64_t term, uint64_t number, uint64_t generation, uint64_t checkpoint);
  void Completed(uint64_t term, uint64_t number, const Parts& parts);
  void OrderStart(uint64_t generation, const CheckpointManifest& restore);

  // Checkpoint n of a generation, `rows` rows (of part-0, of part-1) having gone through; the sink
  // seals the output rows that `sealed` names, in a file of its own.
  Parts Checkpoint(uint64_t checkpoint, uint64_t generation, int rows_0, int rows_1,
                   const std::vector<std::string>& sealed);
  // Its files and its manifest are on disk, durable.
  void Write(const Parts& parts);
  // Renames what it lists, durably.
  void Publish(const Parts& parts);
  void AtEnd();

  std::string PendingPath(const Parts& parts) const { return kOut + parts.pending.begin()->first; }
  std::string FinalPath(const Parts& parts) const;
  std::string ManifestPath(const Parts& parts) const;

  // What each checker said, by its name; only the first counts in a simulation.
  std::string violations() const;
  // Whether that checker has said something that holds all of `words`.
  testing::AssertionResult Says(const std::string& checker, const std::string& words) const;

  MemoryDisk& disk() { return *view_.disk(); }

  static const std::string kOut;  // "/out/out/"
  static const std::string kJob;  // "/checkpoints/<id>"
  // Output rows.
  static const std::string kRow0, kRow1, kRow2;

  World world;
  std::string actor = "worker-1.1";  // who does what Do says; alone alive

 private:
  void Entry(uint64_t term, uint64_t number, LogEntry entry);

  ManualExecutor loop_;
  MemoryFileSystem view_{loop_};
  Probes probes_;
  std::string speaking_;
  std::map<std::string, std::vector<std::string>> said_;
  std::vector<std::unique_ptr<Checker>> checkers_;
};

}  // namespace weir::sim
