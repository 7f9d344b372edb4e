#include "common/graph/job_graph.h"

#include <limits>

#include "common/base/concat.h"

namespace weir {
namespace {

Status Unexpected(std::string_view place, const ConfigValue& value, std::string_view expected) {
  return InvalidArgumentError(
      Concat(place, " is '", value.Shown(), "' (", value.KindName(), "): expected ", expected));
}

// Refuses members that are none of `known`.
Status CheckMembers(const ConfigValue& object, const std::string& place,
                    const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.as_object()) {
    bool found = false;
    std::string all;
    for (const std::string& candidate : known) {
      found = found || candidate == name;
      all += Concat(all.empty() ? "" : ", ", candidate);
    }
    if (found) continue;
    const std::string nearest = NearestName(name, known);
    const std::string path = place.empty() ? name : Concat(place, ".", name);
    return InvalidArgumentError(
        nearest.empty() ? Concat("unknown field ", path, ": known are ", all)
                        : Concat("unknown field ", path, ": did you mean '", nearest, "'?"));
  }
  return {};
}

StatusOr<std::string> TextMember(const ConfigValue& object, const std::string& place,
                                 std::string_view name, bool required) {
  const ConfigValue* value = object.Find(name);
  const std::string path = place.empty() ? std::string(name) : Concat(place, ".", name);
  if (value == nullptr) {
    if (!required) return std::string();
    return InvalidArgumentError(Concat(path, " is missing: expected a text"));
  }
  if (!value->is_text()) return Unexpected(path, *value, "a text");
  return value->as_text();
}

StatusOr<int> IntegerMember(const ConfigValue& object, const std::string& place,
                            std::string_view name, int min, int max) {
  const ConfigValue* value = object.Find(name);
  if (value == nullptr) return 0;
  if (!value->is_integer() || value->as_integer() < min || value->as_integer() > max) {
    return Unexpected(Concat(place, ".", name), *value,
                      Concat("an integer from ", min, " to ", max));
  }
  return static_cast<int>(value->as_integer());
}

StatusOr<JobVertex> ParseVertex(const ConfigValue& object, const std::string& place) {
  if (!object.is_object()) return Unexpected(place, object, "an object");
  WEIR_RETURN_IF_ERROR(CheckMembers(
      object, place, {"uid", "type", "config", "parallelism", "max_parallelism", "output_schema"}));
  JobVertex vertex;
  WEIR_ASSIGN_OR_RETURN(vertex.uid, TextMember(object, place, "uid", false));
  WEIR_ASSIGN_OR_RETURN(vertex.type, TextMember(object, place, "type", true));
  if (const ConfigValue* config = object.Find("config")) {
    if (!config->is_object()) return Unexpected(place + ".config", *config, "an object");
    vertex.config = Config(*config);
  }
  WEIR_ASSIGN_OR_RETURN(vertex.parallelism, IntegerMember(object, place, "parallelism", 1, 32768));
  WEIR_ASSIGN_OR_RETURN(vertex.max_parallelism,
                        IntegerMember(object, place, "max_parallelism", 1, 32768));
  if (const ConfigValue* schema = object.Find("output_schema")) {
    WEIR_ASSIGN_OR_RETURN(vertex.output_schema, ParseSchema(*schema, place + ".output_schema"));
  }
  return vertex;
}

StatusOr<JobEdge> ParseEdge(const ConfigValue& object, const std::string& place) {
  if (!object.is_object()) return Unexpected(place, object, "an object");
  WEIR_RETURN_IF_ERROR(
      CheckMembers(object, place, {"from", "to", "partitioning", "columns", "input"}));
  JobEdge edge;
  WEIR_ASSIGN_OR_RETURN(edge.from, TextMember(object, place, "from", true));
  WEIR_ASSIGN_OR_RETURN(edge.to, TextMember(object, place, "to", true));
  if (const ConfigValue* partitioning = object.Find("partitioning")) {
    for (Partitioning p : {Partitioning::kForward, Partitioning::kHash, Partitioning::kRebalance,
                           Partitioning::kBroadcast}) {
      if (partitioning->is_text() && partitioning->as_text() == ToString(p)) edge.partitioning = p;
    }
    if (!edge.partitioning.has_value()) {
      return Unexpected(place + ".partitioning", *partitioning,
                        "FORWARD, HASH, REBALANCE or BROADCAST");
    }
  }
  if (const ConfigValue* columns = object.Find("columns")) {
    if (!columns->is_list()) {
      return Unexpected(place + ".columns", *columns, "a list of column names");
    }
    for (const ConfigValue& column : columns->as_list()) {
      if (!column.is_text()) {
        return Unexpected(Concat(place, ".columns[", edge.columns.size(), "]"), column,
                          "a column name");
      }
      edge.columns.push_back(column.as_text());
    }
  }
  WEIR_ASSIGN_OR_RETURN(edge.input, IntegerMember(object, place, "input", 0, 1000));
  return edge;
}

// Options are written as text, or as the JSON value that looks the same.
StatusOr<std::map<std::string, std::string>> ParseOptions(const ConfigValue& object) {
  if (!object.is_object()) return Unexpected("options", object, "an object");
  std::map<std::string, std::string> options;
  for (const auto& [name, value] : object.as_object()) {
    if (!value.is_text() && !value.is_number() && !value.is_bool()) {
      return Unexpected(Concat("options.", name), value, "a text");
    }
    options[name] = value.is_text() ? value.as_text() : value.ToJson();
  }
  return options;
}

}  // namespace

