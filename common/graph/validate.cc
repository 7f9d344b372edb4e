#include "common/graph/validate.h"

#include <algorithm>
#include <set>

#include "common/base/concat.h"
#include "common/graph/execution_plan.h"

namespace weir {
namespace {

constexpr size_t kVerticesMax = 1000;
constexpr size_t kEdgesMax = 10'000;

// Names end up in file names.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), IsNameByte);
}

Status CheckName(std::string_view what, const std::string& name) {
  if (IsName(name)) return {};
  return InvalidArgumentError(Concat(
      what, " '", ConfigValue(name).Shown(),
      "' is no name: expected 1 to 64 letters, digits, '-', '_', '.', the first of them no '-' or "
      "'.'"));
}

std::string Place(const JobVertex& vertex) { return Concat("vertex '", vertex.uid, "'"); }
std::string Place(const JobEdge& edge) {
  return Concat("edge '", edge.from, "' -> '", edge.to, "'");
}

std::string List(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += Concat(list.empty() ? "" : ", ", name);
  return list;
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? Concat("known are ", List(known))
                         : Concat("did you mean '", nearest, "'?");
}

bool IsOfKind(const ConfigValue& value, std::string_view kind) {
  if (kind == "text") return value.is_text();
  if (kind == "integer") return value.is_integer();
  if (kind == "number") return value.is_number();
  if (kind == "bool") return value.is_bool();
  if (kind == "list") return value.is_list();
  if (kind == "object") return value.is_object();
  return true;
}

std::string_view WithArticle(std::string_view kind) {
  if (kind == "text") return "a text";
  if (kind == "integer") return "an integer";
  if (kind == "number") return "a number";
  if (kind == "bool") return "true or false";
  if (kind == "list") return "a list";
  if (kind == "object") return "an object";
  return "a value";
}

Status CheckFields(const Config& config, const TypeDescriptor& type) {
  std::vector<std::string> known;
  for (const ConfigField& field : type.fields) {
    if (!field.hidden) known.push_back(field.name);
  }
  // First: what is unknown is mostly the misspelt name of what is missing.
  for (const auto& [name, value] : config.value().as_object()) {
    const bool found = std::any_of(type.fields.begin(), type.fields.end(),
                                   [&](const ConfigField& field) { return field.name == name; });
    if (found || type.any_field) continue;
    return InvalidArgumentError(
        known.empty() ? Concat("unknown config field '", name, "': ", type.type, " takes none")
                      : Concat("unknown config field '", name, "': ", DidYouMean(name, known)));
  }
  for (const ConfigField& field : type.fields) {
    const ConfigValue* value = config.Find(field.name);
    if (value == nullptr || value->is_null()) {
      if (!field.required) continue;
      return InvalidArgumentError(Concat("config field '", field.name, "' is missing: expected ",
                                         WithArticle(field.kind), " (", field.help, ")"));
    }
    if (!IsOfKind(*value, field.kind)) {
      return InvalidArgumentError(Concat("config field '", field.name, "' is '", value->Shown(),
                                         "' (", value->KindName(), "): expected ",
                                         WithArticle(field.kind), " (", field.help, ")"));
    }
  }
  return {};
}

// One call of Validate. Thread: confined to the call.
class Validator {
 public:
  Validator(JobGraph graph, const TypeLookup& extra, bool allow_unknown_types)
      : extra_(extra), allow_unknown_types_(allow_unknown_types) {
    result_.graph = std::move(graph);
  }

  StatusOr<Validated> Run() {
    if (graph().name.empty()) graph().name = "job";
    WEIR_RETURN_IF_ERROR(CheckName("job name", graph().name));
    WEIR_ASSIGN_OR_RETURN(result_.options, ParseJobOptions(graph().options));
    WEIR_RETURN_IF_ERROR(CheckVertices());
    WEIR_RETURN_IF_ERROR(ResolveEdges());
    WEIR_RETURN_IF_ERROR(CheckInputsAndOutputs());
    WEIR_RETURN_IF_ERROR(SortTopologically());
    for (int v : order_) WEIR_RETURN_IF_ERROR(CheckEdgesAndSchema(v));
    return std::move(result_);
  }

