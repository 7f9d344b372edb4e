#include "common/graph/execution_plan.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/graph/type_descriptor.h"

namespace weir {
namespace {

int IndexOf(const JobGraph& graph, const std::string& uid) {
  for (size_t i = 0; i < graph.vertices.size(); ++i) {
    if (graph.vertices[i].uid == uid) return static_cast<int>(i);
  }
  WEIR_CHECK_MESSAGE(false, uid);
  return -1;
}

// The columns that an edge from `sender` to `receiver` sends; empty: all.
std::vector<int> ColumnsSent(const JobVertex& sender, const JobVertex& receiver,
                             const std::vector<std::string>& key_columns) {
  const auto type = BuiltinTypes().find(receiver.type);
  if (type == BuiltinTypes().end() || !type->second.reads) return {};
  const Schema& schema = *sender.output_schema;
  std::vector<std::string> names = type->second.reads(receiver.config, schema);
  names.insert(names.end(), key_columns.begin(), key_columns.end());
  std::set<int> columns;
  for (const std::string& name : names) columns.insert(schema.IndexOf(name));
  if (columns.empty()) {
    // Rows have to be counted by something.
    int narrowest = 0;
    for (int i = 1; i < schema.size(); ++i) {
      const int width = FixedWidth(schema.field(i).type);
      const int best = FixedWidth(schema.field(narrowest).type);
      if (width != 0 && (best == 0 || width < best)) narrowest = i;
    }
    columns.insert(narrowest);
  }
  WEIR_CHECK(*columns.begin() >= 0);
  if (static_cast<int>(columns.size()) == schema.size()) return {};
  return {columns.begin(), columns.end()};
}

// What an edge sends, and where its key columns are in it.
void FillSchema(const JobVertex& sender, const JobVertex& receiver,
                const std::vector<std::string>& key_columns, ExecutionPlan::Edge* edge) {
  if (!sender.output_schema.has_value()) {
    WEIR_CHECK(key_columns.empty());
    return;
  }
  edge->columns = ColumnsSent(sender, receiver, key_columns);
  std::vector<Field> fields;
  for (const int column : edge->columns) fields.push_back(sender.output_schema->field(column));
  edge->schema = std::make_shared<const Schema>(edge->columns.empty() ? *sender.output_schema
                                                                      : Schema(std::move(fields)));
  for (const std::string& column : key_columns) {
    WEIR_CHECK(edge->schema->IndexOf(column) >= 0);
    edge->key_columns.push_back(edge->schema->IndexOf(column));
  }
}

// Of the partial rows that the receiver takes from the edge; nullptr: none.
SchemaPtr PartialSchema(const ExecutionPlan::Edge& edge, const JobVertex& receiver) {
  const auto type = BuiltinTypes().find(receiver.type);
  if (edge.partitioning != Partitioning::kHash || type == BuiltinTypes().end() ||
      !type->second.partials) {
    return nullptr;
  }
  std::optional<Schema> schema = type->second.partials(receiver.config, *edge.schema);
  return schema.has_value() ? std::make_shared<const Schema>(*std::move(schema)) : nullptr;
}

}  // namespace

int ParallelismOf(const JobVertex& vertex, const JobOptions& options) {
  return vertex.parallelism != 0 ? vertex.parallelism : options.parallelism;
}

int MaxParallelismOf(const JobVertex& vertex, const JobOptions& options) {
  return vertex.max_parallelism != 0 ? vertex.max_parallelism : options.max_parallelism;
}

ExecutionPlan MakeExecutionPlan(const JobGraph& graph, const JobOptions& options) {
  const int vertex_count = static_cast<int>(graph.vertices.size());
  const int edge_count = static_cast<int>(graph.edges.size());
  std::vector<int> from(edge_count), to(edge_count);
  std::vector<Partitioning> partitioning(edge_count);
  std::vector<int> in_degree(vertex_count), out_degree(vertex_count);
  std::vector<std::vector<int>> out_edges(vertex_count);
  for (int e = 0; e < edge_count; ++e) {
    const JobEdge& edge = graph.edges[e];
    from[e] = IndexOf(graph, edge.from);
    to[e] = IndexOf(graph, edge.to);
    ++out_degree[from[e]];
    ++in_degree[to[e]];
    out_edges[from[e]].push_back(e);
    const bool equal = ParallelismOf(graph.vertices[from[e]], options) ==
                       ParallelismOf(graph.vertices[to[e]], options);
    partitioning[e] =
        edge.partitioning.value_or(equal ? Partitioning::kForward : Partitioning::kRebalance);
  }

  // Topological order; among those that could be next the one written first.
  std::vector<int> order;
  std::vector<int> waiting = in_degree;
  std::set<int> ready;
  for (int v = 0; v < vertex_count; ++v) {
    if (waiting[v] == 0) ready.insert(v);
  }
  while (!ready.empty()) {
    const int v = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(v);
    for (int e : out_edges[v]) {
      if (--waiting[to[e]] == 0) ready.insert(to[e]);
    }
  }
  WEIR_CHECK(static_cast<int>(order.size()) == vertex_count);

  auto chained = [&](int e) {
    return partitioning[e] == Partitioning::kForward && out_degree[from[e]] == 1 &&
           in_degree[to[e]] == 1;
  };
  ExecutionPlan plan;
  std::vector<int> task_of(vertex_count, -1);
  // Whoever a chain goes on from comes earlier in the order, so its task is there already.
  for (int v : order) {
    const JobVertex& vertex = graph.vertices[v];
    int task = -1;
    for (int e = 0; e < edge_count; ++e) {
      if (to[e] == v && chained(e)) task = task_of[from[e]];
    }
    if (task < 0) {
      task = static_cast<int>(plan.tasks.size());
      plan.tasks.emplace_back();
      plan.tasks[task].parallelism = ParallelismOf(vertex, options);
      plan.tasks[task].max_parallelism = MaxParallelismOf(vertex, options);
    }
    ExecutionPlan::TaskVertex& entry = plan.tasks[task];
    entry.chain.push_back(v);
    entry.name += Concat(entry.name.empty() ? "" : " -> ", vertex.uid);
    task_of[v] = task;
    plan.parallelism_max = std::max(plan.parallelism_max, entry.parallelism);
  }

  for (int e = 0; e < edge_count; ++e) {
    if (chained(e)) continue;
    ExecutionPlan::Edge edge;
    edge.from_task = task_of[from[e]];
    edge.to_task = task_of[to[e]];
    edge.input = graph.edges[e].input;
    edge.partitioning = partitioning[e];
    FillSchema(graph.vertices[from[e]], graph.vertices[to[e]], graph.edges[e].columns, &edge);
    edge.partial_schema = PartialSchema(edge, graph.vertices[to[e]]);
    const int index = static_cast<int>(plan.edges.size());
    plan.tasks[edge.from_task].outputs.push_back(index);
    plan.tasks[edge.to_task].inputs.push_back(index);
    plan.edges.push_back(std::move(edge));
  }
  for (ExecutionPlan::TaskVertex& task : plan.tasks) {
    std::stable_sort(task.inputs.begin(), task.inputs.end(),
                     [&](int a, int b) { return plan.edges[a].input < plan.edges[b].input; });
  }
  return plan;
}

std::string DescribePlan(const JobGraph& graph, const ExecutionPlan& plan) {
  int subtasks = 0;
  for (const ExecutionPlan::TaskVertex& task : plan.tasks) subtasks += task.parallelism;
  std::string text =
      Concat(graph.name, ": ", plan.tasks.size(), plan.tasks.size() == 1 ? " task, " : " tasks, ",
             subtasks, subtasks == 1 ? " subtask, needs " : " subtasks, needs ",
             plan.parallelism_max, plan.parallelism_max == 1 ? " slot\n" : " slots\n");
  for (const ExecutionPlan::TaskVertex& task : plan.tasks) {
    text += Concat("  ", task.name, "  (parallelism ", task.parallelism, ")\n");
    for (int index : task.inputs) {
      const ExecutionPlan::Edge& edge = plan.edges[index];
      const ExecutionPlan::TaskVertex& sender = plan.tasks[edge.from_task];
      const JobVertex& last = graph.vertices[sender.chain.back()];
      text += Concat("    <- ", last.uid, "  ", ToString(edge.partitioning));
      for (size_t i = 0; i < edge.key_columns.size(); ++i) {
        text += Concat(i == 0 ? " by " : ", ", edge.schema->field(edge.key_columns[i]).name);
      }
      for (size_t i = 0; i < edge.columns.size(); ++i) {
        text += Concat(i == 0 ? "  sends " : ", ", last.output_schema->field(edge.columns[i]).name);
      }
      if (edge.partial_schema != nullptr) {
        text +=
            edge.columns.empty() ? "  sends rows or partial aggregates" : " or partial aggregates";
      }
      text += task.inputs.size() > 1 ? Concat("  (input ", edge.input, ")\n") : std::string("\n");
    }
    for (int v : task.chain) {
      const JobVertex& vertex = graph.vertices[v];
      text += Concat("    ", vertex.uid, "  ", vertex.type);
      if (vertex.output_schema.has_value()) text += "  " + vertex.output_schema->ToString();
      text += '\n';
    }
  }
  return text;
}

}  // namespace weir
