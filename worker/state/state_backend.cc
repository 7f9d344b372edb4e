#include "worker/state/state_backend.h"

#include "common/base/check.h"
#include "common/base/concat.h"
#include "worker/state/memory_state_backend.h"

namespace weir {

StatusOr<std::vector<KeyGroupState>> StateBackend::Snapshot() {
  WEIR_RETURN_IF_ERROR(BeginSnapshot());
  ContinueSnapshot(INT64_MAX);
  return TakeChunks();
}

StatusOr<std::unique_ptr<StateBackend>> MakeStateBackend(std::string_view name, KeyGroupRange range,
                                                         int max_parallelism) {
  WEIR_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= max_parallelism);
  if (name == "memory") {
    return std::unique_ptr<StateBackend>(
        std::make_unique<MemoryStateBackend>(range, max_parallelism));
  }
  return InvalidArgumentError(Concat("no state backend '", name, "': memory is the only one"));
}

}  // namespace weir