 private:
  JobGraph& graph() { return result_.graph; }
  JobVertex& vertex(int v) { return graph().vertices[v]; }

  Status CheckVertices() {
    if (graph().vertices.empty()) {
      return InvalidArgumentError("the job has no vertices: expected a source and a sink at least");
    }
    if (graph().vertices.size() > kVerticesMax || graph().edges.size() > kEdgesMax) {
      return InvalidArgumentError(Concat("the job has ", graph().vertices.size(), " vertices and ",
                                         graph().edges.size(), " edges: at most ", kVerticesMax,
                                         " and ", kEdgesMax));
    }
    for (size_t i = 0; i < graph().vertices.size(); ++i) {
      JobVertex& v = graph().vertices[i];
      if (v.uid.empty()) v.uid = DerivedUid(v.type, i);
      WEIR_RETURN_IF_ERROR(CheckName(Concat("vertices[", i, "]: uid"), v.uid));
      if (!index_of_.emplace(v.uid, static_cast<int>(i)).second) {
        return InvalidArgumentError(Concat("vertices[", i, "]: uid '", v.uid,
                                           "' is there twice: expected a name of its own"));
      }
      uids_.push_back(v.uid);
      StatusOr<const TypeDescriptor*> type = FindType(v.type);
      if (!type.ok()) return type.status().WithContext(Place(v));
      types_.push_back(*type);
      if (*type != nullptr) {
        Status fields = CheckFields(v.config, **type);
        if (!fields.ok()) return fields.WithContext(Concat(Place(v), " (", v.type, ")"));
      }
      Status parallelism = CheckParallelism(v);
      if (!parallelism.ok()) return parallelism.WithContext(Place(v));
    }
    return {};
  }

  // nullptr for an unknown one that is allowed.
  StatusOr<const TypeDescriptor*> FindType(const std::string& type) {
    auto builtin = BuiltinTypes().find(type);
    if (builtin != BuiltinTypes().end()) return &builtin->second;
    const TypeDescriptor* found = extra_ ? extra_(type) : nullptr;
    if (found != nullptr) return found;
    if (allow_unknown_types_ && !type.empty()) return static_cast<const TypeDescriptor*>(nullptr);
    std::vector<std::string> known;
    for (const auto& [name, descriptor] : BuiltinTypes()) known.push_back(name);
    return InvalidArgumentError(Concat("unknown type '", type, "': ", DidYouMean(type, known)));
  }

  Status CheckParallelism(const JobVertex& v) {
    const int max = MaxParallelismOf(v, result_.options);
    if (max < 1 || max > 32768) {
      return InvalidArgumentError(Concat("max_parallelism is ", max, ": expected 1 ... 32768"));
    }
    const int parallelism = ParallelismOf(v, result_.options);
    if (parallelism < 1 || parallelism > max) {
      return InvalidArgumentError(Concat("parallelism is ", parallelism,
                                         v.parallelism == 0 ? " (the job's)" : "",
                                         ": expected 1 ... max_parallelism, which is ", max));
    }
    return {};
  }

  StatusOr<int> FindUid(const std::string& uid) {
    auto found = index_of_.find(uid);
    if (found != index_of_.end()) return found->second;
    return InvalidArgumentError(Concat("there is no vertex '", uid, "': ", DidYouMean(uid, uids_)));
  }

  Status ResolveEdges() {
    in_edges_.resize(graph().vertices.size());
    out_edges_.resize(graph().vertices.size());
    for (size_t e = 0; e < graph().edges.size(); ++e) {
      const JobEdge& edge = graph().edges[e];
      StatusOr<int> from = FindUid(edge.from), to = FindUid(edge.to);
      if (!from.ok()) return from.status().WithContext(Concat("edges[", e, "].from"));
      if (!to.ok()) return to.status().WithContext(Concat("edges[", e, "].to"));
      from_.push_back(*from);
      to_.push_back(*to);
      out_edges_[*from].push_back(static_cast<int>(e));
      in_edges_[*to].push_back(static_cast<int>(e));
    }
    for (std::vector<int>& edges : in_edges_) {
      std::stable_sort(edges.begin(), edges.end(), [&](int a, int b) {
        return graph().edges[a].input < graph().edges[b].input;
      });
    }
    return {};
  }

