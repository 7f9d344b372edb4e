// What the machine itself does to latencies: threads that know nothing of each other and do the
// same amount of work each millisecond, as a paced source does, and how long after its due time
// each row would be done. A row's latency in a job of that load cannot be expected to be better.
//
//   paced_loop --threads N --load SHARE --seconds S
//
// Each tick (1 ms) stands for rows that were due evenly over the millisecond before it. The work of
// a tick takes SHARE of a millisecond of CPU time, as calibrated at the start. A thread that comes
// late goes on at once until it has caught up. The first second is not counted.
// Prints {"p50_ms", "p99_ms", "p999_ms", "cpu_seconds", "seconds", "rows"}; rows are ticks.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kTickUs = 1000;
constexpr int64_t kRowsOfTick = 10;
constexpr int64_t kWarmupTicks = 1000;
constexpr int64_t kProbeSteps = 200'000;
constexpr int kProbes = 20;

int64_t MicrosOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

void Work(int64_t steps) {
  volatile uint64_t sum = 0;
  for (int64_t i = 0; i < steps; ++i) sum = sum + 1;
}

// Of the fastest probe: the others were disturbed.
double StepsPerMicro() {
  int64_t least_us = INT64_MAX;
  for (int i = 0; i < kProbes; ++i) {
    const int64_t begin_us = MicrosOf(CLOCK_THREAD_CPUTIME_ID);
    Work(kProbeSteps);
    least_us = std::min(least_us, MicrosOf(CLOCK_THREAD_CPUTIME_ID) - begin_us);
  }
  return static_cast<double>(kProbeSteps) / static_cast<double>(std::max<int64_t>(least_us, 1));
}

// Latencies of one thread, µs.
std::vector<int64_t> Run(double load, double seconds) {
  const auto steps = static_cast<int64_t>(StepsPerMicro() * load * kTickUs);
  const auto ticks = static_cast<int64_t>(seconds * 1e6 / kTickUs);
  std::vector<int64_t> late_us;
  late_us.reserve(static_cast<size_t>(ticks * kRowsOfTick));
  int64_t tick_us = MicrosOf(CLOCK_MONOTONIC);
  for (int64_t i = 0; i < kWarmupTicks + ticks; ++i) {
    tick_us += kTickUs;
    const int64_t wait_us = tick_us - MicrosOf(CLOCK_MONOTONIC);
    if (wait_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(wait_us));
    Work(steps);
    if (i < kWarmupTicks) continue;
    const int64_t done_us = MicrosOf(CLOCK_MONOTONIC);
    for (int64_t row = 0; row < kRowsOfTick; ++row) {
      late_us.push_back(done_us - tick_us + row * kTickUs / kRowsOfTick);
    }
  }
  return late_us;
}

double Quantile(const std::vector<int64_t>& sorted, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]) / 1e3;
}

// REQUIRES: the option is there and holds a number above 0.
double NumberOf(int argc, char** argv, const char* option) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], option) != 0) continue;
    const double number = std::atof(argv[i + 1]);
    if (number > 0) return number;
  }
  std::fprintf(stderr, "paced_loop: %s needs a number above 0\n", option);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<size_t>(NumberOf(argc, argv, "--threads"));
  const double load = NumberOf(argc, argv, "--load");
  const double seconds = NumberOf(argc, argv, "--seconds");
  const int64_t begin_us = MicrosOf(CLOCK_MONOTONIC);
  std::vector<std::vector<int64_t>> of_threads(threads);
  std::vector<std::thread> running;
  for (auto& late_us : of_threads) {
    running.emplace_back([&late_us, load, seconds] { late_us = Run(load, seconds); });
  }
  for (auto& thread : running) thread.join();
  std::vector<int64_t> all;
  for (const auto& late_us : of_threads) all.insert(all.end(), late_us.begin(), late_us.end());
  std::sort(all.begin(), all.end());
  std::printf(
      "{\"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"rows\": %zu, \"seconds\": %.3f, "
      "\"cpu_seconds\": %.3f}\n",
      Quantile(all, 0.5), Quantile(all, 0.99), Quantile(all, 0.999),
      all.size() / static_cast<size_t>(kRowsOfTick),
      static_cast<double>(MicrosOf(CLOCK_MONOTONIC) - begin_us) / 1e6,
      static_cast<double>(MicrosOf(CLOCK_PROCESS_CPUTIME_ID)) / 1e6);
  return 0;
}
