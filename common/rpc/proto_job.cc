#include "common/base/concat.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/proto_text.h"

namespace weir {

Status MalformedError(std::string_view field, std::string_view what) {
  return DataLossError(Concat("malformed message: ", field, " ", what)).WithRetry(false);
}

void ToProto(const Schema& from, v1::Schema* to) {
  for (const Field& field : from.fields()) {
    v1::Field* out = to->add_fields();
    out->set_name(Utf8Text(field.name));
    out->set_type(static_cast<uint32_t>(field.type));
  }
}

Status FromProto(const v1::Schema& from, Schema* to) {
  std::vector<Field> fields;
  for (const v1::Field& field : from.fields()) {
    if (field.type() < static_cast<uint32_t>(Type::kBool) ||
        field.type() > static_cast<uint32_t>(Type::kTimestamp)) {
      return MalformedError("Field.type", Concat("is ", field.type()));
    }
    fields.push_back({field.name(), static_cast<Type>(field.type())});
  }
  WEIR_ASSIGN_OR_RETURN(*to, Schema::Make(std::move(fields)));
  return {};
}

void ToProto(const JobVertex& from, v1::JobVertex* to) {
  to->set_uid(Utf8Text(from.uid));
  to->set_type(Utf8Text(from.type));
  to->set_config_json(Utf8Text(from.config.value().ToJson()));
  to->set_parallelism(from.parallelism);
  to->set_max_parallelism(from.max_parallelism);
  if (from.output_schema) ToProto(*from.output_schema, to->mutable_output_schema());
}

Status FromProto(const v1::JobVertex& from, JobVertex* to) {
  to->uid = from.uid();
  to->type = from.type();
  // An empty text is the default of the field and stands for an empty object.
  to->config = Config();
  if (!from.config_json().empty()) {
    StatusOr<ConfigValue> config = ParseJson(from.config_json());
    if (!config.ok()) return MalformedError("JobVertex.config_json", config.status().message());
    if (!config->is_object()) return MalformedError("JobVertex.config_json", "is no object");
    to->config = Config(*std::move(config));
  }
  to->parallelism = from.parallelism();
  to->max_parallelism = from.max_parallelism();
  to->output_schema.reset();
  if (from.has_output_schema()) {
    WEIR_RETURN_IF_ERROR(FromProto(from.output_schema(), &to->output_schema.emplace()));
  }
  return {};
}

void ToProto(const JobEdge& from, v1::JobEdge* to) {
  to->set_from(Utf8Text(from.from));
  to->set_to(Utf8Text(from.to));
  if (from.partitioning) {
    switch (*from.partitioning) {
      case Partitioning::kForward:
        to->set_partitioning(v1::PARTITIONING_FORWARD);
        break;
      case Partitioning::kHash:
        to->set_partitioning(v1::PARTITIONING_HASH);
        break;
      case Partitioning::kRebalance:
        to->set_partitioning(v1::PARTITIONING_REBALANCE);
        break;
      case Partitioning::kBroadcast:
        to->set_partitioning(v1::PARTITIONING_BROADCAST);
        break;
    }
  }
  for (const std::string& column : from.columns) to->add_columns(Utf8Text(column));
  to->set_input(from.input);
}

Status FromProto(const v1::JobEdge& from, JobEdge* to) {
  to->from = from.from();
  to->to = from.to();
  switch (from.partitioning()) {
    case v1::PARTITIONING_UNSPECIFIED:
      to->partitioning.reset();
      break;
    case v1::PARTITIONING_FORWARD:
      to->partitioning = Partitioning::kForward;
      break;
    case v1::PARTITIONING_HASH:
      to->partitioning = Partitioning::kHash;
      break;
    case v1::PARTITIONING_REBALANCE:
      to->partitioning = Partitioning::kRebalance;
      break;
    case v1::PARTITIONING_BROADCAST:
      to->partitioning = Partitioning::kBroadcast;
      break;
    default:
      return MalformedError("JobEdge.partitioning",
                            Concat("is ", static_cast<int>(from.partitioning())));
  }
  to->columns.assign(from.columns().begin(), from.columns().end());
  to->input = from.input();
  return {};
}

void ToProto(const JobGraph& from, v1::JobGraph* to) {
  to->set_name(Utf8Text(from.name));
  for (const auto& [name, value] : from.options) {
    (*to->mutable_options())[Utf8Text(name)] = Utf8Text(value);
  }
  ListToProto(from.vertices, to->mutable_vertices());
  ListToProto(from.edges, to->mutable_edges());
  to->set_library_sha256(Utf8Text(from.library_sha256));
}

Status FromProto(const v1::JobGraph& from, JobGraph* to) {
  to->name = from.name();
  to->options.clear();
  to->options.insert(from.options().begin(), from.options().end());
  WEIR_RETURN_IF_ERROR(ListFromProto(from.vertices(), &to->vertices));
  WEIR_RETURN_IF_ERROR(ListFromProto(from.edges(), &to->edges));
  to->library_sha256 = from.library_sha256();
  return {};
}

void ToProto(const JobRecord& from, v1::JobRecord* to) {
  to->set_id(Utf8Text(from.id.value()));
  ToProto(from.graph, to->mutable_graph());
  to->set_restore_from(from.restore_from);
  to->set_submit_wall_us(from.submit_wall_us);
  to->set_submit_digest(Utf8Text(from.submit_digest));
}

Status FromProto(const v1::JobRecord& from, JobRecord* to) {
  to->id = JobId(from.id());
  WEIR_RETURN_IF_ERROR(FromProto(from.graph(), &to->graph));
  to->restore_from = from.restore_from();
  to->submit_wall_us = from.submit_wall_us();
  to->submit_digest = from.submit_digest();
  return {};
}

}  // namespace weir
