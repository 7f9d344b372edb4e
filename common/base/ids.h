#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace weir {

// A number or text that cannot be mistaken for another kind of id.
template <typename Tag, typename T>
class StrongId {
 public:
  StrongId() = default;
  explicit StrongId(T value) : value_(std::move(value)) {}
  const T& value() const { return value_; }
  auto operator<=>(const StrongId&) const = default;
  bool operator==(const StrongId&) const = default;

 private:
  T value_{};
};

using JobId =
    StrongId<struct JobIdTag, std::string>;  // 32 lower-case hex digits, made by the client
// Name of a worker, unique among the live ones.
using WorkerName = StrongId<struct WorkerNameTag, std::string>;
// One registration of a worker process: changes when the process is started again.
using WorkerIncarnation = StrongId<struct WorkerIncarnationTag, std::string>;
using Generation = StrongId<struct GenerationTag, uint64_t>;  // one run of a job's tasks; from 1
using CheckpointId = StrongId<struct CheckpointIdTag, uint64_t>;  // from 1; 0: none
using Term = StrongId<struct TermTag, uint64_t>;  // one coordinator's time over one job; from 1
// Number of `coordinators/<number>`: which coordinator leads.
using CoordinatorNumber = StrongId<struct CoordinatorNumberTag, uint64_t>;

}  // namespace weir

template <typename Tag, typename T>
struct std::hash<weir::StrongId<Tag, T>> {
  size_t operator()(const weir::StrongId<Tag, T>& id) const { return std::hash<T>()(id.value()); }
};
