// Another library with an operator of the same name and another schema, as after a change of a job.
#include <weir/weir.h>

class WorstDelay : public weir::Operator {
 public:
  weir::StatusOr<weir::Schema> OutputSchema(const weir::Config&,
                                            const std::vector<weir::Schema>&) override {
    return weir::Schema({{"worst", weir::Type::kInt64}});
  }
  weir::Status ProcessBatch(int, const weir::RecordBatch&, weir::Output&) override { return {}; }
};
WEIR_OPERATOR("worst_delay", WorstDelay)

WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) {
  job.name("other").option("parallelism", "2");
  auto numbers = job.source("gen", "generator", {{"rows", arguments.integer("rows", 10)}});
  auto late = numbers.filter("value > 0.5").parallelism(3);
  auto both = numbers.union_with({late.rebalance()});
  both.hash({"key"})
      .apply("worst", "worst_delay")
      .project({"worst", {"twice", "worst * 2"}}, "shape")
      .sink("out", "blackhole")
      .parallelism(1);
}
