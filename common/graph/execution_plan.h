#pragma once

#include <string>
#include <vector>

#include "common/graph/job_graph.h"
#include "common/graph/job_options.h"

namespace weir {

// How a validated graph runs: FORWARD-connected vertices of equal parallelism are chained into one
// task where both ends have no other edge between them (one output, one input). Deterministic:
// coordinator and workers compute the same plan from the same graph. Thread: immutable.
struct ExecutionPlan {
  struct TaskVertex {
    std::vector<int> chain;  // indices into graph.vertices, head first
    int parallelism = 1;
    int max_parallelism = 128;
    std::vector<int> inputs;   // indices into edges, ordered by (input number, edge order)
    std::vector<int> outputs;  // indices into edges
    std::string name;          // "flights -> filter", for people
  };
  struct Edge {
    int from_task = 0;  // index into tasks; its last vertex emits
    int to_task = 0;    // index into tasks; its first vertex receives
    int input = 0;      // input number at the receiving vertex
    Partitioning partitioning = Partitioning::kForward;
    // Columns of the sender's output that are sent, ascending: those the receiver reads and the key
    // columns, at least one. Empty: all.
    std::vector<int> columns;
    SchemaPtr schema;              // of what is sent
    std::vector<int> key_columns;  // HASH: column indices in `schema`
    // HASH into a vertex that takes partial rows: their schema. The sender may put rows of a key
    // together, and send these instead. They have the input number behind `input`, and their key
    // columns come first. nullptr: there are none.
    SchemaPtr partial_schema;
  };
  std::vector<TaskVertex> tasks;  // in topological order
  std::vector<Edge> edges;
  int parallelism_max = 1;  // slots needed: largest parallelism of any task
};

// The vertex's own number, or the job's.
int ParallelismOf(const JobVertex& vertex, const JobOptions& options);
int MaxParallelismOf(const JobVertex& vertex, const JobOptions& options);

// REQUIRES: a graph that Validate completed.
ExecutionPlan MakeExecutionPlan(const JobGraph& graph, const JobOptions& options);

// The plan as an indented tree for `weir info`.
std::string DescribePlan(const JobGraph& graph, const ExecutionPlan& plan);

}  // namespace weir
