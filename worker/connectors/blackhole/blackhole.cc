#include "worker/connectors/blackhole/blackhole.h"

#include <memory>

#include "common/graph/builtin_configs.h"

namespace weir {

void BlackholeSink::Open(SinkContext& context, std::function<void(Status)> done) {
  context_ = &context;
  StatusOr<std::optional<double>> rate = ParseBlackholeRate(context.config());
  if (rate.ok() && rate->has_value()) {
    limiter_.emplace(**rate / context.parallelism(), context.clock().MonotonicMicros());
  }
  done(rate.status());
}

bool BlackholeSink::Ready() const {
  if (!limiter_ || limiter_->Due(context_->clock().MonotonicMicros()) > 0) return true;
  if (timer_ == 0) {
    timer_ = context_->timers().After(limiter_->WaitMicros(), [this] {
      timer_ = 0;
      context_->Wake();
    });
  }
  return false;
}

std::string BlackholeSink::blocking_reason() const { return timer_ != 0 ? "its rate" : ""; }

void BlackholeSink::Close() {
  if (timer_ != 0) context_->timers().Cancel(timer_);
  timer_ = 0;
}

Status BlackholeSink::Write(const RecordBatch& batch) {
  rows_ += batch.rows();
  bytes_ += batch.ByteSize();
  if (limiter_) limiter_->Take(batch.rows());
  return {};
}

void BlackholeSink::Prepare(CheckpointId,
                            std::function<void(StatusOr<std::vector<Committable>>)> done) {
  done(std::vector<Committable>());
}

void BlackholeSink::Publish(CheckpointId, std::function<void(Status)> done) { done(Status()); }

void BlackholeCommitter::Open(CommitterContext&) {}

void BlackholeCommitter::Commit(std::vector<Committable>, std::function<void(Status)> done) {
  done(Status());
}

void BlackholeCommitter::AbortOthers(Generation, std::vector<Committable>,
                                     std::function<void(Status)> done) {
  done(Status());
}

void RegisterBlackhole(Registry& registry) {
  registry.AddSink("blackhole",
                   {.sink = [] { return std::make_unique<BlackholeSink>(); },
                    .committer = [] { return std::make_unique<BlackholeCommitter>(); }});
}

}  // namespace weir