  Status CheckInputsAndOutputs() {
    for (int v = 0; v < static_cast<int>(graph().vertices.size()); ++v) {
      if (types_[v] == nullptr) continue;
      const VertexKind kind = types_[v]->kind;
      const std::vector<int>& inputs = in_edges_[v];
      if (kind == VertexKind::kSource && !inputs.empty()) {
        return InvalidArgumentError(Concat(Place(graph().edges[inputs[0]]), ": '", vertex(v).uid,
                                           "' is a source (", vertex(v).type,
                                           "): it takes no input"));
      }
      if (kind == VertexKind::kSink && !out_edges_[v].empty()) {
        return InvalidArgumentError(Concat(Place(graph().edges[out_edges_[v][0]]), ": '",
                                           vertex(v).uid, "' is a sink (", vertex(v).type,
                                           "): nothing can follow it"));
      }
    }
    for (int v = 0; v < static_cast<int>(graph().vertices.size()); ++v) {
      const TypeDescriptor* type = types_[v];
      const VertexKind kind = type == nullptr ? VertexKind::kOperator : type->kind;
      const std::vector<int>& inputs = in_edges_[v];
      if (kind != VertexKind::kSink && out_edges_[v].empty()) {
        return InvalidArgumentError(
            Concat(Place(vertex(v)), " (", vertex(v).type,
                   ") has no edge out of it: its rows need a sink, for example blackhole"));
      }
      if (kind == VertexKind::kSource) continue;
      const int inputs_min = type == nullptr ? 1 : type->inputs_min;
      const int inputs_max = type == nullptr ? kUnknownInputsMax : type->inputs_max;
      const int count = static_cast<int>(inputs.size());
      if (count < inputs_min || count > inputs_max) {
        return InvalidArgumentError(Concat(
            Place(vertex(v)), " (", vertex(v).type, ") has ", count,
            count == 1 ? " edge into it: expected " : " edges into it: expected ", inputs_min,
            inputs_max == inputs_min ? std::string() : Concat(" to ", inputs_max),
            count > 1 && inputs_max == 1 ? "; a union makes one stream of several" : ""));
      }
      for (int i = 0; i < count; ++i) {
        const JobEdge& edge = graph().edges[inputs[i]];
        if (edge.input == i) continue;
        return InvalidArgumentError(Concat(Place(edge), ": input is ", edge.input,
                                           ": the edges into '", vertex(v).uid,
                                           "' need the inputs 0 ... ", count - 1, ", each once"));
      }
    }
    return {};
  }

