// The job library of the manual, with the batch loop filled in.
#include <weir/weir.h>

class WorstDelay : public weir::Operator {  // one instance per subtask
 public:
  weir::Status Open(weir::OperatorContext& context) override {
    worst_ = context.value_state<int64_t>("worst");  // keyed by the edge's hash columns
    return {};
  }
  weir::Status ProcessBatch(int, const weir::RecordBatch& batch, weir::Output& output) override {
    output.Emit(batch);
    return {};
  }

 private:
  weir::ValueState<int64_t> worst_;
};
WEIR_OPERATOR("worst_delay", WorstDelay)

namespace inner {
class Throws : public WorstDelay {
 public:
  weir::StatusOr<weir::Schema> OutputSchema(const weir::Config& config,
                                            const std::vector<weir::Schema>& inputs) override {
    if (config.Has("throw")) throw std::runtime_error("so be it");
    return inputs[0];
  }
};
}  // namespace inner
WEIR_OPERATOR("throws", inner::Throws)

WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) {
  if (arguments.has("throw")) throw std::runtime_error("no job today");
  auto flights =
      job.source("flights", "files.source",
                 {{"path", arguments.text("input")},
                  {"format", "csv"},
                  {"schema", weir::ConfigMembers{{"carrier", "STRING"}, {"dep_delay", "INT32"}}}});
  auto worst = flights.hash({"carrier"}).apply("worst", "worst_delay");
  worst.sink("out", "files.sink", {{"path", arguments.text("output")}, {"format", "json"}});
}
