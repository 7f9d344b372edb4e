// weir_sim: runs simulated worlds, one a seed, on all cores; see --help.

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/concat.h"
#include "tests/sim/simulation.h"

namespace weir::sim {
namespace {

constexpr uint64_t kSeedMax = 1'000'000'000'000'000;
constexpr uint64_t kSeedsMax = 10'000'000;  // of one run: each has a line in a table

// What a seed left in the table that all processes share.
struct Record {
  int64_t rows, completed, faults, restarts, events, cpu_us;
  int8_t state;  // 0: not run, 1: passed, 2: failed
};

struct Shared {
  std::atomic<uint64_t> next;
  std::atomic<int64_t> done;
  std::atomic<int64_t> failed;
  std::atomic<int64_t> twice;
  uint64_t running[64];  // seed + 1 of each process
  int64_t probes[64][kProbes];
};

struct Options {
  uint64_t first = 0;
  uint64_t last = 0;
  int jobs = 1;
  int64_t failures_max = 10;
  int64_t trace_lines = 60;
  std::string trace_directory;
  std::string plant;
  bool need_probes = false;
  bool quiet = false;
};

int64_t CpuMicros() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

void Print(const std::string& text) {
  // One write, so that processes do not mix their lines.
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(3);
}

std::string Reproduce(const Options& options, uint64_t seed) {
  return Concat("scripts/sim --seed ", seed,
                options.plant.empty() ? "" : Concat(" --plant ", options.plant));
}

// Runs the seed once more with its trace; the whole of it goes to a file, its end is returned.
std::string TraceOf(const Options& options, uint64_t seed) {
  std::string path =
      (std::filesystem::path(options.trace_directory) / Concat("sim-", seed, ".trace")).string();
  std::ofstream file(path);
  World world = DrawWorld(seed);
  file << world.ToString() << "\n";
  std::vector<std::string> lines;
  Simulation simulation(std::move(world), [&](const std::string& line) {
    file << line << "\n";
    lines.push_back(line);
  });
  simulation.Run();
  size_t begin = lines.size() - std::min(lines.size(), static_cast<size_t>(options.trace_lines));
  std::string text = Concat("  the end of its trace (all of it in ", path, "):\n");
  for (size_t i = begin; i < lines.size(); ++i) text += Concat("  ", lines[i], "\n");
  return text;
}

void RunSeed(const Options& options, uint64_t seed, Record* record, Shared* shared, int job) {
  const int64_t start_us = CpuMicros();
  Outcome outcome;
  {
    Simulation simulation(DrawWorld(seed));
    outcome = simulation.Run();
  }
  record->cpu_us = CpuMicros() - start_us;
  record->rows = outcome.rows;
  record->completed = outcome.completed;
  record->faults = outcome.faults;
  record->restarts = outcome.restarts;
  record->events = outcome.events;
  for (int i = 0; i < kProbes; ++i) {
    shared->probes[job][i] += outcome.probes.count(static_cast<Probe>(i));
  }
  if (outcome.ok() && seed % 20 == 0) {
    Simulation again(DrawWorld(seed));
    const Outcome second = again.Run();
    ++shared->twice;
    if (second.trace_hash != outcome.trace_hash) {
      outcome.violation = Concat("not deterministic: trace hash ", outcome.trace_hash, ", then ",
                                 second.trace_hash);
    }
  }
  record->state = outcome.ok() ? 1 : 2;
  ++shared->done;
  if (outcome.ok()) return;
  if (++shared->failed > options.failures_max) return;
  std::string text = Concat("seed ", seed, " FAILED: ", outcome.violation,
                            "\n  reproduce: ", Reproduce(options, seed), "\n");
  if (!options.quiet) text += TraceOf(options, seed);
  Print(text);
}

void RunJob(const Options& options, std::vector<Record*> records, Shared* shared, int job) {
  for (;;) {
    const uint64_t index = shared->next.fetch_add(1);
    if (index >= records.size() || shared->failed > options.failures_max) break;
    shared->running[job] = options.first + index + 1;
    RunSeed(options, options.first + index, records[index], shared, job);
    shared->running[job] = 0;
  }
  _exit(0);
}

template <typename F>
int64_t Median(const std::vector<Record*>& records, F field) {
  std::vector<int64_t> values;
  for (const Record* record : records) {
    if (record->state != 0) values.push_back(field(*record));
  }
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void* Share(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "weir_sim: no memory for %zu bytes\n", bytes);
    _exit(3);
  }
  return memory;
}

int RunSeeds(const Options& options) {
  const uint64_t seeds = options.last - options.first + 1;
  auto* table = static_cast<Record*>(Share(seeds * sizeof(Record)));
  std::vector<Record*> records;
  for (uint64_t i = 0; i < seeds; ++i) records.push_back(table + i);
  auto* shared = new (Share(sizeof(Shared))) Shared();
  std::vector<pid_t> jobs(options.jobs, 0);
  std::fflush(nullptr);
  auto fork_job = [&](int job) {
    jobs[job] = fork();
    if (jobs[job] == 0) RunJob(options, records, shared, job);
  };
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int job = 0; job < options.jobs; ++job) fork_job(job);
  int living = options.jobs;
  double told_s = 0;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  while (living > 0) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid > 0) {
      const int job = static_cast<int>(std::find(jobs.begin(), jobs.end(), pid) - jobs.begin());
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        --living;
        continue;
      }
      // The code under test crashed: that seed has failed, the others go on.
      const uint64_t seed = shared->running[job] - 1;
      shared->running[job] = 0;
      records[seed - options.first]->state = 2;
      ++shared->done;
      Print(Concat("seed ", seed, " FAILED: the process died of ",
                   WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit",
                   "\n  reproduce: ", Reproduce(options, seed), "\n"));
      if (++shared->failed > options.failures_max) {
        --living;
      } else {
        fork_job(job);
      }
      continue;
    }
    poll(nullptr, 0, 20);  // a moment
    if (seconds() - told_s > (terminal ? 1 : 15)) {
      told_s = seconds();
      std::fprintf(stderr, "%s%lld of %llu seeds, %lld failed, %.0f seeds/s%s",
                   terminal ? "\r" : "", static_cast<long long>(shared->done),
                   static_cast<unsigned long long>(seeds), static_cast<long long>(shared->failed),
                   static_cast<double>(shared->done) / told_s, terminal ? "  " : "\n");
    }
  }
  if (terminal) std::fprintf(stderr, "\r");

  int64_t cpu_us = 0;
  int64_t events = 0;
  for (const Record* record : records) {
    cpu_us += record->cpu_us;
    events += record->events;
  }
  std::string text = Concat(
      shared->done.load(), " seeds (", options.first, "..", options.last, "), ",
      shared->failed.load(), " failed, ", shared->twice.load(),
      " run twice\nmedian of a seed: ", Median(records, [](const Record& r) { return r.rows; }),
      " rows, ", Median(records, [](const Record& r) { return r.completed; }),
      " checkpoints completed, ", Median(records, [](const Record& r) { return r.faults; }),
      " faults, ", Median(records, [](const Record& r) { return r.restarts; }), " restarts, ",
      Median(records, [](const Record& r) { return r.events; }), " events\n");
  char speed[128];
  std::snprintf(speed, sizeof(speed),
                "%.1f s, %.0f seeds per second of one core, %.2f us an event\n", seconds(),
                static_cast<double>(shared->done) / (static_cast<double>(cpu_us) / 1e6),
                static_cast<double>(cpu_us) / static_cast<double>(std::max<int64_t>(events, 1)));
  text += speed;
  int never = 0;
  text += "probes:\n";
  for (int i = 0; i < kProbes; ++i) {
    int64_t count = 0;
    for (int job = 0; job < options.jobs; ++job) count += shared->probes[job][i];
    never += count == 0;
    char line[160];
    std::snprintf(line, sizeof(line), "  %10lld  %s%s\n", static_cast<long long>(count),
                  std::string(ToString(static_cast<Probe>(i))).c_str(),
                  count == 0 ? "  NEVER" : "");
    text += line;
  }
  const bool probes_failed = never > 0 && options.need_probes;
  if (probes_failed) text += Concat(never, " probes were never hit: FAILED\n");
  Print(text);
  return shared->failed > 0 || probes_failed ? 1 : 0;
}

