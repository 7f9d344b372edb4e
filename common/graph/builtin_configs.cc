#include "common/graph/builtin_configs.h"

#include <limits>

#include "common/base/concat.h"
#include "common/graph/config_fields.h"
#include "common/graph/job_graph.h"

namespace weir {
namespace {

StatusOr<std::string> Path(const Config& config, std::string_view valid) {
  WEIR_ASSIGN_OR_RETURN(std::string path, config.Text("path"));
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidField(config, "path", valid);
  }
  return path;
}

StatusOr<FileFormat> Format(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(std::string format, config.Text("format"));
  if (format == "csv") return FileFormat::kCsv;
  if (format == "json") return FileFormat::kJson;
  return InvalidField(config, "format", "csv or json");
}

StatusOr<bool> Header(const Config& config, FileFormat format) {
  if (Given(config, "header") && format != FileFormat::kCsv) {
    return InvalidField(config, "header", "no such field with the format json");
  }
  return config.Bool("header", true);
}

// Names from a list, none twice.
StatusOr<std::vector<std::string>> Names(const Config& config, std::string_view name) {
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> names, config.TextList(name));
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (names[i] == names[j]) {
        return InvalidField(config, name, Concat("no column twice ('", names[i], "')"));
      }
    }
  }
  return names;
}

// An item of a list that is an object with no other members than `known`.
Status CheckItem(const std::string& place, const ConfigValue& item,
                 const std::vector<std::string>& known, std::string_view valid) {
  if (!item.is_object()) return InvalidField(place, item, valid);
  for (const auto& [name, value] : item.as_object()) {
    bool found = false;
    for (const std::string& candidate : known) found = found || candidate == name;
    if (found) continue;
    const std::string nearest = NearestName(name, known);
    return InvalidArgumentError(Concat(
        "config field '", place, "' has an unknown field '", name, "': ",
        nearest.empty() ? Concat("expected ", valid) : Concat("did you mean '", nearest, "'?")));
  }
  return {};
}

StatusOr<std::string> ItemText(const std::string& place, const ConfigValue& item,
                               std::string_view name) {
  const ConfigValue* value = item.Find(name);
  if (value == nullptr) {
    return InvalidArgumentError(
        Concat("config field '", place, ".", name, "' is missing: expected a text"));
  }
  if (!value->is_text() || value->as_text().empty()) {
    return InvalidField(Concat(place, ".", name), *value, "a text that is not empty");
  }
  return value->as_text();
}

StatusOr<AggregateFunction> ParseFunction(const std::string& place, const std::string& name) {
  std::vector<std::string> known;
  for (AggregateFunction f :
       {AggregateFunction::kCount, AggregateFunction::kSum, AggregateFunction::kMin,
        AggregateFunction::kMax, AggregateFunction::kAvg}) {
    if (name == ToString(f)) return f;
    known.emplace_back(ToString(f));
  }
  const std::string nearest = NearestName(name, known);
  return InvalidArgumentError(Concat(
      "config field '", place, ".function' is '", name, "': expected count, sum, min, max or avg",
      nearest.empty() ? "" : Concat("; did you mean '", nearest, "'?")));
}

}  // namespace

StatusOr<FilesSourceConfig> ParseFilesSourceConfig(const Config& config) {
  FilesSourceConfig parsed;
  WEIR_ASSIGN_OR_RETURN(parsed.path, Path(config, "a file or a pattern like data/part-*.csv"));
  WEIR_ASSIGN_OR_RETURN(parsed.format, Format(config));
  if (Given(config, "schema")) {
    WEIR_ASSIGN_OR_RETURN(parsed.schema,
                          ParseSchema(*config.Find("schema"), "config field 'schema'"));
  }
  WEIR_ASSIGN_OR_RETURN(parsed.header, Header(config, parsed.format));
  if (!parsed.header && !parsed.schema.has_value()) {
    return InvalidField(config, "header",
                        "true, or a 'schema' that names the columns in the order of the file");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.rate, RateField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.follow, config.Bool("follow", false));
  WEIR_ASSIGN_OR_RETURN(parsed.follow_interval_us,
                        DurationField(config, "follow_interval", parsed.follow_interval_us, 10'000,
                                      "a duration of at least 10ms, like 1s"));
  WEIR_ASSIGN_OR_RETURN(parsed.bad_data, BadDataField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.dead_letter_path, DeadLetterPathField(config));
  if (Given(config, "files")) {
    if (parsed.follow) {
      return InvalidField(config, "files", "no such field together with 'follow'");
    }
    WEIR_ASSIGN_OR_RETURN(parsed.files, config.TextList("files"));
  }
  return parsed;
}

