#include "tests/sim/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weir::sim {

int64_t Scheduler::Between(int64_t low, int64_t high) {
  return high <= low ? low : low + static_cast<int64_t>(random_.Below(high - low + 1));
}

void Scheduler::After(int64_t delay_us, Event event) {
  heap_.push_back({now_us_ + std::max<int64_t>(delay_us, 0), sequence_++, std::move(event)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool Scheduler::RunOne(int64_t until_us) {
  if (heap_.empty() || heap_.front().due_us > until_us) {
    now_us_ = std::max(now_us_, until_us);
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  now_us_ = entry.due_us;
  ++events_;
  Note(static_cast<uint64_t>(entry.due_us) * 31 + entry.sequence);
  entry.event();
  return true;
}

void Scheduler::Clear() {
  // What an event owns may ask for more when it is dropped.
  while (!heap_.empty()) std::vector<Entry>().swap(heap_);
}

void Scheduler::Note(std::string_view what) {
  uint64_t word = what.size();
  for (char c : what) word = (word ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  Note(word);
}

void Scheduler::Trace(std::string_view who, std::string_view text) {
  char time[32];
  std::snprintf(time, sizeof(time), "%11.6f ", static_cast<double>(now_us_) / 1e6);
  std::string line(time);
  line.append(who).append(": ").append(text);
  tracer_(line);
}

}  // namespace weir::sim
