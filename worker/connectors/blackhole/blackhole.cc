#include "worker/connectors/blackhole/blackhole.h"

#include <memory>

namespace weir {

void BlackholeSink::Open(SinkContext&, std::function<void(Status)> done) { done(Status()); }

Status BlackholeSink::Write(const RecordBatch& batch) {
  rows_ += batch.rows();
  bytes_ += batch.ByteSize();
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
