// How fast the aggregate operator updates keyed state: batches of 4,096 rows (key INT64, value
// FLOAT64) with uniform keys; count and sum, a row for every row. Making the batches is not
// measured. Run with --benchmark_filter=… and see rows/s.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/graph/config.h"
#include "common/record/batch_builder.h"
#include "worker/operators/aggregate_operator.h"
#include "worker/operators/keyed_operator_context.h"

namespace weir {
namespace {

constexpr int64_t kBatchRows = 4096;
constexpr int kMaxParallelism = 128;

class BenchContext : public KeyedOperatorContext {
 public:
  BenchContext(const std::string& config_json, SchemaPtr input, const std::vector<Schema>& inputs,
               Operator* op)
      : config_(Config(std::move(ParseJson(config_json)).value())),
        input_(std::move(input)),
        output_(
            std::make_shared<const Schema>(std::move(op->OutputSchema(config_, inputs)).value())),
        state_(
            std::move(MakeStateBackend("memory", {0, kMaxParallelism}, kMaxParallelism)).value()) {}
  const Config& config() const override { return config_; }
  const std::string& uid() const override { return uid_; }
  int subtask() const override { return 0; }
  int parallelism() const override { return 1; }
  int inputs() const override { return 1; }
  const SchemaPtr& input_schema(int) const override { return input_; }
  const SchemaPtr& output_schema() const override { return output_; }
  const std::vector<int>& key_columns(int) const override { return keys_; }
  StateBackend& state() override { return *state_; }

 protected:
  StatusOr<KeyedBytes*> keyed_bytes(const std::string& name) override {
    return state_->BytesTable(name);
  }
  KeyedBytes* keyed_bytes_or_fail(const std::string& name) override {
    return std::move(state_->BytesTable(name)).value();
  }

 private:
  const Config config_;
  const std::string uid_ = "bench";
  const SchemaPtr input_;
  const SchemaPtr output_;
  const std::vector<int> keys_ = {0};
  std::unique_ptr<StateBackend> state_;
};

class DroppingOutput : public Output {
 public:
  void Emit(RecordBatch batch) override { benchmark::DoNotOptimize(batch.ByteSize()); }
};

// Batches over `keys` different keys; texts are 12 bytes long.
std::vector<RecordBatch> Batches(Type key_type, int64_t keys, int count) {
  auto schema = std::make_shared<const Schema>(
      std::vector<Field>{{"key", key_type}, {"value", Type::kFloat64}});
  std::mt19937_64 random(1);
  std::vector<RecordBatch> batches;
  for (int i = 0; i < count; ++i) {
    BatchBuilder builder(schema);
    for (int64_t row = 0; row < kBatchRows; ++row) {
      const int64_t key = static_cast<int64_t>(random() % static_cast<uint64_t>(keys));
      if (key_type == Type::kInt64) {
        builder.column(0).AppendInt64(key);
      } else {
        const std::string text = std::to_string(1'000'000'000 + key);
        builder.column(0).AppendText("k-" + text);
      }
      builder.column(1).AppendFloat64(static_cast<double>(row));
    }
    batches.push_back(builder.Finish());
  }
  return batches;
}

void Run(benchmark::State& state, Type key_type, const char* emit) {
  const int64_t keys = state.range(0);
  const int count = static_cast<int>(std::max<int64_t>(64, 3 * keys / kBatchRows));
  const std::vector<RecordBatch> batches = Batches(key_type, keys, count);
  AggregateOperator op;
  BenchContext context(R"({"keys": ["key"], "emit": ")" + std::string(emit) +
                           R"(", "aggregates": [{"function": "count", "as": "n"},
                            {"function": "sum", "column": "value", "as": "s"}]})",
                       batches[0].schema(), {*batches[0].schema()}, &op);
  if (!op.Open(context).ok()) return state.SkipWithError("Open");
  DroppingOutput output;
  size_t next = 0;
  auto process = [&](const RecordBatch& batch) {
    context.state().BeginBatch(batch, context.key_columns(0));
    return op.ProcessBatch(0, batch, output).ok() && context.state().EndBatch().ok();
  };
  for (const RecordBatch& batch : batches) process(batch);  // all keys are there
  for (auto _ : state) {
    if (!process(batches[next])) return state.SkipWithError("ProcessBatch");
    next = next + 1 == batches.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations() * kBatchRows);
  state.counters["bytes_per_key"] =
      static_cast<double>(context.state().bytes()) / static_cast<double>(keys);
}

void EveryRowOfNumbers(benchmark::State& state) { Run(state, Type::kInt64, "every_row"); }
void ChangedOfNumbers(benchmark::State& state) { Run(state, Type::kInt64, "changed"); }
void EveryRowOfTexts(benchmark::State& state) { Run(state, Type::kString, "every_row"); }

BENCHMARK(EveryRowOfNumbers)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000);
BENCHMARK(ChangedOfNumbers)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(EveryRowOfTexts)->Arg(10'000)->Arg(1'000'000);

}  // namespace
}  // namespace weir
