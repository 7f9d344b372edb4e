// The operator `due_histogram`: passes rows on, and keeps how long after its column `due` each one
// came. It is what measures latency at a sink that is a blackhole.
#include <weir/weir.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <string>

namespace {

int64_t WallMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Counts by value: exact below 128, then 64 buckets an octave (1.6 % wide). Thread: confined.
class Histogram {
 public:
  void Add(int64_t us) { ++counts_[Bucket(us < 0 ? 0 : static_cast<uint64_t>(us))]; }
  // {"upper bound in µs": count, …} of the buckets that hold something.
  std::string ToJson() const {
    std::string text = "{";
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      text += weir::Concat(text.size() > 1 ? ", \"" : "\"", Upper(i), "\": ", counts_[i]);
    }
    text += "}";
    return text;
  }

 private:
  static constexpr int kExactBits = 7;
  static constexpr size_t kPerOctave = size_t{1} << (kExactBits - 1);
  static size_t Bucket(uint64_t us) {
    int shift = std::max(0, static_cast<int>(std::bit_width(us)) - kExactBits);
    return static_cast<size_t>(shift) * kPerOctave + static_cast<size_t>(us >> shift);
  }
  static uint64_t Upper(size_t bucket) {
    if (bucket < 2 * kPerOctave) return bucket;
    size_t shift = bucket / kPerOctave - 1;
    return ((static_cast<uint64_t>(bucket - shift * kPerOctave) + 1) << shift) - 1;
  }
  std::array<uint64_t, 64 * kPerOctave> counts_{};
};

// Config: `path`, of a file that is written at the end of the input, with the subtask's number
// behind it; `warmup_ms`, in which rows are not counted.
class DueHistogram : public weir::Operator {
 public:
  weir::Status Open(weir::OperatorContext& context) override {
    WEIR_ASSIGN_OR_RETURN(due_, context.input_schema(0)->Require("due"));
    WEIR_ASSIGN_OR_RETURN(std::string path, context.config().Text("path"));
    WEIR_ASSIGN_OR_RETURN(int64_t warmup_ms, context.config().Integer("warmup_ms", 0));
    path_ = weir::Concat(path, ".", context.subtask());
    counts_from_us_ = WallMicros() + warmup_ms * 1000;
    return {};
  }

  weir::Status ProcessBatch(int, const weir::RecordBatch& batch, weir::Output& output) override {
    int64_t now_us = WallMicros();
    if (now_us >= counts_from_us_) {
      const int64_t* due_us = batch.column(due_).values<int64_t>();
      for (int64_t row = 0; row < batch.rows(); ++row) histogram_.Add(now_us - due_us[row]);
    }
    output.Emit(batch);
    return {};
  }

  weir::Status OnEndOfInput(weir::Output&) override {
    std::FILE* file = std::fopen(path_.c_str(), "w");
    if (file == nullptr) return weir::UnavailableError(weir::Concat("cannot write ", path_));
    std::string text = histogram_.ToJson();
    bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
    if (!written) return weir::UnavailableError(weir::Concat("cannot write ", path_));
    return {};
  }

 private:
  int due_ = 0;
  std::string path_;
  int64_t counts_from_us_ = 0;
  Histogram histogram_;
};

}  // namespace

WEIR_OPERATOR("due_histogram", DueHistogram)

// generator -> hash -> keyed count, a row for each row -> due_histogram -> blackhole.
WEIR_JOB(weir::JobBuilder& job, const weir::JobArguments& arguments) {
  weir::Config rows = {{"rate", arguments.integer("rate")},
                       {"rows", arguments.integer("rows")},
                       {"keys", arguments.integer("keys", 10'000)},
                       {"due_time", true}};
  weir::ConfigMembers count = {{"function", "count"}, {"as", "rows"}};
  job.source("gen", "generator", rows)
      .hash({"key"})
      .apply("count", "aggregate",
             {{"keys", weir::ConfigList{"key"}},
              {"keep", weir::ConfigList{"due"}},
              {"aggregates", weir::ConfigList{count}}})
      .apply("measure", "due_histogram",
             {{"path", arguments.text("histogram")},
              {"warmup_ms", arguments.integer("warmup_ms", 1000)}})
      .sink("out", "blackhole", {});
}