BadData BadDataOf(const FilesSourceConfig& config, const JobOptions& options) {
  return config.bad_data.value_or(options.bad_data);
}

Status CheckDeadLetters(const FilesSourceConfig& config, const JobOptions& options) {
  return CheckDeadLetterPath(BadDataOf(config, options), config.dead_letter_path);
}

StatusOr<std::optional<double>> ParseBlackholeRate(const Config& config) {
  return RateField(config);
}

StatusOr<GeneratorConfig> ParseGeneratorConfig(const Config& config) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  GeneratorConfig parsed;
  if (Given(config, "rows")) {
    WEIR_ASSIGN_OR_RETURN(parsed.rows, IntegerIn(config, "rows", 0, 0, kMax));
  }
  WEIR_ASSIGN_OR_RETURN(parsed.rate, RateField(config));
  WEIR_ASSIGN_OR_RETURN(parsed.seed, config.Integer("seed", 0));
  WEIR_ASSIGN_OR_RETURN(const int64_t splits, IntegerIn(config, "splits", parsed.splits, 1, 32768));
  parsed.splits = static_cast<int>(splits);
  WEIR_ASSIGN_OR_RETURN(parsed.keys, IntegerIn(config, "keys", parsed.keys, 1, kMax));
  WEIR_ASSIGN_OR_RETURN(std::string distribution, config.Text("distribution", "uniform"));
  if (distribution == "zipf") {
    parsed.distribution = KeyDistribution::kZipf;
  } else if (distribution == "hot") {
    parsed.distribution = KeyDistribution::kHot;
  } else if (distribution != "uniform") {
    return InvalidField(config, "distribution", "uniform, zipf or hot");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.zipf_exponent, config.Number("zipf_exponent", parsed.zipf_exponent));
  if (!(parsed.zipf_exponent > 0 && parsed.zipf_exponent <= 10)) {
    return InvalidField(config, "zipf_exponent", "a number above 0, at most 10");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.hot_fraction, config.Number("hot_fraction", parsed.hot_fraction));
  if (!(parsed.hot_fraction >= 0 && parsed.hot_fraction <= 1)) {
    return InvalidField(config, "hot_fraction", "a number from 0 to 1");
  }
  WEIR_ASSIGN_OR_RETURN(parsed.payload_bytes, IntegerIn(config, "payload_size", 0, 0, 32 << 20));
  WEIR_ASSIGN_OR_RETURN(parsed.due_time, config.Bool("due_time", false));
  if (parsed.due_time && !parsed.rate.has_value()) {
    return InvalidField(config, "due_time", "a 'rate' beside it, which says when a row is due");
  }
  return parsed;
}

Schema GeneratorSchema(const GeneratorConfig& config) {
  std::vector<Field> fields = {
      {"seq", Type::kInt64}, {"key", Type::kInt64}, {"value", Type::kFloat64}};
  if (config.payload_bytes > 0) fields.push_back({"payload", Type::kString});
  if (config.due_time) fields.push_back({"due", Type::kTimestamp});
  return Schema(std::move(fields));
}

StatusOr<FilesSinkConfig> ParseFilesSinkConfig(const Config& config) {
  FilesSinkConfig parsed;
  WEIR_ASSIGN_OR_RETURN(parsed.path, Path(config, "a directory"));
  WEIR_ASSIGN_OR_RETURN(parsed.format, Format(config));
  WEIR_ASSIGN_OR_RETURN(parsed.header, Header(config, parsed.format));
  if (Given(config, "part_size_max")) {
    WEIR_ASSIGN_OR_RETURN(std::string text, config.Text("part_size_max"));
    StatusOr<int64_t> bytes = ParseSize(text);
    if (!bytes.ok() || *bytes < 1) {
      return InvalidField(config, "part_size_max", "a size of at least one byte, like 128MiB");
    }
    parsed.part_bytes_max = *bytes;
  }
  return parsed;
}