std::string_view ToString(Partitioning partitioning) {
  switch (partitioning) {
    case Partitioning::kForward:
      return "FORWARD";
    case Partitioning::kHash:
      return "HASH";
    case Partitioning::kRebalance:
      return "REBALANCE";
    case Partitioning::kBroadcast:
      return "BROADCAST";
  }
  return "unknown";
}

const JobVertex* JobGraph::FindVertex(std::string_view uid) const {
  for (const JobVertex& vertex : vertices) {
    if (vertex.uid == uid) return &vertex;
  }
  return nullptr;
}

std::string DerivedUid(const std::string& type, size_t position) {
  std::string uid = type.substr(0, kNameMax - 8);
  for (char& c : uid) {
    if (!IsNameByte(c)) c = '_';
  }
  return Concat(uid, "-", position);
}

StatusOr<Schema> ParseSchema(const ConfigValue& object, std::string_view place) {
  if (!object.is_object() || object.as_object().empty()) {
    return Unexpected(place, object, "an object of column names and types");
  }
  std::vector<Field> fields;
  for (const auto& [name, type_name] : object.as_object()) {
    const std::string path = Concat(place, ".", name);
    if (!type_name.is_text()) return Unexpected(path, type_name, "a type, like \"INT64\"");
    StatusOr<Type> type = ParseType(type_name.as_text());
    if (!type.ok()) return type.status().WithContext(path);
    fields.push_back({name, *type});
  }
  StatusOr<Schema> schema = Schema::Make(std::move(fields));
  if (!schema.ok()) return schema.status().WithContext(place);
  return schema;
}

ConfigValue SchemaToConfig(const Schema& schema) {
  ConfigMembers members;
  for (const Field& field : schema.fields()) {
    members.emplace_back(field.name, std::string(ToString(field.type)));
  }
  return ConfigValue(std::move(members));
}

StatusOr<JobGraph> ParseJobGraph(std::string_view json) {
  WEIR_ASSIGN_OR_RETURN(ConfigValue document, ParseJson(json));
  if (!document.is_object()) return Unexpected("the job", document, "an object");
  WEIR_RETURN_IF_ERROR(
      CheckMembers(document, "", {"name", "options", "vertices", "edges", "library_sha256"}));
  JobGraph graph;
  WEIR_ASSIGN_OR_RETURN(graph.name, TextMember(document, "", "name", false));
  WEIR_ASSIGN_OR_RETURN(graph.library_sha256, TextMember(document, "", "library_sha256", false));
  if (const ConfigValue* options = document.Find("options")) {
    WEIR_ASSIGN_OR_RETURN(graph.options, ParseOptions(*options));
  }
  const ConfigValue* vertices = document.Find("vertices");
  if (vertices == nullptr) return InvalidArgumentError("vertices is missing: expected a list");
  if (!vertices->is_list()) return Unexpected("vertices", *vertices, "a list");
  for (const ConfigValue& object : vertices->as_list()) {
    WEIR_ASSIGN_OR_RETURN(JobVertex vertex,
                          ParseVertex(object, Concat("vertices[", graph.vertices.size(), "]")));
    graph.vertices.push_back(std::move(vertex));
  }
  if (const ConfigValue* edges = document.Find("edges")) {
    if (!edges->is_list()) return Unexpected("edges", *edges, "a list");
    for (const ConfigValue& object : edges->as_list()) {
      WEIR_ASSIGN_OR_RETURN(JobEdge edge,
                            ParseEdge(object, Concat("edges[", graph.edges.size(), "]")));
      graph.edges.push_back(std::move(edge));
    }
  }
  return graph;
}

std::string ToJson(const JobGraph& graph) {
  ConfigMembers document;
  if (!graph.name.empty()) document.emplace_back("name", graph.name);
  if (!graph.options.empty()) {
    ConfigMembers options;
    for (const auto& [name, value] : graph.options) options.emplace_back(name, value);
    document.emplace_back("options", std::move(options));
  }
  ConfigList vertices;
  for (const JobVertex& vertex : graph.vertices) {
    ConfigMembers members;
    if (!vertex.uid.empty()) members.emplace_back("uid", vertex.uid);
    members.emplace_back("type", vertex.type);
    if (!vertex.config.value().as_object().empty()) {
      members.emplace_back("config", vertex.config.value());
    }
    if (vertex.parallelism != 0) members.emplace_back("parallelism", vertex.parallelism);
    if (vertex.max_parallelism != 0)
      members.emplace_back("max_parallelism", vertex.max_parallelism);
    if (vertex.output_schema.has_value()) {
      members.emplace_back("output_schema", SchemaToConfig(*vertex.output_schema));
    }
    vertices.emplace_back(std::move(members));
  }
  document.emplace_back("vertices", std::move(vertices));
  ConfigList edges;
  for (const JobEdge& edge : graph.edges) {
    ConfigMembers members;
    members.emplace_back("from", edge.from);
    members.emplace_back("to", edge.to);
    if (edge.partitioning.has_value()) {
      members.emplace_back("partitioning", std::string(ToString(*edge.partitioning)));
    }
    if (!edge.columns.empty()) {
      ConfigList columns;
      for (const std::string& column : edge.columns) columns.emplace_back(column);
      members.emplace_back("columns", std::move(columns));
    }
    if (edge.input != 0) members.emplace_back("input", edge.input);
    edges.emplace_back(std::move(members));
  }
  document.emplace_back("edges", std::move(edges));
  if (!graph.library_sha256.empty()) document.emplace_back("library_sha256", graph.library_sha256);
  return ConfigValue(std::move(document)).ToPrettyJson() + "\n";
}

}  // namespace weir
