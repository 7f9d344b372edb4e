#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/graph/job_options.h"
#include "common/record/schema.h"

// The configs of the built-in vertex types as values: read once here, so that the check at
// submission and the worker that runs the vertex cannot differ. Every Parse… is a user error that
// names field, value and what is valid; unknown fields are refused by Validate.
namespace weir {

enum class FileFormat { kCsv, kJson };

struct FilesSourceConfig {
  std::string path;  // a glob, absolute once submitted
  FileFormat format = FileFormat::kCsv;
  std::optional<Schema> schema;  // absent: all columns STRING, named by the first file
  bool header = true;            // csv
  std::optional<double> rate;    // rows per second of the whole source
  bool follow = false;
  int64_t follow_interval_us = 1'000'000;
  std::optional<BadData> bad_data;                // absent: the job's
  std::string dead_letter_path;                   // a directory, absolute once submitted
  std::optional<std::vector<std::string>> files;  // set at submission of a bounded source, sorted
};
StatusOr<FilesSourceConfig> ParseFilesSourceConfig(const Config& config);
// What the source does with a row it cannot read.
BadData BadDataOf(const FilesSourceConfig& config, const JobOptions& options);
// User error: dead letters, and no directory for them.
Status CheckDeadLetters(const FilesSourceConfig& config, const JobOptions& options);

enum class KeyDistribution {
  kUniform,  // every key as often
  kZipf,     // key k (from 0) as often as 1 / (k + 1)^zipf_exponent
  kHot,      // key 0 for hot_fraction of the rows, the others uniform
};

struct GeneratorConfig {
  std::optional<int64_t> rows;  // of all splits; absent: unbounded
  std::optional<double> rate;   // rows per second of the whole source
  int64_t seed = 0;
  int splits = 128;
  int64_t keys = 10'000;
  KeyDistribution distribution = KeyDistribution::kUniform;
  double zipf_exponent = 1.0;
  double hot_fraction = 0.9;
  int64_t payload_bytes = 0;  // 0: no payload column
  bool due_time = false;      // with a rate: a column that says when the row was due
};
StatusOr<GeneratorConfig> ParseGeneratorConfig(const Config& config);
// (seq INT64, key INT64, value FLOAT64 [, payload STRING] [, due TIMESTAMP]).
Schema GeneratorSchema(const GeneratorConfig& config);

struct FilesSinkConfig {
  std::string path;  // a directory, absolute once submitted
  FileFormat format = FileFormat::kCsv;
  bool header = true;                  // csv
  int64_t part_bytes_max = 128 << 20;  // a new part begins past it
};
StatusOr<FilesSinkConfig> ParseFilesSinkConfig(const Config& config);

// Rows per second that the sink takes; absent: as many as come.
StatusOr<std::optional<double>> ParseBlackholeRate(const Config& config);

// One output column of a projection.
struct ProjectColumn {
  ProjectColumn() = default;
  ProjectColumn(const char* name) : name(name) {}               // NOLINT: implicit by design
  ProjectColumn(std::string name, std::string expression = "")  // NOLINT: implicit by design
      : name(std::move(name)), expression(std::move(expression)) {}
  std::string name;
  std::string expression;  // over the input's columns; empty: the input column `name` as it is
};
StatusOr<std::vector<ProjectColumn>> ParseProjectConfig(const Config& config);

enum class AggregateFunction { kCount, kSum, kMin, kMax, kAvg };
std::string_view ToString(AggregateFunction function);  // "count" …

struct Aggregate {
  AggregateFunction function = AggregateFunction::kCount;
  std::string column;  // input column; empty for a count of rows (else count counts non-nulls)
  std::string as;      // output column
};
enum class AggregateEmit {
  kEveryRow,  // one row for each input row, in order
  kChanged,   // the keys that a batch changed, once per batch
};
struct AggregateConfig {
  std::vector<std::string> keys;
  std::vector<std::string> keep;  // input columns copied to the output; only with kEveryRow
  AggregateEmit emit = AggregateEmit::kEveryRow;
  std::vector<Aggregate> aggregates;
};
StatusOr<AggregateConfig> ParseAggregateConfig(const Config& config);
// Keys, kept columns, aggregates, each in the order of the config. count: INT64; sum: INT64 of
// INT32 and INT64, FLOAT64 of FLOAT64; avg: FLOAT64; min, max: the column's type.
StatusOr<Schema> AggregateSchema(const AggregateConfig& config, const Schema& input);

// What a partial row of an aggregate holds, which stands for several rows of one key: the keys, the
// number of rows, then for each aggregate
//   count of rows    nothing more
//   count            INT64
//   sum              INT64; null: no value
//   avg              the sum, as above, and INT64 the number of values
//   min, max         the column's type; null: no value
struct AggregatePartials {
  Schema schema;
  std::vector<int> columns;  // by aggregate: its first one; of a count of rows: rows_column()
};
// REQUIRES: AggregateSchema has accepted the config for `input`; no sum or avg is of FLOAT64.
AggregatePartials AggregatePartialsOf(const AggregateConfig& config, const Schema& input);

}  // namespace weir