StatusOr<std::vector<ProjectColumn>> ParseProjectConfig(const Config& config) {
  constexpr std::string_view kValid =
      "a list of column names and of objects {\"name\": …, \"expression\": …}";
  const ConfigValue* columns = config.Find("columns");
  if (columns == nullptr) {
    return InvalidArgumentError(Concat("config field 'columns' is missing: expected ", kValid));
  }
  if (!columns->is_list() || columns->as_list().empty()) {
    return InvalidField("columns", *columns, kValid);
  }
  std::vector<ProjectColumn> parsed;
  for (const ConfigValue& item : columns->as_list()) {
    const std::string place = Concat("columns[", parsed.size(), "]");
    if (item.is_text() && !item.as_text().empty()) {
      parsed.push_back({item.as_text(), ""});
    } else {
      WEIR_RETURN_IF_ERROR(
          CheckItem(place, item, {"name", "expression"},
                    "a column name or an object {\"name\": …, \"expression\": …}"));
      ProjectColumn column;
      WEIR_ASSIGN_OR_RETURN(column.name, ItemText(place, item, "name"));
      WEIR_ASSIGN_OR_RETURN(column.expression, ItemText(place, item, "expression"));
      parsed.push_back(std::move(column));
    }
    for (size_t i = 0; i + 1 < parsed.size(); ++i) {
      if (parsed[i].name == parsed.back().name) {
        return InvalidField(place, item, "another name: this one is there twice");
      }
    }
  }
  return parsed;
}

std::string_view ToString(AggregateFunction function) {
  switch (function) {
    case AggregateFunction::kCount:
      return "count";
    case AggregateFunction::kSum:
      return "sum";
    case AggregateFunction::kMin:
      return "min";
    case AggregateFunction::kMax:
      return "max";
    case AggregateFunction::kAvg:
      return "avg";
  }
  return "unknown";
}

StatusOr<AggregateConfig> ParseAggregateConfig(const Config& config) {
  AggregateConfig parsed;
  WEIR_ASSIGN_OR_RETURN(parsed.keys, Names(config, "keys"));
  if (parsed.keys.empty()) return InvalidField(config, "keys", "at least one column");
  WEIR_ASSIGN_OR_RETURN(std::string emit, config.Text("emit", "every_row"));
  if (emit == "changed") {
    parsed.emit = AggregateEmit::kChanged;
  } else if (emit != "every_row") {
    return InvalidField(config, "emit", "every_row or changed");
  }
  if (Given(config, "keep")) {
    WEIR_ASSIGN_OR_RETURN(parsed.keep, Names(config, "keep"));
    if (!parsed.keep.empty() && parsed.emit == AggregateEmit::kChanged) {
      return InvalidField(config, "keep", "no such field with \"emit\": \"changed\"");
    }
  }
  constexpr std::string_view kValid =
      "a list of objects {\"function\": count|sum|min|max|avg, \"column\": …, \"as\": …}";
  const ConfigValue* aggregates = config.Find("aggregates");
  if (aggregates == nullptr) {
    return InvalidArgumentError(Concat("config field 'aggregates' is missing: expected ", kValid));
  }
  if (!aggregates->is_list() || aggregates->as_list().empty()) {
    return InvalidField("aggregates", *aggregates, kValid);
  }
  for (const ConfigValue& item : aggregates->as_list()) {
    const std::string place = Concat("aggregates[", parsed.aggregates.size(), "]");
    WEIR_RETURN_IF_ERROR(CheckItem(place, item, {"function", "column", "as"},
                                   "an object {\"function\": …, \"column\": …, \"as\": …}"));
    Aggregate aggregate;
    WEIR_ASSIGN_OR_RETURN(std::string function, ItemText(place, item, "function"));
    WEIR_ASSIGN_OR_RETURN(aggregate.function, ParseFunction(place, function));
    if (item.Find("column") != nullptr || aggregate.function != AggregateFunction::kCount) {
      WEIR_ASSIGN_OR_RETURN(aggregate.column, ItemText(place, item, "column"));
    }
    WEIR_ASSIGN_OR_RETURN(aggregate.as, ItemText(place, item, "as"));
    parsed.aggregates.push_back(std::move(aggregate));
  }
  return parsed;
}