int RunOne(const Options& options, uint64_t seed, bool trace) {
  World world = DrawWorld(seed);
  Print(Concat(world.ToString(), "\n"));
  Outcome outcome;
  {
    std::function<void(const std::string&)> tracer;
    if (trace) tracer = [](const std::string& line) { Print(line + "\n"); };
    Simulation simulation(std::move(world), tracer);
    outcome = simulation.Run();
  }
  Print(Concat("seed ", seed, outcome.ok() ? " passed" : " FAILED: ", outcome.violation, "\n  ",
               outcome.rows, " rows, ", outcome.completed, " checkpoints completed, ",
               outcome.faults, " faults, ", outcome.restarts, " restarts, ", outcome.events,
               " events, ", outcome.simulated_us / 1'000'000, " s simulated, trace hash ",
               outcome.trace_hash, "\n"));
  if (!outcome.ok() && !trace) Print(TraceOf(options, seed));
  return outcome.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs the real coordinator, workers, tasks and file connectors in simulated worlds: "
      "one seed, one world, always the same.");
  Options options;
  std::string range;
  uint64_t seed = 0;
  bool trace = false;
  options.jobs = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  options.trace_directory = std::filesystem::temp_directory_path().string();
  auto* one = app.add_option("--seed", seed, "One seed: prints its world and how it ended")
                  ->check(CLI::Range(uint64_t{0}, kSeedMax));
  app.add_flag("--trace", trace, "With --seed: prints all that happens")->needs(one);
  app.add_option("--seeds", range, "A range of seeds, A..B, both included")->excludes(one);
  app.add_option("--jobs", options.jobs, "Processes; as many as cores unless set")
      ->check(CLI::Range(1, 64));
  app.add_option("--failures-max", options.failures_max, "Ends after so many failed seeds")
      ->capture_default_str();
  app.add_option("--trace-lines", options.trace_lines, "Printed of the trace of a failed seed")
      ->capture_default_str();
  app.add_option("--trace-directory", options.trace_directory, "Where whole traces go")
      ->capture_default_str();
  app.add_option("--plant", options.plant, "Plants a bug in the code under test")
      ->check(CLI::IsMember({"no_seal", "early_manifest", "early_rename", "unblocked_channel",
                             "lost_offset", "forgotten_commit", "undurable_seal",
                             "no_new_instance_after_disturbed", "marker_before_init"}));
  app.add_flag("--quiet", options.quiet, "No traces of failed seeds");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Simulation::Plant(options.plant);
  if (one->count() > 0) return RunOne(options, seed, trace);
  if (range.empty()) range = "1..200";
  unsigned long long first = 0;
  unsigned long long last = 0;
  int used = 0;
  if (std::sscanf(range.c_str(), "%llu..%llu%n", &first, &last, &used) != 2 ||
      used != static_cast<int>(range.size()) || last < first || last > kSeedMax ||
      last - first >= kSeedsMax || range.find('-') != std::string::npos) {
    std::fprintf(stderr,
                 "weir_sim: --seeds is '%s': expected A..B with A <= B, at most %llu of them\n",
                 range.c_str(), static_cast<unsigned long long>(kSeedsMax));
    return 2;
  }
  options.first = first;
  options.last = last;
  options.need_probes = last - first + 1 >= 10'000 && options.plant.empty();
  return RunSeeds(options);
}

}  // namespace
}  // namespace weir::sim

int main(int argc, char** argv) { return weir::sim::Main(argc, argv); }
