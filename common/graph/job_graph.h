#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/record/schema.h"

namespace weir {

enum class Partitioning {
  kForward,    // subtask i to subtask i; equal parallelism
  kHash,       // by the hash of key columns
  kRebalance,  // batches round robin
  kBroadcast,  // every row to every subtask
};
std::string_view ToString(Partitioning partitioning);  // "FORWARD" …

struct JobVertex {
  std::string uid;   // unique in the job; derived ("<type>-<position>") if absent
  std::string type;  // registered operator type
  Config config;
  int parallelism = 0;      // 0: the job's
  int max_parallelism = 0;  // 0: the job's
  // Filled in when the job is planned: what the vertex emits. Absent for sinks.
  std::optional<Schema> output_schema;
  bool operator==(const JobVertex&) const = default;
};

struct JobEdge {
  std::string from;  // uid
  std::string to;    // uid
  // Absent: HASH by its keys into a keyed vertex, REBALANCE into a `rebalance`, else FORWARD
  // between equal parallelism and REBALANCE between others.
  std::optional<Partitioning> partitioning;
  std::vector<std::string> columns;  // HASH only: key columns of `from`'s output
  int input = 0;                     // input number at `to`
  bool operator==(const JobEdge&) const = default;
};

// Names of jobs and uids: 1 to kNameMax letters, digits, '-', '_', '.'.
inline constexpr size_t kNameMax = 64;
inline bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// What a user asks to run: vertices in the order they were written, edges, job options by name as
// text. Plain data; Validate (validate.h) says whether it is a job. Thread: externally
// synchronised.
struct JobGraph {
  std::string name;
  std::map<std::string, std::string> options;
  std::vector<JobVertex> vertices;
  std::vector<JobEdge> edges;
  // SHA-256 (hex) of the job library that brings vertex types which are not built in; "" if none.
  std::string library_sha256;

  const JobVertex* FindVertex(std::string_view uid) const;
  bool operator==(const JobGraph&) const = default;
};

// The uid of a vertex that has none, from its type and its index in JobGraph::vertices:
// "files.source-0".
std::string DerivedUid(const std::string& type, size_t position);

// Reads the JSON form of a job. Unknown fields are user errors that name the nearest known
// one and the place ("vertices[1].confg").
StatusOr<JobGraph> ParseJobGraph(std::string_view json);
// The same form, complete, pretty printed. ParseJobGraph(ToJson(g)) == g.
std::string ToJson(const JobGraph& graph);

// An object of column names and type names, in order ({"row_id": "INT64"}), as a schema and back.
// `place` begins the messages.
StatusOr<Schema> ParseSchema(const ConfigValue& object, std::string_view place);
ConfigValue SchemaToConfig(const Schema& schema);

}  // namespace weir