  Status SortTopologically() {
    const int count = static_cast<int>(graph().vertices.size());
    std::vector<size_t> waiting(count);
    std::vector<int> ready;
    for (int v = 0; v < count; ++v) {
      waiting[v] = in_edges_[v].size();
      if (waiting[v] == 0) ready.push_back(v);
    }
    while (!ready.empty()) {
      const int v = ready.back();
      ready.pop_back();
      order_.push_back(v);
      for (int e : out_edges_[v]) {
        if (--waiting[to_[e]] == 0) ready.push_back(to_[e]);
      }
    }
    if (static_cast<int>(order_.size()) == count) return {};
    // Whatever waits has a predecessor that waits: going back from one ends in a cycle.
    int v = 0;
    while (waiting[v] == 0) ++v;
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), v) == path.end()) {
      path.push_back(v);
      for (int e : in_edges_[v]) {
        if (waiting[from_[e]] == 0) continue;
        v = from_[e];
        break;
      }
    }
    // The cycle in the direction of the rows, from the vertex that was written first.
    path.erase(path.begin(), std::find(path.begin(), path.end(), v));
    std::reverse(path.begin(), path.end());
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    std::string cycle;
    for (int member : path) cycle += vertex(member).uid + " -> ";
    cycle += vertex(path[0]).uid;
    return InvalidArgumentError(
        Concat("the job has the cycle ", cycle, ": rows must flow one way, from sources to sinks"));
  }

  // REQUIRES: done for all vertices before `v`.
  Status CheckEdgesAndSchema(int v) {
    const TypeDescriptor* type = types_[v];
    std::vector<std::string> keys;
    if (type != nullptr && type->keys) keys = type->keys(vertex(v).config);
    std::vector<Schema> inputs;
    bool inputs_known = true;
    for (int e : in_edges_[v]) {
      JobEdge& edge = graph().edges[e];
      Status status = CheckPartitioning(&edge, from_[e], v, keys);
      if (!status.ok()) return status.WithContext(Place(edge));
      const std::optional<Schema>& schema = vertex(from_[e]).output_schema;
      if (schema.has_value()) {
        inputs.push_back(*schema);
      } else {
        inputs_known = false;
      }
    }
    if (!inputs_known) return {};  // complete is false already
    WEIR_RETURN_IF_ERROR(CheckHashTypes(v, inputs));
    std::optional<Schema> schema;
    if (type != nullptr && type->check) {
      StatusOr<std::optional<Schema>> checked = type->check(vertex(v).config, inputs);
      if (!checked.ok()) {
        return checked.status().WithContext(Concat(Place(vertex(v)), " (", vertex(v).type, ")"));
      }
      schema = *std::move(checked);
    }
    if (type != nullptr && type->check_options) {
      Status checked = type->check_options(vertex(v).config, result_.options);
      if (!checked.ok()) {
        return checked.WithContext(Concat(Place(vertex(v)), " (", vertex(v).type, ")"));
      }
    }
    if (type != nullptr && type->kind == VertexKind::kSink) {
      vertex(v).output_schema.reset();
      return {};
    }
    if (schema.has_value()) vertex(v).output_schema = std::move(schema);
    if (!vertex(v).output_schema.has_value()) result_.complete = false;
    return {};
  }

  Status CheckPartitioning(JobEdge* edge, int from, int to, const std::vector<std::string>& keys) {
    if (!edge->partitioning.has_value()) {
      if (!edge->columns.empty()) {
        return InvalidArgumentError(Concat("columns are ", List(edge->columns),
                                           " without a partitioning: expected HASH with them"));
      }
      if (!keys.empty()) {
        edge->partitioning = Partitioning::kHash;
        edge->columns = keys;
      } else if (vertex(to).type == "rebalance") {
        edge->partitioning = Partitioning::kRebalance;
      } else {
        return {};
      }
    }
    const Partitioning partitioning = *edge->partitioning;
    if (partitioning != Partitioning::kHash && !edge->columns.empty()) {
      return InvalidArgumentError(Concat("columns are ", List(edge->columns), " with ",
                                         ToString(partitioning), ": only HASH takes columns"));
    }
    if (!keys.empty()) {
      const std::set<std::string> have(edge->columns.begin(), edge->columns.end());
      if (partitioning != Partitioning::kHash || edge->columns.size() != keys.size() ||
          have != std::set<std::string>(keys.begin(), keys.end())) {
        return InvalidArgumentError(Concat("partitioning is ", ToString(partitioning),
                                           edge->columns.empty() ? "" : " by ", List(edge->columns),
                                           ": '", edge->to, "' keeps state by ", List(keys),
                                           " and needs HASH by exactly these"));
      }
      // One order everywhere: the hash depends on it.
      edge->columns = keys;
    }
    if (vertex(to).type == "rebalance" && partitioning != Partitioning::kRebalance) {
      return InvalidArgumentError(
          Concat("partitioning is ", ToString(partitioning), ": rebalance needs REBALANCE"));
    }
    if (partitioning == Partitioning::kForward) {
      const int sender = ParallelismOf(vertex(from), result_.options);
      const int receiver = ParallelismOf(vertex(to), result_.options);
      if (sender == receiver) return {};
      return InvalidArgumentError(Concat("partitioning is FORWARD from parallelism ", sender,
                                         " to ", receiver,
                                         ": FORWARD needs equal ones, else REBALANCE"));
    }
    if (partitioning != Partitioning::kHash) return {};
    if (edge->columns.empty()) {
      return InvalidArgumentError("partitioning is HASH without columns: expected the key columns");
    }
    const std::optional<Schema>& schema = vertex(from).output_schema;
    for (size_t i = 0; i < edge->columns.size(); ++i) {
      const std::string& column = edge->columns[i];
      if (std::find(edge->columns.begin(), edge->columns.begin() + static_cast<int>(i), column) !=
          edge->columns.begin() + static_cast<int>(i)) {
        return InvalidArgumentError(Concat("columns[", i, "] is '", column, "' a second time"));
      }
      if (!schema.has_value()) continue;
      StatusOr<int> index = schema->Require(column);
      if (!index.ok()) return index.status().WithContext(Concat("columns[", i, "]"));
    }
    return {};
  }

  // Rows of one key must meet in one subtask, from whichever input they come.
  Status CheckHashTypes(int v, const std::vector<Schema>& inputs) {
    auto key_types = [&](size_t input) {
      const JobEdge& edge = graph().edges[in_edges_[v][input]];
      std::vector<std::string> types;
      for (const std::string& column : edge.columns) {
        const Type type = inputs[input].field(inputs[input].IndexOf(column)).type;
        // Both have the same canonical bytes.
        types.emplace_back(type == Type::kInt32 ? ToString(Type::kInt64) : ToString(type));
      }
      return types;
    };
    int first = -1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const JobEdge& edge = graph().edges[in_edges_[v][i]];
      if (edge.partitioning != Partitioning::kHash) continue;
      if (first < 0) {
        first = static_cast<int>(i);
      } else if (key_types(i) != key_types(static_cast<size_t>(first))) {
        return InvalidArgumentError(Concat(Place(edge), ": columns have the types ",
                                           List(key_types(i)), ": those of input ", first, " have ",
                                           List(key_types(static_cast<size_t>(first))),
                                           ", and both must be equal"));
      }
    }
    return {};
  }

  static constexpr int kUnknownInputsMax = 64;

  const TypeLookup& extra_;
  const bool allow_unknown_types_;
  Validated result_;
  std::vector<std::string> uids_;
  std::map<std::string, int> index_of_;
  std::vector<const TypeDescriptor*> types_;  // of each vertex; nullptr: unknown
  std::vector<int> from_, to_;                // of each edge
  std::vector<std::vector<int>> in_edges_;    // of each vertex, by input number
  std::vector<std::vector<int>> out_edges_;
  std::vector<int> order_;
};

}  // namespace

