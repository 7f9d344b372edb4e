// The operator `busy`: passes rows on after so much work of its thread's core for each. It stands
// for an operator that costs something, between a source and a blackhole.
#include <time.h>
#include <weir/weir.h>

#include <cstdint>

namespace {

int64_t ThreadCpuNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// Config: `nanos`, of CPU time a row.
class Busy : public weir::Operator {
 public:
  weir::Status Open(weir::OperatorContext& context) override {
    WEIR_ASSIGN_OR_RETURN(nanos_, context.config().Integer("nanos"));
    return {};
  }

  weir::Status ProcessBatch(int, const weir::RecordBatch& batch, weir::Output& output) override {
    int64_t end = ThreadCpuNanos() + nanos_ * batch.rows();
    while (ThreadCpuNanos() < end) {
    }
    output.Emit(batch);
    return {};
  }

 private:
  int64_t nanos_ = 0;
};

}  // namespace

WEIR_OPERATOR("busy", Busy)

// One partition of a topic, as raw bytes -> busy -> blackhole.
WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) {
  job.source("rows", "kafka.source",
             {{"brokers", arguments.text("brokers")},
              {"topics", arguments.text("topic")},
              {"format", "raw"},
              {"end", "latest"}})
      .apply("work", "busy", {{"nanos", arguments.integer("nanos")}})
      .sink("out", "blackhole", {});
}
