#include "worker/connectors/kafka/sink/kafka_store.h"

#include <algorithm>

#include "common/base/concat.h"
#include "common/base/kill_point.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/kafka/sink/kafka_stage.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 5'000'000;

}  // namespace

Co<Status> KafkaStore::Open() {
  int64_t retry_us = kRetryFirstMicros;
  while (true) {
    Status status = co_await TakeOver();
    if (!status.retryable()) {
      options_.waits("");
      co_return status;
    }
    options_.waits(status.message());
    log::Warning("cannot take the transactional id over yet: ", status.message(),
                 " subtask=", subtask_, " retry_ms=", retry_us / 1000);
    co_await Sleep(*options_.timers, retry_us);
    retry_us = std::min(2 * retry_us, kRetryMaxMicros);
  }
}

Co<Status> KafkaStore::TakeOver() {
  Status status = co_await publisher_.Fence();
  if (!status.ok()) co_return status;
  // Only a new identity has none: of those that a checkpoint lists the Committer saw theirs before.
  const std::optional<KafkaMarker> marker = publisher_.marker();
  if (!marker.has_value()) co_return co_await publisher_.WriteMarker(resumed_from_);
  if (marker->job == options_.job || resumed_from_.value() > 0) {
    co_return publisher_.CheckMarker(restored_from_);
  }
  // Of a job before this one that had the same prefix. What this one goes on from was taken over by
  // the Committer, and says so.
  if (!takes_any_ && !marker->released && marker->checkpoint.value() > 0) {
    co_return FailedPreconditionError(
        Concat(options_.owner,
               ": the marker there belongs to another job, which has not ended; "
               "wanted: job ",
               options_.job, "; found: job ", marker->job, ", checkpoint ", marker->checkpoint,
               " (", publisher_.Place(),
               "). Cancel that one, set another 'transactional_id_prefix', or set "
               "'on_doubled_rows' to \"continue\" to take it over"));
  }
  log::Info(options_.owner, " takes over from job ", marker->job, ", checkpoint ",
            marker->checkpoint, " subtask=", subtask_, ": ", publisher_.Place());
  co_return co_await publisher_.WriteMarker(resumed_from_);
}

std::string KafkaStore::NameOf(int64_t number) const {
  return ToFileName({options_.generation, subtask_, number, uid_});
}

Co<Status> KafkaStore::CheckSealed(std::vector<SealedPart> parts) {
  for (const SealedPart& part : parts) {
    if (part.name.empty()) continue;
    const std::string path = JoinPath(options_.directory, part.name);
    StatusOr<FileInfo> info = co_await StatFile(*options_.files, path);
    if (!info.ok()) co_return info.status();
    if (info->size == part.bytes) continue;
    co_return DataLossError(Concat(path, " has ", info->size, " bytes; written were ", part.bytes));
  }
  co_return Status();
}

std::string KafkaStore::PayloadOf(const SealedPart& part) const { return EncodeStage(part); }

Co<Status> KafkaStore::Publish(std::vector<SealedPart> parts, bool tried) {
  (void)tried;  // the marker tells
  Status status = co_await publisher_.Publish(std::move(parts));
  if (status.ok()) KillPoint("kafka.before_notice");
  co_return status;
}

}  // namespace weir
