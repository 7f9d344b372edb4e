#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "common/graph/config.h"
#include "common/graph/job_graph.h"

namespace weir {

class JobBuilder;

// The sink that ends a stream. Valid as long as its JobBuilder.
class StreamEnd {
 public:
  // Subtasks of the sink, in place of the job's.
  StreamEnd parallelism(int subtasks);

 private:
  friend class Stream;
  StreamEnd(JobGraph* graph, size_t vertex) : graph_(graph), vertex_(vertex) {}
  JobGraph* graph_;
  size_t vertex_;
};

// The rows that one vertex emits, and how they will reach the next one. A value: the same stream
// may go on into several vertices. Mistakes are found when the whole job is checked. Valid as long
// as its JobBuilder. Thread: that of the builder.
class Stream {
 public:
  // How the rows go to the vertex that is applied next. Without one of these: by its keys into a
  // keyed vertex, else one to one between equal parallelism, else round robin.
  Stream hash(std::vector<std::string> columns) const;
  Stream rebalance() const;
  Stream broadcast() const;
  Stream forward() const;

  // The operator of registered type `type` over this stream.
  Stream apply(std::string uid, std::string type, Config config = {}) const;
  // The rows for which `expression` is true. Without a uid one is derived from the position.
  Stream filter(std::string expression, std::string uid = "") const;
  // Rows made anew: names of input columns, or {name, expression}.
  Stream project(std::vector<ProjectColumn> columns, std::string uid = "") const;
  // This stream and `others`, of equal columns, as one.
  Stream union_with(std::vector<Stream> others, std::string uid = "") const;
  StreamEnd sink(std::string uid, std::string type, Config config = {}) const;

  // Subtasks and key groups of the vertex that emits this stream, in place of the job's.
  Stream parallelism(int subtasks) const;
  Stream max_parallelism(int key_groups) const;

 private:
  friend class JobBuilder;
  Stream(JobGraph* graph, size_t vertex) : graph_(graph), vertex_(vertex) {}
  Stream With(Partitioning partitioning, std::vector<std::string> columns) const;
  void ConnectTo(size_t vertex, int input) const;

  JobGraph* graph_;
  size_t vertex_;
  std::optional<Partitioning> partitioning_;
  std::vector<std::string> columns_;
};

// Builds a JobGraph step by step; see common/operator/job_library.h for a job library.
//
//   auto flights = job.source("flights", "files.source", {{"path", "in/*.csv"}, {"format",
//   "csv"}}); flights.hash({"carrier"}).apply("worst", "worst_delay").sink("out", "blackhole");
//
// Thread: externally synchronised.
class JobBuilder {
 public:
  // `graph` outlives the builder.
  explicit JobBuilder(JobGraph& graph) : graph_(&graph) {}

  JobBuilder& name(std::string name);
  // An option of the job, as in its JSON form: option("checkpoint.interval", "1s").
  JobBuilder& option(std::string name, std::string value);

  Stream source(std::string uid, std::string type, Config config = {});
  // An operator of several inputs, in the order of its input numbers.
  Stream apply(std::string uid, std::string type, std::vector<Stream> inputs, Config config = {});

 private:
  JobGraph* graph_;
};

}  // namespace weir
