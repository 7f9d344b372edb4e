#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"

namespace weir::sim {

// The one queue of a simulated world, ordered by (time, sequence), and its one generator: whatever
// happens anywhere happens as an event of it, so that the seed alone decides everything.
// Thread: confined to the simulation.
class Scheduler {
 public:
  using Event = std::function<void()>;

  explicit Scheduler(uint64_t seed) : random_(seed) {}

  int64_t now_us() const { return now_us_; }
  Random& random() { return random_; }
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high);
  // True with probability `odds`.
  bool Chance(double odds) { return odds > 0 && random_.Fraction() < odds; }

  // Runs `event` `delay_us` from now (at least now), after all that is due then already.
  void After(int64_t delay_us, Event event);
  // Runs the next event; false when there is none or it is due after `until_us`. Time is then moved
  // to `until_us`.
  bool RunOne(int64_t until_us);
  int64_t events() const { return events_; }
  // Drops all that is still to come.
  void Clear();

  // Takes what happens into the hash of the trace.
  void Note(uint64_t what) { hash_ = (hash_ ^ what) * 0x9e3779b97f4a7c15u + (hash_ >> 29); }
  void Note(std::string_view what);
  uint64_t trace_hash() const { return hash_; }

  // The readable trace: off unless somebody listens.
  void set_tracer(std::function<void(const std::string&)> tracer) { tracer_ = std::move(tracer); }
  bool tracing() const { return static_cast<bool>(tracer_); }
  // "  1.234567 worker-1: text". REQUIRES: tracing().
  void Trace(std::string_view who, std::string_view text);

 private:
  struct Entry {
    int64_t due_us;
    uint64_t sequence;
    Event event;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.due_us != b.due_us ? a.due_us > b.due_us : a.sequence > b.sequence;
  }

  Random random_;
  int64_t now_us_ = 0;
  uint64_t sequence_ = 0;
  int64_t events_ = 0;
  uint64_t hash_ = 0;
  std::vector<Entry> heap_;
  std::function<void(const std::string&)> tracer_;
};

}  // namespace weir::sim
