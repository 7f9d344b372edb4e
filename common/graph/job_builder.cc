#include "common/graph/job_builder.h"

namespace weir {
namespace {

// The index of a new vertex, with a uid if it was given none.
size_t AddVertex(JobGraph* graph, std::string uid, std::string type, Config config) {
  JobVertex vertex;
  vertex.uid = uid.empty() ? DerivedUid(type, graph->vertices.size()) : std::move(uid);
  vertex.type = std::move(type);
  vertex.config = std::move(config);
  graph->vertices.push_back(std::move(vertex));
  return graph->vertices.size() - 1;
}

}  // namespace

StreamEnd StreamEnd::parallelism(int subtasks) {
  graph_->vertices[vertex_].parallelism = subtasks;
  return *this;
}

Stream Stream::With(Partitioning partitioning, std::vector<std::string> columns) const {
  Stream stream(graph_, vertex_);
  stream.partitioning_ = partitioning;
  stream.columns_ = std::move(columns);
  return stream;
}

Stream Stream::hash(std::vector<std::string> columns) const {
  return With(Partitioning::kHash, std::move(columns));
}
Stream Stream::rebalance() const { return With(Partitioning::kRebalance, {}); }
Stream Stream::broadcast() const { return With(Partitioning::kBroadcast, {}); }
Stream Stream::forward() const { return With(Partitioning::kForward, {}); }

void Stream::ConnectTo(size_t vertex, int input) const {
  JobEdge edge;
  edge.from = graph_->vertices[vertex_].uid;
  edge.to = graph_->vertices[vertex].uid;
  edge.partitioning = partitioning_;
  edge.columns = columns_;
  edge.input = input;
  graph_->edges.push_back(std::move(edge));
}

Stream Stream::apply(std::string uid, std::string type, Config config) const {
  const size_t vertex = AddVertex(graph_, std::move(uid), std::move(type), std::move(config));
  ConnectTo(vertex, 0);
  return Stream(graph_, vertex);
}

Stream Stream::filter(std::string expression, std::string uid) const {
  return apply(std::move(uid), "filter", {{"expression", std::move(expression)}});
}

Stream Stream::project(std::vector<ProjectColumn> columns, std::string uid) const {
  ConfigList list;
  for (ProjectColumn& column : columns) {
    if (column.expression.empty()) {
      list.emplace_back(std::move(column.name));
    } else {
      list.emplace_back(ConfigMembers{{"name", std::move(column.name)},
                                      {"expression", std::move(column.expression)}});
    }
  }
  return apply(std::move(uid), "project", {{"columns", std::move(list)}});
}

Stream Stream::union_with(std::vector<Stream> others, std::string uid) const {
  others.insert(others.begin(), *this);
  return JobBuilder(*graph_).apply(std::move(uid), "union", std::move(others));
}

StreamEnd Stream::sink(std::string uid, std::string type, Config config) const {
  return StreamEnd(graph_, apply(std::move(uid), std::move(type), std::move(config)).vertex_);
}

Stream Stream::parallelism(int subtasks) const {
  graph_->vertices[vertex_].parallelism = subtasks;
  return *this;
}

Stream Stream::max_parallelism(int key_groups) const {
  graph_->vertices[vertex_].max_parallelism = key_groups;
  return *this;
}

JobBuilder& JobBuilder::name(std::string name) {
  graph_->name = std::move(name);
  return *this;
}

JobBuilder& JobBuilder::option(std::string name, std::string value) {
  graph_->options[std::move(name)] = std::move(value);
  return *this;
}

Stream JobBuilder::source(std::string uid, std::string type, Config config) {
  return Stream(graph_, AddVertex(graph_, std::move(uid), std::move(type), std::move(config)));
}

Stream JobBuilder::apply(std::string uid, std::string type, std::vector<Stream> inputs,
                         Config config) {
  const size_t vertex = AddVertex(graph_, std::move(uid), std::move(type), std::move(config));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].ConnectTo(vertex, static_cast<int>(i));
  return Stream(graph_, vertex);
}

}  // namespace weir