StatusOr<Schema> AggregateSchema(const AggregateConfig& config, const Schema& input) {
  std::vector<Field> fields;
  auto add_columns = [&](const std::vector<std::string>& names, std::string_view field) -> Status {
    for (const std::string& name : names) {
      StatusOr<int> index = input.Require(name);
      if (!index.ok()) return index.status().WithContext(Concat("config field '", field, "'"));
      fields.push_back(input.field(*index));
    }
    return {};
  };
  WEIR_RETURN_IF_ERROR(add_columns(config.keys, "keys"));
  WEIR_RETURN_IF_ERROR(add_columns(config.keep, "keep"));
  for (size_t i = 0; i < config.aggregates.size(); ++i) {
    const Aggregate& aggregate = config.aggregates[i];
    const std::string place = Concat("config field 'aggregates[", i, "].column'");
    if (aggregate.column.empty()) {
      fields.push_back({aggregate.as, Type::kInt64});
      continue;
    }
    StatusOr<int> index = input.Require(aggregate.column);
    if (!index.ok()) return index.status().WithContext(place);
    const Type type = input.field(*index).type;
    const bool number = type == Type::kInt32 || type == Type::kInt64 || type == Type::kFloat64;
    auto refused = [&](std::string_view valid) {
      return InvalidArgumentError(Concat(place, " is '", aggregate.column, "' (", ToString(type),
                                         "): ", ToString(aggregate.function), " takes ", valid));
    };
    Type result = type;
    switch (aggregate.function) {
      case AggregateFunction::kCount:
        result = Type::kInt64;
        break;
      case AggregateFunction::kSum:
        if (!number) return refused("INT32, INT64 or FLOAT64");
        result = type == Type::kFloat64 ? Type::kFloat64 : Type::kInt64;
        break;
      case AggregateFunction::kAvg:
        if (!number) return refused("INT32, INT64 or FLOAT64");
        result = Type::kFloat64;
        break;
      case AggregateFunction::kMin:
      case AggregateFunction::kMax:
        if (!number && type != Type::kString && type != Type::kTimestamp) {
          return refused("INT32, INT64, FLOAT64, STRING or TIMESTAMP");
        }
        break;
    }
    fields.push_back({aggregate.as, result});
  }
  StatusOr<Schema> schema = Schema::Make(std::move(fields));
  if (!schema.ok()) {
    return schema.status().WithContext("the output of keys, keep and aggregates");
  }
  return schema;
}

AggregatePartials AggregatePartialsOf(const AggregateConfig& config, const Schema& input) {
  AggregatePartials partials;
  std::vector<Field> fields;
  for (const std::string& key : config.keys) fields.push_back(input.field(input.IndexOf(key)));
  const int rows_column = static_cast<int>(fields.size());
  fields.push_back({"rows", Type::kInt64});
  for (const Aggregate& aggregate : config.aggregates) {
    if (aggregate.column.empty()) {
      partials.columns.push_back(rows_column);
      continue;
    }
    partials.columns.push_back(static_cast<int>(fields.size()));
    const Type type = input.field(input.IndexOf(aggregate.column)).type;
    const std::string name = Concat(ToString(aggregate.function), " for ", aggregate.as);
    switch (aggregate.function) {
      case AggregateFunction::kCount:
        fields.push_back({name, Type::kInt64});
        break;
      case AggregateFunction::kSum:
        fields.push_back({name, Type::kInt64});
        break;
      case AggregateFunction::kAvg:
        fields.push_back({name, Type::kInt64});
        fields.push_back({Concat("values of ", name), Type::kInt64});
        break;
      case AggregateFunction::kMin:
      case AggregateFunction::kMax:
        fields.push_back({name, type});
        break;
    }
  }
  partials.schema = Schema(std::move(fields), rows_column);
  return partials;
}

}  // namespace weir
