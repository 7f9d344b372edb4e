#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/graph/config.h"
#include "common/graph/job_options.h"
#include "common/record/schema.h"

namespace weir {

enum class VertexKind { kSource, kOperator, kSink };

struct ConfigField {
  std::string name;
  std::string kind;  // "text", "integer", "number", "bool", "list", "object", "any"
  bool required = false;
  std::string default_value;  // for help
  std::string help;
  bool hidden = false;  // set by a worker at submission, not by users: left out of help
};

// What a vertex holds in the outside world and no other live job may hold as well.
struct ExclusiveName {
  std::string name;     // with its kind, for people: "transactional_id_prefix 'billing'"
  bool of_job = false;  // vertices of one job may share it
  bool operator==(const ExclusiveName&) const = default;
};

// One registered vertex type: what its config may hold, how many inputs it takes and what it emits,
// so that CLI and coordinator check a job without a worker. Thread: immutable.
struct TypeDescriptor {
  std::string type;
  VertexKind kind = VertexKind::kOperator;
  std::string help;
  int inputs_min = 1;  // 0 and 0 for sources
  int inputs_max = 1;
  std::vector<ConfigField> fields;
  // Types of job libraries, which read their config themselves: other fields are allowed too.
  bool any_field = false;
  // Checks values beyond kinds and computes the output schema; no value for sinks, and for sources
  // whose schema only a worker can see (files.source without "schema").
  std::function<StatusOr<std::optional<Schema>>(const Config& config,
                                                const std::vector<Schema>& inputs)>
      check;
  // Checks what config and options of the job say together; absent: nothing to check.
  std::function<Status(const Config& config, const JobOptions& options)> check_options;
  // Whether a source writes what waits for checkpoints, as every sink may.
  std::function<bool(const Config& config, const JobOptions& options)> owns_committables;
  // How long publishing what it sealed may take in one transaction, which is lost when it is given
  // up before. Absent: there is none.
  std::function<int64_t(const Config& config)> transaction_timeout_us;
  // Absent: it holds none.
  std::function<std::vector<ExclusiveName>(const Config& config, const JobId& job,
                                           const std::string& uid)>
      exclusive_names;
  // The key columns that hash edges into this vertex must have, if it is keyed ("aggregate":
  // its "keys"); empty: not keyed.
  std::function<std::vector<std::string>(const Config& config)> keys;
  // The columns of its one input that the vertex reads: the edge into it sends no others. Absent:
  // all of them. REQUIRES: `check` has accepted the config for `input`.
  std::function<std::vector<std::string>(const Config& config, const Schema& input)> reads;
  // The schema of the partial rows that the vertex takes beside rows of its one input: the key
  // columns, in their order, come first, and there is a rows_column. No value, or absent: it takes
  // none. REQUIRES: `check` has accepted the config for `input`.
  std::function<std::optional<Schema>(const Config& config, const Schema& input)> partials;
};

// Built-in types: files.source, generator, kafka.source, files.sink, blackhole, filter, project,
// aggregate, union, rebalance. Sorted by name.
const std::map<std::string, TypeDescriptor, std::less<>>& BuiltinTypes();

}  // namespace weir
