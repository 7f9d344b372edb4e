// Text as the JSON of a job: an error, or a graph that reads back as the same, and that can be
// checked and planned.
#include <string>

#include "common/base/check.h"
#include "common/graph/config.h"
#include "common/graph/execution_plan.h"
#include "common/graph/job_graph.h"
#include "common/graph/validate.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  const std::string text(reinterpret_cast<const char*>(data), size);
  StatusOr<ConfigValue> value = ParseJson(text);
  if (value.ok()) {
    StatusOr<ConfigValue> again = ParseJson(value->ToJson());
    WEIR_CHECK(again.ok() && *again == *value);
  }
  StatusOr<JobGraph> graph = ParseJobGraph(text);
  if (!graph.ok()) return 0;
  StatusOr<JobGraph> again = ParseJobGraph(ToJson(*graph));
  WEIR_CHECK(again.ok() && *again == *graph);
  StatusOr<Validated> validated = Validate(*graph);
  if (!validated.ok()) return 0;
  MakeExecutionPlan(validated->graph, validated->options);
  return 0;
}
