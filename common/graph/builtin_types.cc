#include "common/base/concat.h"
#include "common/expression/expression.h"
#include "common/graph/builtin_configs.h"
#include "common/graph/kafka_types.h"
#include "common/graph/type_descriptor.h"

namespace weir {
namespace {

constexpr int kUnionInputsMax = 64;

using CheckResult = StatusOr<std::optional<Schema>>;

std::vector<std::string> NamesOf(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& field : schema.fields()) names.push_back(field.name);
  return names;
}

TypeDescriptor FilesSourceType() {
  TypeDescriptor d;
  d.type = "files.source";
  d.kind = VertexKind::kSource;
  d.help =
      "Reads CSV or JSON lines from files. Each file is one split: read by one subtask, in order.";
  d.inputs_min = d.inputs_max = 0;
  d.fields = {
      {"path", "text", true, "", "file, or pattern: data/part-*.csv"},
      {"format", "text", true, "", "csv (RFC 4180) or json (one object a line)"},
      {"schema", "object", false, "",
       "columns to read, by header name or JSON field, and their types: {\"row_id\": \"INT64\"}; "
       "absent: all columns, as STRING"},
      {"header", "bool", false, "true", "csv: whether files begin with a line of column names"},
      {"rate", "number", false, "",
       "rows per second of the whole source; absent: as fast as it goes"},
      {"follow", "bool", false, "false", "go on with new and growing files; the job never ends"},
      {"follow_interval", "text", false, "1s", "how often to look for them"},
      {"bad_data", "text", false, "the job's",
       "what to do with a row that cannot be read: fail, drop (counted) or dead_letter (counted, "
       "and "
       "put into a file)"},
      {"dead_letter_path", "text", false, "",
       "dead_letter: directory for such rows, made if it is not there; JSON lines with source, "
       "file, "
       "line, offset, length, reason, text and bytes (base64)"},
      {"files", "list", false, "", "the files that matched at submission, sorted", true},
  };
  d.check = [](const Config& config, const std::vector<Schema>&) -> CheckResult {
    WEIR_ASSIGN_OR_RETURN(FilesSourceConfig parsed, ParseFilesSourceConfig(config));
    return parsed.schema;
  };
  d.check_options = [](const Config& config, const JobOptions& options) -> Status {
    WEIR_ASSIGN_OR_RETURN(FilesSourceConfig parsed, ParseFilesSourceConfig(config));
    return CheckDeadLetters(parsed, options);
  };
  d.owns_committables = [](const Config& config, const JobOptions& options) {
    StatusOr<FilesSourceConfig> parsed = ParseFilesSourceConfig(config);
    return parsed.ok() && BadDataOf(*parsed, options) == BadData::kDeadLetter;
  };
  return d;
}

TypeDescriptor GeneratorType() {
  TypeDescriptor d;
  d.type = "generator";
  d.kind = VertexKind::kSource;
  d.help =
      "Makes rows (seq INT64, key INT64, value FLOAT64 [, payload STRING] [, due TIMESTAMP]); but "
      "for due each is a pure function of seed, split and offset, and seq is unique.";
  d.inputs_min = d.inputs_max = 0;
  d.fields = {
      {"rows", "integer", false, "", "rows of the whole source; absent: without end"},
      {"rate", "number", false, "",
       "rows per second of the whole source; absent: as fast as it goes"},
      {"seed", "integer", false, "0", "another seed, other rows"},
      {"splits", "integer", false, "128",
       "parts that subtasks share out: 1 to 32768, the most subtasks that have work"},
      {"keys", "integer", false, "10000", "number of distinct keys, from 0 on"},
      {"distribution", "text", false, "uniform", "of the keys: uniform, zipf or hot"},
      {"zipf_exponent", "number", false, "1.0",
       "zipf: key k is as frequent as 1 / (k + 1)^exponent"},
      {"hot_fraction", "number", false, "0.9", "hot: part of the rows that has key 0"},
      {"payload_size", "integer", false, "0",
       "bytes of the STRING column payload; 0: no such column"},
      {"due_time", "bool", false, "false",
       "a TIMESTAMP column due, when the row was due by the rate: now less due is how late it is "
       "(a row that is made again after a restart is due again, at another time)"},
  };
  d.check = [](const Config& config, const std::vector<Schema>&) -> CheckResult {
    WEIR_ASSIGN_OR_RETURN(GeneratorConfig parsed, ParseGeneratorConfig(config));
    return std::optional<Schema>(GeneratorSchema(parsed));
  };
  return d;
}

TypeDescriptor FilesSinkType() {
  TypeDescriptor d;
  d.type = "files.sink";
  d.kind = VertexKind::kSink;
  d.help = "Writes files exactly once: they appear when the checkpoint that covers them completed.";
  d.fields = {
      {"path", "text", true, "", "directory, made if it is not there"},
      {"format", "text", true, "", "csv or json (one object a line)"},
      {"header", "bool", false, "true", "csv: begin each file with a line of column names"},
      {"part_size_max", "text", false, "128MiB", "a new file begins when one is larger"},
  };
  d.check = [](const Config& config, const std::vector<Schema>&) -> CheckResult {
    WEIR_RETURN_IF_ERROR(ParseFilesSinkConfig(config).status());
    return std::optional<Schema>();
  };
  return d;
}

TypeDescriptor BlackholeType() {
  TypeDescriptor d;
  d.type = "blackhole";
  d.kind = VertexKind::kSink;
  d.help = "Counts rows and drops them.";
  d.fields = {
      {"rate", "number", false, "",
       "rows per second that the whole sink takes, to see what backpressure does; absent: all"},
  };
  d.check = [](const Config& config, const std::vector<Schema>&) -> CheckResult {
    WEIR_RETURN_IF_ERROR(ParseBlackholeRate(config).status());
    return std::optional<Schema>();
  };
  return d;
}

TypeDescriptor FilterType() {
  TypeDescriptor d;
  d.type = "filter";
  d.help = "Passes on the rows for which an expression is true.";
  d.fields = {{"expression", "text", true, "", "of type BOOL: dep_delay > 15 and carrier = 'AA'"}};
  d.check = [](const Config& config, const std::vector<Schema>& inputs) -> CheckResult {
    WEIR_ASSIGN_OR_RETURN(std::string text, config.Text("expression"));
    StatusOr<Expression> expression = ParseExpression(text, inputs[0]);
    if (!expression.ok()) return expression.status().WithContext("config field 'expression'");
    if (expression->type() != Type::kBool) {
      return InvalidArgumentError(Concat("config field 'expression' is '", text, "' of type ",
                                         ToString(expression->type()), ": expected BOOL"));
    }
    return std::optional<Schema>(inputs[0]);
  };
  return d;
}

TypeDescriptor ProjectType() {
  TypeDescriptor d;
  d.type = "project";
  d.help = "Makes each row anew from columns and expressions.";
  d.fields = {
      {"columns", "list", true, "",
       "the output columns in order: a column name, or {\"name\": \"gain\", \"expression\": "
       "\"dep_delay - arr_delay\"}"}};
  d.check = [](const Config& config, const std::vector<Schema>& inputs) -> CheckResult {
    WEIR_ASSIGN_OR_RETURN(std::vector<ProjectColumn> columns, ParseProjectConfig(config));
    std::vector<Field> fields;
    for (const ProjectColumn& column : columns) {
      const std::string place = Concat("config field 'columns[", fields.size(), "]'");
      if (column.expression.empty()) {
        StatusOr<int> index = inputs[0].Require(column.name);
        if (!index.ok()) return index.status().WithContext(place);
        fields.push_back(inputs[0].field(*index));
      } else {
        StatusOr<Expression> expression = ParseExpression(column.expression, inputs[0]);
        if (!expression.ok()) return expression.status().WithContext(place);
        fields.push_back({column.name, expression->type()});
      }
    }
    WEIR_ASSIGN_OR_RETURN(Schema schema, Schema::Make(std::move(fields)));
    return std::optional<Schema>(std::move(schema));
  };
  d.reads = [](const Config& config, const Schema& input) {
    std::vector<std::string> names;
    StatusOr<std::vector<ProjectColumn>> columns = ParseProjectConfig(config);
    if (!columns.ok()) return NamesOf(input);
    for (const ProjectColumn& column : *columns) {
      if (column.expression.empty()) {
        names.push_back(column.name);
        continue;
      }
      StatusOr<Expression> expression = ParseExpression(column.expression, input);
      if (!expression.ok()) return NamesOf(input);
      for (const int index : expression->Columns()) names.push_back(input.field(index).name);
    }
    return names;
  };
  return d;
}

TypeDescriptor AggregateType() {
  TypeDescriptor d;
  d.type = "aggregate";
  d.help =
      "Keeps aggregates per key. Output columns: keys, keep, aggregates, each in the order "
      "written. "
      "Nulls are left out; integer overflow is an error.";
  d.fields = {
      {"keys", "list", true, "", "columns that name the key; the edge into it hashes by them"},
      {"aggregates", "list", true, "",
       "[{\"function\": count|sum|min|max|avg, \"column\": …, \"as\": …}]; count without a column "
       "counts rows, with one its values that are not null"},
      {"emit", "text", false, "every_row",
       "every_row: a row for each input row; changed: once per batch a row for each key it "
       "changed"},
      {"keep", "list", false, "", "every_row: input columns to copy to the output"},
  };
  d.check = [](const Config& config, const std::vector<Schema>& inputs) -> CheckResult {
    WEIR_ASSIGN_OR_RETURN(AggregateConfig parsed, ParseAggregateConfig(config));
    WEIR_ASSIGN_OR_RETURN(Schema schema, AggregateSchema(parsed, inputs[0]));
    return std::optional<Schema>(std::move(schema));
  };
  d.keys = [](const Config& config) {
    StatusOr<AggregateConfig> parsed = ParseAggregateConfig(config);
    return parsed.ok() ? std::move(parsed->keys) : std::vector<std::string>();
  };
  d.reads = [](const Config& config, const Schema& input) {
    StatusOr<AggregateConfig> parsed = ParseAggregateConfig(config);
    if (!parsed.ok()) return NamesOf(input);
    std::vector<std::string> names = std::move(parsed->keys);
    names.insert(names.end(), parsed->keep.begin(), parsed->keep.end());
    for (const Aggregate& aggregate : parsed->aggregates) {
      if (!aggregate.column.empty()) names.push_back(aggregate.column);
    }
    return names;
  };
  d.partials = [](const Config& config, const Schema& input) -> std::optional<Schema> {
    StatusOr<AggregateConfig> parsed = ParseAggregateConfig(config);
    if (!parsed.ok() || parsed->emit != AggregateEmit::kChanged) return std::nullopt;
    for (const Aggregate& aggregate : parsed->aggregates) {
      // How a FLOAT64 sum is rounded depends on the order of additions, which is that of the rows.
      const bool adds = aggregate.function == AggregateFunction::kSum ||
                        aggregate.function == AggregateFunction::kAvg;
      if (adds && input.field(input.IndexOf(aggregate.column)).type == Type::kFloat64) {
        return std::nullopt;
      }
    }
    return AggregatePartialsOf(*parsed, input).schema;
  };
  return d;
}

TypeDescriptor UnionType() {
  TypeDescriptor d;
  d.type = "union";
  d.help = "Puts the rows of several inputs with equal columns into one stream.";
  d.inputs_min = 2;
  d.inputs_max = kUnionInputsMax;
  d.check = [](const Config&, const std::vector<Schema>& inputs) -> CheckResult {
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i] == inputs[0]) continue;
      return InvalidArgumentError(Concat("input ", i, " has the columns ", inputs[i].ToString(),
                                         ": expected those of input 0, ", inputs[0].ToString()));
    }
    return std::optional<Schema>(inputs[0]);
  };
  return d;
}

TypeDescriptor RebalanceType() {
  TypeDescriptor d;
  d.type = "rebalance";
  d.help = "Spreads rows evenly over its subtasks: the edge into it is REBALANCE.";
  d.check = [](const Config&, const std::vector<Schema>& inputs) -> CheckResult {
    return std::optional<Schema>(inputs[0]);
  };
  return d;
}

}  // namespace

const std::map<std::string, TypeDescriptor, std::less<>>& BuiltinTypes() {
  static const std::map<std::string, TypeDescriptor, std::less<>> types = [] {
    std::map<std::string, TypeDescriptor, std::less<>> all;
    for (TypeDescriptor (*make)() :
         {FilesSourceType, GeneratorType, FilesSinkType, BlackholeType, FilterType, ProjectType,
          AggregateType, UnionType, RebalanceType, KafkaSourceType, KafkaSinkType}) {
      TypeDescriptor descriptor = make();
      std::string type = descriptor.type;
      all.emplace(std::move(type), std::move(descriptor));
    }
    return all;
  }();
  return types;
}

}  // namespace weir
