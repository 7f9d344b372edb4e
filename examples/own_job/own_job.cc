// Keeps the worst departure delay of each carrier, exactly once, with an operator of its own.

#include <weir/weir.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// For each flight a row (row_id, carrier, worst): the worst delay of its carrier so far. A flight
// without a departure delay changes nothing; null until the first one with a delay.
class WorstDelay : public weir::Operator {  // one instance per subtask
 public:
  weir::StatusOr<weir::Schema> OutputSchema(const weir::Config&,
                                            const std::vector<weir::Schema>& inputs) override {
    for (const weir::Field& field : kColumns) {
      WEIR_ASSIGN_OR_RETURN(int column, inputs[0].Require(field.name));
      if (inputs[0].field(column).type != field.type) {
        return weir::InvalidArgumentError(weir::Concat("column '", field.name, "' is ",
                                                       ToString(inputs[0].field(column).type),
                                                       ": expected ", ToString(field.type)));
      }
    }
    return weir::Schema({{"row_id", weir::Type::kInt64},
                         {"carrier", weir::Type::kString},
                         {"worst", weir::Type::kInt64}});
  }

  weir::Status Open(weir::OperatorContext& context) override {
    const weir::Schema& input = *context.input_schema(0);
    row_id_ = input.IndexOf("row_id");
    carrier_ = input.IndexOf("carrier");
    delay_ = input.IndexOf("dep_delay");
    output_schema_ = context.output_schema();
    worst_ = context.value_state<int64_t>("worst");  // keyed by the edge's hash columns
    return {};
  }

  // The state of all keys of the batch is loaded before the call and stored after it.
  weir::Status ProcessBatch(int, const weir::RecordBatch& batch, weir::Output& output) override {
    const weir::Column& delays = batch.column(delay_);
    weir::ColumnBuilder worst(weir::Type::kInt64);
    worst.Reserve(batch.rows());
    for (int64_t row = 0; row < batch.rows(); ++row) {
      if (!delays.IsNull(row)) {
        const int64_t delay = delays.Int32(row);
        worst_.set(row, std::max(delay, worst_.get(row, delay)));
      }
      if (worst_.has(row)) {
        worst.AppendInt64(worst_.get(row));
      } else {
        worst.AppendNull();
      }
    }
    // The other columns go on as they are.
    output.Emit(weir::RecordBatch(output_schema_, batch.rows(),
                                  {batch.column(row_id_), batch.column(carrier_), worst.Finish()}));
    return {};
  }

 private:
  static inline const std::vector<weir::Field> kColumns = {{"row_id", weir::Type::kInt64},
                                                           {"carrier", weir::Type::kString},
                                                           {"dep_delay", weir::Type::kInt32}};
  int row_id_ = 0, carrier_ = 0, delay_ = 0;
  weir::SchemaPtr output_schema_;
  weir::ValueState<int64_t> worst_;
};
WEIR_OPERATOR("worst_delay", WorstDelay)

WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) {
  job.name("worst-delay");
  auto flights = job.source(
      "flights", "files.source",
      {{"path", arguments.text("input")},
       {"format", "csv"},
       {"schema",
        weir::ConfigMembers{{"row_id", "INT64"}, {"carrier", "STRING"}, {"dep_delay", "INT32"}}}});
  auto worst = flights.hash({"carrier"}).apply("worst", "worst_delay");
  worst.sink("out", "files.sink", {{"path", arguments.text("output")}, {"format", "json"}});
}