StatusOr<Validated> Validate(JobGraph graph, const TypeLookup& extra, bool allow_unknown_types) {
  return Validator(std::move(graph), extra, allow_unknown_types).Run();
}

StatusOr<std::vector<ExclusiveName>> ExclusiveNamesOf(const JobGraph& graph, const JobId& job) {
  std::vector<ExclusiveName> all;
  for (const JobVertex& vertex : graph.vertices) {
    // Libraries bring operators, which hold nothing outside.
    auto type = BuiltinTypes().find(vertex.type);
    if (type == BuiltinTypes().end() || !type->second.exclusive_names) continue;
    std::vector<ExclusiveName> names = type->second.exclusive_names(vertex.config, job, vertex.uid);
    std::erase_if(names, [&](const ExclusiveName& name) {
      return name.of_job && std::find(all.begin(), all.end(), name) != all.end();
    });
    if (const ExclusiveName* twice = FindHeld(names, all)) {
      return InvalidArgumentError(Concat("vertex '", vertex.uid,
                                         "': another vertex of the job has ", "the ", twice->name,
                                         " as well: give one of them another uid or prefix"));
    }
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

const ExclusiveName* FindHeld(const std::vector<ExclusiveName>& names,
                              const std::vector<ExclusiveName>& held) {
  auto found = std::find_if(names.begin(), names.end(), [&](const ExclusiveName& name) {
    return std::find(held.begin(), held.end(), name) != held.end();
  });
  return found == names.end() ? nullptr : &*found;
}

}  // namespace weir
